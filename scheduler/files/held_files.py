"""Reads the files that somebody holds."""

from __future__ import annotations

from datetime import datetime

from django.db.models import QuerySet

from scheduler.models import Account, FileHold


def holds_of(account: Account, *, now: datetime) -> QuerySet[FileHold]:
    """A person's holds that are not past, with their files."""
    mine = FileHold.objects.filter(account=account, until__gt=now, file__doomed_at=None)
    return mine.select_related("file")
