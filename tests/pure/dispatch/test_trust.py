"""Trust in hosts, reliable hosts, and the daily quota."""

from __future__ import annotations

from dataclasses import replace
from datetime import date, timedelta
from statistics import fmean

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scheduler.dispatch.facts import Record
from scheduler.dispatch.rules import trust

TODAY = date(2026, 6, 1)
YESTERDAY = date(2026, 5, 31)
QUOTA = 500

GOOD = Record(consecutive_valid=10, turnaround_n=11, turnaround_avg=3600)


# Adaptive replication


@pytest.mark.parametrize(
    ("consecutive_valid", "draw", "trusted"),
    [
        (0, 0.99, False),
        (9, 0.99, False),
        (10, 0.99, True),
        (10, 0.11, True),
        (10, 0.1, False),
        (10, 0.05, False),
        (1000, 0.05, True),
        (1000, 0.0005, False),
    ],
)
def test_host_is_trusted_after_ten_consecutive_valid_results_except_spot_checks(
    consecutive_valid, draw, trusted
):
    record = Record(consecutive_valid=consecutive_valid)
    assert trust.is_trusted(record, trusted_after=10, draw=draw) is trusted


def test_app_can_trust_earlier_but_never_a_host_without_valid_results():
    assert trust.is_trusted(Record(consecutive_valid=2), trusted_after=2, draw=0.9)
    assert not trust.is_trusted(Record(), trusted_after=0, draw=0.99)


def test_spot_check_rate_follows_the_number_of_consecutive_valid_results():
    record = Record(consecutive_valid=20)
    lots = [trust.draw("chance", 7, number) for number in range(20_000)]
    checked = fmean(trust.is_spot_check(record, lot) for lot in lots)
    assert checked == pytest.approx(1 / 20, rel=0.1)


# Random draws


@given(st.text(), st.lists(st.integers()))
def test_draw_is_between_0_and_1_and_reproducible(key, numbers):
    lot = trust.draw(key, *numbers)
    assert 0 <= lot < 1
    assert lot == trust.draw(key, *numbers)


def test_draw_depends_on_the_key_and_on_each_number():
    lots = {
        trust.draw("a", 1, 2),
        trust.draw("b", 1, 2),
        trust.draw("a", 12),
        trust.draw("a", 2, 1),
    }
    assert len(lots) == 4


def test_draws_are_uniformly_distributed():
    tenths = [int(10 * trust.draw("key", number)) for number in range(10_000)]
    assert all(900 < tenths.count(tenth) < 1100 for tenth in range(10))


# Reliable hosts


@pytest.mark.parametrize(
    ("change", "reliable"),
    [
        ({}, True),
        ({"consecutive_valid": 9}, False),
        ({"max_results_per_day": QUOTA - 1}, False),
        ({"max_results_per_day": QUOTA + 9}, True),
        ({"turnaround_avg": 86401.0}, False),
        ({"turnaround_avg": 86401.0, "turnaround_n": 10.0}, True),
    ],
)
def test_reliable_host_has_valid_results_short_turnaround_and_full_quota(change, reliable):
    record = replace(GOOD, **change)
    found = trust.is_reliable(record, max_turnaround=timedelta(days=1), daily_quota=QUOTA)
    assert found is reliable


def test_slow_host_is_reliable_if_there_is_no_turnaround_limit():
    record = replace(GOOD, turnaround_avg=1e9)
    assert trust.is_reliable(record, max_turnaround=None, daily_quota=0)


# The daily quota


@pytest.mark.parametrize(
    ("per_day", "given", "devices", "left"),
    [
        (0, 0, 1, 500),
        (0, 499, 1, 1),
        (0, 0, 4, 2000),
        (100, 30, 1, 70),
        (100, 130, 1, 0),
        (2, 0, 8, 16),
        (1, 0, 8, 1),
        (1, 1, 8, 0),
        (501, 0, 1, 501),
    ],
)
def test_daily_quota_is_per_device_except_a_quota_of_one(per_day, given, devices, left):
    record = Record(max_results_per_day=per_day, results_today=given, quota_day=TODAY)
    assert trust.quota_left(record, daily_quota=QUOTA, devices=devices, today=TODAY) == left


def test_daily_quota_count_resets_on_the_next_day():
    record = Record(results_today=500, quota_day=YESTERDAY)
    assert trust.quota_left(record, daily_quota=QUOTA, devices=1, today=TODAY) == QUOTA
    assert trust.reset_if_new_day(record, TODAY) == Record(results_today=0, quota_day=TODAY)
    assert trust.reset_if_new_day(record, YESTERDAY) == record


def test_zero_daily_quota_means_no_limit_and_no_changes():
    record = Record(max_results_per_day=1, results_today=9, quota_day=TODAY)
    assert trust.quota_left(record, daily_quota=0, devices=1, today=TODAY) is None
    for after in (
        trust.after_success,
        trust.after_error,
        trust.after_timeout,
        trust.after_valid,
        trust.after_invalid,
    ):
        assert after(7, daily_quota=0) == 7


@pytest.mark.parametrize(
    ("after", "before", "then"),
    [
        (trust.after_success, 0, 0),
        (trust.after_success, 1, 1),
        (trust.after_success, 2, 4),
        (trust.after_success, 300, 500),
        (trust.after_success, 500, 500),
        (trust.after_success, 700, 700),
        (trust.after_valid, 0, 501),
        (trust.after_valid, 1, 2),
        (trust.after_valid, 500, 501),
        (trust.after_error, 0, 250),
        (trust.after_error, 9, 4),
        (trust.after_error, 1, 1),
        (trust.after_timeout, 0, 250),
        (trust.after_timeout, 1, 1),
        (trust.after_invalid, 0, 125),
        (trust.after_invalid, 700, 175),
        (trust.after_invalid, 3, 1),
    ],
)
def test_each_outcome_of_a_result_changes_the_quota(after, before, then):
    assert after(before, daily_quota=QUOTA) == then


BAD_ENDS = {
    "error": [trust.after_error],
    "timeout": [trust.after_timeout],
    "wrong": [trust.after_success, trust.after_invalid],
}


def live(per_day: int, *ends: str) -> int:
    for end in ends:
        for after in BAD_ENDS[end]:
            per_day = after(per_day, daily_quota=QUOTA)
    return per_day


@given(
    start=st.integers(0, 5000),
    ends=st.lists(st.sampled_from(sorted(BAD_ENDS)), min_size=14, max_size=30),
)
def test_host_with_only_bad_results_ends_with_a_quota_of_one_per_day(start, ends):
    """A host that fails all work gets one result a day, however many devices it has."""
    per_day = live(start, *ends)
    assert per_day == 1
    record = Record(max_results_per_day=per_day, results_today=1, quota_day=TODAY)
    assert trust.quota_left(record, daily_quota=QUOTA, devices=64, today=TODAY) == 0


def test_nine_errors_or_late_invalid_verdicts_reduce_the_quota_to_one():
    assert live(0, *["error"] * 9) == 1
    reported = 0
    for _ in range(20):
        reported = trust.after_success(reported, daily_quota=QUOTA)
    for _ in range(5):
        reported = trust.after_invalid(reported, daily_quota=QUOTA)
    assert reported == 1


def test_one_valid_result_lets_the_quota_recover():
    per_day = trust.after_valid(1, daily_quota=QUOTA)
    for _ in range(8):
        per_day = trust.after_success(per_day, daily_quota=QUOTA)
    assert per_day == QUOTA


@given(
    start=st.integers(0, 5000),
    ends=st.lists(
        st.sampled_from(
            [
                trust.after_success,
                trust.after_error,
                trust.after_timeout,
                trust.after_valid,
                trust.after_invalid,
            ]
        )
    ),
)
def test_quota_is_at_least_one_after_any_history(start, ends):
    per_day = start
    for after in ends:
        per_day = after(per_day, daily_quota=QUOTA)
    record = Record(max_results_per_day=per_day)
    left = trust.quota_left(record, daily_quota=QUOTA, devices=1, today=TODAY)
    assert left is not None
    assert left >= 1
