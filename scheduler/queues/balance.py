"""The balance: a maximum number of results in progress that several queues share.

The housekeeper sets the limits of these queues by their groups and their work, so claims
read only these limits and cannot exceed the balance (`rules/divided_limits.limits`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from django.db import transaction
from django.db.models import Q, QuerySet

from scheduler.models import Queue, QueueBalance
from scheduler.people import audit
from scheduler.people.audit import Event
from scheduler.queues import named_queues, slots
from scheduler.queues.facts import ScheduleEntry
from scheduler.queues.named_queues import BadSchedule
from scheduler.queues.rules import divided_limits as rules
from scheduler.queues.rules import schedules, serving
from scheduler.queues.rules.divided_limits import Demand

#: Maximum number of queues in the balance.
MAX_QUEUES = 200


class UnknownQueue(LookupError):
    """The balance names a queue that does not exist.  Hint: check the spelling."""


class RepeatedQueue(ValueError):
    """The balance names a queue twice.  Hint: name each queue once."""


def settings() -> QueueBalance:
    """Return the balance; without a row, a balance of no queues."""
    return QueueBalance.objects.first() or QueueBalance(pk=1)


def groups() -> list[list[str]]:
    """Return the names of the queues in the balance by group, the group served first at first."""
    by_group: dict[int, list[str]] = {}
    for queue in _balanced():
        by_group.setdefault(queue.balance_group or 0, []).append(queue.name)
    return [by_group[group] for group in sorted(by_group)]


@transaction.atomic
def change(*, now: datetime, queues: Sequence[Sequence[str]] | None = None, **facts: Any) -> None:
    """Change the balance, and apply it at once.

    `queues` are the names of all its queues by group.  A queue that leaves the balance keeps its
    last limit.  `facts` are fields of `QueueBalance`.

    Raises `UnknownQueue`, `RepeatedQueue`, `BadSchedule`.
    """
    if "max_tasks" in facts:
        _entries(facts["max_tasks"])
    named_queues.check(facts)
    names = None if queues is None else [list(group) for group in queues if group]
    # Changes of the balance wait for each other here.  Nothing else locks this row.
    stored, _ = QueueBalance.objects.get_or_create(pk=1)
    row = QueueBalance.objects.select_for_update(no_key=True).get(pk=stored.pk)
    # Before any row of a queue is locked, as every change of a queue does.
    concerned = Q(balance_group__isnull=False) | Q(
        name__in=[name for g in names or () for name in g]
    )
    for queue_id in Queue.objects.filter(concerned).order_by("pk").values_list("pk", flat=True):
        slots.lock_queue(queue_id)
    for name, value in facts.items():
        setattr(row, name, value)
    row.save(update_fields=list(facts))
    if names is not None:
        _set_groups(names)
    if not row.max_tasks and _balanced().exists():
        raise BadSchedule(
            "The balance has queues, but no maximum. "
            'Hint: give one from a time on, as in {"* 00:00": 50}, or remove the queues.'
        )
    details = {"changed": sorted(facts), "max_tasks": row.max_tasks}
    details |= {} if names is None else {"queues": names}
    audit.record(Event.QUEUE_CHANGED, now=now, subject="balance of queues", details=details)
    apply(now=now)


def apply(*, now: datetime) -> int:
    """Set the limits of the queues in the balance; return the number of changed limits.

    Without queues in the balance, this takes one statement.  Claims of these queues are awaited
    only if a limit changes.
    """
    if not (queues := list(_balanced())):
        return 0
    balance = settings()
    if serving.is_disabled(balance.disabled_until, now=now):
        return 0
    due = schedules.in_effect(_entries(balance.max_tasks), zone=balance.time_zone, now=now)
    if due is None or due.entry.max_in_progress is None:
        return 0
    most = due.entry.max_in_progress
    if not _changed(queues, most):
        return 0
    with transaction.atomic():
        # Running claims end first, so that the numbers below remain true until the commit.
        for queue in queues:
            slots.lock_queue(queue.pk)
        queues = list(_balanced().filter(pk__in=[queue.pk for queue in queues]))
        changed = _changed(queues, most)
        for queue_id, limit in changed.items():
            Queue.objects.filter(pk=queue_id).update(max_in_progress=limit)
            slots.balance(queue_id)
    return len(changed)


def _balanced() -> QuerySet[Queue]:
    """Return the queues in the balance, in the order of locking."""
    return Queue.objects.filter(balance_group__isnull=False).order_by("pk")


def _changed(queues: Sequence[Queue], most: int) -> dict[int, int]:
    """Return the new limits of queues whose limit differs from their share."""
    counts = named_queues.counts(queues)
    demands = [
        Demand(
            queue.pk,
            queue.balance_group or 0,
            in_progress=counts[queue.pk][1],
            unsent=counts[queue.pk][0],
        )
        for queue in queues
    ]
    limits = rules.limits(demands, max_in_progress=most)
    return {
        queue.pk: limits[queue.pk] for queue in queues if limits[queue.pk] != queue.max_in_progress
    }


def _entries(max_tasks: Mapping[str, int]) -> list[ScheduleEntry]:
    """Return the entries of a balance; raises `BadSchedule`."""
    try:
        return named_queues.check_schedule(
            schedules.entry_at(time, most) for time, most in max_tasks.items()
        )
    except schedules.BadScheduleTime as bad:
        raise BadSchedule(str(bad)) from bad


def _set_groups(names: Sequence[Sequence[str]]) -> None:
    wanted = {name: group for group, each in enumerate(names) for name in each}
    if len(wanted) < sum(map(len, names)):
        raise RepeatedQueue("The balance names a queue twice. Hint: name each queue once.")
    rows = list(Queue.objects.filter(name__in=wanted).order_by("pk"))
    if missing := sorted(set(wanted) - {queue.name for queue in rows}):
        raise UnknownQueue(
            f"There is no queue {missing[0][:100]!r}. Hint: check the spelling; "
            "`scientist queue list` lists the queues."
        )
    Queue.objects.filter(balance_group__isnull=False).exclude(name__in=wanted).update(
        balance_group=None
    )
    for queue in rows:
        if queue.balance_group != wanted[queue.name]:
            Queue.objects.filter(pk=queue.pk).update(balance_group=wanted[queue.name])
