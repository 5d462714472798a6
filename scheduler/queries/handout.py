"""Reads for dispatch: app versions for a host, candidates, their files."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from scheduler import sql
from scheduler.facts.handout import Given, InputFile, Version, VersionFile
from scheduler.facts.hosts import AppFacts, Candidate, HeldResult, HostFacts, VersionFacts
from scheduler.models import AppVersion

#: The cursor before every candidate: (priority, result id).
BEFORE_ALL = (2**31 - 1, 0)


def versions_for(
    *, host_id: int, platforms: Sequence[str], client_version: int
) -> dict[int, Version]:
    """Every app version that runs on one of the platforms, by id; the best of an app first."""
    rows = sql.fetch(
        "read_versions",
        {"platforms": list(platforms), "client_version": client_version, "host_id": host_id},
    )
    return {row["id"]: _version(row) for row in rows}


@dataclass(frozen=True, slots=True, kw_only=True)
class Page:
    """One page of unsent results: what may be sent, best first, and how to turn it.

    `cursors` holds, by app, where the page ended; apps in `full` may have more behind it.
    """

    candidates: tuple[Candidate, ...]
    cursors: Mapping[int, tuple[int, int]]
    full: frozenset[int]


def candidates(
    host: HostFacts,
    apps: Iterable[AppFacts],
    *,
    after: Mapping[int, tuple[int, int]],
    page: int,
    now: datetime,
) -> Page:
    """The next `page` unsent results of each app; `after` holds the cursors to begin behind."""
    lanes = list(apps)
    rows = sql.fetch(
        "read_candidates",
        {
            "app_ids": [app.id for app in lanes],
            "one_result_per": [app.one_result_per for app in lanes],
            "retry_after": [app.retry_same_account_after for app in lanes],
            "after_priority": [after.get(app.id, BEFORE_ALL)[0] for app in lanes],
            "after_id": [after.get(app.id, BEFORE_ALL)[1] for app in lanes],
            "host_id": host.id,
            "account_id": host.account_id,
            "page": page,
            "now": now,
        },
    )
    rows.sort(key=lambda row: (-row["priority"], row["result_id"]))
    return Page(
        candidates=tuple(_candidate(row) for row in rows if row["sendable"]),
        cursors={row["app_id"]: (row["priority"], row["result_id"]) for row in rows},
        full=frozenset(row["app_id"] for row in rows if row["position"] >= page),
    )


def _candidate(row: Mapping[str, Any]) -> Candidate:
    return Candidate(**{name: row[name] for name in Candidate.__slots__})


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


def _version(row: Mapping[str, Any]) -> Version:
    app = AppFacts(
        id=row["app_id"],
        name=row["app_name"],
        one_result_per=row["one_result_per"],
        retry_same_account_after=row["retry_same_account_after"],
        hr_type=row["hr_type"],
        homogeneous_app_version=row["homogeneous_app_version"],
        max_in_progress_per_cpu=row["max_in_progress_per_cpu"],
    )
    facts = VersionFacts(
        id=row["id"],
        app_id=row["app_id"],
        version_num=row["version_num"],
        platform=row["platform"],
        plan_class=row["plan_class"],
        avg_ncpus=row["avg_ncpus"],
        deprecated=row["deprecated"],
        et_n=row["et_n"],
        et_avg=row["et_avg"],
    )
    return Version(
        facts=facts,
        app=app,
        user_friendly_name=row["user_friendly_name"],
        non_cpu_intensive=row["non_cpu_intensive"],
        fraction_done_exact=row["fraction_done_exact"],
        api_version=row["api_version"],
        cmdline=row["cmdline"],
        file_prefix=row["file_prefix"],
    )
