"""The weekly schedule of a queue's limit, and the entry in effect [pure].

An entry is written as ``* 07:00`` (every day) or ``1 07:00`` (Mondays).  At its time the queue's
limit becomes the entry's, until the next entry of any kind.  An entry of a weekday replaces the
entry of every day at the same time, and no other one.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime, timedelta
from typing import NamedTuple
from zoneinfo import ZoneInfo

from scheduler.queues.facts import ScheduleEntry

_TIME = re.compile(r"(\*|[0-6]) ([01][0-9]|2[0-3]):([0-5][0-9])")
#: The largest limit of a queue.
MAX_LIMIT = 100_000
#: The days in which each entry occurs at least once, with a day on each side for time zones.
_DAYS = 9


class BadScheduleTime(ValueError):
    """The text is not a time of a schedule.  Hint: write "* 07:00" or, for Mondays, "1 07:00"."""


class Due(NamedTuple):
    """The entry in effect, and the time since which it is."""

    at: datetime
    entry: ScheduleEntry


def entry_at(text: str, max_in_progress: int | None) -> ScheduleEntry:
    """Read the time of an entry; raises `BadScheduleTime`.

    >>> str(entry_at("1 07:00", 5))
    '1 07:00'
    """
    match = _TIME.fullmatch(text)
    if match is None:
        raise BadScheduleTime(
            f"{text[:40]!r} is not a time of a schedule. Hint: write a weekday from 0 (Sunday) to "
            '6 (Saturday), or * for every day, then the time: "* 07:00", "1 18:30".'
        )
    day, hour, minute = match.groups()
    return ScheduleEntry(
        None if day == "*" else int(day), int(hour) * 60 + int(minute), max_in_progress
    )


def entry_of_line(line: str) -> ScheduleEntry:
    """Read an entry with its limit, such as ``* 07:00 50``; raises `BadScheduleTime`.

    >>> entry_of_line("1 18:30 none").max_in_progress is None
    True
    """
    time, _, limit = line.strip().rpartition(" ")
    if limit != "none" and not (limit.isdecimal() and limit.isascii() and int(limit) <= MAX_LIMIT):
        raise BadScheduleTime(
            f"{line.strip()[:60]!r} is not an entry of a schedule. Hint: write a weekday or *, a "
            f'time, and a limit up to {MAX_LIMIT} or the word none: "* 07:00 50".'
        )
    return entry_at(time.strip(), None if limit == "none" else int(limit))


def as_lines(entries: Iterable[ScheduleEntry]) -> list[str]:
    """Return the entries as `entry_of_line` reads them."""
    limits = [(entry, entry.max_in_progress) for entry in entries]
    return [f"{entry} {'none' if limit is None else limit}" for entry, limit in limits]


def in_effect(entries: Iterable[ScheduleEntry], *, zone: str, now: datetime) -> Due | None:
    """Return the entry in effect at `now`, in a time zone; None without entries.

    A time that the clocks skip in spring counts as the same time span later; a time that occurs
    twice in autumn counts once.
    """
    by_time = {(entry.weekday, entry.minute): entry for entry in entries}
    local = ZoneInfo(zone)
    today = now.astimezone(local).date()
    latest: Due | None = None
    for days_ago in range(-1, _DAYS):
        day = today - timedelta(days=days_ago)
        weekday = day.isoweekday() % 7
        for (entry_day, minute), entry in by_time.items():
            if entry_day not in (None, weekday) or _is_replaced(entry, weekday, by_time):
                continue
            midnight = datetime(day.year, day.month, day.day)  # noqa: DTZ001  the zone follows
            moment = (midnight + timedelta(minutes=minute)).replace(tzinfo=local).astimezone(UTC)
            if moment <= now and (latest is None or latest.at < moment):
                latest = Due(moment, entry)
    return latest


def _is_replaced(
    entry: ScheduleEntry, weekday: int, by_time: Mapping[tuple[int | None, int], ScheduleEntry]
) -> bool:
    """Whether an entry of this weekday replaces an entry of every day."""
    return entry.weekday is None and (weekday, entry.minute) in by_time
