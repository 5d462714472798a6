"""The admin site for staff, built on Django's admin."""

# ruff: noqa: F401  these modules register their pages
from __future__ import annotations

from scheduler.admin import (
    audit,
    badges,
    batches,
    hosts,
    news,
    people,
    queues,
    records,
    results,
    submitters,
    task_lists,
    troubles,
    workunits,
)
from scheduler.admin.apps import pages
from scheduler.admin.letters import letter_admin
