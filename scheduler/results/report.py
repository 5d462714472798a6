"""Looks up reported results, locks their workunits, and records the reports."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any, NamedTuple

from scheduler import sql, storage, wakeups
from scheduler.dispatch.catalog import Records
from scheduler.dispatch.facts import AppFacts, HeldResult
from scheduler.dispatch.rules import trust
from scheduler.hosts.facts import RecordUpdate, Report
from scheduler.lifecycle import Outcome, ServerState, Target
from scheduler.queues import slots
from scheduler.results.facts import output_name
from scheduler.results.rules.reports import (
    RUNNER,
    is_taken,
    is_the_hosts_fault,
    outcome,
    recorded_status,
    sane_times,
)
from scheduler.results.rules.runner_reports import RunnerReport, read_report


class StaleReport(RuntimeError):
    """A result changed although its workunit was locked.

    The RPC was rolled back, and the client will report again.  Hint: the ledger shows the writer,
    which must lock the workunit before it changes the result.
    """


class Arrival(NamedTuple):
    """One completely uploaded output file of a reported result."""

    result_id: int
    position: int
    name: str
    digest: storage.Digest


class ReportedResult(NamedTuple):
    """A reported result with its uploaded outputs.

    `complete` is True if all required outputs are uploaded.
    """

    id: int
    workunit_id: int
    account_id: int | None
    arrivals: Sequence[Arrival]
    complete: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Reported:
    """The reports of one host, and the results to which they refer.

    `results` maps names to results.  Reported names without a result are omitted.
    """

    reports: tuple[Report, ...]
    results: Mapping[str, ReportedResult]


@dataclass(frozen=True, slots=True, kw_only=True)
class Settlement:
    """The outcome of a host's reports.

    `acknowledge` has the names of all results to acknowledge.  `accepted_states` has the new
    state of each result with an accepted report, by id.  `record_updates` has the changes of the
    reporting host's records, by app version.
    """

    acknowledge: tuple[str, ...] = ()
    accepted_states: Mapping[int, int] = field(default_factory=dict)
    record_updates: Mapping[int, RecordUpdate] = field(default_factory=dict)


class _Accepted(NamedTuple):
    """An accepted report, with the times in seconds that `sane_times` returned."""

    report: Report
    outcome: Outcome
    cpu_time: float
    elapsed_time: float
    runner: RunnerReport | None = None

    @property
    def state(self) -> int:
        """The new state of the result (`lifecycle.ResultState`)."""
        return ServerState.OVER * 10 + self.outcome


@dataclass(frozen=True, slots=True, kw_only=True)
class Reporter:
    """A reporting host and its reports; `daily_quota` is the project's default quota."""

    reported: Reported
    account_id: int
    host_id: int
    ncpus: int
    daily_quota: int


def look_up(reports: Sequence[Sequence[Report]], *, most: int) -> list[Reported]:
    """Look up each host's reported results and their uploaded outputs.

    Returns one `Reported` for each host, in order.  If a host reports a result several times, the
    first report is used (PROTOCOL 2.5).  A host's reports after the first `most` are not
    acknowledged, so the client sends them again.  Call this outside any transaction, because it
    reads files.
    """
    first_reports = [_first_of_each(host_reports)[:most] for host_reports in reports]
    names = {report.name for host_reports in first_reports for report in host_reports}
    rows = sql.fetch("results/read_reported", {"names": list(names)}) if names else []
    expected = {
        output_name(row["name"], row["id"], position): (row["id"], position)
        for row in rows
        for position in range(len(row["outputs"]))
    }
    arrived: dict[int, list[Arrival]] = {}
    for name, digest in storage.finished_uploads(expected).items():
        result_id, position = expected[name]
        arrived.setdefault(result_id, []).append(Arrival(result_id, position, name, digest))
    by_name = {row["name"]: _reported(row, arrived.get(row["id"], ())) for row in rows}
    return [
        Reported(
            reports=host_reports,
            results={r.name: by_name[r.name] for r in host_reports if r.name in by_name},
        )
        for host_reports in first_reports
    ]


def _first_of_each(reports: Sequence[Report]) -> tuple[Report, ...]:
    first: dict[str, Report] = {}
    for report in reports:
        first.setdefault(report.name, report)
    return tuple(first.values())


def _reported(row: Mapping[str, Any], arrived: Sequence[Arrival]) -> ReportedResult:
    positions = {arrival.position for arrival in arrived}
    complete = all(
        position in positions or output.get("optional")
        for position, output in enumerate(row["outputs"])
    )
    return ReportedResult(row["id"], row["workunit_id"], row["account_id"], arrived, complete)


def without_other_accounts(reported: Reported, *, account_id: int) -> Reported:
    """Return the reports without other accounts' results, so that `lock` skips their workunits.

    A report of another account's result is not accepted (`results.rules.reports.is_taken`).
    """
    results = reported.results.items()
    return replace(reported, results={n: r for n, r in results if r.account_id == account_id})


def lock(reported: Iterable[Reported], *, detached_host_ids: Sequence[int] = ()) -> tuple[int, ...]:
    """Lock the workunits of reported results, and of results on detached hosts, in one statement.

    These must be the first row locks of the transaction.  Returns the ids of the workunits.
    """
    wanted = {r.workunit_id for host_reports in reported for r in host_reports.results.values()}
    if detached_host_ids:
        rows_of_hosts = sql.fetch(
            "results/read_workunits_of_hosts", {"host_ids": list(detached_host_ids)}
        )
        wanted |= {row["workunit_id"] for row in rows_of_hosts}
    if not wanted:
        return ()
    rows = sql.fetch("results/lock_workunits", {"workunit_ids": sorted(wanted)})
    return tuple(row["id"] for row in rows)


def record(
    reporters: Sequence[Reporter],
    *,
    results: Iterable[HeldResult],
    records: Records,
    apps: Mapping[int, AppFacts],
    now: datetime,
) -> list[Settlement]:
    """Write the accepted reports of each host; return one `Settlement` for each host, in order.

    The caller must call `lock` and then read `results`.  A report is accepted if its result is in
    progress or timed out, and belongs to the host's account.  All other reports are acknowledged
    and ignored (trap 10), as is a second report of the same result.  Raises `StaleReport`.
    """
    results_by_id = {result.id: result for result in results}
    accepted: dict[int, _Accepted] = {}
    settlements = []
    for reporter in reporters:
        accepted_reports = _judge(reporter, results_by_id, apps, settled=accepted.keys(), now=now)
        accepted |= accepted_reports
        own_reports = [
            (results_by_id[result_id], accepted_report)
            for result_id, accepted_report in accepted_reports.items()
            if results_by_id[result_id].host_id == reporter.host_id
        ]
        settlements.append(
            Settlement(
                acknowledge=tuple(report.name for report in reporter.reported.reports),
                accepted_states={
                    result_id: accepted_report.state
                    for result_id, accepted_report in accepted_reports.items()
                },
                record_updates=_record_updates(own_reports, records, apps, reporter.daily_quota),
            )
        )
    if accepted:
        arrivals = [
            arrival
            for reporter in reporters
            for reported in reporter.reported.results.values()
            for arrival in reported.arrivals
        ]
        _settle(accepted, arrivals, now=now)
    return settlements


def as_settled(
    results: Iterable[HeldResult], settlements: Iterable[Settlement], *, listed: Collection[str]
) -> list[HeldResult]:
    """Return the results in their new states, without the results that a client dropped.

    `listed` has the names of the results that the clients still list.  A result is omitted if its
    report was accepted and its name is not in `listed`.
    """
    states = {
        result_id: state
        for settlement in settlements
        for result_id, state in settlement.accepted_states.items()
    }
    return [
        result._replace(state=states[result.id]) if result.id in states else result
        for result in results
        if result.id not in states or result.name in listed
    ]


def _judge(
    reporter: Reporter,
    results_by_id: Mapping[int, HeldResult],
    apps: Mapping[int, AppFacts],
    *,
    settled: Collection[int],
    now: datetime,
) -> dict[int, _Accepted]:
    """Return the accepted reports of one host by result id.

    A report is not accepted if `settled` contains the id of its result.
    """
    accepted: dict[int, _Accepted] = {}
    for report in reporter.reported.reports:
        reported = reporter.reported.results.get(report.name)
        result = None if reported is None else results_by_id.get(reported.id)
        if (
            reported is None
            or result is None
            or result.id in settled
            or not is_taken(
                state=result.state, owner=result.account_id, reporter=reporter.account_id
            )
        ):
            continue
        times = sane_times(report, ncpus=reporter.ncpus, sent_at=result.sent_at, now=now)
        app = apps[result.app_id]
        runner = read_report(report.stderr) if app.success_rule == RUNNER else None
        ended_as = outcome(
            report,
            rule=app.success_rule,
            launched=app.is_launched,
            complete=reported.complete,
            app_status=None if runner is None else runner.status,
        )
        accepted[result.id] = _Accepted(report, ended_as, *times, runner)
    return accepted


def _record_updates(
    own_reports: Iterable[tuple[HeldResult, _Accepted]],
    records: Records,
    apps: Mapping[int, AppFacts],
    daily_quota: int,
) -> dict[int, RecordUpdate]:
    """Return the changes of a host's quotas by app version, after its reports (PROTOCOL 10.5)."""
    before: dict[int, int] = {}
    after: dict[int, int] = {}
    reported: Counter[int] = Counter()
    errors: Counter[int] = Counter()
    for result, accepted in own_reports:
        version_id = result.app_version_id
        if version_id is None or result.host_id is None:
            continue
        if version_id not in before:
            record = records.get((result.host_id, version_id))
            before[version_id] = after[version_id] = record["max_results_per_day"] if record else 0
        app_quota = apps[result.app_id].daily_quota
        quota = daily_quota if app_quota is None else app_quota
        if accepted.outcome is Outcome.SUCCESS:
            after[version_id] = trust.after_success(after[version_id], daily_quota=quota)
            reported[version_id] += 1
        elif is_the_hosts_fault(accepted.report):
            after[version_id] = trust.after_error(after[version_id], daily_quota=quota)
            reported[version_id] += 1
            errors[version_id] += 1
    return {
        version_id: RecordUpdate(
            app_version_id=version_id,
            reported=reported[version_id],
            errors=errors[version_id],
            quota_before=quota,
            quota_after=after[version_id],
        )
        for version_id, quota in before.items()
    }


def _settle(
    accepted: Mapping[int, _Accepted], arrivals: Iterable[Arrival], *, now: datetime
) -> None:
    rows = [accepted[result_id] for result_id in sorted(accepted)]
    # Two hosts may report the same result; each output must be inserted once.
    files = {
        (arrival.result_id, arrival.position): arrival
        for arrival in arrivals
        if arrival.result_id in accepted
    }
    settled = sql.fetch(
        "results/settle_reports",
        {
            "now": now,
            "result_ids": sorted(accepted),
            "outcomes": [int(row.outcome) for row in rows],
            "client_states": [row.report.client_state for row in rows],
            "exit_statuses": [recorded_status(row.report) for row in rows],
            "cpu_times": [row.cpu_time for row in rows],
            "elapsed_times": [row.elapsed_time for row in rows],
            "peak_working_sets": [row.report.peak_working_set_bytes for row in rows],
            "peak_swaps": [row.report.peak_swap_bytes for row in rows],
            "peak_disks": [row.report.peak_disk_bytes for row in rows],
            # PostgreSQL's text type accepts every character but NUL.
            "stderrs": [
                (row.runner.stderr if row.runner else row.report.stderr).replace("\x00", "")
                for row in rows
            ],
            "app_statuses": [row.runner.status if row.runner else None for row in rows],
            "stdouts": [row.runner.stdout if row.runner else None for row in rows],
            "file_result_ids": [arrival.result_id for arrival in files.values()],
            "file_positions": [arrival.position for arrival in files.values()],
            "file_names": [arrival.name for arrival in files.values()],
            "file_sizes": [arrival.digest.nbytes for arrival in files.values()],
            "file_md5s": [arrival.digest.md5 for arrival in files.values()],
            "file_sha256s": [arrival.digest.sha256 for arrival in files.values()],
        },
    )
    if missed := set(accepted) - {row["result_id"] for row in settled}:
        raise StaleReport(
            f"Results {sorted(missed)[:10]} changed although their workunits were locked."
        )
    slots.free([row["result_id"] for row in settled if row["target_kind"] == Target.QUEUE])
    wakeups.after_commit("transitioner")
