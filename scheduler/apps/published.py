"""Reads the published versions of apps, for programs that show them."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from django.db.models import QuerySet

from scheduler.dispatch.catalog import ANONYMOUS
from scheduler.models import App, AppVersion


def sent_versions(app_ids: Collection[int]) -> QuerySet[AppVersion]:
    """Return the versions of apps that are sent to hosts, with their apps and platforms.

    Versions of anonymous platforms are left out, because hosts have these.
    """
    versions = AppVersion.objects.filter(
        app_id__in=app_ids, deprecated=False, rollout_percent__gt=0
    )
    return versions.exclude(platform__name=ANONYMOUS).select_related("app", "platform")


def newest_of(app: App, platforms: Sequence[str], plan_class: str) -> dict[str, AppVersion]:
    """Return the newest version of a plan class that is sent, by the name of its platform.

    `platforms` are names; those without such a version are left out.
    """
    sent = sent_versions([app.pk]).filter(platform__name__in=platforms, plan_class=plan_class)
    newest = sent.order_by("platform", "-version_num").distinct("platform")
    return {each.platform.name: each for each in newest}


def newest_versions() -> Mapping[App, list[AppVersion]]:
    """Return each app that sends work, with its newest version per platform and plan class.

    Apps are in ascending id, versions sorted by platform and plan class.
    """
    apps = {app.pk: app for app in App.objects.filter(deprecated=False).order_by("pk")}
    newest = (
        sent_versions(apps)
        .order_by("app", "platform", "plan_class", "-version_num")
        .distinct("app", "platform", "plan_class")
    )
    by_app: dict[App, list[AppVersion]] = {app: [] for app in apps.values()}
    for version in newest:
        by_app[apps[version.app_id]].append(version)
    return by_app
