"""The orders of leaderboards, and the texts of positions in them [pure]."""

from __future__ import annotations

import re
from dataclasses import dataclass
from decimal import Decimal
from enum import StrEnum
from math import isfinite
from typing import Final

_MAX_ID: Final = 2**63 - 1
_TEXT: Final = re.compile(r"(?P<credit>\d{1,20}(?:\.\d{1,20})?(?:e[-+]\d{1,3})?)_(?P<id>\d{1,19})")


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

    def __str__(self) -> str:
        return f"{self.credit}_{self.id}"


def read_position(text: str, order: Order) -> Position | None:
    """Return the position in the text of one; None if the text is not a position.

    >>> read_position("12.5_7", Order.TOTAL)
    Position(credit=Decimal('12.5'), id=7)
    >>> read_position("nan_7", Order.RECENT) is None
    True
    """
    match = _TEXT.fullmatch(text) if text.isascii() else None
    if match is None or int(match["id"]) > _MAX_ID or not isfinite(float(match["credit"])):
        return None
    credit = Decimal(match["credit"]) if order is Order.TOTAL else float(match["credit"])
    return Position(credit, int(match["id"]))
