"""Why open work does not move, as causes with numbers of workunits [pure]."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Final

from scheduler.dispatch.rules.sendability import SEEN_WITHIN
from scheduler.work.rules.explanation import at

#: As many unsent workunits are examined; more are reported as "1000 or more".
MAX_EXAMINED: Final = 1000
#: Small clients contact the project every minute: after this time without any, that is the cause.
QUIET_AFTER: Final = timedelta(minutes=2)
_LATELY: Final = f"in the last {SEEN_WITHIN.days} days"


class Cause(StrEnum):
    """What open work waits for."""

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
    """A cause, how many workunits it concerns, and both as a sentence.

    The sentence stays the same while cause and numbers do.
    """

    cause: Cause
    workunits: int
    sentence: str


@dataclass(frozen=True, slots=True, kw_only=True)
class UnsentFacts:
    """Unsent workunits for everybody, at most `MAX_EXAMINED`, and the hosts that could have them.

    Hosts, and accounts of such hosts, count if they are about: seen in the last 30 days.
    `unversioned` are workunits of apps without a version.  Every host had its turn with
    `account_short` (or `host_short`, by the app's rule), was refused `all_refused`, and either of
    both `no_host_left`; `quorum` is the largest of the short ones, `reason` the most frequent
    reason of a refusal.
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
    """Workunits of a batch that may not be sent yet, or are being computed."""

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
    held: HeldFacts,
    *,
    now: datetime,
    maintenance: str = "",
    not_served: str = "",
) -> tuple[Wait, ...]:
    """Every known cause, the most general first; empty if work is about to move."""
    # Without a host, each workunit was trivially refused to all of them.
    of_hosts = (*_of_turns(unsent), *_of_refusals(unsent)) if unsent.hosts else ()
    return (
        *_general(unsent, maintenance, not_served),
        *_of_contacts(unsent, now),
        *of_hosts,
        *_of_held(held),
    )


def _general(unsent: UnsentFacts, maintenance: str, not_served: str) -> Iterator[Wait]:
    if maintenance:
        yield Wait(Cause.MAINTENANCE, unsent.unsent, maintenance)
    if not_served and unsent.unsent:
        yield Wait(
            Cause.NOT_SERVED, unsent.unsent, f"{_waiting(unsent.unsent)} unsent: {not_served}"
        )
    if unsent.unversioned:
        yield Wait(
            Cause.NO_VERSION,
            unsent.unversioned,
            f"{_waiting(unsent.unversioned)} for a version of the app: none is offered.",
        )


def _of_contacts(unsent: UnsentFacts, now: datetime) -> Iterator[Wait]:
    if not unsent.hosts:
        if free := unsent.unsent - unsent.unversioned:
            yield Wait(
                Cause.NO_HOST,
                free,
                f"{_waiting(free)} for a computer: none has contacted the project {_LATELY}.",
            )
        return
    blocked = (
        unsent.unversioned
        + unsent.account_short
        + unsent.host_short
        + unsent.all_refused
        + unsent.no_host_left
    )
    free = unsent.unsent - blocked
    last = unsent.last_contact_at
    if free > 0 and last is not None and now - last > QUIET_AFTER:
        yield Wait(
            Cause.NO_HOST_ASKS,
            free,
            f"{_waiting(free)} for a computer: none has contacted the project since {at(last)} "
            f"({unsent.hosts} {_LATELY}).",
        )


def _of_turns(unsent: UnsentFacts) -> Iterator[Wait]:
    for cause, number, kind, who, seen in (
        (
            Cause.ACCOUNT_SHORT,
            unsent.account_short,
            "account",
            "account with a computer",
            unsent.accounts,
        ),
        (Cause.HOST_SHORT, unsent.host_short, "computer", "computer", unsent.hosts),
    ):
        if number:
            needs = f"a quorum of {unsent.quorum} needs as many, and " if unsent.quorum > 1 else ""
            yield Wait(
                cause,
                number,
                f"{_waiting(number)} for another {kind}: {needs}each {who} that contacted the "
                f"project {_LATELY} ({seen}) had its turn.",
            )


def _of_refusals(unsent: UnsentFacts) -> Iterator[Wait]:
    reason = (unsent.reason or "unknown").replace("_", " ")
    if number := unsent.all_refused:
        of_hosts = (
            "the only computer" if unsent.hosts == 1 else f"each of the {unsent.hosts} computers"
        )
        yield Wait(
            Cause.ALL_REFUSED,
            number,
            f"{_number(number)} {'was' if number == 1 else 'were'} refused to {of_hosts} that "
            f"contacted the project {_LATELY}; most frequent reason: {reason}.",
        )
    if number := unsent.no_host_left:
        yield Wait(
            Cause.NO_HOST_LEFT,
            number,
            f"{_waiting(number)} for another computer: of the {unsent.hosts} that contacted the "
            f"project {_LATELY} some had their turn, and the others were refused ({reason}).",
        )


def _of_held(held: HeldFacts) -> Iterator[Wait]:
    if held.held:
        yield Wait(Cause.HELD, held.held, f"{_waiting(held.held)} to be released by staff.")
    if held.following:
        yield Wait(
            Cause.FOLLOWS,
            held.following,
            f"{_waiting(held.following)} for batch {held.predecessor} to end.",
        )
    if held.depending:
        yield Wait(
            Cause.DEPENDS, held.depending, f"{_waiting(held.depending)} for other workunits."
        )
    if held.not_yet and held.starts_at is not None:
        yield Wait(
            Cause.NOT_YET,
            held.not_yet,
            f"{_number(held.not_yet)} must not start yet: the first may at {at(held.starts_at)}.",
        )
    if held.computing and held.due_at is not None:
        are = "is" if held.computing == 1 else "are"
        yield Wait(
            Cause.COMPUTING,
            held.computing,
            f"{_number(held.computing)} {are} being computed: the first result is due by "
            f"{at(held.due_at)}.",
        )


def _number(number: int) -> str:
    if number >= MAX_EXAMINED:
        return f"{MAX_EXAMINED} or more workunits"
    return f"{number} workunit{'' if number == 1 else 's'}"


def _waiting(number: int) -> str:
    return f"{_number(number)} {'waits' if number == 1 else 'wait'}"
