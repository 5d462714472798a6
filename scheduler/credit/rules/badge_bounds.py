"""Computes the bounds that a badge's rule sets for credit and age [pure]."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from decimal import ROUND_CEILING, Decimal

#: Later than any account or team was created.
_NEVER = datetime(9999, 1, 1, tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class Bounds:
    """The least credit and age with which an account or a team earns a badge."""

    min_total: Decimal = Decimal(0)
    min_recent: float = 0.0
    created_until: datetime = _NEVER


def count_within(percentage: Decimal, total: int) -> int:
    """Return how many of `total` participants are within a top percentage, rounded up.

    >>> count_within(Decimal(1), 250), count_within(Decimal(5), 0)
    (3, 0)
    """
    return int((total * percentage / 100).to_integral_value(ROUND_CEILING))


def years_before(now: datetime, years: int) -> datetime:
    """Return the same date and time in an earlier year; 28 February for 29 February.

    >>> years_before(datetime(2028, 2, 29, tzinfo=UTC), 1).date().isoformat()
    '2027-02-28'
    """
    try:
        return now.replace(year=now.year - years)
    except ValueError:
        return now.replace(year=now.year - years, day=28)
