"""The rules for the credit of results, except the adaptive rule."""

from __future__ import annotations

from datetime import timedelta
from decimal import Decimal
from math import inf, isclose, log

import pytest

from scheduler.credit.rules.credit import (
    Effort,
    amount,
    low_average,
    recent_average,
    running_average,
)
from tests.conftest import NOON

DAY = 86_400.0
WEEK = timedelta(days=7)


def paid(*efforts, rule="runtime", fixed="0", bound=1e18):
    return amount(rule, efforts, fixed=Decimal(fixed), rsc_fpops_bound=bound)


def test_a_day_of_a_gigaflop_is_two_hundred_cobblestones():
    assert paid(Effort(DAY, DAY, 1e9)) == 200


def test_highest_claim_gains_nothing():
    assert paid(Effort(DAY, 0, 1e9), Effort(100 * DAY, 0, 1e9)) == 200


def test_no_claim_is_paid_more_than_a_computation_can_be_worth():
    assert paid(Effort(1e15, 1e15, 1e15), bound=1e40) == Decimal("7.3e7")


def test_a_run_too_short_for_the_clock_leaves_the_claim_to_the_others():
    assert paid(Effort(0, 0, 1e9), Effort(DAY, 0, 1e9)) == 200
    assert paid(Effort(0, 0, 1e9)) == 0


def test_processor_time_stands_in_for_elapsed_time():
    assert paid(Effort(0, DAY, 1e9)) == 200


def test_a_claim_is_cut_at_the_workunits_bound():
    assert paid(Effort(DAY, 0, 1e9), bound=8.64e12) == 20


@pytest.mark.parametrize("nonsense", [inf, -1.0])
def test_invalid_numbers_get_no_credit(nonsense):
    assert paid(Effort(nonsense, 0, 1e9)) == 0


def test_fixed_credit_is_the_apps_and_none_is_nothing():
    assert paid(Effort(DAY, 0, 1e9), rule="fixed", fixed="2.5") == Decimal("2.5")
    assert paid(Effort(DAY, 0, 1e9), rule="none") == 0


def test_the_low_average_of_one_is_itself():
    assert low_average([7.0]) == 7.0
    assert low_average([]) == 0.0


def test_a_recent_average_halves_in_a_week():
    assert isclose(recent_average(100, NOON, 0, work_began_at=NOON, now=NOON + WEEK), 50)


def test_the_first_grant_counts_from_when_the_work_was_sent():
    average = recent_average(0, None, 10, work_began_at=NOON - timedelta(days=2), now=NOON)
    assert average == 5


def test_two_grants_at_once_count_as_one():
    once = recent_average(100, NOON, 20, work_began_at=NOON, now=NOON)
    twice = recent_average(
        recent_average(100, NOON, 10, work_began_at=NOON, now=NOON),
        NOON,
        10,
        work_began_at=NOON,
        now=NOON,
    )
    assert isclose(once, twice)
    assert isclose(once, 100 + 20 * log(2) / 7)


def test_steady_work_has_its_rate_as_average():
    average, at = 0.0, None
    for day in range(1, 200):
        now = NOON + timedelta(days=day)
        began = now - timedelta(days=1)
        average = recent_average(average, at, 24, work_began_at=began, now=now)
        at = now
    assert isclose(average, 24, rel_tol=0.01)


def test_one_odd_run_moves_a_running_average_little():
    average, samples = 0.0, 0.0
    for _ in range(50):
        average, samples = running_average(average, samples, 10.0)
    odd, _ = running_average(average, samples, 1e9)
    assert average == 10.0
    assert odd == pytest.approx(10.9)
