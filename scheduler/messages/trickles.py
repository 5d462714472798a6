"""Keeps what running results say, and says what they shall hear.

A client sends a trickle again until one reply acknowledges all of its request: so all are
acknowledged, the ones that cannot be kept too, and a repeat is kept once.  Of trickles down there
is no acknowledgement at all: sent is done (PROTOCOL 6.1, 6.2).
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from datetime import datetime

from scheduler import wakeups
from scheduler.lifecycle import ServerState
from scheduler.messages.facts import TrickleSaid, TrickleToSay
from scheduler.models import Result, TrickleDown
from scheduler.sql import fetch, fetch_one

log = logging.getLogger(__name__)

#: What one trickle may hold, in bytes, and how many of one request are kept.
MOST_BYTES = 64 * 1024
MOST_PER_RPC = 1000
#: How many trickles down one reply carries, and how long a line of one is at most, in bytes.
MOST_DOWN = 100
LONGEST_LINE = 255
_LONGEST_VARIETY = 254
_END = "</trickle_down>"


class CannotSend(ValueError):
    """A text cannot be said to a result. Hint: each kind of refusal says what to change."""


def keep(trickles: Sequence[TrickleSaid], *, host_id: int, now: datetime) -> int:
    """Keep what results of a host said, in one statement; how many are new.

    May all be acknowledged afterwards: dropped are, with a log line, those of results that are
    not the host's, those of more than `MOST_BYTES`, and those after the first `MOST_PER_RPC`.
    """
    if not trickles:
        return 0
    fitting = [one for one in map(_clean, trickles) if _fits(one)]
    taken = fitting[:MOST_PER_RPC]
    row = fetch_one(
        "messages/keep_trickles",
        {
            "result_names": [one.result_name for one in taken],
            "varieties": [one.variety for one in taken],
            "said_ats": [one.said_at for one in taken],
            "texts": [one.text for one in taken],
            "host_id": host_id,
            "now": now,
        },
    )
    kept, unknown = (row["kept"], row["unknown"]) if row else (0, 0)
    dropped = {
        "unknown": unknown,
        "too_long": len(trickles) - len(fitting),
        "too_many": len(fitting) - len(taken),
    }
    if any(dropped.values()):
        log.warning("trickles dropped", extra={"host_id": host_id, **dropped})
    if kept:
        wakeups.after_commit("trickle_handler")
    return int(kept)


def pending_down(host_id: int, *, now: datetime) -> list[TrickleToSay]:
    """Take what waits for a host's results, oldest first; it is marked as sent.

    Two messages to one result never have the same `time`: the client calls a file by it.
    """
    rows = fetch(
        "messages/take_trickles_down", {"host_id": host_id, "limit": MOST_DOWN, "now": now}
    )
    last: dict[str, int] = {}
    said = []
    for row in sorted(rows, key=lambda row: row["id"]):
        name = row["result_name"]
        time = max(int(row["created_at"].timestamp()), last.get(name, 0) + 1)
        last[name] = time
        said.append(TrickleToSay(result_name=name, time=time, text=row["text"]))
    return said


def send_down(result_name: str, text: str, *, now: datetime) -> TrickleDown:
    """Have a text said to a running result, with the next reply to its host.

    Raises `CannotSend`: an unknown result or one that no host computes, an empty text, a line of
    more than `LONGEST_LINE` bytes, more than `MOST_BYTES`, a control character, the end tag.
    """
    if fault := fault_of(text):
        raise CannotSend(fault)
    result = Result.objects.filter(name=result_name).first()
    if result is None:
        msg = f"There is no result {result_name!r}. Hint: look it up with `manage.py explain`."
        raise CannotSend(msg)
    if result.server_state != ServerState.IN_PROGRESS or result.host_id is None:
        state = ServerState(result.server_state).name.lower()
        msg = f"Result {result_name} is {state}. Hint: only a result in progress can hear."
        raise CannotSend(msg)
    return TrickleDown.objects.create(
        host_id=result.host_id,
        result_id=result.pk,
        result_name=result.name,
        text=text.strip("\n"),
        created_at=now,
    )


def fault_of(text: str) -> str | None:
    """Why a client could not read a text, which it does line by line; None if it can."""
    if not text.strip():
        return "The text is empty. Hint: say something."
    if len(text.encode("utf-8", "replace")) > MOST_BYTES:
        return f"The text has more than {MOST_BYTES} bytes. Hint: send a file instead."
    for number, line in enumerate(text.splitlines(), start=1):
        if len(line.encode("utf-8", "replace")) > LONGEST_LINE:
            return f"Line {number} has more than {LONGEST_LINE} bytes. Hint: break the line."
        if not line.replace("\t", " ").isprintable():
            return f"Line {number} has a control character. Hint: send plain text."
    if _END in text:
        return f"The text holds {_END}. Hint: leave it out."
    return None


def _fits(trickle: TrickleSaid) -> bool:
    return len(trickle.text.encode()) <= MOST_BYTES


def _clean(trickle: TrickleSaid) -> TrickleSaid:
    """What PostgreSQL can keep: no NUL, no half of a surrogate pair."""
    return TrickleSaid(
        result_name=_plain(trickle.result_name),
        said_at=trickle.said_at,
        variety=_plain(trickle.variety)[:_LONGEST_VARIETY],
        text=_plain(trickle.text),
    )


def _plain(text: str) -> str:
    return text.replace("\0", "").encode("utf-8", "replace").decode()
