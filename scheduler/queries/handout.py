"""Reads for dispatch: app versions for a host, candidates, their files."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import lru_cache
from json import dumps, loads
from typing import Any

from scheduler import sql
from scheduler.facts.handout import Given, InputFile, Version, VersionFile
from scheduler.facts.hosts import AppFacts, Candidate, HeldResult, HostFacts, Record, VersionFacts
from scheduler.facts.machines import Machine, Usage
from scheduler.models import AppVersion
from scheduler.policy import plan_classes
from scheduler.policy.plan_classes import BadPlanClass

#: The cursor before every candidate: (priority, workunit id).
BEFORE_ALL = (2**31 - 1, 0)


@dataclass(frozen=True, slots=True, kw_only=True)
class Offer:
    """What a project has for a host's platforms: every app by id, every version by id.

    The versions of an app come best first: by the client's order of platforms, then the newest.
    """

    apps: Mapping[int, AppFacts]
    versions: dict[int, Version]


def offer_for(
    *, host_id: int, machine: Machine, platforms: Sequence[str], client_version: int
) -> Offer:
    """Read every app, and each app version that runs on one of the platforms."""
    rows = sql.fetch(
        "read_versions",
        {"platforms": list(platforms), "client_version": client_version, "host_id": host_id},
    )
    apps: dict[int, AppFacts] = {}
    versions: dict[int, Version] = {}
    for row in rows:
        if row["app_id"] not in apps:
            apps[row["app_id"]] = _app(row)
        if row["id"] is not None:
            versions[row["id"]] = _version(row, apps[row["app_id"]], machine)
    current = {row["app_id"] for row in rows if not row["app_deprecated"]}
    return Offer(
        apps={app_id: app for app_id, app in apps.items() if app_id in current}, versions=versions
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Lane:
    """A row of unsent results, best first: an app's, for everybody or for one alone.

    `after` is the cursor behind which to read, `page` how many rows.
    """

    app: AppFacts
    target_kind: int = 0
    target_id: int = 0
    after: tuple[int, int] = BEFORE_ALL
    page: int = 0

    @property
    def key(self) -> tuple[int, int]:
        """By what the lane is known to one host."""
        return self.app.id, self.target_kind


@dataclass(frozen=True, slots=True, kw_only=True)
class Page:
    """One page of unsent results: what may be sent, best first, and how to turn it.

    `cursors` holds, by lane, where the page ended; lanes in `full` may have more behind it.
    """

    candidates: tuple[Candidate, ...]
    cursors: Mapping[tuple[int, int], tuple[int, int]]
    full: frozenset[tuple[int, int]]


def candidates(
    host: HostFacts, lanes: Sequence[Lane], *, near: Sequence[int] = (), now: datetime
) -> Page:
    """The next page of unsent results of each lane; `near`: workunits whose files the host has."""
    rows = sql.fetch(
        "read_candidates",
        {
            "lanes": list(range(len(lanes))),
            "app_ids": [lane.app.id for lane in lanes],
            "target_kinds": [lane.target_kind for lane in lanes],
            "target_ids": [lane.target_id for lane in lanes],
            "one_result_per": [lane.app.one_result_per for lane in lanes],
            "retry_after": [lane.app.retry_same_account_after for lane in lanes],
            "after_priority": [lane.after[0] for lane in lanes],
            "after_id": [lane.after[1] for lane in lanes],
            "pages": [lane.page for lane in lanes],
            "near_workunit_ids": list(near),
            "host_id": host.id,
            "account_id": host.account_id,
            "now": now,
        },
    )
    rows.sort(key=lambda row: (-row["priority"], row["workunit_id"], row["result_id"]))
    along = [row for row in rows if row["lane"] >= 0]
    return Page(
        candidates=tuple(_candidate(row) for row in rows if row["sendable"]),
        cursors={lanes[row["lane"]].key: (row["priority"], row["workunit_id"]) for row in along},
        full=frozenset(
            lanes[row["lane"]].key for row in along if row["position"] >= lanes[row["lane"]].page
        ),
    )


def _candidate(row: Mapping[str, Any]) -> Candidate:
    return Candidate._make(map(row.__getitem__, Candidate._fields))


def workunits_near(names: Collection[str], app_ids: Sequence[int], *, most: int) -> list[int]:
    """Up to `most` workunits of these apps with unsent results that use one of these files."""
    rows = sql.fetch(
        "read_workunits_near", {"names": list(names), "app_ids": list(app_ids), "most": most}
    )
    return [row["workunit_id"] for row in rows]


def held_results(*, host_id: int, names: Sequence[str]) -> list[HeldResult]:
    """The results of these names, and all that the host should hold."""
    return sql.fetch_into(
        HeldResult, "read_held_results", {"names": list(names), "host_id": host_id}
    )


def input_files(sent: Sequence[Given]) -> list[InputFile]:
    """The input files of the workunits sent."""
    workunit_ids = sorted({given.workunit_id for given in sent})
    return sql.fetch_into(InputFile, "read_input_files", {"workunit_ids": workunit_ids})


def version_files(sent: Sequence[Given]) -> list[VersionFile]:
    """The signed files of the app versions sent."""
    version_ids = sorted({given.app_version_id for given in sent})
    return sql.fetch_into(VersionFile, "read_version_files", {"app_version_ids": version_ids})


def any_app_version() -> bool:
    """Whether the project has published anything at all."""
    return AppVersion.objects.filter(deprecated=False, app__deprecated=False).exists()


def platforms() -> list[tuple[str, str, str]]:
    """(platform, its friendly name, plan class) of every current app version."""
    return list(
        AppVersion.objects.filter(deprecated=False, app__deprecated=False)
        .order_by("platform__name", "plan_class")
        .values_list("platform__name", "platform__user_friendly_name", "plan_class")
        .distinct()
    )


_APP_COLUMNS = tuple(name for name in AppFacts.__slots__ if name not in {"id", "name", "beta"})


def _app(row: Mapping[str, Any]) -> AppFacts:
    return AppFacts(
        id=row["app_id"],
        name=row["app_name"],
        beta=row["app_beta"],
        **{column: row[column] for column in _APP_COLUMNS},
    )


def _version(row: Mapping[str, Any], app: AppFacts, machine: Machine) -> Version:
    used, unfit = _usage(row, machine)
    facts = VersionFacts(
        id=row["id"],
        app_id=app.id,
        version_num=row["version_num"],
        platform=row["platform"],
        plan_class=row["plan_class"],
        avg_ncpus=used.avg_ncpus if used else row["avg_ncpus"],
        deprecated=row["deprecated"] or row["app_deprecated"],
        beta=row["beta"] or app.beta,
        device=used.gpu_kind if used else "",
        device_count=used.gpu_count if used else 0.0,
        gpu_ram=used.gpu_ram if used else 0.0,
        peak_flops=used.peak_flops if used else 0.0,
        projected_flops=used.projected_flops if used else 0.0,
        cmdline=used.cmdline if used else "",
        unfit=unfit,
        et_n=row["et_n"] or 0.0,
        et_avg=row["et_avg"] or 0.0,
        pfc_n=row["pfc_n"],
        pfc_avg=row["pfc_avg"],
        record=_record(row),
    )
    return Version(
        facts=facts,
        app=app,
        api_version=row["api_version"],
        cmdline=" ".join(filter(None, (row["cmdline"], facts.cmdline))),
        file_prefix=row["file_prefix"],
    )


NO_RECORD = Record()


def _record(row: Mapping[str, Any]) -> Record:
    if row["consecutive_valid"] is None:
        return NO_RECORD
    return Record(
        consecutive_valid=row["consecutive_valid"],
        max_results_per_day=row["max_results_per_day"],
        results_today=row["results_today"],
        quota_day=row["quota_day"],
        turnaround_n=row["turnaround_n"],
        turnaround_avg=row["turnaround_avg"],
    )


def _usage(row: Mapping[str, Any], machine: Machine) -> tuple[Usage | None, str]:
    """What a version uses of the machine by its plan class, or the sentence why it cannot."""
    name = row["plan_class"]
    if not name:
        return None, ""
    if row["spec"] is None:
        return None, f"The plan class {name} is not defined by this project"
    try:
        plan = _plan_class(name, dumps(row["spec"], sort_keys=True))
    except BadPlanClass:
        return None, f"The plan class {name} is not defined properly by this project"
    found = plan_classes.usage(plan, machine)
    return (None, found) if isinstance(found, str) else (found, "")


@lru_cache(maxsize=256)
def _plan_class(name: str, spec: str) -> plan_classes.PlanClass:
    return plan_classes.parse(name, loads(spec))
