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


def test_one_day_at_one_gigaflops_earns_200_cobblestones():
    assert paid(Effort(DAY, DAY, 1e9)) == 200


def test_highest_claim_gains_nothing():
    assert paid(Effort(DAY, 0, 1e9), Effort(100 * DAY, 0, 1e9)) == 200


def test_credit_of_a_claim_is_limited_to_the_maximum():
    assert paid(Effort(1e15, 1e15, 1e15), bound=1e40) == Decimal("7.3e7")


def test_result_without_measured_time_makes_no_claim():
    assert paid(Effort(0, 0, 1e9), Effort(DAY, 0, 1e9)) == 200
    assert paid(Effort(0, 0, 1e9)) == 0


def test_processor_time_is_used_if_elapsed_time_is_zero():
    assert paid(Effort(0, DAY, 1e9)) == 200


def test_claim_is_limited_by_the_workunit_bound():
    assert paid(Effort(DAY, 0, 1e9), bound=8.64e12) == 20


@pytest.mark.parametrize("nonsense", [inf, -1.0])
def test_invalid_numbers_get_no_credit(nonsense):
    assert paid(Effort(nonsense, 0, 1e9)) == 0


def test_rule_fixed_grants_the_app_amount_and_rule_none_grants_zero():
    assert paid(Effort(DAY, 0, 1e9), rule="fixed", fixed="2.5") == Decimal("2.5")
    assert paid(Effort(DAY, 0, 1e9), rule="none") == 0


def test_low_average_of_one_value_is_that_value():
    assert low_average([7.0]) == 7.0
    assert low_average([]) == 0.0


def test_recent_average_halves_in_a_week():
    assert isclose(recent_average(100, NOON, 0, work_began_at=NOON, now=NOON + WEEK), 50)


def test_first_grant_is_averaged_from_the_time_the_work_was_sent():
    average = recent_average(0, None, 10, work_began_at=NOON - timedelta(days=2), now=NOON)
    assert average == 5


def test_simultaneous_grants_count_like_one_grant_of_their_sum():
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


def test_recent_average_of_steady_work_is_its_daily_rate():
    average, at = 0.0, None
    for day in range(1, 200):
        now = NOON + timedelta(days=day)
        began = now - timedelta(days=1)
        average = recent_average(average, at, 24, work_began_at=began, now=now)
        at = now
    assert isclose(average, 24, rel_tol=0.01)


def test_one_outlier_changes_a_running_average_only_slightly():
    average, samples = 0.0, 0.0
    for _ in range(50):
        average, samples = running_average(average, samples, 10.0)
    odd, _ = running_average(average, samples, 1e9)
    assert average == 10.0
    assert odd == pytest.approx(10.9)
