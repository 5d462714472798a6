"""Rules of trust in hosts: adaptive replication, retries and daily quota.

Theory of operation.  Trust is measured per app version and host, from the outcome of earlier
results, and used in three ways: a trusted host's result is accepted without replicas (adaptive
replication), a reliable host is the first to get retries, and a host that returns bad results gets
less and less work a day until its results are valid again.

**The daily quota** starts at the app's `daily_quota`; 0 in a record means "never changed".
Source: BOINC's rule of `max_jobs_per_day` (doubled per reported success up to the quota, one less
per error or timeout, one more per valid result, one less per invalid result while above the quota;
never below 1).  By that rule, a host that reports only errors gets from a quota of 500 to 1 after
500 errors.  A host whose results are all invalid never gets to 1, because each report doubles the
quota and each verdict lowers it by one.  Our rule has the same steps, changed so that they
converge:

- an error or a timeout halves the quota, an invalid result quarters it (so that it outweighs the
  doubling by the result's report), never below 1;
- a reported success doubles it up to `daily_quota`, but from 1 only a *valid* result raises it,
  because a report does not prove that the result is valid;
- a valid result adds one, even above `daily_quota`.

So a host whose results are all bad gets one result a day after `log2(daily_quota)` results, and one
valid result starts its recovery.

This module uses no database, files or clock.
"""

from __future__ import annotations

import hmac
from dataclasses import replace
from datetime import date, timedelta
from typing import Final

from scheduler.dispatch.facts import Record

#: The average turnaround is used after more than this many results (BOINC's MIN_HOST_SAMPLES).
_MIN_TURNAROUNDS: Final = 10
#: A reliable version has this many valid results in a row (BOINC's number).
_RELIABLE_AFTER: Final = 10


def draw(key: str, *numbers: int) -> float:
    """Return a pseudo-random number in [0, 1), which depends only on the key and the numbers.

    It cannot be predicted without the key, because it is computed from an HMAC-SHA256.
    """
    message = ",".join(str(number) for number in numbers).encode()
    digest = hmac.digest(key.encode(), message, "sha256")
    return (int.from_bytes(digest[:8], "big") >> 11) / 2**53


def is_trusted(record: Record, *, trusted_after: int, draw: float) -> bool:
    """Return True if a result of this host needs no replica.

    This is the case if `consecutive_valid` is at least `trusted_after` and no spot check is drawn
    (`is_spot_check`).  `draw` is a random number in [0, 1).  Source: BOINC's adaptive replication.
    """
    return has_proved_itself(record, trusted_after=trusted_after) and not is_spot_check(
        record, draw
    )


def has_proved_itself(record: Record, *, trusted_after: int) -> bool:
    """Return True if enough results in a row were valid, so that only spot checks remain."""
    return record.consecutive_valid >= max(1, trusted_after)


def is_spot_check(record: Record, draw: float) -> bool:
    """Return True for a spot check: the number `draw` is at most 1 / `consecutive_valid`."""
    return draw * max(1, record.consecutive_valid) <= 1


def is_reliable(record: Record, *, max_turnaround: timedelta | None, daily_quota: int) -> bool:
    """Return True if this host gets retries first, because its results are valid and fast.

    Its daily quota must also be full.  If `max_turnaround` is None, the turnaround has no limit.
    Source: BOINC's rule for reliable app versions.
    """
    if record.consecutive_valid < _RELIABLE_AFTER:
        return False
    if daily_quota and _current(record.max_results_per_day, daily_quota) < daily_quota:
        return False
    if max_turnaround is None or record.turnaround_n <= _MIN_TURNAROUNDS:
        return True
    return record.turnaround_avg <= max_turnaround.total_seconds()


def daily_limit(record: Record, *, daily_quota: int, devices: int) -> int | None:
    """Return how many results a day the host may receive; None means no limit.

    The quota is per device, but a quota of 1 is for the whole host, so that a faulty host gets no
    more than one result (BOINC's rule).
    """
    if daily_quota <= 0:
        return None
    limit = _current(record.max_results_per_day, daily_quota)
    return limit if limit == 1 else limit * max(1, devices)


def quota_left(record: Record, *, daily_quota: int, devices: int, today: date) -> int | None:
    """Return how many more results the host may receive today; None means no limit."""
    limit = daily_limit(record, daily_quota=daily_quota, devices=devices)
    if limit is None:
        return None
    return max(0, limit - reset_if_new_day(record, today).results_today)


def reset_if_new_day(record: Record, today: date) -> Record:
    """Return the record, with `results_today` reset to 0 if it is the count of another day."""
    if record.quota_day == today:
        return record
    return replace(record, quota_day=today, results_today=0)


def after_success(max_per_day: int, *, daily_quota: int) -> int:
    """Return the quota after a reported success.

    The quota is doubled up to `daily_quota`.  A quota of 1 is not changed.
    """
    current = _current(max_per_day, daily_quota)
    if current <= 1 or current >= daily_quota:
        return max_per_day
    return min(2 * current, daily_quota)


def after_error(max_per_day: int, *, daily_quota: int) -> int:
    """Return the quota after a reported error, which halves it, but not below 1."""
    return _shrunk(max_per_day, daily_quota, by=2)


def after_timeout(max_per_day: int, *, daily_quota: int) -> int:
    """Return the quota after a missed deadline, which halves it, but not below 1."""
    return _shrunk(max_per_day, daily_quota, by=2)


def after_invalid(max_per_day: int, *, daily_quota: int) -> int:
    """Return the quota after an invalid result, which divides it by 4, but not below 1."""
    return _shrunk(max_per_day, daily_quota, by=4)


def after_valid(max_per_day: int, *, daily_quota: int) -> int:
    """Return the quota after a valid result, which increases it by 1."""
    return _current(max_per_day, daily_quota) + 1 if daily_quota > 0 else max_per_day


def _current(max_per_day: int, daily_quota: int) -> int:
    return max_per_day if max_per_day > 0 else daily_quota


def _shrunk(max_per_day: int, daily_quota: int, *, by: int) -> int:
    if daily_quota <= 0:
        return max_per_day
    return max(1, _current(max_per_day, daily_quota) // by)
