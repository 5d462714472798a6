"""Accelerate the remaining workunits of batches that are nearly done."""

from __future__ import annotations

from contextlib import suppress
from datetime import datetime

from django.conf import settings

from scheduler.models import Batch
from scheduler.sql import fetch
from scheduler.work import batches
from scheduler.work.rules.batch_tails import is_tail


def accelerate(*, now: datetime) -> int:
    """Accelerate batches with `accelerate_tail` that reached their tail; returns workunits raised.

    Their results are sent before all others, first to quick hosts if the app defines which hosts
    are quick.  Results in progress continue.
    """
    raised = 0
    for row in fetch("work/read_tails", {"in_progress": Batch.State.IN_PROGRESS.value}):
        percent = settings.PROJECT.tail_percent
        if is_tail(total=row["total"], left=row["still_open"], percent=percent):
            with suppress(batches.BatchNotReady):  # it has ended meanwhile
                raised += batches.accelerate(row["id"], now=now).workunits
                Batch.objects.filter(pk=row["id"]).update(tail_at=now)
    return raised
