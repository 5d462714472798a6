"""Gives up on results: overdue, never acknowledged, refused to all who asked.

Deadlines move by the time in which volunteers could not reach us, before anything is given up; and
while the web processes are away, nobody can reply, so that nothing is.  A lease that ran out needs
nobody: its holder is fenced off by its token, and the next claim takes the row.
"""

from __future__ import annotations

import logging
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Final

from django.conf import settings
from django.db import transaction

from daemons.tally import WHOLE, Shard, Tally
from scheduler import sql
from scheduler.dispatch.rules import sendability, trust
from scheduler.lifecycle import Actor, AssimilateState, Axis, Because, ResultState, sources
from scheduler.results import outages
from scheduler.results.rules.deadline_moves import is_silent

if TYPE_CHECKING:
    from datetime import datetime

log = logging.getLogger(__name__)

PACKAGE = "daemons.sql"
#: How many results one statement looks at when deadlines are moved.
MOVED_AT_ONCE: Final = 20_000
#: Counted anew are workunits of which a host was refused a result since the last pass, or so long
#: ago at the most; a host that asks again is refused again, so that none is overlooked for ever.
ASKED_WITHIN: Final = timedelta(minutes=10)
#: What was locked in a pass is looked at for so long in the next ones.
AGAIN_FOR: Final = timedelta(minutes=1)

#: The sign of life after which we last said that nothing is given up.
_said_of: datetime | None = None
#: When this process last counted refusals, by shard.
_counted_at: dict[Shard, datetime] = {}


def run_pass(*, now: datetime, limit: int, shard: Shard = WHOLE) -> Tally:
    """Move deadlines by outages; give up on results; wake expired workunits."""
    share = {"now": now, "limit": limit, "shard_count": shard.count, "shard_index": shard.index}
    signs = sql.fetch_one("results/read_signs", {}) or {}
    if signs["is_pending"]:
        step = outages.apply_next(now=now, limit=MOVED_AT_ONCE)
        if not step.done:
            return Tally("results", step.results, {"deadlines moved": step.results}, more=True)
    late = [] if _is_away(signs["web_seen_at"], now=now) else _time_out(share, signs)
    expired = sql.execute(
        "wake_expired_workunits", {**share, "unfinished": AssimilateState.INIT.value}, PACKAGE
    )
    given_up = _give_up_unsendable(share, asked_since=_uncounted_since(shard, now=now), now=now)
    _counted_at[shard] = now
    lost = sum(row["because"] == Because.NEVER_ACKNOWLEDGED for row in late)
    return Tally(
        noun="results",
        seen=len(late) + expired + given_up,
        counts={
            "timed out": len(late) - lost,
            "never acknowledged": lost,
            "workunits expired": expired,
            "workunits unsendable": given_up,
        },
        more=len(late) >= limit or expired == limit,
    )


def _is_away(last_sign: datetime | None, *, now: datetime) -> bool:
    """Whether volunteers cannot reach us now; said once for each silence."""
    global _said_of  # noqa: PLW0603 - what this process has said
    is_away = is_silent(last_sign, now=now, outage_after=settings.PROJECT.outage_after)
    if is_away and _said_of != last_sign:
        _said_of = last_sign
        log.warning("no results time out", extra={"web_seen_at": last_sign})
    return is_away


def _time_out(share: dict[str, Any], signs: dict[str, Any]) -> list[dict[str, Any]]:
    target = ResultState.NO_REPLY
    with transaction.atomic():
        late = sql.fetch(
            "time_out_results",
            {
                **share,
                "last_outage_ended_at": signs["last_outage_ended_at"],
                "sources": list(sources(Axis.RESULT, target, Actor.TIMEOUT_CHECKER)),
                "source": int(ResultState.IN_PROGRESS),
                "target": int(target),
                "axis": Axis.RESULT.value,
                "deadline_passed": Because.DEADLINE_PASSED.value,
                "never_acknowledged": Because.NEVER_ACKNOWLEDGED.value,
                "by": Actor.TIMEOUT_CHECKER.value,
            },
            PACKAGE,
        )
        _distrust([row for row in late if row["app_version_id"] is not None])
    return late


def _distrust(late: list[dict[str, Any]]) -> None:
    """Have hosts that did not reply start anew to be trusted, with a smaller quota."""
    if not late:
        return
    rows = sql.fetch(
        "lock_late_host_app_versions",
        {
            "host_ids": [row["host_id"] for row in late],
            "app_version_ids": [row["app_version_id"] for row in late],
            "daily_quota": settings.PROJECT.daily_quota,
        },
        PACKAGE,
    )
    quotas = {row["id"]: quota_after(**row) for row in rows}
    if quotas:
        sql.execute(
            "distrust_hosts", {"ids": list(quotas), "quotas": list(quotas.values())}, PACKAGE
        )


def quota_after(*, max_results_per_day: int, results: int, daily_quota: int, **_: object) -> int:
    """The daily quota of a host once so many of its results were given up."""
    quota = max_results_per_day
    for _again in range(results):
        before, quota = quota, trust.after_timeout(quota, daily_quota=daily_quota)
        if quota == before:
            break
    return quota


def _uncounted_since(shard: Shard, *, now: datetime) -> datetime:
    """From when on refusals may not have been counted yet."""
    last = _counted_at.get(shard)
    earliest = now - ASKED_WITHIN
    return earliest if last is None or last > now else max(earliest, last - AGAIN_FOR)


def _give_up_unsendable(share: dict[str, Any], *, asked_since: datetime, now: datetime) -> int:
    """Ask that what nobody may have be given up; tell operators of what comes near it."""
    rows = sql.fetch(
        "count_refusals",
        {
            **share,
            "asked_since": asked_since,
            "seen_since": now - sendability.SEEN_WITHIN,
            "max_infeasible": settings.PROJECT.max_infeasible,
            "counts_after": settings.PROJECT.refusal_counts_after,
        },
        PACKAGE,
    )
    numbers = {
        row["id"]: (row["refused_hosts"], row["seen_hosts"], row["max_infeasible"]) for row in rows
    }
    hopeless = {
        row["id"]
        for row in rows
        if sendability.is_unsendable(row["confirmed_hosts"], *numbers[row["id"]])
    }
    hard = {
        row["id"]
        for row in rows
        if row["hard_to_send_at"] is None and sendability.is_nearly(*numbers[row["id"]])
    }
    if not hopeless | hard:
        return 0
    ids = sorted(hopeless | hard)
    marked = sql.fetch(
        "mark_unsendable",
        {"now": now, "ids": ids, "unsendables": [one in hopeless for one in ids]},
        PACKAGE,
    )
    done = {row["id"] for row in marked}
    for row in rows:
        if row["id"] in hard & done:
            _tell(row)
    return len(hopeless & done)


def _tell(row: dict[str, Any]) -> None:
    log.warning(
        "result hard to send",
        extra={
            "workunit": row["name"],
            "app": row["app"],
            "refused_hosts": row["refused_hosts"],
            "given_up_after": sendability.limit(row["seen_hosts"], row["max_infeasible"]),
            "hint": f"see `manage.py explain {row['name']}`",
        },
    )
