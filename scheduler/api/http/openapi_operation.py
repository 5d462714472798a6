"""Decorator that declares access, input, response and errors of an operation."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Any, TypeVar

from scheduler.api.http.idempotent import with_idempotency_key
from scheduler.api.http.matching import with_if_match
from scheduler.api.http.url_lookups import with_url_lookups

if TYPE_CHECKING:
    from drf_spectacular.utils import OpenApiParameter

Handler = TypeVar("Handler", bound=Callable[..., Any])


class Scope(StrEnum):
    """A scope of a token, limited by the rights of the token's account (`scheduler.rights`)."""

    READ = "read"  # read the account's own rows
    SUBMIT = "submit"  # submit work, change the account's own batches
    PUBLISH = "publish"  # publish versions and templates of apps
    MANAGE = "manage"  # change other fields of apps, and other people's batches
    ADMINISTER = "administer"


class Access(StrEnum):
    """The permitted callers of an operation that needs no scope."""

    PUBLIC = "public"  # all callers; a token is ignored
    OPTIONAL = "optional"  # all callers; a token, if sent, must be valid
    ANY = "any"  # callers with a valid token
    POOL = "pool"  # hosts of the trusted pool, with a host token; others get 404


@dataclass(frozen=True)
class operation:  # noqa: N801  a decorator
    """Declares a method of an `Endpoint`, for the checks of the endpoint and for the schema.

    - `name`: the operation id, such as ``list_apps``.
    - `answer`: the serializer of the response with `status` (None: no body), or a mapping from
      statuses to serializers.
    - `listed`: adds pagination and the view's filters.
    - `body`, `query`: the `Strict` serializers for `Endpoint.body` and `Endpoint.query`.
    - `parameters`: additional parameters of the schema.
    - `access`: None means the view's `read_scope` or `write_scope`.
    - `or_scope`: a second sufficient scope; the handler restricts what this scope permits.
    - `conditional`: adds an ETag and returns 304 for a matching ``If-None-Match``.
    - `idempotent`: supports ``Idempotency-Key``.
    - `keyed`: the handler itself supports ``Idempotency-Key``.
    - `guarded`: supports ``If-Match``.
    - `problems`: error statuses in addition to those that the other arguments imply.
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
        """Return the handler with the declaration as an attribute, for `spec_of`."""
        if self.idempotent:
            handler = with_idempotency_key(handler)
        if self.guarded:
            handler = with_if_match(handler)
        handler = with_url_lookups(handler)
        handler.operation_spec = self  # type: ignore[attr-defined]
        return handler

    @property
    def answers(self) -> Mapping[int, Any]:
        """The serializers of the responses by status; None stands for a response without a body."""
        if isinstance(self.answer, Mapping):
            return self.answer
        return {self.status: self.answer(many=True) if self.listed else self.answer}


def spec_of(view: object, method: str | None) -> operation | None:
    """Return the declaration of a view's method, or None; for HEAD, return that of GET."""
    name = (method or "").lower()
    handler = getattr(view, "get" if name == "head" else name, None)
    spec: operation | None = getattr(handler, "operation_spec", None)
    return spec
