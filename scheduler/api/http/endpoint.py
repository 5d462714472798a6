"""What all endpoints stand on: strict parameters, bodies, pages, ETags."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar, cast

from django.utils import timezone
from rest_framework import serializers
from rest_framework.generics import GenericAPIView
from rest_framework.negotiation import DefaultContentNegotiation
from rest_framework.response import Response

from scheduler.api.http.body import unknown_name
from scheduler.api.http.matching import etag_of
from scheduler.api.http.operation import Described, described
from scheduler.api.http.paging import ById

if TYPE_CHECKING:
    from datetime import datetime

    from django.db.models import QuerySet
    from rest_framework.request import Request

    from scheduler.models import Account


class JsonAnyway(DefaultContentNegotiation):
    """Answers in JSON whatever is accepted: a refusal must be readable to everybody."""

    def select_renderer(
        self,
        request: Request,
        renderers: Any,
        format_suffix: str | None = None,
    ) -> Any:
        """Take the first."""
        renderer = next(iter(renderers))
        return renderer, renderer.media_type


class Endpoint(GenericAPIView[Any]):
    """One address.  Each method is described by `operation`, which this obeys.

    A list says ``queryset`` (for the schema alone), `filterset_class` and, if oldest come first,
    ``ascending = True``; it ends by ``return self.page(rows, Serializer)``.
    """

    content_negotiation_class = JsonAnyway
    pagination_class = ById
    ascending: ClassVar[bool] = False

    @property
    def account(self) -> Account:
        """Who speaks."""
        return cast("Account", self.request.user)

    @property
    def now(self) -> datetime:
        """The moment: a face reads the clock."""
        return timezone.now()

    def initial(self, request: Request, *args: Any, **kwargs: Any) -> None:
        """Refuse who may not, then parameters that nobody reads."""
        super().initial(request, *args, **kwargs)
        if request.method == "OPTIONS" or str(request.method) not in self.allowed_methods:
            return
        known = self.known_parameters(described(self, request.method))
        faults = {
            name: [unknown_name(name, known, "parameter")]
            for name in request.query_params
            if name not in known
        }
        if faults:
            raise serializers.ValidationError(faults)

    def known_parameters(self, says: Described | None) -> set[str]:
        """Name what may stand behind the question mark."""
        known: set[str] = set()
        if says is not None and says.listed:
            known |= ById.parameters
            if filters := getattr(self, "filterset_class", None):
                known |= set(filters.base_filters)
        if says is not None and says.query is not None:
            known |= set(says.query().fields)
        return known

    def query(self) -> dict[str, Any]:
        """Read the parameters by the `query` serializer of the operation."""
        says = cast("Described", described(self, self.request.method))
        # As a plain dict: Django REST takes an empty text of a form for none at all.
        found = says.query(data=self.request.query_params.dict())
        found.is_valid(raise_exception=True)
        return cast("dict[str, Any]", found.validated_data)

    def body(self, **context: Any) -> dict[str, Any]:
        """Read the body by the `body` serializer of the operation."""
        says = cast("Described", described(self, self.request.method))
        found = says.body(data=self.request.data, context=context)
        found.is_valid(raise_exception=True)
        return cast("dict[str, Any]", found.validated_data)

    def page(self, rows: QuerySet[Any], serializer: type[serializers.Serializer[Any]]) -> Response:
        """Filter, cut and answer a list."""
        found = self.paginate_queryset(self.filter_queryset(rows))
        return self.get_paginated_response(serializer(found, many=True).data)

    def options(  # type: ignore[override]  # Django REST's request
        self, request: Request, *args: Any, **kwargs: Any
    ) -> Response:
        """Say which methods there are, and no more."""
        return Response(status=204, headers={"Allow": ", ".join(self.allowed_methods)})

    def finalize_response(self, request: Request, response: Any, *args: Any, **kwargs: Any) -> Any:
        """Give what is worth it an ETag, and spare who has it already the body."""
        answer = super().finalize_response(request, response, *args, **kwargs)
        answer.headers.setdefault("Cache-Control", "no-cache, private")
        says = described(self, request.method)
        if (
            says is not None
            and says.conditional
            and request.method in {"GET", "HEAD"}
            and answer.status_code == 200  # noqa: PLR2004  OK
        ):
            return _conditional(request, answer)
        return answer


def _conditional(request: Request, answer: Response) -> Response:
    if "ETag" not in answer.headers:
        answer.headers["ETag"] = etag_of(answer.data)
    etag = answer.headers["ETag"]
    shown = {
        one.strip().removeprefix("W/")
        for one in request.headers.get("If-None-Match", "").split(",")
    }
    if etag in shown or "*" in shown:
        answer.status_code = 304
        answer.data = None
    return answer
