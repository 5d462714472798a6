"""The base class of endpoints: parameters, bodies, responses, pages and ETags."""

from __future__ import annotations

from contextlib import contextmanager, nullcontext
from typing import TYPE_CHECKING, Any, ClassVar, cast

from django.utils import timezone
from rest_framework import serializers
from rest_framework.generics import GenericAPIView
from rest_framework.negotiation import DefaultContentNegotiation
from rest_framework.response import Response

from scheduler.api.http.body import unknown_name
from scheduler.api.http.matching import etag_of
from scheduler.api.http.openapi_operation import operation, spec_of
from scheduler.api.http.paging import ById
from scheduler.api.http.time_limits import time_limit

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from datetime import datetime

    from django.db.models import QuerySet
    from rest_framework.request import Request

    from scheduler.models import Account


class JsonAnyway(DefaultContentNegotiation):
    """Selects JSON for every `Accept` header, so that errors reach every client."""

    def select_renderer(
        self,
        request: Request,
        renderers: Any,
        format_suffix: str | None = None,
    ) -> Any:
        renderer = next(iter(renderers))
        return renderer, renderer.media_type


class Endpoint(GenericAPIView[Any]):
    """The view of one URL, which enforces the `operation` declaration of each method.

    A list sets `filterset_class` and, to list the oldest first, ``ascending = True``; its `get`
    ends with ``return self.page(rows)``.  Other methods end with ``return self.reply(row)``.
    """

    content_negotiation_class = JsonAnyway
    pagination_class = ById
    ascending: ClassVar[bool] = False
    _is_read = False

    @property
    def account(self) -> Account:
        """The account of the token."""
        return cast("Account", self.request.user)

    @property
    def spec(self) -> operation:
        """The `operation` declaration of the request's method, or of `read_spec`'s GET."""
        return cast("operation", spec_of(self, "get" if self._is_read else self.request.method))

    @contextmanager
    def read_spec(self) -> Iterator[None]:
        """Let `get` be called in a request of another method, with its own declaration."""
        self._is_read = True
        try:
            yield
        finally:
            self._is_read = False

    @property
    def now(self) -> datetime:
        """The current time.  Only interfaces read the clock; operations take the time as `now`."""
        return timezone.now()

    def initial(self, request: Request, *args: Any, **kwargs: Any) -> None:
        """Check authentication, permissions and the names of query parameters."""
        super().initial(request, *args, **kwargs)
        if request.method == "OPTIONS" or str(request.method) not in self.allowed_methods:
            return
        valid_names = self.valid_parameters()
        faults = {
            name: [unknown_name(name, valid_names, "parameter")]
            for name in request.query_params
            if name not in valid_names
        }
        if faults:
            raise serializers.ValidationError(faults)

    def valid_parameters(self) -> set[str]:
        """Return the names of the query parameters of the operation."""
        names: set[str] = set()
        if self.spec.listed:
            names |= ById.parameters
            if filters := getattr(self, "filterset_class", None):
                names |= set(filters.base_filters)
        if self.spec.query is not None:
            names |= set(self.spec.query().fields)
        return names

    def lock_first(self, *args: Any, **kwargs: Any) -> None:
        """Take the locks that a guarded handler takes before it locks rows; by default none.

        The arguments are those of the URL.  It runs in the transaction of the handler.
        """

    def query(self) -> dict[str, Any]:
        """Return the query parameters, validated by the operation's `query` serializer."""
        # From a QueryDict, Django REST framework would treat an empty string as a missing value.
        return self._validated(self.spec.query(data=self.request.query_params.dict()))

    def body(self) -> dict[str, Any]:
        """Return the body, validated by the operation's `body` serializer."""
        return self._validated(self.spec.body(data=self.request.data))

    def _validated(self, serializer: serializers.Serializer[Any]) -> dict[str, Any]:
        serializer.is_valid(raise_exception=True)
        return cast("dict[str, Any]", serializer.validated_data)

    def reply(
        self, instance: object, *, headers: dict[str, str] | None = None, **context: Any
    ) -> Response:
        """Return the response of the operation, with the fields of its `answer` serializer."""
        fields = self.spec.answer(instance, context=context).data
        return Response(fields, status=self.spec.status, headers=headers)

    def page(
        self,
        rows: QuerySet[Any],
        context_of: Callable[[list[Any]], dict[str, Any]] = lambda _rows: {},
    ) -> Response:
        """Return the response with one page of the filtered rows.

        `context_of` returns the serializer's context for the rows of the page.
        """
        filtered = self.filter_queryset(rows)
        with time_limit() if "filter" in self.request.query_params else nullcontext():
            page_rows = self.paginate_queryset(filtered) or []
        answer = self.spec.answer(page_rows, many=True, context=context_of(page_rows))
        return self.get_paginated_response(answer.data)

    def options(  # type: ignore[override]  # Django REST's request
        self, request: Request, *args: Any, **kwargs: Any
    ) -> Response:
        """Return the allowed methods in the header `Allow`, without a body."""
        return Response(status=204, headers={"Allow": ", ".join(self.allowed_methods)})

    def finalize_response(self, request: Request, response: Any, *args: Any, **kwargs: Any) -> Any:
        """Add `Cache-Control` and, to a conditional operation, an ETag or status 304."""
        answer = super().finalize_response(request, response, *args, **kwargs)
        answer.headers.setdefault("Cache-Control", "no-cache, private")
        spec = spec_of(self, request.method)
        is_conditional = spec is not None and spec.conditional
        if is_conditional and answer.status_code == 200:  # noqa: PLR2004  OK
            return _conditional(request, answer)
        return answer


def _conditional(request: Request, answer: Response) -> Response:
    if "ETag" not in answer.headers:
        answer.headers["ETag"] = etag_of(answer.data)
    etag = answer.headers["ETag"]
    client_etags = {
        text.strip().removeprefix("W/")
        for text in request.headers.get("If-None-Match", "").split(",")
    }
    if etag in client_etags or "*" in client_etags:
        answer.status_code = 304
        answer.data = None
    return answer
