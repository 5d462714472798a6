"""The decorator that declares an operation: access, body, query, response, errors."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass
from enum import StrEnum
from typing import Any, TypeVar

from drf_spectacular.utils import OpenApiParameter, extend_schema

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


@dataclass(frozen=True)
class operation:  # noqa: N801  a decorator
    """Declares a method of an `Endpoint`, for the endpoint's checks, its response and the schema.

    `name` is the operation id, such as ``list_apps``.  `answer` is the serializer of the response
    with `status` (None: no body), or a mapping from statuses to serializers.  `listed` adds pages
    and the view's filters.  `body` and `query` are the `Strict` serializers that `Endpoint.body`
    and `Endpoint.query` use; `parameters` are further ones of the schema.  `access` None means the
    view's `read_scope` or `write_scope`; `or_scope` is a second scope that is sufficient, whose
    limits the handler checks.  `conditional` adds an ETag and answers 304; `idempotent` supports
    ``Idempotency-Key`` (`keyed`: the handler does so itself); `guarded` supports ``If-Match``.
    `problems` are further error statuses, besides those that follow from these arguments.
    """

    summary: str
    _: KW_ONLY
    name: str
    answer: Any
    status: int = 200
    listed: bool = False
    body: Any = None
    query: Any = None
    parameters: Sequence[OpenApiParameter] = ()
    access: Scope | Access | None = None
    or_scope: Scope | None = None
    conditional: bool = False
    idempotent: bool = False
    keyed: bool = False
    guarded: bool = False
    problems: Sequence[int] = ()

    def __call__(self, handler: Handler) -> Handler:
        """Return the handler with its declaration, for `spec_of`."""
        answers = self.answer
        if not isinstance(answers, Mapping):
            answers = {self.status: answers(many=True) if self.listed else answers}
        if self.idempotent:
            handler = with_idempotency_key(handler)
        if self.guarded:
            handler = with_if_match(handler)
        handler.operation_spec = self  # type: ignore[attr-defined]
        decorated: Handler = extend_schema(
            operation_id=self.name,
            summary=self.summary,
            parameters=list(self.parameters),
            request=self.body,
            responses=answers,
        )(handler)
        return decorated


def spec_of(view: object, method: str | None) -> operation | None:
    """Return the declaration of a view's method, None without one; HEAD has that of GET."""
    name = (method or "").lower()
    handler = getattr(view, "get" if name == "head" else name, None)
    spec: operation | None = getattr(handler, "operation_spec", None)
    return spec
