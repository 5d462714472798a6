"""Changes whether an app version is deprecated or in beta."""

from __future__ import annotations

from datetime import datetime

from django.db import transaction

from scheduler.models import AppVersion
from scheduler.people import audit
from scheduler.people.audit import Event


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
