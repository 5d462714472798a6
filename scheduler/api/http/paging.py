"""Keyset pagination by id; the cost of a page does not depend on its position."""

from __future__ import annotations

import re
from base64 import urlsafe_b64decode, urlsafe_b64encode
from binascii import Error as NotBase64
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from django.db.models import Q
from rest_framework import serializers
from rest_framework.pagination import BasePagination
from rest_framework.response import Response
from rest_framework.utils.urls import replace_query_param

from scheduler.api.http.body import INT8
from scheduler.api.http.problems import Problem

if TYPE_CHECKING:
    from rest_framework.request import Request
    from rest_framework.views import APIView

DEFAULT_LIMIT, MAX_LIMIT = 100, 1000
_CURSOR = re.compile(r"([<>])([0-9]{1,19})")


class Place(NamedTuple):
    """The start of a page: the first row beyond the id `beside`.

    `towards` is "<" if the page has smaller ids, and ">" if it has larger ids.
    """

    towards: str
    beside: int


def read_limit(request: Request) -> int:
    """Return the parameter `limit`, by default 100.

    Raises `ValidationError` if it is not a whole number from 1 to 1000.
    """
    text = request.query_params.get("limit")
    if text is None:
        return DEFAULT_LIMIT
    if not re.fullmatch(r"[0-9]{1,4}", text, re.ASCII) or not 0 < int(text) <= MAX_LIMIT:
        msg = f"This must be a whole number from 1 to {MAX_LIMIT}."
        raise serializers.ValidationError({"limit": [msg]})
    return int(text)


def read_cursor(request: Request) -> Place | None:
    """Return the place in the parameter `cursor`, or None if the request has no cursor.

    Raises `Problem` (422) for an invalid cursor.
    """
    cursor = request.query_params.get("cursor")
    if not cursor:
        return None
    try:
        text = urlsafe_b64decode(cursor.encode("ascii")).decode("ascii")
    except (UnicodeError, NotBase64, ValueError):
        text = ""
    match = _CURSOR.fullmatch(text)
    if match is None or int(match[2]) > INT8:
        msg = "The cursor is not valid."
        raise Problem(
            422, "bad_cursor", msg, hint="use the URLs in `next` and `previous` unchanged."
        )
    return Place(match[1], int(match[2]))


def write_cursor(place: Place) -> str:
    """Return the cursor of a place, for `read_cursor`."""
    return urlsafe_b64encode(f"{place.towards}{place.beside}".encode()).decode()


def read_page(rows: Any, beyond: Q, order: str, count: int) -> list[Any]:
    """Return the first `count` rows that match `beyond`, sorted by `order`."""
    return list(rows.filter(beyond).order_by(order)[:count])


class ById(BasePagination):
    """Pagination with the parameters `limit` and `cursor`.

    The newest rows come first, unless the view sets ``ascending = True``.  A view can
    define a method `read_page` with the parameters of the function `read_page`.
    """

    parameters = frozenset({"limit", "cursor"})

    def paginate_queryset(
        self, queryset: Any, request: Request, view: APIView | None = None
    ) -> list[Any]:
        """Return one page, sorted by the primary key; set the `next` and `previous` links."""
        limit, place = read_limit(request), read_cursor(request)
        usual = ">" if getattr(view, "ascending", False) else "<"
        towards = place.towards if place else usual
        beyond = Q(**{"pk__lt" if towards == "<" else "pk__gt": place.beside}) if place else Q()
        read = getattr(view, "read_page", read_page)
        rows = read(queryset, beyond, "-pk" if towards == "<" else "pk", limit + 1)
        more, rows = len(rows) > limit, rows[:limit]
        forward = towards == usual
        if not forward:
            rows.reverse()
        before = place is not None if forward else more
        after = more if forward else True
        self._links(request, rows, usual, before=before, after=after)
        return rows

    def _links(
        self, request: Request, rows: Sequence[Any], usual: str, *, before: bool, after: bool
    ) -> None:
        url = request.build_absolute_uri()
        back = ">" if usual == "<" else "<"

        def link(towards: str, row: Any) -> str:
            return replace_query_param(url, "cursor", write_cursor(Place(towards, row.pk)))

        self.next = link(usual, rows[-1]) if rows and after else None
        self.previous = link(back, rows[0]) if rows and before else None

    def get_paginated_response(self, data: Any) -> Response:
        """Return the response with `next`, `previous` and `results`."""
        return Response({"next": self.next, "previous": self.previous, "results": data})

    def get_paginated_response_schema(self, schema: dict[str, Any]) -> dict[str, Any]:
        """Return the schema of a page."""
        link = {"type": ["string", "null"], "format": "uri"}
        return {
            "type": "object",
            "required": ["next", "previous", "results"],
            "properties": {"next": link, "previous": link, "results": schema},
        }

    def get_schema_operation_parameters(self, view: APIView) -> list[dict[str, Any]]:
        """Return the schema of `limit` and `cursor`."""
        limit = {"type": "integer", "minimum": 1, "maximum": MAX_LIMIT, "default": DEFAULT_LIMIT}
        return [
            {
                "name": "limit",
                "in": "query",
                "description": "Maximum number of items in a page.",
                "schema": limit,
            },
            {
                "name": "cursor",
                "in": "query",
                "description": "The start of a page. Use the URLs in `next` and `previous`.",
                "schema": {"type": "string"},
            },
        ]
