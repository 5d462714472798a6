"""Decides whether a queue serves a host, and how many results it may send [pure]."""

from __future__ import annotations

from collections.abc import Collection
from datetime import datetime, timedelta
from enum import StrEnum
from typing import NamedTuple

from scheduler.queues.facts import QueueFacts


class ClosedReason(StrEnum):
    """The reason why a queue sends no result to a host."""

    STOPPED = "queue_stopped"
    DISABLED = "queue_disabled"
    HOSTS = "queue_hosts"
    UNWANTED = "queue_unwanted"
    FULL = "queue_full"


#: A full queue stands still if it has sent no result for longer than this.
STANDS_STILL_AFTER = timedelta(days=1)


class WaitingQueue(NamedTuple):
    """A queue with unsent results.

    `is_scheduled` is true if a schedule or the balance sets its limit.  `full_since` is the last
    time when it sent a result, if no slot is free.  `is_unserved` is true if its lists exclude all
    active hosts.  `only_app` is its app if all its unsent results belong to other apps, else None.
    """

    name: str
    is_stopped: bool = False
    is_scheduled: bool = False
    disabled_until: datetime | None = None
    full_since: datetime | None = None
    is_unserved: bool = False
    only_app: str | None = None


class Closed(NamedTuple):
    """The reason why a queue sends no result to a host, with a sentence for its volunteer."""

    reason: ClosedReason
    sentence: str


def why_closed(queue: QueueFacts, *, host_id: int, account_id: int, now: datetime) -> Closed | None:
    """Return why a queue sends nothing to this host, whatever is in progress; None if it may."""
    if queue.max_in_progress == 0:
        return Closed(ClosedReason.STOPPED, f"Queue {queue.name} is stopped")
    if is_disabled(queue.disabled_until, now=now):
        return Closed(
            ClosedReason.DISABLED,
            f"Queue {queue.name} is disabled until {queue.disabled_until:%Y-%m-%d %H:%M} UTC",
        )
    if not serves(queue, host_id=host_id, account_id=account_id):
        return Closed(ClosedReason.HOSTS, f"Queue {queue.name} does not serve this computer")
    return None


def why_unwanted(
    queue: QueueFacts, *, active: Collection[str], ignored: Collection[str]
) -> Closed | None:
    """Return why a client refuses work of a queue by its own settings; None if it accepts it.

    `active` and `ignored` are names of queues.  If any are active, only these are accepted, and
    `ignored` has no effect.  These settings only narrow what the lists of the queue allow.
    """
    if queue.name in active if active else queue.name not in ignored:
        return None
    return Closed(
        ClosedReason.UNWANTED, f"This client's settings exclude work of queue {queue.name}"
    )


def is_disabled(until: datetime | None, *, now: datetime) -> bool:
    return until is not None and until > now


def serves(queue: QueueFacts, *, host_id: int, account_id: int) -> bool:
    """Return whether the lists of a queue allow a host.

    If there are lists of allowed hosts or accounts, only these are served, and the lists of denied
    hosts and accounts do not apply.  Source: Disbatch, where `ignorequeues` has no effect beside
    `activequeues`.
    """
    if queue.allowed_hosts or queue.allowed_accounts:
        return host_id in queue.allowed_hosts or account_id in queue.allowed_accounts
    return host_id not in queue.denied_hosts and account_id not in queue.denied_accounts


def why_full(queue: QueueFacts) -> Closed:
    """Return the reason why a queue without a free slot sends nothing."""
    limit = queue.max_in_progress
    return Closed(
        ClosedReason.FULL,
        f"Queue {queue.name} has reached its limit of {limit} tasks in progress"
        if limit is not None
        else f"Queue {queue.name} sends no more tasks at once",
    )


def describe(queue: QueueFacts, *, in_progress: int, now: datetime) -> str:
    """Return the state of a queue for people: stopped, disabled, full or open."""
    limit = queue.max_in_progress
    if limit == 0:
        return "is stopped, because its limit is 0"
    if is_disabled(queue.disabled_until, now=now):
        return f"is disabled until {queue.disabled_until:%Y-%m-%d %H:%M} UTC"
    if limit is not None and in_progress >= limit:
        return f"is full: {_number(in_progress, 'result')} in progress, with a limit of {limit}"
    most = f" of at most {limit}" if limit is not None else ""
    state = f"has {_number(in_progress, 'result')} in progress{most}"
    if queue.allowed_hosts or queue.allowed_accounts:
        hosts = _number(len(queue.allowed_hosts), "host")
        accounts = _number(len(queue.allowed_accounts), "account")
        return f"{state}, and serves only {hosts} and {accounts}"
    return state


def _number(count: int, noun: str) -> str:
    return f"{count} {noun}{'s' * (count != 1)}"


def why_still(queue: WaitingQueue, *, now: datetime) -> tuple[str, str] | None:
    """Return why a queue with unsent results stands still, and what to do; None if it does not.

    A limit of 0 that a schedule or the balance has set is not a standstill: it ends by itself.
    """
    if queue.is_stopped and not queue.is_scheduled:
        return "its limit is 0", f"raise it: scientist queue change {queue.name} --limit N."
    if is_disabled(queue.disabled_until, now=now):
        return (
            f"it is disabled until {queue.disabled_until:%Y-%m-%d %H:%M} UTC",
            f"enable it: scientist queue change {queue.name} --disabled-until none.",
        )
    if queue.is_unserved:
        return (
            "its lists exclude every active host",
            f"change them: scientist queue show {queue.name} prints the lists.",
        )
    if queue.only_app is not None:
        return (
            f"it sends only work of app {queue.only_app}, and its results are of other apps",
            f"let it accept every app: scientist queue change {queue.name} --app none.",
        )
    if queue.full_since is not None and now - queue.full_since > STANDS_STILL_AFTER:
        return (
            f"all its slots are in use since {queue.full_since:%Y-%m-%d %H:%M} UTC",
            "see whether the hosts of its results in progress still run, or raise its limit.",
        )
    return None


def room_for_host(
    queue: QueueFacts, *, free_slots: int | None, chosen_for_others: int, sent_before: int = 0
) -> int | None:
    """Return how many results of a queue one claim may send to a host; None means any number.

    `free_slots` is the number of free slots (None without a limit), `chosen_for_others` the number
    of results of the queue that the same claim sends to other hosts, and `sent_before` the number
    that the same batch of RPCs has already sent, whose slots are not free.
    """
    shared = [free_slots] if free_slots is not None else []
    if queue.max_new_per_claim is not None:
        shared.append(queue.max_new_per_claim - sent_before)
    limits = [max(0, limit - chosen_for_others) for limit in shared]
    if queue.max_new_per_host is not None:
        limits.append(queue.max_new_per_host)
    return min(limits, default=None)
