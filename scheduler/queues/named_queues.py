"""Make, change and drop queues: named lanes of work."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from django.db import IntegrityError, transaction
from django.db.models import ProtectedError

from scheduler.models import App, Queue, Workunit


class QueueExists(ValueError):
    """The name is taken by another queue. Hint: change that one, or choose another name."""


class QueueInUse(ValueError):
    """Workunits stand in the queue. Hint: drop it when they are purged."""


class UnknownQueueApp(LookupError):
    """There is no app of this name for the queue. Hint: check its spelling, or create it."""


def create(*, name: str, app: str | None = None, now: datetime, **facts: Any) -> Queue:
    """Make a queue; raises `QueueExists`, `UnknownQueueApp`."""
    try:
        with transaction.atomic():
            return Queue.objects.create(name=name, app=_app(app), created_at=now, **facts)
    except IntegrityError as error:
        raise QueueExists(_taken(name)) from error


def change(queue: Queue, **facts: Any) -> Queue:
    """Change a queue; raises `QueueExists`, `UnknownQueueApp`."""
    if "app" in facts:
        facts["app"] = _app(facts["app"])
    for name, value in facts.items():
        setattr(queue, name, value)
    try:
        with transaction.atomic():
            queue.save(update_fields=list(facts))
    except IntegrityError as error:
        raise QueueExists(_taken(queue.name)) from error
    return queue


def drop(queue: Queue) -> None:
    """Drop a queue in which no workunit stands; raises `QueueInUse`."""
    msg = f"Workunits stand in queue {queue.name}. Hint: drop it when they are purged."
    # Its rows are many and it has no index by queue: one look finds one, or there is none.
    if Workunit.objects.filter(queue=queue).exists():
        raise QueueInUse(msg)
    try:
        queue.delete()
    except (ProtectedError, IntegrityError) as error:
        raise QueueInUse(msg) from error


def _app(name: str | None) -> App | None:
    if name is None:
        return None
    if found := App.objects.filter(name=name).first():
        return found
    msg = f"There is no app {name[:80]!r}. Hint: check its spelling, or create it."
    raise UnknownQueueApp(msg)


def _taken(name: str) -> str:
    return f"There is a queue {name!r} already. Hint: change that one, or choose another name."
