"""Changes rows only while they are unchanged."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from django.db import transaction
from django.db.models import QuerySet

T = TypeVar("T")


def guarded(rows: QuerySet[Any], act: Callable[[], T]) -> T:
    """Lock the rows, then call `act` in the same transaction; an exception rolls it back."""
    with transaction.atomic():
        list(rows.order_by("pk").select_for_update(of=("self",), no_key=True))
        return act()
