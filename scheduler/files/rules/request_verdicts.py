"""Decides the next step of a request to a host about a sticky file [pure]."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import Enum, IntEnum

#: The reply with a request may be lost, so the request is repeated after this time.
ASK_AGAIN_AFTER = timedelta(hours=1)
#: A request is given up after this time.
GIVE_UP_AFTER = timedelta(days=30)


class Kind(IntEnum):
    """The action that is requested of a host; the numbers are stored in the table."""

    PUT = 1
    GET = 2
    DELETE = 3


class Fate(Enum):
    """The next step of a request; `ASK` means that the request is sent to the host."""

    ASK = "ask"
    WAIT = "wait"
    DONE = "done"
    FAILED = "failed"


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenRequest:
    """An open request; `sent_at` is the time at which it was last sent to the host."""

    kind: int
    file_name: str
    created_at: datetime
    sent_at: datetime | None = None


def judge(
    request: OpenRequest, *, present: Collection[str], arrived: Collection[str], now: datetime
) -> Fate:
    """Return the next step of a request.

    `present` has the names of the sticky files that the host lists.  `arrived` has the names of
    complete uploads.
    """
    if is_done(request, present=present, arrived=arrived):
        return Fate.DONE
    if is_hopeless(request, present=present, now=now):
        return Fate.FAILED
    if request.sent_at is not None and now < request.sent_at + ASK_AGAIN_AFTER:
        return Fate.WAIT
    return Fate.ASK


def is_done(request: OpenRequest, *, present: Collection[str], arrived: Collection[str]) -> bool:
    """Return whether the host lists the file (PUT), omits it (DELETE), or uploaded it (GET)."""
    if request.kind == Kind.GET:
        return request.file_name in arrived
    return (request.file_name in present) is (request.kind == Kind.PUT)


def is_hopeless(request: OpenRequest, *, present: Collection[str], now: datetime) -> bool:
    """Return whether a request is too old, or is a GET of a file that the host does not list."""
    if now >= request.created_at + GIVE_UP_AFTER:
        return True
    return request.kind == Kind.GET and request.file_name not in present
