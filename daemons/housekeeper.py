"""Does what is due now and then: averages fade, scales are set, leftovers go.

Each chore has its own interval.  When it was last done is remembered in table ``heartbeat``: of
several housekeepers at once one claims it.  A chore that fails is tried again soon, and keeps none
of the others from being done; one that a crash cut short catches up the next time.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import partial

from django.conf import settings
from django.db import Error as DatabaseError
from django.db import transaction

from daemons.tally import WHOLE, Shard, Tally
from scheduler import sql, storage
from scheduler.credit.rules.adaptive_credit import VersionAverage, version_scales
from scheduler.credit.rules.credit import HALF_LIFE_SECONDS
from scheduler.dispatch.rules.size_classes import boundaries
from scheduler.files import antiques, unused_files
from scheduler.management import statistics
from scheduler.work import batches, followers, tails

log = logging.getLogger(__name__)

PACKAGE = "daemons.sql"
SOON = timedelta(seconds=15)
MINUTE = timedelta(minutes=1)
HOUR = timedelta(hours=1)
DAY = timedelta(days=1)
#: When a chore that failed is tried again.
RETRY_AFTER = timedelta(minutes=5)
#: A recent average below this is nothing, and is not touched again.
NOTHING = 1e-6
#: Reasons of refusals are kept for so long: until then they may prove a workunit unsendable.
REFUSALS_KEPT = timedelta(days=30)
HEARTBEATS_KEPT = timedelta(days=30)
#: A program repeats a request within minutes, or when its weekend is over.
IDEMPOTENCY_KEYS_KEPT = timedelta(days=7)
#: So many results must have taught a host's speed before the census counts it.
MIN_SPEED_SAMPLES = 5


@dataclass(frozen=True, slots=True)
class Chore:
    """Something to be done every so often; says of how many rows it was done, and what."""

    name: str
    every: timedelta
    did: str
    act: Callable[[datetime, int], int]

    @property
    def heartbeat(self) -> str:
        """The name under which it is remembered when it was done."""
        return f"chore {self.name}"


def run_pass(*, now: datetime, limit: int, shard: Shard = WHOLE) -> Tally:  # noqa: ARG001  claims
    """Do every chore that is due, `limit` rows per statement."""
    counts: dict[str, int] = {}
    for chore in CHORES:
        if _claim(chore, now):
            counts[chore.did] = counts.get(chore.did, 0) + _do(chore, now, limit)
    return Tally(noun="chores", counts=counts)


def _claim(chore: Chore, now: datetime) -> bool:
    due = {"name": chore.heartbeat, "now": now, "before": now - chore.every}
    return sql.fetch_one("claim_chore", due, PACKAGE) is not None


def _do(chore: Chore, now: datetime, limit: int) -> int:
    try:
        return chore.act(now, limit)
    except DatabaseError:
        _put_off(chore, now)
        raise
    except Exception:
        log.exception("chore failed", extra={"chore": chore.name})
        _put_off(chore, now)
        return 0


def _put_off(chore: Chore, now: datetime) -> None:
    soon = now - chore.every + RETRY_AFTER
    sql.execute("put_off_chore", {"name": chore.heartbeat, "seen_at": soon}, PACKAGE)


# In batches: each statement is a short transaction of its own


def _in_batches(statement: str, now: datetime, limit: int, *, older_than: timedelta) -> int:
    """Repeat a statement, which walks up the ids, until it finds less than a batch."""
    after, total = 0, 0
    while True:
        params = {
            "now": now,
            "before": now - older_than,
            "after": after,
            "limit": limit,
            "nothing": NOTHING,
            "half_life": HALF_LIFE_SECONDS,
        }
        [row] = sql.fetch(statement, params, PACKAGE)
        changed = int(row["changed"])
        total += changed
        if changed < limit:
            return total
        after = row["last"]


# Recent averages


def _fade(statement: str, now: datetime, limit: int) -> int:
    """Let averages fade that no grant brought up to date for a day (PROTOCOL 9.6)."""
    return _in_batches(statement, now, limit, older_than=DAY)


# Adaptive credit


def scale_versions(_now: datetime, _limit: int) -> int:
    """Set the scales of app versions, and what each app's results really cost (PROTOCOL 9.6)."""
    by_app: dict[int, list[VersionAverage]] = {}
    for row in sql.fetch("read_version_averages", {}, PACKAGE):
        by_app.setdefault(row.pop("app_id"), []).append(VersionAverage(**row))
    scales: dict[int, float] = {}
    costs: dict[int, float] = {}
    for app_id, versions in by_app.items():
        of_app, cost = version_scales(versions)
        scales.update(of_app)
        if cost is not None:
            costs[app_id] = cost
    if not scales:
        return 0
    with transaction.atomic():
        changed = sql.execute(
            "scale_versions", {"ids": list(scales), "scales": list(scales.values())}, PACKAGE
        )
        sql.execute("set_app_costs", {"ids": list(costs), "costs": list(costs.values())}, PACKAGE)
    return changed


# Size classes


def take_census(_now: datetime, _limit: int) -> int:
    """Divide each app's hosts by speed into as many classes as its work has sizes."""
    changed = 0
    for app in sql.fetch("read_sized_apps", {}, PACKAGE):
        known = {"app_id": app["id"], "samples": MIN_SPEED_SAMPLES}
        speeds = [row["speed"] for row in sql.fetch("read_host_speeds", known, PACKAGE)]
        bounds = boundaries(speeds, app["n_size_classes"])
        # With too few hosts to divide, what the operator or an earlier census said stays.
        if bounds and bounds != app["size_bounds"]:
            params = {"app_id": app["id"], "bounds": bounds}
            changed += sql.execute("set_size_bounds", params, PACKAGE)
    return changed


# Batches


def expire_batches(now: datetime, _limit: int) -> int:
    """Give up batches whose time is over."""
    return batches.expire(now=now)


def complete_batches(now: datetime, _limit: int) -> int:
    """Complete batches whose workunits are all finished."""
    return batches.complete(now=now)


def let_followers_go(now: datetime, _limit: int) -> int:
    """Let batches go, or fail, that follow one which is over."""
    return followers.settle(now=now)


def hurry_tails_on(now: datetime, _limit: int) -> int:
    """Hurry on what is left of batches that are nearly done."""
    return tails.accelerate(now=now)


def finish_batches(now: datetime, _limit: int) -> int:
    """Go on where an abort or a retirement was cut short."""
    return batches.finish(now=now)


# Leftovers


def delete_antiques(now: datetime, _limit: int) -> int:
    """Delete files that no row knows any more."""
    found = antiques.delete_antique_files(now)
    return found.uploads.files + found.downloads.files


def _drop(statement: str, kept_for: timedelta, now: datetime, limit: int) -> int:
    return _in_batches(statement, now, limit, older_than=kept_for)


def drop_audit_entries(now: datetime, limit: int) -> int:
    """Drop entries of the audit log that are older than `AUDIT_KEPT_DAYS`."""
    return _drop("drop_old_audit_entries", timedelta(days=settings.AUDIT_KEPT_DAYS), now, limit)


def drop_login_networks(now: datetime, limit: int) -> int:
    """Delete networks from which accounts have not logged in for long."""
    return _drop("drop_old_login_networks", settings.PROJECT.login_network_kept, now, limit)


def export_statistics(now: datetime, _limit: int) -> int:
    """Write the files that statistics sites read, in the folder of `/stats/`; changes no row."""
    statistics.export(storage.statistics_folder(), now=now)
    return 0


CHORES: tuple[Chore, ...] = (
    Chore("fade hosts", DAY, "averages faded", partial(_fade, "fade_hosts")),
    Chore("fade accounts", DAY, "averages faded", partial(_fade, "fade_accounts")),
    Chore("fade accounts by app", DAY, "averages faded", partial(_fade, "fade_account_apps")),
    Chore("fade teams", DAY, "averages faded", partial(_fade, "fade_teams")),
    Chore("expire batches", MINUTE, "batches expired", expire_batches),
    Chore("complete batches", SOON, "batches completed", complete_batches),
    Chore("batches that follow", SOON, "workunits let go", let_followers_go),
    Chore("tails of batches", MINUTE, "workunits hurried on", hurry_tails_on),
    Chore("finish batches", MINUTE, "workunits of ended batches touched", finish_batches),
    Chore("scale versions", HOUR, "versions scaled", scale_versions),
    Chore("size census", DAY, "apps divided by size", take_census),
    Chore(
        "old refusals", DAY, "refusals dropped", partial(_drop, "drop_old_refusals", REFUSALS_KEPT)
    ),
    Chore(
        "old idempotency keys",
        HOUR,
        "idempotency keys dropped",
        partial(_drop, "drop_old_idempotency_keys", IDEMPOTENCY_KEYS_KEPT),
    ),
    Chore("old audit entries", DAY, "audit entries dropped", drop_audit_entries),
    Chore(
        "usage of purged results",
        DAY,
        "usage samples dropped",
        partial(_drop, "drop_orphaned_samples", DAY),
    ),
    Chore(
        "trickles of purged results",
        DAY,
        "trickles dropped",
        partial(_drop, "drop_orphaned_trickles_up", DAY),
    ),
    Chore(
        "trickles for purged results",
        DAY,
        "trickles dropped",
        partial(_drop, "drop_orphaned_trickles_down", DAY),
    ),
    Chore("past holds", MINUTE, "holds dropped", unused_files.drop_past_holds),
    Chore("unused files", DAY, "unused files doomed", unused_files.doom_forgotten),
    Chore("antique files", DAY, "antique files deleted", delete_antiques),
    Chore(
        "empty throttle buckets",
        HOUR,
        "throttle buckets dropped",
        partial(_drop, "drop_empty_throttle_buckets", MINUTE),
    ),
    Chore("old login networks", DAY, "login networks dropped", drop_login_networks),
    Chore(
        "old heartbeats",
        DAY,
        "heartbeats dropped",
        partial(_drop, "drop_old_heartbeats", HEARTBEATS_KEPT),
    ),
    # Last, because it takes the longest.
    Chore("statistics", DAY, "rows changed by statistics", export_statistics),
)
