"""Schedules of queues: which entry is in effect at a time."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from scheduler.queues.facts import ScheduleEntry
from scheduler.queues.rules import schedules
from scheduler.queues.rules.schedules import BadScheduleTime, entry_at, entry_of_line, in_effect

#: 7 January 2029 is a Sunday.
SUNDAY = 7


def at(day: int, hour: int, minute: int = 0, *, month: int = 1) -> datetime:
    return datetime(2029, month, day, hour, minute, tzinfo=UTC)


def limit_at(entries: list[str], now: datetime, *, zone: str = "UTC") -> int | None:
    due = in_effect([entry_of_line(line) for line in entries], zone=zone, now=now)
    assert due is not None
    return due.entry.max_in_progress


def test_no_entry_is_in_effect_without_a_schedule() -> None:
    assert in_effect([], zone="UTC", now=at(SUNDAY, 12)) is None


@pytest.mark.parametrize(
    ("now", "expected"),
    [
        (at(SUNDAY, 6, 59), 50),
        (at(SUNDAY, 7), 10),
        (at(SUNDAY, 18, 59), 10),
        (at(SUNDAY, 19), 50),
        (at(SUNDAY + 1, 6, 59), 50),
        (at(SUNDAY + 1, 7), 10),
    ],
)
def test_an_entry_of_every_day_holds_until_the_next_entry(now: datetime, expected: int) -> None:
    assert limit_at(["* 07:00 10", "* 19:00 50"], now) == expected


@pytest.mark.parametrize(
    ("now", "expected"),
    [
        (at(SUNDAY, 7), 10),
        (at(SUNDAY + 1, 7), 99),
        (at(SUNDAY + 1, 8), 20),
        (at(SUNDAY + 2, 7), 10),
        (at(SUNDAY + 2, 8), 20),
    ],
)
def test_an_entry_of_a_weekday_replaces_only_the_entry_at_the_same_time(
    now: datetime, expected: int
) -> None:
    assert limit_at(["* 07:00 10", "1 07:00 99", "* 08:00 20"], now) == expected


def test_an_entry_of_one_weekday_holds_for_a_week() -> None:
    entries = ["1 18:30 none"]
    due = in_effect([entry_of_line(line) for line in entries], zone="UTC", now=at(SUNDAY + 1, 18))
    assert due is not None
    assert due.at == datetime(2029, 1, 1, 18, 30, tzinfo=UTC)
    assert due.entry.max_in_progress is None


def test_times_are_in_the_time_zone_of_the_queue() -> None:
    """In New York, 07:00 is 12:00 UTC in January, and 11:00 UTC in July."""
    zone, entries = "America/New_York", ["* 07:00 10", "* 19:00 50"]
    assert limit_at(entries, at(SUNDAY, 11, 59), zone=zone) == 50
    assert limit_at(entries, at(SUNDAY, 12), zone=zone) == 10
    assert limit_at(entries, at(SUNDAY, 11, month=7), zone=zone) == 10


def test_weekdays_are_those_of_the_time_zone() -> None:
    """Monday 01:00 in Tokyo is Sunday 16:00 UTC."""
    entries = ["1 01:00 5", "0 00:00 1"]
    assert limit_at(entries, at(SUNDAY, 15, 59), zone="Asia/Tokyo") == 1
    assert limit_at(entries, at(SUNDAY, 16), zone="Asia/Tokyo") == 5


def test_a_time_that_the_clocks_skip_takes_effect_after_the_change() -> None:
    """On 25 March 2029, the clocks of Berlin go from 02:00 to 03:00, at 01:00 UTC."""
    entries, zone = ["* 02:30 5", "* 00:00 1"], "Europe/Berlin"
    assert limit_at(entries, at(25, 1, 29, month=3), zone=zone) == 1
    assert limit_at(entries, at(25, 1, 30, month=3), zone=zone) == 5


@pytest.mark.parametrize(
    ("text", "weekday", "minute"), [("* 07:00", None, 420), ("0 00:00", 0, 0), ("6 23:59", 6, 1439)]
)
def test_a_time_is_read_and_written(text: str, weekday: int | None, minute: int) -> None:
    entry = entry_at(text, 5)
    assert entry == ScheduleEntry(weekday, minute, 5)
    assert str(entry) == text


@pytest.mark.parametrize(
    "text", ["", "7 07:00", "* 7:00", "* 24:00", "* 07:60", "monday 07:00", "*07:00", "* 07:00 "]
)
def test_a_bad_time_is_refused_with_a_hint(text: str) -> None:
    with pytest.raises(BadScheduleTime, match="Hint: write a weekday"):
        entry_at(text, 5)


def test_lines_are_read_and_written() -> None:
    lines = ["* 07:00 50", "1 18:30 none", "2 18:30 0"]
    assert schedules.as_lines(map(entry_of_line, lines)) == lines


@pytest.mark.parametrize("line", ["* 07:00", "* 07:00 -1", "* 07:00 100001", "* 07:00 many", "5"])
def test_a_bad_line_is_refused_with_a_hint(line: str) -> None:
    with pytest.raises(BadScheduleTime, match="Hint: "):
        entry_of_line(line)
