"""Updates the statistics of app versions on hosts, and the averages of versions."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, NamedTuple

from django.conf import settings

from daemons.validator.worth import effort_of
from scheduler import sql
from scheduler.credit.rules import adaptive_credit as adaptive
from scheduler.credit.rules.credit import OF_VERSION, running_average
from scheduler.dispatch.rules import trust

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from daemons.validator.comparing import Judged, PendingWorkunit, Success

PACKAGE = "daemons.sql"


class JudgedResult(NamedTuple):
    """A judged result of a known host, with its workunit."""

    success: Success
    workunit: PendingWorkunit
    is_valid: bool
    #: Claimed operations per estimated operation; None if averages must not include this result.
    cost: float | None

    @property
    def pair(self) -> tuple[int, int]:
        """Return the ids of the host and of the app version; an id is 0 if it is unknown."""
        return self.success.host_id or 0, self.success.app_version_id or 0

    @property
    def daily_quota(self) -> int:
        """Return the app's initial number of results per day."""
        own = self.workunit.daily_quota
        return settings.PROJECT.daily_quota if own is None else own


@dataclass(slots=True)
class Record:
    """The statistics of one app version on one host (PROTOCOL 9.4)."""

    n_valid: int = 0
    consecutive_valid: int = 0
    max_results_per_day: int = 0
    et_n: float = 0.0
    et_avg: float = 0.0
    pfc_n: float = 0.0
    pfc_avg: float = 0.0
    turnaround_n: float = 0.0
    turnaround_avg: float = 0.0
    uncounted_invalid: int = 0

    def update(self, result: JudgedResult) -> None:
        """Add one judged result."""
        if not result.is_valid:
            self.uncounted_invalid += 1
            self.consecutive_valid = 0
            self.max_results_per_day = trust.after_invalid(
                self.max_results_per_day, daily_quota=result.daily_quota
            )
            return
        self.n_valid += 1
        if earns_trust(result.workunit):
            self.consecutive_valid += 1
        self.max_results_per_day = trust.after_valid(
            self.max_results_per_day, daily_quota=result.daily_quota
        )
        self._update_times(result)

    def _update_times(self, result: JudgedResult) -> None:
        success = result.success
        self.turnaround_avg, self.turnaround_n = running_average(
            self.turnaround_avg, self.turnaround_n, max(0.0, success.turnaround)
        )
        # A very short run may have an elapsed time of 0, which would mean infinite speed.
        if success.elapsed_time > 0 and not success.runtime_outlier:
            self.et_avg, self.et_n = running_average(
                self.et_avg, self.et_n, success.elapsed_time / result.workunit.rsc_fpops_est
            )
        if result.cost is not None:
            self.pfc_avg, self.pfc_n = running_average(self.pfc_avg, self.pfc_n, result.cost)


def earns_trust(workunit: PendingWorkunit) -> bool:
    """Return whether valid results of this workunit increase trust (PROTOCOL 9.4).

    The result of a single replica, of an app that normally has several, was not compared with
    another result and does not increase trust.
    """
    return not (workunit.target_nresults == 1 and workunit.app_target_nresults > 1)


def judged_results(judged: Sequence[Judged]) -> list[JudgedResult]:
    """Return the judged results of known hosts, in ascending ids."""
    results = [
        JudgedResult(success, entry.workunit, is_valid, _cost(success, entry.workunit))
        for entry in judged
        for successes, is_valid in ((entry.valid, True), (entry.refused, False))
        for success in successes
        if success.host_id is not None
    ]
    return sorted(results, key=lambda result: result.success.id)


def _cost(success: Success, workunit: PendingWorkunit) -> float | None:
    return adaptive.sample(
        effort_of(success), workunit.rsc_fpops_est, is_outlier=success.runtime_outlier
    )


def update_records(results: Iterable[JudgedResult]) -> None:
    """Update the statistics of app versions on hosts; the caller has locked the hosts."""
    on_versions = [result for result in results if result.success.app_version_id is not None]
    pairs = sorted({result.pair for result in on_versions})
    if not pairs:
        return
    params = {
        "host_ids": sql.array(host for host, _ in pairs),
        "app_version_ids": sql.array(version for _, version in pairs),
    }
    records = {pair: Record() for pair in pairs}
    for row in sql.fetch("lock_host_app_versions", params, PACKAGE):
        pair = (row.pop("host_id"), row.pop("app_version_id"))
        records[pair] = Record(**row)
    for result in on_versions:
        records[result.pair].update(result)
    rows = [records[pair] for pair in pairs]
    params = {
        **params,
        **{
            f"{column}s": sql.array(getattr(record, column) for record in rows)
            for column in (field.name for field in fields(Record))
        },
    }
    sql.execute("learn_host_app_versions", params, PACKAGE)


def version_averages(results: Iterable[JudgedResult]) -> dict[int, tuple[float, float]]:
    """Lock the app versions of valid results; return their new averages.

    The dict maps app version ids to (number of samples, average).
    """
    costs: defaultdict[int, list[float]] = defaultdict(list)
    for result in results:
        if result.is_valid and result.success.app_version_id and result.cost is not None:
            costs[result.success.app_version_id].append(result.cost)
    if not costs:
        return {}
    averages = {}
    for row in sql.fetch("lock_versions", {"ids": sorted(costs)}, PACKAGE):
        average, samples = row["pfc_avg"], row["pfc_n"]
        for cost in costs[row["id"]]:
            average, samples = running_average(average, samples, cost, OF_VERSION)
        averages[row["id"]] = (samples, average)
    return averages
