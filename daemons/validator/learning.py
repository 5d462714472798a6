"""Remembers how app versions did on hosts, and what their results usually claim."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING

from django.conf import settings

from daemons.validator.worth import effort_of
from scheduler import sql
from scheduler.credit.rules import adaptive_credit as adaptive
from scheduler.credit.rules.credit import OF_VERSION, running_average
from scheduler.dispatch.rules import trust

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from daemons.validator.comparing import Asking, Judged, Success

PACKAGE = "daemons.sql"


@dataclass(frozen=True, slots=True)
class Lesson:
    """One judged result of a known host, and the workunit that it belongs to."""

    success: Success
    workunit: Asking
    is_valid: bool
    #: Operations claimed per operation estimated, if that teaches anything.
    cost: float | None

    @property
    def pair(self) -> tuple[int, int]:
        """The ids of host and app version."""
        return self.success.host_id or 0, self.success.app_version_id or 0

    @property
    def daily_quota(self) -> int:
        """How many results a day the app gives at first."""
        own = self.workunit.daily_quota
        return settings.PROJECT.daily_quota if own is None else own


@dataclass(slots=True)
class Record:
    """How one app version did on one host (PROTOCOL 9.4)."""

    n_valid: int = 0
    consecutive_valid: int = 0
    max_results_per_day: int = 0
    et_n: float = 0.0
    et_avg: float = 0.0
    pfc_n: float = 0.0
    pfc_avg: float = 0.0
    turnaround_n: float = 0.0
    turnaround_avg: float = 0.0

    def learn(self, lesson: Lesson) -> None:
        """Take one judged result into account."""
        if not lesson.is_valid:
            self.consecutive_valid = 0
            self.max_results_per_day = trust.after_invalid(
                self.max_results_per_day, daily_quota=lesson.daily_quota
            )
            return
        self.n_valid += 1
        if earns_trust(lesson.workunit):
            self.consecutive_valid += 1
        self.max_results_per_day = trust.after_valid(
            self.max_results_per_day, daily_quota=lesson.daily_quota
        )
        self._learn_times(lesson)

    def _learn_times(self, lesson: Lesson) -> None:
        success = lesson.success
        self.turnaround_avg, self.turnaround_n = running_average(
            self.turnaround_avg, self.turnaround_n, max(0.0, success.turnaround)
        )
        # A run too short for the client's clock would teach that the host is infinitely fast.
        if success.elapsed_time > 0 and not success.runtime_outlier:
            self.et_avg, self.et_n = running_average(
                self.et_avg, self.et_n, success.elapsed_time / lesson.workunit.rsc_fpops_est
            )
        if lesson.cost is not None:
            self.pfc_avg, self.pfc_n = running_average(self.pfc_avg, self.pfc_n, lesson.cost)


def earns_trust(workunit: Asking) -> bool:
    """Whether agreeing proves anything: not where nobody else computed the same (PROTOCOL 9.4)."""
    return not (workunit.target_nresults == 1 and workunit.app_target_nresults > 1)


def lessons_of(judged: Sequence[Judged]) -> list[Lesson]:
    """What there is to learn, oldest result first; without results that no host is known for."""
    found = [
        Lesson(success, one.workunit, is_valid, _cost(success, one.workunit))
        for one in judged
        for successes, is_valid in ((one.valid, True), (one.refused, False))
        for success in successes
        if success.host_id is not None
    ]
    return sorted(found, key=lambda lesson: lesson.success.id)


def _cost(success: Success, workunit: Asking) -> float | None:
    return adaptive.sample(
        effort_of(success), workunit.rsc_fpops_est, is_outlier=success.runtime_outlier
    )


def learn(lessons: Iterable[Lesson]) -> None:
    """Bring the records of the locked hosts up to date; two statements."""
    on_versions = [one for one in lessons if one.success.app_version_id is not None]
    pairs = sorted({lesson.pair for lesson in on_versions})
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
    for lesson in on_versions:
        records[lesson.pair].learn(lesson)
    kept = [records[pair] for pair in pairs]
    sql.execute(
        "learn_host_app_versions",
        {
            **params,
            "consecutive_valids": sql.array(record.consecutive_valid for record in kept),
            "n_valids": sql.array(record.n_valid for record in kept),
            "max_results_per_days": sql.array(record.max_results_per_day for record in kept),
            "et_ns": sql.array(record.et_n for record in kept),
            "et_avgs": sql.array(record.et_avg for record in kept),
            "pfc_ns": sql.array(record.pfc_n for record in kept),
            "pfc_avgs": sql.array(record.pfc_avg for record in kept),
            "turnaround_ns": sql.array(record.turnaround_n for record in kept),
            "turnaround_avgs": sql.array(record.turnaround_avg for record in kept),
        },
        PACKAGE,
    )


def version_averages(lessons: Iterable[Lesson]) -> dict[int, tuple[float, float]]:
    """Lock the app versions that valid results teach about; their new (samples, average)."""
    costs: defaultdict[int, list[float]] = defaultdict(list)
    for lesson in lessons:
        if lesson.is_valid and lesson.success.app_version_id and lesson.cost is not None:
            costs[lesson.success.app_version_id].append(lesson.cost)
    if not costs:
        return {}
    learned = {}
    for row in sql.fetch("lock_versions", {"ids": sorted(costs)}, PACKAGE):
        average, samples = row["pfc_avg"], row["pfc_n"]
        for cost in costs[row["id"]]:
            average, samples = running_average(average, samples, cost, OF_VERSION)
        learned[row["id"]] = (samples, average)
    return learned
