"""The decorator that declares an operation: access, body, query, response, errors."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, TypeVar

from drf_spectacular.utils import extend_schema

from scheduler.api.http.idempotent import with_idempotency_key
from scheduler.api.http.matching import with_if_match

Handler = TypeVar("Handler", bound=Callable[..., Any])


class Scope(StrEnum):
    """A scope of a token; the rights of its account limit it (`rights`)."""

    READ = "read"  # the account's own rows
    SUBMIT = "submit"  # work, and changes of the account's own batches
    PUBLISH = "publish"  # versions and templates of apps
    MANAGE = "manage"  # other fields of apps, other people's batches
    ADMINISTER = "administer"


class Access(StrEnum):
    """The callers of an operation that needs no scope."""

    PUBLIC = "public"  # everybody; a token is ignored
    OPTIONAL = "optional"  # everybody; a token that is sent must be valid
    ANY = "any"  # every valid token


@dataclass(frozen=True, slots=True, kw_only=True)
class OperationSpec:
    """The arguments of `operation`, which the endpoint's checks and the schema read."""

    access: Scope | Access | None
    or_scope: Scope | None = None
    body: Any = None
    query: Any = None
    listed: bool = False
    conditional: bool = False
    idempotent: bool = False
    guarded: bool = False
    problems: Sequence[int] = field(default_factory=tuple)


def operation(  # noqa: PLR0913  by name, each with its default
    summary: str,
    *,
    name: str,
    tag: str,
    answer: Any,
    status: int = 200,
    listed: bool = False,
    body: Any = None,
    query: Any = None,
    access: Scope | Access | None = None,
    or_scope: Scope | None = None,
    conditional: bool = False,
    idempotent: bool = False,
    keyed: bool = False,
    guarded: bool = False,
    problems: Sequence[int] = (),
    **schema: Any,
) -> Callable[[Handler], Handler]:
    """Declare a method of an `Endpoint` as an operation.

    `name` is the operation id, such as ``list_apps``.  `answer` is the serializer of the response
    with `status` (None: no body), or a mapping from statuses to serializers.  `listed` adds pages
    and the view's filters.  `body` and `query` are the `Strict` serializers that `Endpoint.body`
    and `Endpoint.query` use.  `access` None means the view's `read_scope` or `write_scope`;
    `or_scope` is a second scope that is sufficient, whose limits the handler checks.
    `conditional` adds an ETag and answers 304; `idempotent` supports ``Idempotency-Key`` (`keyed`:
    the handler does so itself); `guarded` supports ``If-Match``.  `problems` are further error
    statuses, besides those that follow from these arguments.
    """
    if isinstance(answer, Mapping):
        responses: dict[Any, Any] = dict(answer)
    else:
        responses = {status: answer(many=True) if listed else answer}

    def describe(handler: Handler) -> Handler:
        if idempotent:
            handler = with_idempotency_key(handler)
        if guarded:
            handler = with_if_match(handler)
        handler.operation_spec = OperationSpec(  # type: ignore[attr-defined]
            access=access,
            or_scope=or_scope,
            body=body,
            query=query,
            listed=listed,
            conditional=conditional,
            idempotent=idempotent or keyed,
            guarded=guarded,
            problems=problems,
        )
        decorated: Handler = extend_schema(
            operation_id=name,
            summary=summary,
            tags=[tag],
            request=body,
            responses=responses,
            **schema,
        )(handler)
        return decorated

    return describe


def spec_of(view: object, method: str | None) -> OperationSpec | None:
    """Return the declaration of a view's method, None without one; HEAD has that of GET."""
    name = (method or "").lower()
    handler = getattr(view, "get" if name == "head" else name, None)
    spec: OperationSpec | None = getattr(handler, "operation_spec", None)
    return spec
