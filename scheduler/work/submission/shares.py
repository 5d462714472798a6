"""Fair share: priorities from logical clocks that advance by work.

Theory of operation.  The clock of a submitter is a column of his row in ``submitter``.  A
submission locks that row, lines its workunits up from where the clock stands, and moves the clock
on, all in the transaction that inserts the workunits: what is refused costs its submitter nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any

from scheduler.models import Account, Submitter
from scheduler.sql import fetch_one
from scheduler.work.submission.rules import share_priorities
from scheduler.work.submission.rules.new_workunits import TYPICAL_FPOPS

#: How many hosts, the newest, speak for the project's speed.
_HOSTS_ASKED = 1000


class Turns:
    """Where a submitter's next workunits stand among all others', chunk after chunk.

    Inside the transaction that inserts the workunits; the submitter's row stays locked until it
    ends.  Call `keep` at the end.  Work of nobody starts at this moment.
    """

    def __init__(self, submitter: Account | None, *, now: datetime) -> None:
        """Lock the submitter's clock; one who has none yet gets it."""
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

    def take(self, operations: Sequence[float]) -> tuple[int, ...]:
        """Give workunits of so many floating-point operations the priorities of his share."""
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

    def keep(self) -> None:
        """Write down how far the submitter's work has gone."""
        if self._submitter is not None:
            Submitter.objects.filter(pk=self._submitter.pk).update(logical_start_at=self._clock)


def _lock(submitter: Account) -> dict[str, Any] | None:
    return fetch_one("work/lock_submitter", {"account_id": submitter.pk, "hosts": _HOSTS_ASKED})
