"""The interface for staff: Django admin."""

from __future__ import annotations

from scheduler.admin import (
    audit,
    batches,
    files,
    hosts,
    ledger,
    logins,
    messages,
    people,
    results,
    science,
    submitters,
    troubles,
    workunits,
)
from scheduler.admin.site import StaffSite, staff

__all__ = [
    "StaffSite",
    "audit",
    "batches",
    "files",
    "hosts",
    "ledger",
    "logins",
    "messages",
    "people",
    "results",
    "science",
    "staff",
    "submitters",
    "troubles",
    "workunits",
]
