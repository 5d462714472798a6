"""The orders of leaderboards, and positions in them [pure]."""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal
from enum import StrEnum


class Order(StrEnum):
    """The amount by which a leaderboard is sorted, highest first."""

    TOTAL = "total"
    RECENT = "recent"


@dataclass(frozen=True, slots=True)
class Position:
    """A position in a leaderboard: rows with equal credit are sorted by descending id.

    `credit` is a `Decimal` on boards by total credit, and a float on boards by recent average.
    """

    credit: Decimal | float
    id: int


def read_credit(text: str, order: Order) -> Decimal | float:
    """Return the credit of a position in a board of this order from its text.

    >>> read_credit("12.5", Order.TOTAL)
    Decimal('12.5')
    >>> read_credit("1e-06", Order.RECENT)
    1e-06
    """
    return Decimal(text) if order is Order.TOTAL else float(text)
