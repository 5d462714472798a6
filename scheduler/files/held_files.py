"""Reads the files that an account holds."""

from __future__ import annotations

from datetime import datetime

from django.db.models import QuerySet

from scheduler.models import Account, FileHold


def holds_of(account: Account, *, now: datetime) -> QuerySet[FileHold]:
    """Return an account's unexpired holds, with their files."""
    holds = FileHold.objects.filter(account=account, until__gt=now, file__doomed_at=None)
    return holds.select_related("file")
