"""Apps, versions, files and queues, cached in the process until they change.

The rows are the same for every RPC and change rarely.  They are read again only when the change
token (`sign`, see `recognize.sql`) differs.  Each inserted, updated or deleted row changes the
token.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from json import dumps, loads
from operator import attrgetter
from typing import Any

from django.conf import settings

from scheduler import sql
from scheduler.dispatch.facts import (
    AppFacts,
    OwnVersion,
    Record,
    Version,
    VersionFacts,
    VersionFile,
)
from scheduler.dispatch.rules import plan_classes
from scheduler.dispatch.rules.launching import COMMAND
from scheduler.dispatch.rules.plan_classes import BadPlanClass
from scheduler.hosts.machines import Machine, Usage
from scheduler.hosts.rules.rollout_shares import is_in_share
from scheduler.queues import slots
from scheduler.queues.facts import QueueFacts

#: The platform of the app version rows that represent volunteers' own programs; `version_num` is
#: the position of the device in `OWN_DEVICES`, from 1.  BOINC uses negative ids instead.  The rows
#: are marked as deprecated, so that no other code treats them as published versions.
ANONYMOUS = "anonymous"
#: The kinds of devices of own programs; "" is a CPU.  Rows store positions in this tuple, so its
#: order must not change.
OWN_DEVICES = ("", "nvidia", "amd", "intel", "apple")

_SPEED_AND_NUMBER = attrgetter("flops", "version_num")
#: Rows of `read_records` (speed, trust and quota of app versions on hosts), by host id and app
#: version id.
Records = Mapping[tuple[int, int], Mapping[str, Any]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Catalog:
    """The apps and current apps by id, the versions by platform, the files by version id.

    The versions of a platform are sorted newest first.  `queues` are the named queues by id.
    """

    apps: Mapping[int, AppFacts]
    current: Mapping[int, AppFacts]
    versions: Mapping[str, Sequence[Mapping[str, Any]]]
    files: Mapping[int, Sequence[VersionFile]]
    queues: Mapping[int, QueueFacts] = field(default_factory=dict)

    @property
    def any_version(self) -> bool:
        """Whether the project has published a current app version."""
        return any(
            row["app_id"] in self.current and not row["deprecated"] and platform != ANONYMOUS
            for platform, rows in self.versions.items()
            for row in rows
        )

    def versions_for(
        self,
        *,
        host_id: int,
        machine: Machine,
        platforms: Sequence[str],
        client_version: int,
        records: Records,
    ) -> dict[int, Version]:
        """Return the app versions for a host's platforms, by id.

        The versions of an app are sorted by the client's order of platforms, then newest first.
        """
        rows = [
            row
            for platform in dict.fromkeys(platforms)
            if platform != ANONYMOUS
            for row in self.versions.get(platform, ())
            if row["min_core_version"] <= client_version
            and (not row["max_core_version"] or client_version <= row["max_core_version"])
        ]
        rows.sort(key=lambda row: row["app_id"])  # stable: keeps the order within an app
        return {
            row["id"]: self._version(row, machine, host_id, records.get((host_id, row["id"])))
            for row in rows
        }

    def own_devices(self, own: Sequence[OwnVersion]) -> dict[tuple[int, str], OwnVersion]:
        """Return the fastest own version by (app id, device), for apps that allow own versions."""
        by_name = {app.name: app for app in self.current.values() if app.takes_own_versions}
        best: dict[tuple[int, str], OwnVersion] = {}
        for version in own:
            app = by_name.get(version.app_name)
            if app is None or version.device not in OWN_DEVICES:
                continue
            key = app.id, version.device
            best[key] = max(best.get(key, version), version, key=_SPEED_AND_NUMBER)
        return best

    @property
    def own_version_ids(self) -> dict[tuple[int, str], int]:
        """The ids of the app version rows for own versions, by (app id, device)."""
        return {
            (row["app_id"], OWN_DEVICES[row["version_num"] - 1]): row["id"]
            for row in self.versions.get(ANONYMOUS, ())
            if row["version_num"] <= len(OWN_DEVICES)
        }

    def own_versions(
        self, own: Sequence[OwnVersion], *, host_id: int, records: Records
    ) -> dict[int, Version]:
        """Return the volunteer's own versions that have an app version row, by the row's id."""
        ids = self.own_version_ids
        return {
            ids[key]: self._own_version(version, key[0], ids[key], host_id, records)
            for key, version in self.own_devices(own).items()
            if key in ids
        }

    def _own_version(
        self, own: OwnVersion, app_id: int, version_id: int, host_id: int, records: Records
    ) -> Version:
        app, record = self.apps[app_id], records.get((host_id, version_id))
        facts = VersionFacts(
            id=version_id,
            app_id=app_id,
            version_num=own.version_num,
            platform=own.platform,
            plan_class=own.plan_class,
            avg_ncpus=own.avg_ncpus,
            beta=app.beta,
            device=own.device,
            device_count=own.device_count,
            projected_flops=own.flops,
            **_measured(record),
        )
        return Version(
            facts=facts, app=app, api_version="", cmdline="", file_prefix="", is_own=True
        )

    def never_fits(self, app_id: int, machine: Machine, platforms: Sequence[str]) -> bool:
        """Return True if an app has current versions, and none of them can ever run on this host.

        Obstacles that may change do not count: an old client, a missing beta preference, an
        undefined plan class.
        """
        offered = [
            row
            for rows in self.versions.values()
            for row in rows
            if row["app_id"] == app_id and not row["deprecated"] and row["platform"] != ANONYMOUS
        ]
        return bool(offered) and all(
            row["platform"] not in platforms or _never_fits(row, machine) for row in offered
        )

    def _version(
        self,
        row: Mapping[str, Any],
        machine: Machine,
        host_id: int,
        record: Mapping[str, Any] | None,
    ) -> Version:
        app = self.apps[row["app_id"]]
        usage, unfit = _usage(row, machine)
        is_deprecated = row["deprecated"] or app.id not in self.current
        facts = VersionFacts(
            id=row["id"],
            app_id=app.id,
            version_num=row["version_num"],
            platform=row["platform"],
            plan_class=row["plan_class"],
            avg_ncpus=usage.avg_ncpus,
            deprecated=is_deprecated,
            beta=row["beta"] or app.beta,
            is_staged_out=not is_deprecated
            and not is_in_share(host_id, row["id"], row["rollout_percent"]),
            device=usage.gpu_kind,
            device_count=usage.gpu_count,
            gpu_ram=usage.gpu_ram,
            peak_flops=usage.peak_flops,
            projected_flops=usage.projected_flops,
            cmdline=usage.cmdline,
            unfit=unfit,
            pfc_n=row["pfc_n"],
            pfc_avg=row["pfc_avg"],
            **_measured(record),
        )
        return Version(
            facts=facts,
            app=app,
            api_version=row["api_version"],
            cmdline=" ".join(filter(None, (row["cmdline"], facts.cmdline))),
            file_prefix=row["file_prefix"],
            dont_throttle=row["dont_throttle"],
            needs_network=row["needs_network"],
            is_wrapper=row["is_wrapper"],
        )


_cached: tuple[str, bool, Catalog] | None = None


def current(sign: str) -> Catalog:
    """Return the catalog for a change token; it is read again if the cached token differs.

    The token is read before the catalog, so a cached catalog is never older than its token.
    """
    global _cached  # noqa: PLW0603  one cache per process; threads replace it whole
    cached, commands = _cached, settings.PROJECT.command_apps
    if cached is None or cached[:2] != (sign, commands):
        cached = _cached = (sign, commands, _read(commands=commands))
    return cached[2]


def fresh() -> Catalog:
    """Read the catalog, including uncommitted rows of this transaction, without caching it."""
    return _read(commands=settings.PROJECT.command_apps)


def records(host_ids: Sequence[int]) -> Records:
    """Return the rows of speed, trust and quota of app versions on these hosts."""
    rows = sql.fetch("dispatch/read_records", {"host_ids": list(host_ids)})
    return {(row["host_id"], row["app_version_id"]): row for row in rows}


def _read(*, commands: bool) -> Catalog:
    rows = sql.fetch("dispatch/read_apps", {})
    apps = {
        row["id"]: AppFacts(**{column: row[column] for column in AppFacts.__slots__})
        for row in rows
    }
    # Versions of unserved apps are omitted, so that their lost results are not resent either.
    unserved = {app.id for app in apps.values() if app.kind == COMMAND and not commands}
    versions: dict[str, list[Mapping[str, Any]]] = {}
    for row in sql.fetch("dispatch/read_versions", {}):
        if row["app_id"] not in unserved:
            versions.setdefault(row["platform"], []).append(row)
    files: dict[int, list[VersionFile]] = {}
    for file in sql.fetch_into(VersionFile, "dispatch/read_version_files", {}):
        files.setdefault(file.app_version_id, []).append(file)
    return Catalog(
        apps=apps,
        current={
            row["id"]: apps[row["id"]]
            for row in rows
            if not row["deprecated"] and row["id"] not in unserved
        },
        versions=versions,
        files=files,
        queues=slots.all_queues(),
    )


_NO_RECORD = Record()


def _measured(row: Mapping[str, Any] | None) -> dict[str, Any]:
    """Return the fields of `VersionFacts` that are measured per host: speed and record."""
    if row is None:
        return {"record": _NO_RECORD}
    record = Record(**{column: row[column] for column in Record.__slots__})
    return {"et_n": row["et_n"], "et_avg": row["et_avg"], "record": record}


def _usage(row: Mapping[str, Any], machine: Machine) -> tuple[Usage, str]:
    """Return the resources that a version uses, and the reason why it cannot run (else "")."""
    name = row["plan_class"]
    unplanned = Usage(avg_ncpus=row["avg_ncpus"], peak_flops=0.0, projected_flops=0.0)
    if not name:
        return unplanned, ""
    if row["spec"] is None:
        return unplanned, f"The plan class {name} is not defined by this project"
    plan = _plan_class(name, dumps(row["spec"], sort_keys=True))
    if plan is None:
        return unplanned, f"The plan class {name} is not defined properly by this project"
    usage = plan_classes.usage(plan, machine)
    return (unplanned, usage) if isinstance(usage, str) else (usage, "")


def _never_fits(row: Mapping[str, Any], machine: Machine) -> bool:
    if not row["plan_class"] or row["spec"] is None:
        return False
    plan = _plan_class(row["plan_class"], dumps(row["spec"], sort_keys=True))
    return plan is not None and plan_classes.never_fits(plan, machine)


@lru_cache(maxsize=256)
def _plan_class(name: str, spec: str) -> plan_classes.PlanClass | None:
    """Return the plan class of a spec, or None if the spec is not valid."""
    try:
        return plan_classes.parse(name, loads(spec))
    except BadPlanClass:
        return None
