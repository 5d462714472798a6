"""Withdraw app versions, offer them again, keep them for testers [operations]."""

from __future__ import annotations

from scheduler.models import AppVersion


def change(
    version: AppVersion, *, deprecated: bool | None = None, beta: bool | None = None
) -> AppVersion:
    """Set what is not None.  Results that computers have of a withdrawn version go on."""
    fields = {"deprecated": deprecated, "beta": beta}
    for name, value in fields.items():
        if value is not None:
            setattr(version, name, value)
    version.save(update_fields=[name for name, value in fields.items() if value is not None])
    return version
