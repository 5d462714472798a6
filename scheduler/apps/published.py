"""Reads the published versions of apps, for programs that show them."""

from __future__ import annotations

from collections.abc import Mapping

from scheduler.dispatch.catalog import ANONYMOUS
from scheduler.models import App, AppVersion


def newest_versions() -> Mapping[App, list[AppVersion]]:
    """Return each app that sends work, with its newest version per platform and plan class.

    Apps are in ascending id, versions sorted by platform and plan class, and read with their
    platforms.  Versions of anonymous platforms are left out, because hosts have these.
    """
    apps = {app.pk: app for app in App.objects.filter(deprecated=False).order_by("pk")}
    newest = (
        AppVersion.objects.filter(app__in=apps, deprecated=False)
        .exclude(platform__name=ANONYMOUS)
        .order_by("app", "platform", "plan_class", "-version_num")
        .distinct("app", "platform", "plan_class")
        .select_related("platform")
    )
    by_app: dict[App, list[AppVersion]] = {app: [] for app in apps.values()}
    for version in newest:
        by_app[apps[version.app_id]].append(version)
    return by_app
