"""Assigns fair-share priorities from the submitters' logical clocks.

Theory of operation.  A submitter's clock is a column of their row in ``submitter``.  A submission
locks that row, schedules its workunits from the time of the clock, and advances the clock, all in
the transaction that inserts the workunits: a refused submission does not advance the clock.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any

from scheduler.models import Account, Submitter
from scheduler.sql import fetch_one
from scheduler.work.submission.rules import share_priorities
from scheduler.work.submission.rules.new_workunits import TYPICAL_FPOPS

#: Number of the newest hosts from which the project's speed is estimated.
_SAMPLE_HOSTS = 1000


class ShareClock:
    """Assigns priorities to workunits, chunk by chunk, from the submitter's logical clock.

    Use it in the transaction that inserts the workunits, and call `save` at the end.  The
    submitter's row stays locked until the transaction ends.  Without a submitter, every workunit
    gets the priority that corresponds to `now`.
    """

    def __init__(self, submitter: Account | None, *, now: datetime) -> None:
        self._submitter, self._now = submitter, now
        if submitter is None:
            return
        row = _lock(submitter)
        if row is None:
            Submitter.objects.bulk_create(
                [Submitter(account=submitter, created_at=now)], ignore_conflicts=True
            )
            row = _lock(submitter) or {}
        self._clock: datetime | None = row["logical_start_at"]
        self._entitlement = share_priorities.Entitlement(
            share=row["share"], fpops=max(row["fpops"], TYPICAL_FPOPS)
        )

    def assign(self, operations: Sequence[float]) -> tuple[int, ...]:
        """Return a priority for each workunit; `operations` are their floating-point operations."""
        if self._submitter is None:
            return (share_priorities.priority_at(self._now),) * len(operations)
        schedule = share_priorities.schedule(
            operations,
            logical_start_at=self._clock,
            entitlement=self._entitlement,
            now=self._now,
        )
        self._clock = schedule.logical_start_at
        return schedule.priorities

    def save(self) -> None:
        """Store the advanced clock in the submitter's row."""
        if self._submitter is not None:
            Submitter.objects.filter(pk=self._submitter.pk).update(logical_start_at=self._clock)


def _lock(submitter: Account) -> dict[str, Any] | None:
    return fetch_one("work/lock_submitter", {"account_id": submitter.pk, "hosts": _SAMPLE_HOSTS})
