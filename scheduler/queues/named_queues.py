"""Creates, changes and deletes named queues of work, and applies their schedules."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any
from zoneinfo import available_timezones

from django.db import IntegrityError, transaction
from django.db.models import ProtectedError, Q

from scheduler import sql
from scheduler.models import Account, App, Host, Queue, QueueSchedule, Workunit
from scheduler.models.queues import MAX_SLOTS
from scheduler.people import audit
from scheduler.people.audit import Event
from scheduler.queues import admission, slots
from scheduler.queues.facts import QueueDepth, ScheduleEntry
from scheduler.queues.rules import schedules

#: The lists of a queue, each with the table of its ids.
LISTS: dict[str, type[Host | Account]] = {
    "allowed_hosts": Host,
    "denied_hosts": Host,
    "allowed_accounts": Account,
    "denied_accounts": Account,
}
#: Maximum length of each list.
MAX_LISTED = 1000
#: Maximum number of entries of a schedule: one per quarter of an hour of a week.
MAX_ENTRIES = 7 * 24 * 4
#: Unsent results are counted up to this number, because a queue may have millions.
MAX_COUNTED = 10_000
#: The maximum numbers of results that `depths` counts in each state: per queue, and of all queues.
#: Twice 10 000 results take 5 ms, and 20 ms if they were changed since the last VACUUM.
MAX_DEPTH, MAX_SUM_OF_DEPTHS = 1000, 10_000
#: Maximum number of unknown ids that a message names.
_MAX_SHOWN = 10


class QueueExists(ValueError):
    """Another queue has this name.  Hint: change the other queue, or choose another name."""


class QueueInUse(ValueError):
    """The queue contains workunits.  Hint: delete the queue after its workunits are purged."""


class UnknownQueueApp(LookupError):
    """The queue's app does not exist.  Hint: check the spelling, or create the app."""


class QueueOfOtherApp(ValueError):
    """The queue contains unfinished workunits of other apps.  Hint: create another queue."""


class QueueHasInfiniteDeadlines(ValueError):
    """The queue contains unfinished workunits without a deadline.  Hint: leave it trusted."""


class UnknownListed(LookupError):
    """A list of a queue names a host or account that does not exist.  Hint: remove the id."""


class BadSchedule(ValueError):
    """The schedule or time zone of a queue is invalid.  Hint: see the message."""


class QueueIsBalanced(ValueError):
    """The balance sets the limit of the queue.  Hint: remove the queue from the balance first."""


#: Exceptions of `change`, except for `QueueExists` and `UnknownQueueApp`.
REFUSALS = (
    UnknownListed,
    BadSchedule,
    QueueOfOtherApp,
    QueueIsBalanced,
    QueueHasInfiniteDeadlines,
    admission.QueueBusy,
)


def create(
    *,
    name: str,
    app: str | None = None,
    schedule: Iterable[ScheduleEntry] = (),
    now: datetime,
    **facts: Any,
) -> Queue:
    """Create a queue with its slots.

    Raises `QueueExists`, `UnknownQueueApp`, `UnknownListed`, `BadSchedule`.
    """
    check(facts)
    entries = check_schedule(schedule)
    try:
        with transaction.atomic():
            queue = Queue.objects.create(name=name, app=_app(app), created_at=now, **facts)
            _set_schedule(queue, entries)
            slots.balance(queue.pk)
            created = {**facts, **({"schedule": schedules.as_lines(entries)} if entries else {})}
            _record(Event.QUEUE_CREATED, queue, created, now=now)
            return queue
    except IntegrityError as error:
        raise QueueExists(_taken(name)) from error


def change(
    queue: Queue,
    *,
    schedule: Iterable[ScheduleEntry] | None = None,
    now: datetime,
    **facts: Any,
) -> Queue:
    """Change a queue, after the claims of its results that are running.

    A lower limit interrupts no result: no further one is sent until fewer are in progress.  A new
    schedule replaces the former one, and its entry in effect is applied by the next
    `apply_schedules`.

    Raises `QueueExists`, `UnknownQueueApp`, `QueueOfOtherApp`, `UnknownListed`, `BadSchedule`,
    `QueueIsBalanced`, `QueueHasInfiniteDeadlines`, `admission.QueueBusy`.
    """
    check(facts)
    entries = None if schedule is None else check_schedule(schedule)
    require_own_limit(queue, [*facts, *(["schedule"] if entries else [])])
    if "app" in facts:
        facts["app"] = _app(facts["app"])
    changed = {name: value for name, value in facts.items() if getattr(queue, name) != value}
    changed |= {} if entries is None else {"schedule": schedules.as_lines(entries)}
    try:
        with transaction.atomic():
            lock_to_change(queue, facts)
            for name, value in facts.items():
                setattr(queue, name, value)
            if entries is not None:
                queue.scheduled_at = facts["scheduled_at"] = None
                _set_schedule(queue, entries)
            queue.save(update_fields=list(facts))
            slots.balance(queue.pk)
            _record(Event.QUEUE_CHANGED, queue, changed, now=now)
    except IntegrityError as error:
        raise QueueExists(_taken(queue.name)) from error
    return queue


def drop(queue: Queue, *, now: datetime) -> None:
    """Delete a queue without workunits; raises `QueueInUse`, `admission.QueueBusy`."""
    msg = (
        f"Queue {queue.name} contains workunits. Hint: stop it with a limit of 0, and delete it "
        "after they are purged."
    )
    # The table has no index by queue, so this check may scan all workunits.
    if Workunit.objects.filter(queue=queue).exists():
        raise QueueInUse(msg)
    try:
        with transaction.atomic():
            slots.lock_queue(queue.pk)
            # Otherwise DELETE would wait for running submissions, as the change of a name would.
            admission.lock_against_work(queue.pk, queue.name)
            _record(Event.QUEUE_DELETED, queue, {}, now=now)
            queue.delete()
    except (ProtectedError, IntegrityError) as error:
        raise QueueInUse(msg) from error


def entries_of(queue: Queue) -> list[ScheduleEntry]:
    """Return the schedule of a queue in the order of its times, entries of every day first."""
    return [
        ScheduleEntry(row.weekday, row.minute, row.max_in_progress) for row in queue.schedules.all()
    ]


def apply_schedules(*, now: datetime) -> int:
    """Apply the entries of schedules whose time has come; return the number of changed queues.

    Each entry is applied once, so that a limit that was set by hand holds until the next entry.
    After an interruption, only the entry in effect is applied.
    """
    changed = 0
    scheduled = Queue.objects.filter(schedules__isnull=False, balance_group__isnull=True)
    scheduled = scheduled.distinct().order_by("pk")
    for queue in scheduled.prefetch_related("schedules"):
        due = schedules.in_effect(entries_of(queue), zone=queue.time_zone, now=now)
        if due is None or _is_applied(queue, due):
            continue
        with transaction.atomic():
            slots.lock_queue(queue.pk)
            changed += Queue.objects.filter(pk=queue.pk, scheduled_at=queue.scheduled_at).update(
                scheduled_at=due.at, max_in_progress=due.entry.max_in_progress
            )
            slots.balance(queue.pk)
    return changed


def served_by(queue: Queue) -> Q:
    """Return a condition on hosts: the hosts that the lists of a queue allow."""
    if queue.allowed_hosts or queue.allowed_accounts:
        return Q(pk__in=queue.allowed_hosts) | Q(account_id__in=queue.allowed_accounts)
    return ~Q(pk__in=queue.denied_hosts) & ~Q(account_id__in=queue.denied_accounts)


def replace_host(*, merged_id: int, kept_id: int) -> None:
    """Replace a merged host in the lists of all queues.  Runs in the caller's transaction."""
    in_lists = Q(allowed_hosts__contains=[merged_id]) | Q(denied_hosts__contains=[merged_id])
    for queue in Queue.objects.select_for_update(no_key=True).filter(in_lists).order_by("pk"):
        for name in ("allowed_hosts", "denied_hosts"):
            ids = {kept_id if id_ == merged_id else id_ for id_ in getattr(queue, name)}
            setattr(queue, name, sorted(ids))
        queue.save(update_fields=["allowed_hosts", "denied_hosts"])


def _is_applied(queue: Queue, due: schedules.Due) -> bool:
    return queue.scheduled_at is not None and queue.scheduled_at >= due.at


def counts(
    queues: Collection[Queue], *, max_unsent: int = MAX_COUNTED, max_in_progress: int = MAX_SLOTS
) -> dict[int, tuple[int, int]]:
    """Return the numbers of unsent results and of results in progress, by the id of the queue.

    At most `max_unsent` and `max_in_progress` results are counted.
    """
    params = {
        "queue_ids": [queue.pk for queue in queues],
        "max_unsent": max_unsent,
        "max_in_progress": max_in_progress,
    }
    rows = sql.fetch("queues/count_results", params)
    return {row["queue_id"]: (row["unsent"], row["in_progress"]) for row in rows}


def depths(queues: Collection[Queue]) -> dict[int, QueueDepth]:
    """Return the depth of each queue by its id, with two statements.

    At most `MAX_DEPTH` results of a queue are counted in each state, and fewer if there are many
    queues, so that the number of all counted results is limited.
    """
    max_counted = min(MAX_DEPTH, MAX_SUM_OF_DEPTHS // max(len(queues), 1))
    numbers = counts(queues, max_unsent=max_counted, max_in_progress=max_counted)
    rows = sql.fetch("queues/read_oldest_work", {"queue_ids": list(numbers)})
    oldest = {row["queue_id"]: row["oldest_at"] for row in rows}
    return {
        queue_id: QueueDepth(unsent, in_progress, max_counted, oldest.get(queue_id))
        for queue_id, (unsent, in_progress) in numbers.items()
    }


def check(facts: dict[str, Any]) -> None:
    """Check the lists and the time zone, and sort the lists.

    Raises `UnknownListed`, `BadSchedule`.
    """
    for name, model in LISTS.items():
        if name in facts:
            facts[name] = _ids(name, facts[name])
            _require_existing(name, model, facts[name])
    zone = facts.get("time_zone")
    if zone is not None and zone not in available_timezones():
        raise BadSchedule(
            f"{zone[:64]!r} is not a time zone. Hint: give a name such as UTC or Europe/Berlin."
        )


def _ids(name: str, value: object) -> list[int]:
    ids = [] if value is None else value
    if not isinstance(ids, list) or not all(type(id_) is int for id_ in ids):
        raise UnknownListed(f"{name} is not a list of ids. Hint: write it as [7, 12].")
    if len(ids) > MAX_LISTED:
        raise UnknownListed(f"{name} has {len(ids)} ids. Hint: give at most {MAX_LISTED}.")
    return sorted(set(ids))


def _require_existing(name: str, model: type[Host | Account], ids: Sequence[int]) -> None:
    existing = set(model._default_manager.filter(pk__in=ids).values_list("pk", flat=True))
    if unknown := [str(id_) for id_ in ids if id_ not in existing]:
        shown = ", ".join(unknown[:_MAX_SHOWN]) + ", ..." * (len(unknown) > _MAX_SHOWN)
        noun = model._meta.model_name
        raise UnknownListed(f"{name} has no {noun} {shown}. Hint: remove these ids.")


def lock_to_change(queue: Queue, facts: Mapping[str, Any]) -> None:
    """Lock a queue until the transaction ends, and check its work against its new `facts`.

    With another app, or without trust, the queue accepts fewer workunits: then it is locked against
    submissions too, and so it is for a new name.  Raises `QueueOfOtherApp`,
    `QueueHasInfiniteDeadlines`, `admission.QueueBusy`.
    """
    slots.lock_queue(queue.pk)
    # Read after the lock, which all changes of these fields take.
    stored = Queue.objects.get(pk=queue.pk)
    app = facts.get("app")
    other_app = app if app is not None and app.pk != stored.app_id else None
    loses_trust = stored.trusted and not facts.get("trusted", True)
    # The name is in a unique index, so PostgreSQL's UPDATE of it waits for all transactions that
    # have locked the row for a foreign key.  A submission can take minutes, in which the queue
    # would send nothing, because claims skip it while the lock above is held.
    is_renamed = facts.get("name", stored.name) != stored.name
    if other_app is not None or loses_trust or is_renamed:
        admission.lock_against_work(stored.pk, stored.name)
    if other_app is not None:
        _require_own_work(stored, other_app)
    if loses_trust:
        _require_deadlines(stored)


def _require_own_work(queue: Queue, app: App) -> None:
    """Raise `QueueOfOtherApp` if the queue has unfinished workunits of other apps.

    A queue sends only work of its app: the others would wait for ever.
    """
    others = {"queue_id": queue.pk, "app_id": app.pk}
    if sql.fetch("queues/read_work_of_other_apps", others):
        raise QueueOfOtherApp(
            f"Queue {queue.name} contains unfinished workunits of other apps than {app.name}. "
            "Hint: wait until they are finished, or create another queue."
        )


def _require_deadlines(queue: Queue) -> None:
    """Raise `QueueHasInfiniteDeadlines` if unfinished workunits have no deadline.

    Only the hosts of a trusted queue may keep a result for ever.
    """
    if sql.fetch("queues/read_endless_work", {"queue_id": queue.pk}):
        raise QueueHasInfiniteDeadlines(
            f"Queue {queue.name} contains unfinished workunits with an infinite deadline, which "
            "only trusted queues allow. Hint: wait until they are finished, or cancel them."
        )


def require_own_limit(queue: Queue, names: Iterable[str]) -> None:
    """Raise `QueueIsBalanced` if one of the changed fields is a limit that the balance sets."""
    if queue.balance_group is not None and {"max_in_progress", "schedule"} & set(names):
        raise QueueIsBalanced(
            f"The balance sets the limit of queue {queue.name}. Hint: remove the queue from the "
            "balance first (`scientist queue balance`), or stop the queue with disabled_until."
        )


def check_schedule(entries: Iterable[ScheduleEntry]) -> list[ScheduleEntry]:
    """Return the entries of a schedule; raises `BadSchedule`."""
    wanted = list(entries)
    times = [str(entry) for entry in wanted]
    if repeated := sorted({time for time in times if times.count(time) > 1}):
        raise BadSchedule(
            f"The schedule has {repeated[0]!r} more than once. Hint: give each time once."
        )
    if len(wanted) > MAX_ENTRIES:
        raise BadSchedule(
            f"The schedule has {len(wanted)} entries. Hint: give at most {MAX_ENTRIES}."
        )
    return wanted


def _set_schedule(queue: Queue, entries: Sequence[ScheduleEntry]) -> None:
    queue.schedules.all().delete()
    QueueSchedule.objects.bulk_create(
        QueueSchedule(
            queue=queue,
            weekday=entry.weekday,
            minute=entry.minute,
            max_in_progress=entry.max_in_progress,
        )
        for entry in entries
    )


def _app(name: str | None) -> App | None:
    if name is None:
        return None
    if existing := App.objects.filter(name=name).first():
        return existing
    raise UnknownQueueApp(
        f"There is no app {name[:80]!r}. Hint: check the spelling, or create the app."
    )


def _record(event: Event, queue: Queue, changed: Mapping[str, Any], *, now: datetime) -> None:
    """Write an entry of the audit log with the new values."""
    values = {name: str(value) if name == "app" else value for name, value in changed.items()}
    audit.record(event, now=now, subject=f"queue {queue.name}", details=values)


def _taken(name: str) -> str:
    return f"There is a queue {name!r} already. Hint: change that queue, or choose another."
