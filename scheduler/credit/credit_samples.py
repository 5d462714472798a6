"""Keeps daily samples of credit, and reads the credit per day of their holders.

Theory of operation.  In the first pass after midnight (UTC), the housekeeper keeps the total credit
of the project as the sample of the day that ended, and that of each active account, computer and
team whose credit changed.  The difference of two samples is the credit of the days between them.
The row of the project marks the day as sampled, so a holder without a row for that day gained
nothing.  Credit that is granted between midnight and the pass counts for the day before.

After `credit_samples_kept`, samples are dropped, except the newest one of each holder: without it,
the total of a holder that returns would count as the credit of one day.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Final

from django.conf import settings
from django.db import transaction

from scheduler import sql
from scheduler.credit.rules.daily_credit import DayCredit, DaySample, daily_credit
from scheduler.models import CreditSample

#: The maximum number of days that one reply has.
MAX_DAYS: Final = 366
_DAY: Final = timedelta(days=1)
Kind = CreditSample.Kind
#: The statements that keep samples.  That of the project is the last one, because its row marks the
#: day as sampled.
_STATEMENTS: Final = (
    "credit/sample_accounts",
    "credit/sample_hosts",
    "credit/sample_teams",
    "credit/sample_project",
)


def keep(*, now: datetime) -> int:
    """Keep the samples of the day before `now`, unless they are kept; return their number."""
    day = (now - _DAY).date()
    if CreditSample.objects.filter(kind=Kind.PROJECT, holder_id=0, day=day).exists():
        return 0
    with transaction.atomic():
        return sum(sql.execute(name, {"day": day}) for name in _STATEMENTS)


def drop_old(now: datetime, limit: int) -> int:
    """Drop samples whose retention time has passed, at most `limit` per statement."""
    dropped = sql.execute("credit/drop_orphaned_credit_samples", {})
    # The sample before the first of these days, from which its credit is counted, is kept.
    before = (now - settings.PROJECT.credit_samples_kept - _DAY).date()
    while (changed := _drop(before=before.isoformat(), limit=limit)) == limit:
        dropped += changed
    return dropped + changed


def _drop(*, before: str, limit: int) -> int:
    return sql.execute("credit/drop_credit_samples", {"before": before, "limit": limit})


def read(kind: Kind, holder_id: int, *, days: int, now: datetime) -> tuple[DayCredit, ...]:
    """Return the credit of a holder on each of the last `days` days before today, oldest first.

    Days that no sample covers are left out.  The holder of the project is 0.  One statement.
    """
    since = now.date() - days * _DAY
    rows = sql.fetch(
        "credit/read_credit_samples", {"kind": kind.value, "holder_id": holder_id, "since": since}
    )
    sampled = _samples(rows, Kind.PROJECT)
    # For the project itself, the statement reads each row twice.
    own = _samples(rows, kind)
    return daily_credit(own, sampled_days=[sample.day for sample in sampled], since=since)


def _samples(rows: Sequence[dict[str, object]], kind: Kind) -> list[DaySample]:
    """Return the samples of one kind in ascending days."""
    totals = {row["day"]: row["total_credit"] for row in rows if row["kind"] == kind}
    return [DaySample(day, total) for day, total in totals.items()]  # type: ignore[arg-type]
