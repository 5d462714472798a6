"""Celery as the other driver of the same passes."""

from __future__ import annotations

from celery import shared_task
from django.utils import timezone

from daemons.loop import Drive, StopSign, drain
from daemons.registry import find
from scheduler.operations import maintenance


@shared_task(name="daemons.run_pass", ignore_result=True)
def run_pass(daemon: str) -> str:
    """Make passes of one daemon until one comes back short; a lost message costs nothing."""
    found = find(daemon)
    if maintenance.stops_daemons():
        return f"{found.name}: paused for maintenance"
    drive = Drive(clock=timezone.now, stop=StopSign(), limit=found.batch, pause=found.pause)
    return f"{found.name}: {drain(found, drive).sentence()}"
