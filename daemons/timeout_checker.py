"""Times out results after their deadlines, and wakes due and expired workunits.

The daemon also marks workunits that were refused to too many hosts as unsendable, and makes task
lists of new results that wait for one (the bundler, `work.task_lists`).  Before a result
times out, deadlines are extended by the outages in which hosts could not reach the server.  While
the web processes are down, hosts cannot report, so no result times out.  Expired leases need no
daemon: the next claim takes the row, and the lease token rejects writes of the previous holder.
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
from scheduler.lifecycle import (
    Actor,
    AssimilateState,
    Axis,
    Because,
    ResultState,
    Target,
    sources,
)
from scheduler.queues import slots
from scheduler.results import outages
from scheduler.results.rules.deadline_moves import is_silent
from scheduler.work import task_lists

if TYPE_CHECKING:
    from datetime import datetime

log = logging.getLogger(__name__)

PACKAGE = "daemons.sql"
#: The time to acknowledge a result of a trusted queue on a host of the pool, if the app has no
#: `ack_timeout`.  The deadlines of such results may be infinite, so that a lost claim would keep
#: its slot for ever.  Our client in a pool acknowledges within a minute
#: (`Rules.acknowledge_seconds` of `volunteer.config`).
POOL_ACK_TIMEOUT: Final = timedelta(seconds=300)
#: The number of results that one statement examines when deadlines are moved.
MOVE_BATCH_SIZE: Final = 20_000
#: A pass counts the refusals of workunits that were refused to a host since the last pass, but not
#: earlier than this before the pass.  A missed workunit is counted after its next refusal.
REFUSED_WITHIN: Final = timedelta(minutes=10)
#: Workunits may be locked during a pass, so later passes examine them again for this period.
RECOUNT_WINDOW: Final = timedelta(minutes=1)

#: The last heartbeat of the web processes when `timeouts_suspended` was last logged.
_logged_for: datetime | None = None
#: The time at which this process last counted refusals, by shard.
_counted_at: dict[Shard, datetime] = {}


def run_pass(*, now: datetime, limit: int, shard: Shard = WHOLE) -> Tally:
    """Time out results, make expired workunits due, and mark unsendable workunits.

    Deadlines are first extended by past outages.  If this takes several passes, only the last of
    these passes does the other work.
    """
    share = {"now": now, "limit": limit, **shard.params}
    signs = sql.fetch_one("results/read_signs", {}) or {}
    if signs["is_pending"]:
        step = outages.apply_next(now=now, limit=MOVE_BATCH_SIZE)
        if not step.done:
            return Tally("results", step.results, {"deadlines moved": step.results}, more=True)
    late = [] if _is_away(signs["web_seen_at"], now=now) else _time_out(share, signs)
    expired = sql.execute(
        "wake_expired_workunits", {**share, "unfinished": AssimilateState.INIT.value}, PACKAGE
    )
    due = sql.execute("wake_due_workunits", share, PACKAGE)
    given_up = _give_up_unsendable(share, asked_since=_uncounted_since(shard, now=now), now=now)
    _counted_at[shard] = now
    makes_lists = signs["has_bundles"] and shard.index == 0
    listed = task_lists.make_lists(now=now, limit=limit) if makes_lists else 0
    unacknowledged = sum(row["because"] == Because.NEVER_ACKNOWLEDGED for row in late)
    return Tally(
        noun="results",
        seen=len(late) + expired + due + given_up,
        counts={
            "timed out": len(late) - unacknowledged,
            "never acknowledged": unacknowledged,
            "workunits expired": expired,
            "workunits due": due,
            "workunits unsendable": given_up,
            "task lists made": listed,
        },
        more=len(late) >= limit or limit in {expired, due},
    )


def _is_away(last_sign: datetime | None, *, now: datetime) -> bool:
    """Return whether the web processes are down, and log each outage once.

    `last_sign` is the time of their last heartbeat.
    """
    global _logged_for  # noqa: PLW0603 - state of this process
    is_away = is_silent(last_sign, now=now, outage_after=settings.PROJECT.outage_after)
    if is_away and _logged_for != last_sign:
        _logged_for = last_sign
        log.warning("timeouts_suspended", extra={"web_seen_at": last_sign})
    return is_away


def _time_out(share: dict[str, Any], signs: dict[str, Any]) -> list[dict[str, Any]]:
    target = ResultState.NO_REPLY
    with transaction.atomic():
        params = {
            **share,
            "last_outage_ended_at": signs["last_outage_ended_at"],
            "sources": list(sources(Axis.RESULT, target, Actor.TIMEOUT_CHECKER)),
            "source": int(ResultState.IN_PROGRESS),
            "target": int(target),
            "axis": Axis.RESULT.value,
            "deadline_passed": Because.DEADLINE_PASSED.value,
            "pool_ack_timeout": POOL_ACK_TIMEOUT,
            "never_acknowledged": Because.NEVER_ACKNOWLEDGED.value,
            "by": Actor.TIMEOUT_CHECKER.value,
        }
        late = sql.fetch("time_out_results", params, PACKAGE)
        slots.free([row["id"] for row in late if row["target_kind"] == Target.QUEUE])
        _distrust([row for row in late if row["app_version_id"] is not None])
    return late


def _distrust(late: list[dict[str, Any]]) -> None:
    """Reset the trust and reduce the daily quota of hosts whose results timed out.

    Trust and quota belong to a pair of host and app version.
    """
    if not late:
        return
    params = {
        "host_ids": [row["host_id"] for row in late],
        "app_version_ids": [row["app_version_id"] for row in late],
        "daily_quota": settings.PROJECT.daily_quota,
    }
    rows = sql.fetch("lock_late_host_app_versions", params, PACKAGE)
    quotas = {row["id"]: quota_after(**row) for row in rows}
    if quotas:
        sql.execute(
            "distrust_hosts", {"ids": list(quotas), "quotas": list(quotas.values())}, PACKAGE
        )


def quota_after(*, max_results_per_day: int, results: int, daily_quota: int, **_: object) -> int:
    """Return the new daily quota of a host after `results` results have timed out.

    `max_results_per_day` is the quota before, and `daily_quota` the project's usual quota.
    """
    quota = max_results_per_day
    for _result in range(results):
        before, quota = quota, trust.after_timeout(quota, daily_quota=daily_quota)
        if quota == before:
            break
    return quota


def _uncounted_since(shard: Shard, *, now: datetime) -> datetime:
    """Return the earliest time of a refusal that may be uncounted, at most `REFUSED_WITHIN` ago."""
    last = _counted_at.get(shard)
    earliest = now - REFUSED_WITHIN
    return earliest if last is None or last > now else max(earliest, last - RECOUNT_WINDOW)


def _give_up_unsendable(share: dict[str, Any], *, asked_since: datetime, now: datetime) -> int:
    """Mark workunits that were refused to too many hosts as unsendable; return their number.

    Examines workunits that were refused since `asked_since`.  Workunits close to the limit are
    logged.
    """
    params = {
        **share,
        "asked_since": asked_since,
        "seen_since": now - sendability.SEEN_WITHIN,
        "max_infeasible": settings.PROJECT.max_infeasible,
        "counts_after": settings.PROJECT.refusal_counts_after,
    }
    rows = sql.fetch("count_refusals", params, PACKAGE)
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
    params = {"now": now, "ids": ids, "unsendables": [id_ in hopeless for id_ in ids]}
    marked_ids = {row["id"] for row in sql.fetch("mark_unsendable", params, PACKAGE)}
    for row in rows:
        if row["id"] in hard & marked_ids:
            _log_hard_to_send(row)
    return len(hopeless & marked_ids)


def _log_hard_to_send(row: dict[str, Any]) -> None:
    log.warning(
        "result_hard_to_send",
        extra={
            "workunit": row["name"],
            "app": row["app"],
            "refused_hosts": row["refused_hosts"],
            "given_up_after": sendability.limit(row["seen_hosts"], row["max_infeasible"]),
            "hint": f"see `manage.py explain {row['name']}`",
        },
    )
