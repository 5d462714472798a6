"""Whom to believe, and how much work to risk on a host [pure].

Theory of operation.  Trust is learned by app version and host, from what became of earlier
results, and it is used in three ways: a trusted host's result needs no second opinion (adaptive
replication), a reliable host is first to get retries, and a host that does harm is given less and
less work a day until it does well again.

**The daily quota** starts at the app's `daily_quota`; 0 in a record stands for "never changed".
Source: BOINC's rule of `max_jobs_per_day` (doubled per reported success up to the quota, one less
per error or timeout, one more per valid result, one less per invalid result while above the quota;
never below 1).  By it a host that only makes errors needs 500 of them to get from 500 to 1, and
one whose results are all invalid never gets there, as each report doubles what the verdict lowers
by one.  Ours keeps the gestures and makes them converge:

- an error or a timeout halves it, an invalid result quarters it (so that it outweighs the doubling
  which its report brought), never below 1;
- a reported success doubles it up to the quota, but from 1 only a *valid* result lifts it: a
  report is no proof;
- a valid result adds one, beyond the quota too.

So a host whose results all go wrong is at one a day after `log2(quota)` of them and stays there,
and one valid result sets it on its way back.
"""

from __future__ import annotations

import hmac
from dataclasses import replace
from datetime import date, timedelta
from typing import Final

from scheduler.hosts.facts import Record

#: So many turnarounds must be known until their average says anything (BOINC's MIN_HOST_SAMPLES).
_MIN_TURNAROUNDS: Final = 10
#: A reliable version has so many valid results in a row (BOINC's number).
_RELIABLE_AFTER: Final = 10


def draw(key: str, *numbers: int) -> float:
    """Draw a lot in [0, 1): always the same for the same key and numbers.

    Whoever does not know the key cannot foresee it.  HMAC-SHA256, its first 53 bits.
    """
    message = ",".join(str(number) for number in numbers).encode()
    digest = hmac.digest(key.encode(), message, "sha256")
    return (int.from_bytes(digest[:8], "big") >> 11) / 2**53


def is_trusted(record: Record, *, trusted_after: int, draw: float) -> bool:
    """Whether a result needs no second opinion; now and then a trusted host is checked too.

    Source: BOINC's adaptive replication: `consecutive_valid` is at least `trusted_after`, and a
    spot check, whose chance is one in `consecutive_valid`, was not drawn.
    """
    return has_proved_itself(record, trusted_after=trusted_after) and not is_spot_check(
        record, draw
    )


def has_proved_itself(record: Record, *, trusted_after: int) -> bool:
    """Whether enough results in a row were valid: then a lot decides, now and then against it."""
    return record.consecutive_valid >= max(1, trusted_after)


def is_spot_check(record: Record, draw: float) -> bool:
    """Whether the lot fell on checking a trusted host: the rarer, the longer it has done well."""
    return draw * max(1, record.consecutive_valid) <= 1


def is_reliable(record: Record, *, max_turnaround: timedelta | None, daily_quota: int) -> bool:
    """Whether retries should go here first: right, quick, and not being punished.

    Source: BOINC's rule for reliable app versions.  `max_turnaround` None: however slow.
    """
    if record.consecutive_valid < _RELIABLE_AFTER:
        return False
    if daily_quota and _current(record.max_results_per_day, daily_quota) < daily_quota:
        return False
    if max_turnaround is None or record.turnaround_n <= _MIN_TURNAROUNDS:
        return True
    return record.turnaround_avg <= max_turnaround.total_seconds()


def daily_limit(record: Record, *, daily_quota: int, devices: int) -> int | None:
    """How many results a day the host may be given; None: no limit.

    Per device, except that 1 is one for the whole host: a faulty one gets no more (BOINC's rule).
    """
    if daily_quota <= 0:
        return None
    limit = _current(record.max_results_per_day, daily_quota)
    return limit if limit == 1 else limit * max(1, devices)


def quota_left(record: Record, *, daily_quota: int, devices: int, today: date) -> int | None:
    """How many more results the host may be given today, never negative; None: no limit."""
    limit = daily_limit(record, daily_quota=daily_quota, devices=devices)
    if limit is None:
        return None
    return max(0, limit - reset_if_new_day(record, today).results_today)


def quota_sentence(limit: int) -> str:
    """What BOINC's server says to a host that has used up its day."""
    return f"This computer has finished a daily quota of {limit} tasks"


def reset_if_new_day(record: Record, today: date) -> Record:
    """The record with today's count: 0 if it counted another day."""
    if record.quota_day == today:
        return record
    return replace(record, quota_day=today, results_today=0)


def after_success(max_per_day: int, *, daily_quota: int) -> int:
    """The quota once a success is reported: doubled, `daily_quota` at most; from 1 it stays 1."""
    current = _current(max_per_day, daily_quota)
    if current <= 1 or current >= daily_quota:
        return max_per_day
    return min(2 * current, daily_quota)


def after_error(max_per_day: int, *, daily_quota: int) -> int:
    """The quota once an error is reported: half, 1 at least."""
    return _shrunk(max_per_day, daily_quota, by=2)


def after_timeout(max_per_day: int, *, daily_quota: int) -> int:
    """The quota once a result was not reported in time: half, 1 at least."""
    return _shrunk(max_per_day, daily_quota, by=2)


def after_invalid(max_per_day: int, *, daily_quota: int) -> int:
    """The quota once a result is found invalid: a quarter, 1 at least."""
    return _shrunk(max_per_day, daily_quota, by=4)


def after_valid(max_per_day: int, *, daily_quota: int) -> int:
    """The quota once a result is found valid: one more."""
    return _current(max_per_day, daily_quota) + 1 if daily_quota > 0 else max_per_day


def _current(max_per_day: int, daily_quota: int) -> int:
    return max_per_day if max_per_day > 0 else daily_quota


def _shrunk(max_per_day: int, daily_quota: int, *, by: int) -> int:
    if daily_quota <= 0:
        return max_per_day
    return max(1, _current(max_per_day, daily_quota) // by)
