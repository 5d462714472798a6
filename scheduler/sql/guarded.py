"""Locks rows and calls a function in the same transaction."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from django.db import transaction
from django.db.models import QuerySet

T = TypeVar("T")


def guarded(rows: QuerySet[Any], act: Callable[[], T]) -> T:
    """Lock the rows, call `act` in the same transaction, and return its value.

    An exception rolls the transaction back.
    """
    with transaction.atomic():
        list(rows.order_by("pk").select_for_update(of=("self",), no_key=True))
        return act()
