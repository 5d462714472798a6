"""Derives the credit per day from daily samples of the total credit [pure]."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date
from decimal import Decimal
from itertools import pairwise


@dataclass(frozen=True, slots=True)
class DaySample:
    """The total credit of a holder at the end of a day."""

    day: date
    total: Decimal


@dataclass(frozen=True, slots=True)
class DayCredit:
    """The credit of a day; `days` is greater than 1 if it is the mean of several days.

    `day` is the last of them.
    """

    day: date
    credit: Decimal
    days: int = 1


def daily_credit(
    samples: Sequence[DaySample], *, sampled_days: Sequence[date], since: date
) -> tuple[DayCredit, ...]:
    """Return the credit of each sampled day from `since` on, oldest first.

    `samples` has a row for each sampled day on which the total changed; both sequences ascend.  The
    first sampled day has no credit, because the total before it is unknown.  A day after days that
    were not sampled has the mean of these days.  A total that falls, because credit was taken back,
    counts as 0.

    >>> first, second, third = (date(2026, 1, day) for day in (1, 2, 3))
    >>> rows = daily_credit(
    ...     [DaySample(first, Decimal(100)), DaySample(third, Decimal(130))],
    ...     sampled_days=[first, second, third],
    ...     since=first,
    ... )
    >>> [(row.day.day, int(row.credit)) for row in rows]
    [(2, 0), (3, 30)]
    """
    totals = {sample.day: sample.total for sample in samples}
    # The total at the first sampled day is that of the newest sample until then.
    total = Decimal(0)
    for sample in samples:
        if sampled_days and sample.day <= sampled_days[0]:
            total = sample.total
    rows = []
    for before, day in pairwise(sampled_days):
        days = (day - before).days
        later = totals.get(day, total)
        if day >= since:
            rows.append(DayCredit(day, max(later - total, Decimal(0)) / days, days))
        total = later
    return tuple(rows)
