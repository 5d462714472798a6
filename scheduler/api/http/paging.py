"""How lists are cut into pages: by id, each page at the same cost."""

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

USUAL, MOST = 100, 1000
_CURSOR = re.compile(r"([<>])([0-9]{1,19})")


class Place(NamedTuple):
    """Where a page begins: beside a row, towards smaller ids ("<") or larger ones (">")."""

    towards: str
    beside: int


def read_limit(request: Request) -> int:
    """Read ``?limit=``; what is no number from 1 to 1000 is refused."""
    said = request.query_params.get("limit")
    if said is None:
        return USUAL
    if not re.fullmatch(r"[0-9]{1,4}", said, re.ASCII) or not 0 < int(said) <= MOST:
        msg = f"This must be a whole number from 1 to {MOST}."
        raise serializers.ValidationError({"limit": [msg]})
    return int(said)


def read_cursor(request: Request) -> Place | None:
    """Read ``?cursor=``; one that was not made here is refused."""
    said = request.query_params.get("cursor")
    if not said:
        return None
    try:
        text = urlsafe_b64decode(said.encode("ascii")).decode("ascii")
    except (UnicodeError, NotBase64, ValueError):
        text = ""
    found = _CURSOR.fullmatch(text)
    if found is None or int(found[2]) > INT8:
        msg = "The cursor was not made here."
        raise Problem(422, "bad_cursor", msg, hint="follow `next` and `previous` as they are.")
    return Place(found[1], int(found[2]))


def write_cursor(place: Place) -> str:
    """Write a cursor, as `read_cursor` reads it."""
    return urlsafe_b64encode(f"{place.towards}{place.beside}".encode()).decode()


def read_page(rows: Any, beyond: Q, order: str, count: int) -> list[Any]:
    """Read the first `count` rows `beyond` a place."""
    return list(rows.filter(beyond).order_by(order)[:count])


class ById(BasePagination):
    """``?limit=100&cursor=...``: newest first, unless the view says ``ascending = True``.

    A view may read pages in its own way, by a `read_page` like the one above.
    """

    parameters = frozenset({"limit", "cursor"})

    def paginate_queryset(
        self, queryset: Any, request: Request, view: APIView | None = None
    ) -> list[Any]:
        """Read one page, by the primary key alone."""
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
        """Put the page between its links."""
        return Response({"next": self.next, "previous": self.previous, "results": data})

    def get_paginated_response_schema(self, schema: dict[str, Any]) -> dict[str, Any]:
        """Say the same to the schema."""
        link = {"type": ["string", "null"], "format": "uri"}
        return {
            "type": "object",
            "required": ["next", "previous", "results"],
            "properties": {"next": link, "previous": link, "results": schema},
        }

    def get_schema_operation_parameters(self, view: APIView) -> list[dict[str, Any]]:
        """Name the two parameters."""
        limit = {"type": "integer", "minimum": 1, "maximum": MOST, "default": USUAL}
        return [
            {
                "name": "limit",
                "in": "query",
                "description": "How many a page holds at most.",
                "schema": limit,
            },
            {
                "name": "cursor",
                "in": "query",
                "description": "Where the page begins; `next` and `previous` carry it.",
                "schema": {"type": "string"},
            },
        ]
