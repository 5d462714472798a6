"""How lists are cut into pages: by id, each page at the same cost."""

from __future__ import annotations

from rest_framework.pagination import CursorPagination


class ById(CursorPagination):
    """``?limit=100&cursor=...``: newest first unless the view says otherwise."""

    page_size = 100
    page_size_query_param = "limit"
    max_page_size = 1000
    ordering = "-id"
