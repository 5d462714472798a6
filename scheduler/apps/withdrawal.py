"""Changes whether app versions are deprecated or in beta, and what depends on it."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Final

from django.db import transaction
from django.db.models import QuerySet

from scheduler import sql
from scheduler.apps.published import sent_versions
from scheduler.dispatch.catalog import ANONYMOUS
from scheduler.health import outcome_counts
from scheduler.models import AppVersion
from scheduler.people import audit
from scheduler.people.audit import Event

#: The maximum numbers of unsent results, and of results in progress, that `effects` reads.
MAX_READ: Final = 10_000
_DAY: Final = timedelta(days=1)


@dataclass(frozen=True, slots=True)
class Effects:
    """The work and hosts that depend on versions that would be withdrawn or offered again.

    `stranded` workunits have unsent results, and no other version of their apps is sent.  `bound`
    workunits have unsent results and are bound to one of the versions or to its number: these
    versions compute them also while they are withdrawn.  Both are counted among the first
    `MAX_READ` unsent results of the versions' apps; `are_all_read` is true if there are no more.
    `results` in progress of these versions, and their `hosts`, are counted among the first
    `MAX_READ` results in progress of all versions, of which `held_read` were read.  `reported`
    results of these versions were counted in the last day.
    """

    stranded: int
    bound: int
    are_all_read: bool
    results: int
    hosts: int
    held_read: int
    reported: int


def change(
    version: AppVersion,
    *,
    deprecated: bool | None = None,
    beta: bool | None = None,
    now: datetime,
) -> AppVersion:
    """Set `deprecated` and `beta`, if they are not None.

    Results in progress of a deprecated version continue.
    """
    fields = {"deprecated": deprecated, "beta": beta}
    changes = {name: value for name, value in fields.items() if value is not None}
    for name, value in changes.items():
        setattr(version, name, value)
    with transaction.atomic():
        version.save(update_fields=list(changes))
        audit.record(
            Event.VERSION_CHANGED, now=now, subject=f"app version {version}", details=changes
        )
    return version


def change_all(
    version_ids: Collection[int], *, deprecated: bool, now: datetime
) -> list[AppVersion]:
    """Withdraw versions or offer them again, with an audit entry each; return the changed ones.

    Programs of volunteers cannot be withdrawn, and are left out.
    """
    with transaction.atomic():
        chosen = changeable(version_ids, deprecated=deprecated).order_by("pk")
        versions = list(chosen.select_for_update(of=("self",), no_key=True))
        ids = [version.pk for version in versions]
        AppVersion.objects.filter(pk__in=ids).update(deprecated=deprecated)
        audit.record_all(
            Event.VERSION_CHANGED,
            now=now,
            subjects=[f"app version {version}" for version in versions],
            details={"deprecated": deprecated},
        )
    return versions


def changeable(version_ids: Collection[int], *, deprecated: bool) -> QuerySet[AppVersion]:
    """Return the versions, with apps and platforms, that `change_all` would change."""
    versions = AppVersion.objects.filter(pk__in=version_ids, deprecated=not deprecated)
    return versions.exclude(platform__name=ANONYMOUS).select_related("app", "platform")


def effects(versions: Sequence[AppVersion], *, now: datetime) -> Effects:
    """Return what depends on versions, by four statements."""
    ids = {version.pk for version in versions}
    app_ids = sorted({version.app_id for version in versions})
    limit = MAX_READ // max(1, len(app_ids))
    params = {"app_ids": app_ids, "limit": limit}
    groups = sql.fetch("apps/count_unsent_by_version", params)
    served_ids = {version.app_id for version in sent_versions(app_ids) if version.pk not in ids}
    read_results: dict[int, int] = dict.fromkeys(app_ids, 0)
    for group in groups:
        read_results[group["app_id"]] += group["results"]
    held_results = sql.fetch_one(
        "apps/count_held_by_version", {"version_ids": sorted(ids), "limit": MAX_READ}
    )
    rates = outcome_counts.of_versions(_DAY, now=now)
    return Effects(
        stranded=sum(
            group["workunits"]
            for group in groups
            if not _is_bound(group) and group["app_id"] not in served_ids
        ),
        bound=sum(group["workunits"] for group in groups if _needs(group, versions)),
        are_all_read=all(number < limit for number in read_results.values()),
        results=held_results["results"] if held_results else 0,
        hosts=held_results["hosts"] if held_results else 0,
        held_read=held_results["examined"] if held_results else 0,
        reported=sum(rate.reported for id_, rate in rates.items() if id_ in ids),
    )


def successors(versions: Sequence[AppVersion]) -> dict[int, AppVersion | None]:
    """Return the version that hosts get instead of each version, by the id of the latter.

    This is the newest other version for the same platform and plan class that is sent; None
    without such a version.
    """
    ids = {version.pk for version in versions}
    others = sent_versions({version.app_id for version in versions}).exclude(pk__in=ids)
    return {
        version.pk: max(
            (each for each in others if _kind(each) == _kind(version)),
            key=lambda each: each.version_num,
            default=None,
        )
        for version in versions
    }


def _kind(version: AppVersion) -> tuple[int, int, str]:
    return version.app_id, version.platform_id, version.plan_class


def _is_bound(group: Mapping[str, Any]) -> bool:
    return group["app_version_id"] is not None or bool(group["app_version_num"])


def _needs(group: Mapping[str, Any], versions: Sequence[AppVersion]) -> bool:
    """Return whether workunits are bound to one of the versions, or to its number."""
    if group["app_version_id"] is not None:
        return group["app_version_id"] in {version.pk for version in versions}
    numbers = {each.version_num for each in versions if each.app_id == group["app_id"]}
    return group["app_version_num"] in numbers
