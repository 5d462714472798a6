"""Error rates, their order, and the limit of an automatic roll-back."""

from __future__ import annotations

import pytest

from scheduler.health.rules.alert_texts import Facts, judge
from scheduler.health.rules.error_rates import Rate, exceeds
from tests.conftest import NOON


def test_failed_results_are_errors_and_invalid_ones():
    rate = Rate("a", 200, 20, 10)
    assert (rate.failed, rate.percent) == (30, 15.0)


def test_rate_without_reports_is_at_most_100_percent():
    assert Rate("a", 0, 0, 7).percent == 100.0
    assert Rate("a").percent == 0.0


def test_one_error_of_one_result_ranks_below_half_of_many():
    assert Rate("a", 1, 1).rank < Rate("b", 100, 50).rank
    assert Rate("a", 1000, 1).rank < Rate("b", 1, 1).rank


@pytest.mark.parametrize(
    ("reported", "errors", "is_above"),
    [(50, 6, True), (50, 5, False), (49, 49, False), (1000, 101, True), (0, 0, False)],
)
def test_limit_is_exceeded_only_with_enough_results(reported, errors, is_above):
    rate = Rate("a", reported, errors)
    assert exceeds(rate, max_error_percent=10, min_results=50) is is_above


def test_alert_of_a_roll_back_has_the_version_as_its_subject():
    [alert] = judge(Facts(rolled_back=(("wave 2.00 linux", "9 of 9 failed"),)), now=NOON)
    assert (alert.kind, alert.subject) == ("version_rolled_back", "wave 2.00 linux")
    assert alert.sentence == "App version wave 2.00 linux was rolled back: 9 of 9 failed."
