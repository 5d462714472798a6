"""Takes a host's reports: read, see what arrived, lock, judge, settle at once."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any

from scheduler import sql, storage, wakeups
from scheduler.facts.hosts import Lesson, Report
from scheduler.facts.work import output_name
from scheduler.lifecycle import Outcome
from scheduler.policy import reports as policy
from scheduler.policy import trust


class StaleReport(RuntimeError):
    """A result changed under its workunit's lock: somebody moves results without that lock.

    Hint: find the writer in the ledger; the RPC was rolled back, and the client reports again.
    """


@dataclass(frozen=True, slots=True, kw_only=True)
class Arrival:
    """One output file of a reported result that the server holds completely."""

    result_id: int
    position: int
    name: str
    digest: storage.Digest


@dataclass(frozen=True, slots=True, kw_only=True)
class Reported:
    """Reports with what the server knows of their results; unknown names stay without an id."""

    reports: tuple[Report, ...] = ()
    ids: Mapping[str, int]
    workunit_ids: tuple[int, ...] = ()
    arrivals: tuple[Arrival, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Settlement:
    """What became of the reports: every name to acknowledge, how many were taken, what they teach.

    `lessons` are those of the host that reports, by app version.
    """

    acknowledge: tuple[str, ...] = ()
    taken: int = 0
    lessons: Mapping[int, Lesson] = field(default_factory=dict)


def look_up(reports: Sequence[Report], *, most: int) -> Reported:
    """Find the reported results and which of their outputs arrived; no transaction is open.

    The first report of a name counts (PROTOCOL 2.5).  Those beyond `most` are left out: not
    acknowledged, they come again.
    """
    first = {report.name: report for report in reversed(reports)}
    taken = tuple(list(first.values())[::-1][:most]) if len(first) > most else tuple(first.values())
    rows = sql.fetch("read_reported", {"names": [report.name for report in taken]}) if taken else []
    expected = {
        output_name(row["name"], row["id"], position): (row["id"], position)
        for row in rows
        for position in range(len(row["outputs"]))
    }
    found = storage.finished_uploads(expected)
    return Reported(
        reports=taken,
        ids={row["name"]: row["id"] for row in rows},
        workunit_ids=tuple(sorted({row["workunit_id"] for row in rows})),
        arrivals=tuple(
            Arrival(
                result_id=expected[name][0], position=expected[name][1], name=name, digest=digest
            )
            for name, digest in found.items()
        ),
    )


def lock(reported: Reported, *, detached_host_id: int | None = None) -> tuple[int, ...]:
    """Lock the reported results' workunits, and those a detached host held, in one sweep.

    These are the first row locks of the transaction; returns the workunits' ids.
    """
    wanted = set(reported.workunit_ids)
    if detached_host_id is not None:
        held = sql.fetch("read_workunits_of_host", {"host_id": detached_host_id})
        wanted |= {row["workunit_id"] for row in held}
    if not wanted:
        return ()
    rows = sql.fetch("lock_workunits", {"workunit_ids": sorted(wanted)})
    return tuple(row["id"] for row in rows)


def record(
    reported: Reported,
    *,
    account_id: int,
    host_id: int,
    ncpus: int,
    daily_quota: int,
    now: datetime,
) -> Settlement:
    """Settle the reports of an account; all are acknowledged, those that count are taken.

    The workunits are locked (`lock`).  A report counts if its result is in progress or was given
    up, and belongs to the account; any other is acknowledged and ignored (trap 10).
    """
    names = tuple(report.name for report in reported.reports)
    if not reported.ids:
        return Settlement(acknowledge=names)
    rows = {
        row["id"]: row
        for row in sql.fetch("lock_results", {"result_ids": sorted(reported.ids.values())})
    }
    accepted: dict[int, tuple[Report, float, float]] = {}
    for report in reported.reports:
        row = rows.get(reported.ids.get(report.name, 0))
        if row is None or not policy.is_taken(
            state=row["state"], owner=row["account_id"], reporter=account_id
        ):
            continue
        times = policy.sane_times(report, ncpus=ncpus, sent_at=row["sent_at"], now=now)
        accepted[row["id"]] = (report, *times)
    if accepted:
        _settle(accepted, reported.arrivals, now=now)
    own = [rows[result_id] for result_id in accepted if rows[result_id]["host_id"] == host_id]
    lessons = _lessons(own, {i: report for i, (report, *_) in accepted.items()}, daily_quota)
    return Settlement(acknowledge=names, taken=len(accepted), lessons=lessons)


def _lessons(
    rows: Iterable[Mapping[str, Any]], reports: Mapping[int, Report], daily_quota: int
) -> dict[int, Lesson]:
    """How errors and successes change a host's quotas (PROTOCOL 10.5)."""
    lessons: dict[int, Lesson] = {}
    for row in rows:
        version_id = row["app_version_id"]
        if version_id is None:
            continue
        before = row["max_results_per_day"]
        lesson = lessons.get(version_id) or Lesson(
            app_version_id=version_id, quota_before=before, quota_after=before
        )
        quota = daily_quota if row["daily_quota"] is None else row["daily_quota"]
        report = reports[row["id"]]
        if policy.outcome(report) is Outcome.SUCCESS:
            after = trust.after_success(lesson.quota_after, daily_quota=quota)
            lesson = replace(lesson, quota_after=after)
        elif policy.is_the_hosts_fault(report):
            after = trust.after_error(lesson.quota_after, daily_quota=quota)
            lesson = replace(lesson, quota_after=after, had_errors=True)
        lessons[version_id] = lesson
    return lessons


def _settle(
    accepted: Mapping[int, tuple[Report, float, float]],
    arrivals: Iterable[Arrival],
    *,
    now: datetime,
) -> None:
    rows = [(result_id, *accepted[result_id]) for result_id in sorted(accepted)]
    files = [arrival for arrival in arrivals if arrival.result_id in accepted]
    settled = sql.fetch(
        "settle_reports",
        {
            "now": now,
            "result_ids": [row[0] for row in rows],
            "outcomes": [int(policy.outcome(row[1])) for row in rows],
            "client_states": [row[1].client_state for row in rows],
            "exit_statuses": [row[1].exit_status for row in rows],
            "cpu_times": [row[2] for row in rows],
            "elapsed_times": [row[3] for row in rows],
            "peak_working_sets": [row[1].peak_working_set_bytes for row in rows],
            "peak_swaps": [row[1].peak_swap_bytes for row in rows],
            "peak_disks": [row[1].peak_disk_bytes for row in rows],
            # PostgreSQL's text takes every character but NUL.
            "stderrs": [row[1].stderr.replace("\x00", "") for row in rows],
            "file_result_ids": [arrival.result_id for arrival in files],
            "file_positions": [arrival.position for arrival in files],
            "file_names": [arrival.name for arrival in files],
            "file_sizes": [arrival.digest.nbytes for arrival in files],
            "file_md5s": [arrival.digest.md5 for arrival in files],
            "file_sha256s": [arrival.digest.sha256 for arrival in files],
        },
    )
    if missed := set(accepted) - {row["result_id"] for row in settled}:
        raise StaleReport(
            f"Results {sorted(missed)[:10]} changed although their workunits were locked."
        )
    wakeups.after_commit("transitioner")
