"""Creates, changes and deletes named queues of work."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from django.db import IntegrityError, transaction
from django.db.models import ProtectedError

from scheduler.models import App, Queue, Workunit


class QueueExists(ValueError):
    """Another queue has this name.  Hint: change the other queue, or choose another name."""


class QueueInUse(ValueError):
    """The queue contains workunits.  Hint: delete the queue after its workunits are purged."""


class UnknownQueueApp(LookupError):
    """The queue's app does not exist.  Hint: check the spelling, or create the app."""


def create(*, name: str, app: str | None = None, now: datetime, **facts: Any) -> Queue:
    """Create a queue; `app` is the name of an app, and `facts` has values of other columns.

    Raises `QueueExists` and `UnknownQueueApp`.
    """
    try:
        with transaction.atomic():
            return Queue.objects.create(name=name, app=_app(app), created_at=now, **facts)
    except IntegrityError as error:
        raise QueueExists(_taken(name)) from error


def change(queue: Queue, **facts: Any) -> Queue:
    """Change the columns of a queue that `facts` contains; `app` is the name of an app or None.

    Raises `QueueExists` and `UnknownQueueApp`.
    """
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
    """Delete a queue; raises `QueueInUse` if it contains workunits."""
    msg = f"Queue {queue.name} contains workunits. Hint: delete the queue after they are purged."
    # The table has no index by queue, so this check may scan all workunits.
    if Workunit.objects.filter(queue=queue).exists():
        raise QueueInUse(msg)
    try:
        queue.delete()
    except (ProtectedError, IntegrityError) as error:
        raise QueueInUse(msg) from error


def _app(name: str | None) -> App | None:
    if name is None:
        return None
    if existing := App.objects.filter(name=name).first():
        return existing
    raise UnknownQueueApp(
        f"There is no app {name[:80]!r}. Hint: check the spelling, or create the app."
    )


def _taken(name: str) -> str:
    return f"There is a queue {name!r} already. Hint: change that queue, or choose another."
