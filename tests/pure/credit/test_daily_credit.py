"""The credit per day, from daily samples of the total."""

from __future__ import annotations

from datetime import date, timedelta
from decimal import Decimal

from scheduler.credit.rules.daily_credit import DaySample, daily_credit

FIRST = date(2026, 1, 1)


def day(number: int) -> date:
    return FIRST + timedelta(days=number - 1)


def credits_of(totals: dict[int, int], sampled: list[int], since: int = 1) -> list[tuple[int, ...]]:
    rows = daily_credit(
        [DaySample(day(number), Decimal(total)) for number, total in totals.items()],
        sampled_days=[day(number) for number in sampled],
        since=day(since),
    )
    return [((row.day - FIRST).days + 1, int(row.credit), row.days) for row in rows]


def test_day_without_a_sample_of_the_holder_has_no_credit():
    assert credits_of({1: 100, 3: 130}, [1, 2, 3, 4]) == [(2, 0, 1), (3, 30, 1), (4, 0, 1)]


def test_first_credit_of_a_new_holder_counts_from_zero():
    assert credits_of({3: 40}, [1, 2, 3]) == [(2, 0, 1), (3, 40, 1)]


def test_first_sampled_day_has_no_credit_because_the_total_before_is_unknown():
    assert credits_of({1: 5000}, [1]) == []
    assert credits_of({}, []) == []


def test_sample_before_the_sampled_days_is_the_total_to_count_from():
    assert credits_of({2: 500, 9: 530}, [7, 8, 9], since=8) == [(8, 0, 1), (9, 30, 1)]


def test_day_after_a_gap_has_the_mean_of_the_days():
    assert credits_of({1: 0, 5: 80}, [1, 5]) == [(5, 20, 4)]


def test_total_that_falls_counts_as_no_credit():
    assert credits_of({1: 100, 2: 60, 3: 70}, [1, 2, 3]) == [(2, 0, 1), (3, 10, 1)]
