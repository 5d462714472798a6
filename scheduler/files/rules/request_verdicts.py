"""Judges what became of a file that a host was to fetch, send or delete [pure]."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import Enum, IntEnum

#: After so long a reply that asked is taken for lost, and the host is asked again.
ASK_AGAIN_AFTER = timedelta(hours=1)
#: After so long a request is given up.
GIVE_UP_AFTER = timedelta(days=30)


class Kind(IntEnum):
    """What is asked of a host; the numbers are the table's."""

    PUT = 1
    GET = 2
    DELETE = 3


class Fate(Enum):
    """What comes next of a request."""

    ASK = "ask"
    WAIT = "wait"
    DONE = "done"
    FAILED = "failed"


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """One open request; `sent_at` is when the host was last asked."""

    kind: int
    file_name: str
    created_at: datetime
    sent_at: datetime | None = None


def judge(
    asked: Asked, *, present: Collection[str], arrived: Collection[str], now: datetime
) -> Fate:
    """What comes next of a request.

    `present` are the sticky files that the host lists, `arrived` the uploads that are complete.
    """
    if is_done(asked, present=present, arrived=arrived):
        return Fate.DONE
    if is_hopeless(asked, present=present, now=now):
        return Fate.FAILED
    if asked.sent_at is not None and now < asked.sent_at + ASK_AGAIN_AFTER:
        return Fate.WAIT
    return Fate.ASK


def is_done(asked: Asked, *, present: Collection[str], arrived: Collection[str]) -> bool:
    """A file is put once the host lists it, gone once it does not, fetched once it is here."""
    if asked.kind == Kind.GET:
        return asked.file_name in arrived
    return (asked.file_name in present) is (asked.kind == Kind.PUT)


def is_hopeless(asked: Asked, *, present: Collection[str], now: datetime) -> bool:
    """A host cannot send what it does not have; and whatever takes a month will not come."""
    if now >= asked.created_at + GIVE_UP_AFTER:
        return True
    return asked.kind == Kind.GET and asked.file_name not in present
