"""Change what is still as somebody has seen it [operations]."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from django.db import transaction
from django.db.models import QuerySet

T = TypeVar("T")


def guarded(rows: QuerySet[Any], look: Callable[[], None], act: Callable[[], T]) -> T:
    """Act on rows that stay as they are between the look and the act, by their locks.

    What `look` or `act` raises undoes both.
    """
    with transaction.atomic():
        list(rows.order_by("pk").select_for_update(of=("self",), no_key=True))
        look()
        return act()
