"""Fair share: priorities from logical clocks that advance by work [operations].

Theory of operation.  The clock of a submitter is a column of the account.  A submission locks the
account, lines its workunits up from where the clock stands, and moves the clock on, all in the
transaction that inserts the workunits: what is refused costs its submitter nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from scheduler.facts.new_work import NewWorkunit
from scheduler.models import Account
from scheduler.policy import shares
from scheduler.policy.submission import TYPICAL_FPOPS
from scheduler.sql import fetch_one

#: How many hosts, the newest, speak for the project's speed.
_HOSTS_ASKED = 1000


def take(
    workunits: Sequence[NewWorkunit], *, submitter: Account | None, now: datetime
) -> tuple[int, ...]:
    """Give each workunit the priority of its submitter's fair share, and advance his clock.

    Inside the transaction that inserts the workunits; the account stays locked until it ends.
    Work of nobody starts at this moment.
    """
    if submitter is None:
        return (shares.priority_at(now),) * len(workunits)
    params = {"account_id": submitter.pk, "hosts": _HOSTS_ASKED}
    row = fetch_one("lock_submitter", params)
    if row is None:
        return (shares.priority_at(now),) * len(workunits)
    entitlement = shares.Entitlement(
        share=row["submit_share"], fpops=max(row["fpops"], TYPICAL_FPOPS)
    )
    schedule = shares.schedule(
        [workunit.operations for workunit in workunits],
        logical_start_at=row["logical_start_at"],
        entitlement=entitlement,
        now=now,
    )
    Account.objects.filter(pk=submitter.pk).update(logical_start_at=schedule.logical_start_at)
    return schedule.priorities
