"""Change what is still as somebody has seen it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from django.db import transaction
from django.db.models import QuerySet

T = TypeVar("T")


def guarded(rows: QuerySet[Any], act: Callable[[], T]) -> T:
    """Look and act while rows stay as they are, by their locks; what `act` raises undoes it."""
    with transaction.atomic():
        list(rows.order_by("pk").select_for_update(of=("self",), no_key=True))
        return act()
