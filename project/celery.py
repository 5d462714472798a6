"""The Celery app, the daemons' second driver; its timetable is the registry's."""

from __future__ import annotations

import os
from typing import Any

from celery import Celery, signals

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "project.settings")

app = Celery("manyhands")
app.config_from_object("django.conf:settings", namespace="CELERY")
app.conf.update(
    # A pass that was lost is a pass that comes again: nothing is kept, nothing is answered.
    task_ignore_result=True,
    task_acks_late=False,
    timezone="UTC",
    broker_connection_retry_on_startup=True,
)
app.autodiscover_tasks(["daemons"])


@app.on_after_finalize.connect
def set_timetable(sender: Celery, **_: Any) -> None:
    """Have every daemon of the registry make a pass at each of its pauses."""
    # Imported late: the registry knows the models, which need Django to be set up.
    from daemons.registry import timetable  # noqa: PLC0415

    sender.conf.beat_schedule = timetable()


@signals.setup_logging.connect
def keep_our_logging(**_: Any) -> None:
    """Leave logging as the settings have it: a receiver's presence keeps Celery's own away."""
