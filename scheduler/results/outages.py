"""Detects outages, records outages that operators add, and moves deadlines."""

from __future__ import annotations

import logging
from dataclasses import dataclass
from datetime import datetime

from django.conf import settings
from django.db import transaction

from scheduler import sql
from scheduler.models import Outage
from scheduler.people import audit
from scheduler.results.rules.deadline_moves import Span, moved_deadline, uncovered

log = logging.getLogger(__name__)

#: The name under which web processes record their heartbeat.
WEB = "web"
#: Maximum number of outages that `recent` returns.
_MAX_LISTED = 50
#: Maximum number of results that `concerned` counts.
MAX_CONCERNED = 1_000_000
DETECTED_REASON = "the web processes sent no heartbeat"


class BadOutage(ValueError):
    """An outage has impossible times, or it does not exist.  Hint: see the message."""


@dataclass(frozen=True, slots=True)
class MoveStep:
    """The number of results whose deadlines one step moved.

    `done` is True if no outage is left to apply.
    """

    results: int = 0
    done: bool = True


def beat(*, now: datetime) -> datetime | None:
    """Record a heartbeat; return the start of the outage that it ends, or None.

    A gap of more than `outage_after` between two heartbeats is recorded as an outage.  If several
    processes call this at once, only one of them records the outage.
    """
    outage = sql.fetch_one(
        "results/beat",
        {
            "name": WEB,
            "now": now,
            "outage_after": settings.PROJECT.outage_after,
            "reason": DETECTED_REASON,
        },
    )
    if outage is None:
        return None
    began_at: datetime = outage["began_at"]
    log.warning(
        "outage_detected", extra={"since": began_at, "seconds": (now - began_at).total_seconds()}
    )
    return began_at


def add(
    began_at: datetime,
    ended_at: datetime,
    *,
    reason: str,
    is_detected: bool = False,
    now: datetime,
) -> Outage:
    """Record an outage that the web processes could not detect; raises `BadOutage`.

    An audit entry names the person, unless another process has detected the outage.
    """
    check(began_at, ended_at, now=now)
    with transaction.atomic():
        outage = Outage.objects.create(began_at=began_at, ended_at=ended_at, reason=reason)
        if not is_detected:
            _record("add", outage, now=now)
    return outage


def check(began_at: datetime, ended_at: datetime, *, now: datetime) -> None:
    """Raise `BadOutage` if the end is not after the start, or is in the future."""
    if ended_at <= began_at:
        raise BadOutage(
            f"The outage ends at {ended_at}, which is not after its start {began_at}. "
            "Hint: give the start first, then the end."
        )
    if ended_at > now:
        raise BadOutage(
            f"The outage ends at {ended_at}, which is in the future. "
            "Hint: add the outage after its end."
        )


def concerned(began_at: datetime, ended_at: datetime) -> int:
    """Return the number of results in progress whose report deadline an outage would move.

    At most `MAX_CONCERNED` results are counted.
    """
    params = {"began_at": began_at, "ended_at": ended_at, "limit": MAX_CONCERNED}
    row = sql.fetch_one("results/count_concerned", params) or {}
    return int(row["results"])


def covered(began_at: datetime, ended_at: datetime) -> list[Outage]:
    """Return the recorded outages that overlap a period, of which each part counts once."""
    overlapping = Outage.objects.filter(ended_at__gt=began_at, began_at__lt=ended_at)
    return list(overlapping.order_by("began_at", "id")[:_MAX_LISTED])


def recent() -> list[Outage]:
    """Return at most 50 outages, newest first."""
    return list(Outage.objects.order_by("-began_at", "-id")[:_MAX_LISTED])


def find(outage_id: int) -> Outage | None:
    """Return an outage by its id, or None."""
    return Outage.objects.filter(pk=outage_id).first()


def remove(outage_id: int, *, now: datetime) -> Outage:
    """Delete an outage with an audit entry, and return it.

    Deadlines that the outage has moved are not moved back.  Raises `BadOutage` if it does not
    exist.
    """
    with transaction.atomic():
        outage = Outage.objects.select_for_update().filter(pk=outage_id).first()
        if outage is None:
            raise BadOutage(f"There is no outage {outage_id}. Hint: see `manage.py outage list`.")
        _record("remove", outage, now=now)
        outage.delete()
    outage.pk = outage_id
    return outage


def _record(action: str, outage: Outage, *, now: datetime) -> None:
    details = {
        "action": action,
        "began_at": outage.began_at.isoformat(),
        "ended_at": outage.ended_at.isoformat(),
        "reason": outage.reason,
    }
    subject = f"outage {outage.pk}"
    audit.record(audit.Event.ACTION_TAKEN, now=now, subject=subject, details=details)


def apply_next(*, now: datetime, limit: int) -> MoveStep:
    """Move deadlines by the earliest outage that is not applied and not locked.

    One call examines the next `limit` results by id, and locks the workunits of the results that
    may change in ascending id.  `done` is False while another process applies an outage.
    """
    with transaction.atomic():
        outage = sql.fetch_one("results/lock_outage", {})
        if outage is None:
            return MoveStep(done=not Outage.objects.filter(applied_at=None).exists())
        spans = _spans_of(outage)
        after = outage["applied_up_to"]
        span = {"began_at": outage["began_at"], "ended_at": outage["ended_at"]}
        step = (
            sql.fetch_one("results/lock_moved_results", {**span, "after": after, "limit": limit})
            or {}
        )
        results = _move(step, spans, after=after, began_at=outage["began_at"])
        sql.execute(
            "results/advance_outage", {"id": outage["id"], "up_to": step["up_to"], "now": now}
        )
    return MoveStep(results=results, done=False)


def _spans_of(outage: dict[str, datetime]) -> tuple[Span, ...]:
    """Return the parts of an outage that applied outages do not cover, in order of time."""
    others = Outage.objects.filter(
        applied_at__isnull=False,
        ended_at__gt=outage["began_at"],
        began_at__lt=outage["ended_at"],
    )
    span = Span(outage["began_at"], outage["ended_at"])
    return uncovered(span, [Span(other.began_at, other.ended_at) for other in others])


def _move(
    step: dict[str, object], spans: tuple[Span, ...], *, after: int, began_at: datetime
) -> int:
    if not step["workunit_ids"] or not spans:
        return 0
    rows = sql.fetch(
        "results/read_moved_results",
        {
            "workunit_ids": step["workunit_ids"],
            "after": after,
            "up_to": step["up_to"],
            "began_at": began_at,
        },
    )
    changed = []
    for row in rows:
        old = (row["report_deadline"], row["credit_deadline"])
        new = tuple(at and moved_deadline(at, sent_at=row["sent_at"], outages=spans) for at in old)
        if new != old:
            changed.append((row["id"], *new))
    if changed:
        sql.execute(
            "results/move_deadlines",
            {
                "ids": [row[0] for row in changed],
                "report_deadlines": [row[1] for row in changed],
                "credit_deadlines": [row[2] for row in changed],
            },
        )
    return len(changed)
