"""Runs periodic chores, such as the decay of averages and the purge of old rows.

Each chore has its own interval.  The table ``heartbeat`` records when each chore last ran.  If
several housekeepers run, exactly one of them claims a due chore.  A failed chore is retried after
five minutes and does not prevent other chores.  The next run of a chore completes a run that a
crash interrupted.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from django.conf import settings
from django.db import Error as DatabaseError
from django.db import transaction

from daemons.tally import WHOLE, Shard, Tally
from scheduler import sql, storage
from scheduler.apps import rollouts
from scheduler.credit import (
    app_credits,
    badge_awards,
    credit_checks,
    credit_samples,
    hardware_statistics,
)
from scheduler.credit.rules.adaptive_credit import VersionAverage, version_scales
from scheduler.credit.rules.credit import HALF_LIFE_SECONDS
from scheduler.dispatch import host_classes
from scheduler.dispatch.rules.size_classes import boundaries
from scheduler.files import antiques, unused_files
from scheduler.health import alert_reports, outcome_counts, samples, server_load
from scheduler.health.checks import check_runs, statement_checks
from scheduler.management import statistics
from scheduler.messages import letters, outbox, smtp
from scheduler.messages.rules.trickle_texts import BUILT_IN_VARIETIES
from scheduler.models import CheckRun
from scheduler.queues import balance, named_queues, slots
from scheduler.work import batches, followers

log = logging.getLogger(__name__)

PACKAGE = "daemons.sql"
EACH_PASS = timedelta(0)
SOON = timedelta(seconds=15)
MINUTE = timedelta(minutes=1)
TEN_MINUTES = timedelta(minutes=10)
HOUR = timedelta(hours=1)
DAY = timedelta(days=1)
#: How often the housekeeper looks whether a day ended whose samples of credit are missing.
SAMPLE_CHECKS = timedelta(minutes=5)
#: The delay before a failed chore is retried.
RETRY_AFTER = timedelta(minutes=5)
#: A recent average below this is set to 0 and not updated again.
NEGLIGIBLE = 1e-6
#: The retention time of refusals, which are counted to find unsendable workunits.
REFUSALS_KEPT = timedelta(days=30)
HEARTBEATS_KEPT = timedelta(days=30)
#: How long the statistics export lists deleted accounts and hosts, so that sites delete them.
STATISTICS_DELETIONS_KEPT = timedelta(days=60)
#: The retention time of idempotency keys: programs retry within minutes, or after a weekend.
IDEMPOTENCY_KEYS_KEPT = timedelta(days=7)
#: The retention time of handled trickles that are usage samples.  A client repeats a trickle until
#: it is acknowledged; a repetition after this time is a usage sample at the time of another, which
#: is not stored.
USAGE_TRICKLES_KEPT = timedelta(days=7)
#: The retention times of delivered and of parked messages.
SENT_MESSAGES_KEPT = timedelta(days=7)
PARKED_MESSAGES_KEPT = timedelta(days=30)
#: The census of size classes uses a host's measured speed after this number of results.
MIN_SPEED_SAMPLES = 5
#: The functions that carry out requested checks.
CHECKERS = {
    CheckRun.Kind.FSCK.value: statement_checks.CHECKER,
    CheckRun.Kind.CREDIT.value: credit_checks.CHECKER,
}


#: A function that does a chore.  The arguments are the current time and the maximum number of rows
#: per statement; it returns the number of changed rows.
Act = Callable[[datetime, int], int]


@dataclass(frozen=True, slots=True)
class Chore:
    """A periodic chore.

    `every` is the interval of its runs.  `act` returns the number of changed rows, which the
    `Tally` counts under the key `did`.  If `repeats` is set and rows were changed, the next pass
    follows at once.
    """

    name: str
    every: timedelta
    did: str
    act: Act
    repeats: bool = False

    @property
    def heartbeat(self) -> str:
        """Return the name of the chore's row in table ``heartbeat``."""
        return f"chore {self.name}"


def run_pass(*, now: datetime, limit: int, shard: Shard = WHOLE) -> Tally:  # noqa: ARG001  claims
    """Run every chore that is due, with at most `limit` rows per statement."""
    counts: dict[str, int] = {}
    more = False
    for chore in CHORES:
        claimed = _claim(chore, now)
        if claimed is not None:
            did = _do(chore, now, limit, failures=claimed["failed_passes"])
            counts[chore.did] = counts.get(chore.did, 0) + did
            more |= chore.repeats and did > 0
    return Tally(noun="chores", counts=counts, more=more)


def _claim(chore: Chore, now: datetime) -> dict[str, Any] | None:
    due = {"name": chore.heartbeat, "now": now, "before": now - chore.every}
    return sql.fetch_one("claim_chore", due, PACKAGE)


def _do(chore: Chore, now: datetime, limit: int, *, failures: int) -> int:
    try:
        did = chore.act(now, limit)
        if failures:
            sql.execute("end_failures_of_chore", {"name": chore.heartbeat}, PACKAGE)
    except DatabaseError:
        _put_off(chore, now)
        raise
    except storage.DeletionsHeld:
        _put_off(chore, now)
        return 0
    except Exception:
        log.exception("chore_failed", extra={"chore": chore.name})
        _put_off(chore, now)
        return 0
    return did


def _put_off(chore: Chore, now: datetime) -> None:
    soon = now - chore.every + RETRY_AFTER
    sql.execute("put_off_chore", {"name": chore.heartbeat, "seen_at": soon}, PACKAGE)


# Chores in batches: each statement is a short, separate transaction


def _rows(statement: str, older_than: timedelta, **identifiers: str) -> Act:
    """Return a function that repeats a statement in ascending ids until a batch is not full.

    The statement processes rows that are older than `older_than`.  `identifiers` are inserted into
    the text of the statement.
    """

    def act(now: datetime, limit: int) -> int:
        after, total = 0, 0
        while True:
            params = {
                "now": now,
                "before": now - older_than,
                "after": after,
                "limit": limit,
                "nothing": NEGLIGIBLE,
                "half_life": HALF_LIFE_SECONDS,
                "varieties": sorted(BUILT_IN_VARIETIES),
            }
            [row] = sql.fetch(statement, params, PACKAGE, **identifiers)
            changed = int(row["changed"])
            total += changed
            if changed < limit:
                return total
            after = row["last"]

    return act


def _fading(table: str, average: str) -> Act:
    """Return a function that decays averages that gained no credit for a day (PROTOCOL 9.6)."""
    return _rows("decay_averages", DAY, table=table, average=average)


def _old(table: str, time: str, kept_for: timedelta) -> Act:
    """Return a function that drops the rows whose column `time` is older than `kept_for`."""
    return _rows("drop_old_rows", kept_for, table=table, time=time)


def _at_once(act: Callable[..., int]) -> Act:
    """Return a function that calls `act` without the limit of rows."""
    return lambda now, _limit: act(now=now)


# Messages


def deliver_messages(now: datetime, _limit: int) -> int:
    """Deliver due messages of the outbox by mail and webhook; return their number."""
    config = settings.MAIL
    channels: dict[int, outbox.Channel] = {}
    if settings.ALERTS.webhook:
        channels[outbox.Kind.WEBHOOK] = alert_reports.post
    if config is None:
        return outbox.deliver_due(channels, now=now)
    sender, name = settings.MAIL_FROM, settings.PROJECT.name
    with smtp.Session(config, sender=sender, sender_name=name) as session:
        channels[outbox.Kind.MAIL] = session.send
        return outbox.deliver_due(channels, now=now)


# Adaptive credit


def scale_versions(_now: datetime, _limit: int) -> int:
    """Set the scales of app versions and the measured cost of each app (PROTOCOL 9.6)."""
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
    """Set the speed bounds of each app's size classes from its hosts' measured speeds."""
    changed = 0
    for app in sql.fetch("read_sized_apps", {}, PACKAGE):
        filters = {"app_id": app["id"], "samples": MIN_SPEED_SAMPLES}
        speeds = [row["speed"] for row in sql.fetch("read_host_speeds", filters, PACKAGE)]
        bounds = boundaries(speeds, app["n_size_classes"])
        # With too few hosts, the bounds set by the operator or an earlier census are kept.
        if bounds and bounds != app["size_bounds"]:
            params = {"app_id": app["id"], "bounds": bounds}
            changed += sql.execute("set_size_bounds", params, PACKAGE)
    return changed


# Old files and rows


def delete_antiques(now: datetime, _limit: int) -> int:
    """Delete old files that have no row in the database; return their number."""
    deleted = antiques.delete_antique_files(now)
    return deleted.uploads.files + deleted.downloads.files


def drop_audit_entries(now: datetime, limit: int) -> int:
    """Drop entries of the audit log that are older than `AUDIT_KEPT_DAYS`."""
    retention = timedelta(days=settings.AUDIT_KEPT_DAYS)
    return _old("audit_entry", "at", retention)(now, limit)


def drop_old_messages(now: datetime, limit: int) -> int:
    """Drop delivered and parked messages after their retention times.

    Also deletes the stored alerts, if reports of alerts were switched off.
    """
    alert_reports.forget_unreported()
    sent = _old("outbox_message", "sent_at", SENT_MESSAGES_KEPT)(now, limit)
    return sent + _old("outbox_message", "parked_at", PARKED_MESSAGES_KEPT)(now, limit)


def drop_login_networks(now: datetime, limit: int) -> int:
    """Drop networks from which an account has not logged in for `login_network_kept`."""
    retention = settings.PROJECT.login_network_kept
    return _old("login_network", "last_login_at", retention)(now, limit)


def drop_usage_samples(now: datetime, limit: int) -> int:
    """Drop usage samples that are older than `usage_kept`."""
    return _old("usage_sample", "at", settings.PROJECT.usage_kept)(now, limit)


def drop_outcomes(now: datetime, limit: int) -> int:
    """Drop counts of results that are older than the periods of error rates."""
    return sum(
        _old(table, "hour", outcome_counts.COUNTS_KEPT)(now, limit)
        for table in ("version_outcomes", "host_outcomes")
    )


def keep_sample(now: datetime, _limit: int) -> int:
    """Keep a sample of the project's figures; return 0, so that no pass is logged for it alone."""
    samples.take(now=now)
    return 0


def keep_credit_samples(now: datetime, _limit: int) -> int:
    """Keep the samples of credit of the day that ended; return 0."""
    credit_samples.keep(now=now)
    return 0


def store_server_load(now: datetime, _limit: int) -> int:
    """Store the figures of `server_status.php?xml=1`; return 0."""
    server_load.store(now=now)
    return 0


def count_host_classes(now: datetime, _limit: int) -> int:
    """Store the numbers of active hosts by class of computers; return 0."""
    host_classes.store(now=now)
    return 0


def advance_check(now: datetime, _limit: int) -> int:
    """Carry out one step of a requested check; return 1, or 0 if no run is open."""
    return check_runs.advance(CHECKERS, now=now)


def drop_check_runs(_now: datetime, _limit: int) -> int:
    """Drop all but the newest ended runs of each check."""
    return check_runs.drop_old()


def export_statistics(now: datetime, _limit: int) -> int:
    """Write the files for statistics sites to the folder of `/stats/`; return 0."""
    statistics.export(storage.statistics_folder(), now=now)
    return 0


CHORES: tuple[Chore, ...] = (
    # The first chore, because people wait for their mail.
    Chore("deliver messages", EACH_PASS, "messages delivered", deliver_messages),
    Chore("letters", SOON, "copies of letters stored", _at_once(letters.send_due)),
    Chore("report alerts", MINUTE, "alerts reported", _at_once(alert_reports.report)),
    Chore("old messages", DAY, "messages dropped", drop_old_messages),
    Chore("fade hosts", DAY, "averages faded", _fading("host", "expavg_credit")),
    Chore("fade accounts", DAY, "averages faded", _fading("account", "expavg_credit")),
    Chore("fade accounts by app", DAY, "averages faded", _fading("account_app_credit", "expavg")),
    Chore("fade teams", DAY, "averages faded", _fading("team", "expavg_credit")),
    Chore("credit by app", TEN_MINUTES, "entries counted by app", _at_once(app_credits.count)),
    Chore("fade hosts by app", DAY, "averages faded", _fading("host_app_credit", "expavg")),
    Chore("fade teams by app", DAY, "averages faded", _fading("team_app_credit", "expavg")),
    Chore("expire batches", MINUTE, "batches expired", _at_once(batches.expire)),
    Chore("complete batches", SOON, "batches completed", _at_once(batches.complete)),
    Chore("batches that follow", SOON, "workunits released", _at_once(followers.settle)),
    Chore("tails of batches", MINUTE, "workunits accelerated", _at_once(batches.accelerate_tails)),
    Chore("finish batches", MINUTE, "workunits of ended batches touched", _at_once(batches.finish)),
    Chore("queue schedules", SOON, "queue limits changed", _at_once(named_queues.apply_schedules)),
    Chore("queue balance", SOON, "queue limits balanced", _at_once(balance.apply)),
    Chore("queue slots", MINUTE, "queues balanced", _at_once(slots.balance_all)),
    Chore("sample of figures", MINUTE, "samples kept", keep_sample),
    Chore("server load", MINUTE, "server loads stored", store_server_load),
    Chore("classes of hosts", HOUR, "classes of hosts counted", count_host_classes),
    Chore("old samples", HOUR, "samples dropped", samples.drop_old),
    Chore("outcomes of versions", TEN_MINUTES, "outcomes counted", outcome_counts.count),
    # After the counts, so that a version is rolled back without a further delay.
    Chore("roll-backs", TEN_MINUTES, "versions rolled back", _at_once(rollouts.roll_back)),
    Chore("old outcomes", DAY, "outcomes dropped", drop_outcomes),
    Chore("credit per day", SAMPLE_CHECKS, "samples of credit kept", keep_credit_samples),
    Chore("old credit per day", DAY, "samples of credit dropped", credit_samples.drop_old),
    Chore("scale versions", HOUR, "versions scaled", scale_versions),
    Chore("size census", DAY, "apps divided by size", take_census),
    Chore("old refusals", DAY, "refusals dropped", _old("refusal", "at", REFUSALS_KEPT)),
    Chore(
        "old idempotency keys",
        HOUR,
        "idempotency keys dropped",
        _old("idempotency_key", "created_at", IDEMPOTENCY_KEYS_KEPT),
    ),
    Chore("old audit entries", DAY, "audit entries dropped", drop_audit_entries),
    Chore("old usage", DAY, "usage samples dropped", drop_usage_samples),
    Chore(
        "trickles of usage",
        DAY,
        "trickles dropped",
        _rows("drop_usage_trickles", USAGE_TRICKLES_KEPT),
    ),
    Chore(
        "usage of purged results", DAY, "usage samples dropped", _rows("drop_orphaned_samples", DAY)
    ),
    Chore(
        "trickles of purged results",
        DAY,
        "trickles dropped",
        _rows("drop_orphaned_trickles_up", DAY),
    ),
    Chore(
        "trickles for purged results",
        DAY,
        "trickles dropped",
        _rows("drop_orphaned_trickles_down", DAY),
    ),
    Chore(
        "task lists of purged workunits",
        DAY,
        "task lists dropped",
        _rows("drop_empty_bundles", DAY),
    ),
    Chore("past holds", MINUTE, "holds dropped", unused_files.drop_past_holds),
    Chore(
        "unused files",
        DAY,
        "unused files marked for deletion",
        unused_files.mark_forgotten_for_deletion,
    ),
    Chore("antique files", DAY, "antique files deleted", delete_antiques),
    Chore(
        "empty throttle buckets",
        HOUR,
        "throttle buckets dropped",
        _old("throttle_bucket", "empty_at", MINUTE),
    ),
    Chore(
        "expired changes of addresses",
        HOUR,
        "changes of addresses dropped",
        _old("email_change", "expire_at", timedelta(0)),
    ),
    Chore("old login networks", DAY, "login networks dropped", drop_login_networks),
    Chore(
        "old heartbeats", DAY, "heartbeats dropped", _old("heartbeat", "seen_at", HEARTBEATS_KEPT)
    ),
    Chore(
        "old statistics deletions",
        DAY,
        "statistics deletions dropped",
        _old("statistics_deletion", "deleted_at", STATISTICS_DELETIONS_KEPT),
    ),
    Chore("old checks", DAY, "runs of checks dropped", drop_check_runs),
    Chore("badges", DAY, "badges awarded or withdrawn", _at_once(badge_awards.assign_all)),
    Chore("hardware", DAY, "hardware counted", _at_once(hardware_statistics.count)),
    # After the chores for which people wait, because a step can take a minute.
    Chore("checks", EACH_PASS, "steps of checks done", advance_check, repeats=True),
    # The last chore, because it takes the longest.
    Chore("statistics", DAY, "rows changed by statistics", export_statistics),
)
