"""Determines the causes of stalled work and counts workunits by cause [pure]."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Any, Final

from scheduler.dispatch.rules.fit import RefusalReason
from scheduler.dispatch.rules.sendability import SEEN_WITHIN
from scheduler.work.rules.explanation import at

#: Maximum number of unsent workunits to examine; a larger number is shown as "1000 or more".
MAX_EXAMINED: Final = 1000
#: If no host has contacted the project for this time, `NO_HOST_ASKS` is reported.  Small clients
#: contact the project every minute.
QUIET_AFTER: Final = timedelta(minutes=2)
#: Lasting reasons of refusals (`dispatch.rules.fit.LASTING`), as text for people.
_REASONS: Final[Mapping[str, str]] = {
    RefusalReason.NO_VERSION: "no app version for the platform",
    RefusalReason.PLAN_CLASS: "unsuitable for the plan class",
    RefusalReason.COMMITTED: "the workunit is committed to another kind of computer",
    RefusalReason.UNKNOWN_CLASS: "the class of the computer is unknown",
    RefusalReason.MEMORY: "too little memory",
    RefusalReason.DISK: "too little disk space",
    RefusalReason.BANDWIDTH: "too little bandwidth",
    RefusalReason.CPUS: "too few CPUs",
    RefusalReason.GPUS: "too few GPUs",
}
_LATELY: Final = f"in the last {SEEN_WITHIN.days} days"


class Cause(StrEnum):
    MAINTENANCE = "maintenance"
    NOT_SERVED = "not_served"
    NO_VERSION = "no_version"
    NO_HOST = "no_host"
    NO_HOST_ASKS = "no_host_asks"
    ACCOUNT_SHORT = "account_short"
    HOST_SHORT = "host_short"
    ALL_REFUSED = "all_refused"
    NO_HOST_LEFT = "no_host_left"
    HELD = "held"
    FOLLOWS = "follows"
    DEPENDS = "depends"
    NOT_YET = "not_yet"
    COMPUTING = "computing"


@dataclass(frozen=True, slots=True)
class Wait:
    """A cause, the number of affected workunits, and a sentence that contains both.

    The sentence depends only on the cause and its numbers, not on the time.  `values` has the other
    values in the sentence, for pages that make it in another language.
    """

    cause: Cause
    workunits: int
    sentence: str
    values: Mapping[str, Any] = field(default_factory=dict, compare=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class UnsentFacts:
    """Counts of untargeted unsent workunits, at most `MAX_EXAMINED`, and of active hosts.

    Active hosts contacted the server in the last 30 days; `accounts` counts their accounts.  The
    numbers of workunits by cause are:

    - `unversioned`: the app has no version;
    - `account_short`: every account with an active host already had a result;
    - `host_short`: every active host already had a result;
    - `all_refused`: every active host was refused;
    - `no_host_left`: every active host either had a result or was refused.

    `quorum` is the largest quorum of the `account_short` and `host_short` workunits.  `reason` is
    the most frequent `RefusalReason`.
    """

    unsent: int = 0
    hosts: int = 0
    accounts: int = 0
    last_contact_at: datetime | None = None
    unversioned: int = 0
    account_short: int = 0
    host_short: int = 0
    quorum: int = 0
    all_refused: int = 0
    no_host_left: int = 0
    reason: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class HeldFacts:
    """Counts of a batch's workunits that must not be sent yet, or are in progress.

    The numbers of workunits are:

    - `held`: they wait for staff to release them;
    - `following`: they wait for the batch `predecessor`;
    - `depending`: they wait for other workunits;
    - `not_yet`: they wait for their start times, of which `starts_at` is the earliest;
    - `computing`: they are in progress, and `due_at` is the earliest report deadline.
    """

    held: int = 0
    following: int = 0
    predecessor: str = ""
    depending: int = 0
    not_yet: int = 0
    starts_at: datetime | None = None
    computing: int = 0
    due_at: datetime | None = None


def waits(
    unsent: UnsentFacts,
    held_facts: HeldFacts,
    *,
    now: datetime,
    maintenance: str = "",
    not_served: str = "",
) -> tuple[Wait, ...]:
    """Return all causes of stalled work, the most general first, or () if there is no cause.

    `maintenance` is a sentence about the current maintenance, and `not_served` is the reason why
    no work of the app is sent.  Both are empty otherwise.
    """
    # Without active hosts, "refused to all hosts" is true for every workunit.
    of_hosts = (*_of_turns(unsent), *_of_refusals(unsent)) if unsent.hosts else ()
    return (
        *_general(unsent, maintenance, not_served),
        *_of_contacts(unsent, now),
        *of_hosts,
        *_of_held(held_facts),
    )


def _general(unsent: UnsentFacts, maintenance: str, not_served: str) -> Iterator[Wait]:
    if maintenance:
        yield Wait(Cause.MAINTENANCE, unsent.unsent, maintenance)
    if not_served:
        yield from _wait(Cause.NOT_SERVED, unsent.unsent, f"unsent: {not_served}")
    no_version = "for an app version: the app has no version that can be sent."
    yield from _wait(Cause.NO_VERSION, unsent.unversioned, no_version)


def _of_contacts(unsent: UnsentFacts, now: datetime) -> Iterator[Wait]:
    free = unsent.unsent - unsent.unversioned
    if not unsent.hosts:
        no_contact = f"for a computer: none has contacted the project {_LATELY}."
        yield from _wait(Cause.NO_HOST, free, no_contact)
        return
    free -= unsent.account_short + unsent.host_short + unsent.all_refused + unsent.no_host_left
    last = unsent.last_contact_at
    if free > 0 and last is not None and now - last > QUIET_AFTER:
        no_contact = f"for a computer: none has contacted the project since {at(last)}"
        yield from _wait(
            Cause.NO_HOST_ASKS,
            free,
            f"{no_contact} ({unsent.hosts} {_LATELY}).",
            since=last,
            hosts=unsent.hosts,
        )


def _of_turns(unsent: UnsentFacts) -> Iterator[Wait]:
    quorum = unsent.quorum
    for cause, number, kind, who, seen in (
        (Cause.ACCOUNT_SHORT, unsent.account_short, "account", " with a computer", unsent.accounts),
        (Cause.HOST_SHORT, unsent.host_short, "computer", "", unsent.hosts),
    ):
        needs = f"a quorum of {quorum} needs {quorum} {kind}s, and " if quorum > 1 else ""
        lately = f"that contacted the project {_LATELY} ({seen}) already had a result."
        rest = f"for another {kind}: {needs}each {kind}{who} {lately}"
        yield from _wait(cause, number, rest, quorum=quorum, seen=seen)


def _of_refusals(unsent: UnsentFacts) -> Iterator[Wait]:
    reason = unsent.reason or "unknown"
    reason = _REASONS.get(reason, reason.replace("_", " "))
    if number := unsent.all_refused:
        of_hosts = (
            "the only computer" if unsent.hosts == 1 else f"each of the {unsent.hosts} computers"
        )
        yield Wait(
            Cause.ALL_REFUSED,
            number,
            f"{_number(number)} {'was' if number == 1 else 'were'} refused to {of_hosts} that "
            f"contacted the project {_LATELY}; most frequent reason: {reason}.",
            {"hosts": unsent.hosts, "reason": reason},
        )
    yield from _wait(
        Cause.NO_HOST_LEFT,
        unsent.no_host_left,
        f"for another computer: of the {unsent.hosts} computers that contacted the project "
        f"{_LATELY}, some already had a result, and the others were refused "
        f"(most frequent reason: {reason}).",
        hosts=unsent.hosts,
        reason=reason,
    )


def _of_held(facts: HeldFacts) -> Iterator[Wait]:
    yield from _wait(Cause.HELD, facts.held, "for staff to release the work.")
    yield from _wait(Cause.FOLLOWS, facts.following, f"for batch {facts.predecessor} to finish.")
    yield from _wait(Cause.DEPENDS, facts.depending, "for other workunits to finish.")
    if facts.not_yet and facts.starts_at is not None:
        yield Wait(
            Cause.NOT_YET,
            facts.not_yet,
            f"{_number(facts.not_yet)} must not start yet: the earliest start is "
            f"{at(facts.starts_at)}.",
        )
    if facts.computing and facts.due_at is not None:
        are = "is" if facts.computing == 1 else "are"
        yield Wait(
            Cause.COMPUTING,
            facts.computing,
            f"{_number(facts.computing)} {are} being computed: the earliest report deadline "
            f"is {at(facts.due_at)}.",
        )


def _wait(cause: Cause, number: int, rest: str, **values: Any) -> Iterator[Wait]:
    if number:
        waiting = f"{_number(number)} {'waits' if number == 1 else 'wait'}"
        yield Wait(cause, number, f"{waiting} {rest}", values)


def _number(number: int) -> str:
    if number >= MAX_EXAMINED:
        return f"{MAX_EXAMINED} or more workunits"
    return f"{number} workunit{'' if number == 1 else 's'}"
