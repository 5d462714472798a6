"""Creates the rows for volunteers' own programs (the anonymous platform).

A result refers to an app version, and a host's record of quota, trust and speed is stored per app
version.  Programs of `app_info.xml` have one app version row per app and kind of device, shared by
all volunteers.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from scheduler.dispatch import catalog as catalogs
from scheduler.dispatch.catalog import ANONYMOUS, OWN_DEVICES, Catalog
from scheduler.dispatch.facts import OwnVersion
from scheduler.models import AppVersion, Platform


def with_rows(catalog: Catalog, own: Sequence[OwnVersion], *, now: datetime) -> Catalog:
    """Insert the missing rows for the apps and devices of `own`; return the updated catalog.

    Statements run only at the first use of an app on a device.  Call this before the transaction
    locks a workunit, so that two transactions that insert the same row cannot deadlock.
    """
    if not own:
        return catalog
    missing = catalog.own_devices(own).keys() - catalog.own_version_ids.keys()
    if not missing:
        return catalog
    platform, _ = Platform.objects.get_or_create(
        name=ANONYMOUS, defaults={"user_friendly_name": "Programs of volunteers' own"}
    )
    AppVersion.objects.bulk_create(
        [
            AppVersion(
                app_id=app_id,
                platform=platform,
                version_num=OWN_DEVICES.index(device) + 1,
                deprecated=True,
                created_at=now,
            )
            for app_id, device in sorted(missing)
        ],
        ignore_conflicts=True,
    )
    return catalogs.fresh()
