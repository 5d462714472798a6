"""What an operation of the API says of itself: its rights, bodies, answers."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, TypeVar

from drf_spectacular.utils import extend_schema

from scheduler.api.http.idempotent import obeys_key
from scheduler.api.http.matching import obeys_match

Handler = TypeVar("Handler", bound=Callable[..., Any])


class Scope(StrEnum):
    """A scope of a token; the rights of its account limit it (`rights`)."""

    READ = "read"  # the account's own rows
    SUBMIT = "submit"  # work, and changes of the account's own batches
    PUBLISH = "publish"  # versions and templates of apps
    MANAGE = "manage"  # other fields of apps, other people's batches
    ADMINISTER = "administer"


class Access(StrEnum):
    """Who is let in where no scope is asked for."""

    PUBLIC = "public"  # everybody; a token is not looked at
    OPTIONAL = "optional"  # everybody; but a token that is shown must be good
    ANY = "any"  # whoever has a token


@dataclass(frozen=True, slots=True, kw_only=True)
class Described:
    """What `operation` was told; the endpoint's checks and the schema both read it."""

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
    """Describe a method of an `Endpoint`.

    `name` is the operation's name for programs, ``list_apps``.  `answer` is the serializer of what
    is answered with `status` (None: no body), or a mapping from statuses to them.  `listed` cuts
    the answer into pages and offers the view's filters.  `body` and `query` are the `Strict`
    serializers that `Endpoint.body` and `Endpoint.query` read.  `access` None means the view's
    `read_scope` or `write_scope`; `or_scope` is a second scope that is sufficient, whose limits the
    handler checks.  `conditional` adds an ETag and answers 304; `idempotent` obeys
    ``Idempotency-Key`` (`keyed`: the handler does so itself); `guarded` obeys ``If-Match``.
    `problems` are statuses beside those that follow from all this.
    """
    if isinstance(answer, Mapping):
        responses: dict[Any, Any] = dict(answer)
    else:
        responses = {status: answer(many=True) if listed else answer}

    def describe(handler: Handler) -> Handler:
        if idempotent:
            handler = obeys_key(handler)
        if guarded:
            handler = obeys_match(handler)
        handler.described = Described(  # type: ignore[attr-defined]
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


def described(view: object, method: str | None) -> Described | None:
    """Find what the handler of a method says of itself; HEAD is GET's."""
    name = (method or "").lower()
    handler = getattr(view, "get" if name == "head" else name, None)
    found: Described | None = getattr(handler, "described", None)
    return found
