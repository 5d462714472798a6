"""The face for staff: Django admin."""

from __future__ import annotations

from scheduler.admin import batches, files, hosts, ledger, people, results, science, workunits
from scheduler.admin.site import StaffSite, staff

__all__ = [
    "StaffSite",
    "batches",
    "files",
    "hosts",
    "ledger",
    "people",
    "results",
    "science",
    "staff",
    "workunits",
]
