"""Stores trickles from running results, and queues trickles to running results.

A client repeats the trickles of a request until a reply acknowledges all of them.  So the server
acknowledges every trickle, even if it cannot be stored, and stores a repeated trickle once.
Clients do not acknowledge trickles to results, so the server sends each of these trickles once
(PROTOCOL 6.1, 6.2).
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime

from scheduler import wakeups
from scheduler.lifecycle import ServerState
from scheduler.messages.facts import PendingTrickle, ReceivedTrickle
from scheduler.models import Result, TrickleDown
from scheduler.sql import fetch, fetch_one

log = logging.getLogger(__name__)

#: The maximum size of a trickle, and the maximum number of trickles stored per request.
MAX_BYTES = 64 * 1024
MAX_PER_RPC = 1000
#: The maximum number of trickles in a reply, and the maximum length of a line of a trickle.
MAX_DOWN_PER_RPC = 100
MAX_LINE_BYTES = 255
_MAX_VARIETY_LENGTH = 254
_END = "</trickle_down>"


class CannotSend(ValueError):
    """A trickle cannot be sent to a result; the message contains the reason."""


def keep(trickles: Sequence[ReceivedTrickle], *, host_id: int, now: datetime) -> int:
    """Store the trickles of a host's results; return the number of new trickles.

    Afterwards, the server may acknowledge all trickles of the request.  Trickles for results of
    other hosts, trickles of more than `MAX_BYTES`, and trickles after the first `MAX_PER_RPC` are
    dropped, and their numbers are logged.
    """
    if not trickles:
        return 0
    fitting = [trickle for trickle in map(_clean, trickles) if _fits(trickle)]
    accepted = fitting[:MAX_PER_RPC]
    row = fetch_one(
        "messages/keep_trickles",
        {
            "result_names": [trickle.result_name for trickle in accepted],
            "varieties": [trickle.variety for trickle in accepted],
            "said_ats": [trickle.said_at for trickle in accepted],
            "texts": [trickle.text for trickle in accepted],
            "host_id": host_id,
            "now": now,
        },
    )
    n_new, n_unknown = (row["kept"], row["unknown"]) if row else (0, 0)
    dropped = {
        "unknown": n_unknown,
        "too_long": len(trickles) - len(fitting),
        "too_many": len(fitting) - len(accepted),
    }
    if any(dropped.values()):
        log.warning("trickles_dropped", extra={"host_id": host_id, **dropped})
    if n_new:
        wakeups.after_commit("trickle_handler")
    return int(n_new)


def pending_down(host_id: int, *, now: datetime) -> list[PendingTrickle]:
    """Return the oldest pending trickles to a host's results, and mark the trickles as sent.

    At most `MAX_DOWN_PER_RPC` trickles are returned, oldest first.  The client names the file of a
    trickle by its `time`, so all trickles to one result have different times.
    """
    rows = fetch(
        "messages/take_trickles_down", {"host_id": host_id, "limit": MAX_DOWN_PER_RPC, "now": now}
    )
    last: dict[str, int] = {}
    pending = []
    for row in sorted(rows, key=lambda row: row["id"]):
        name = row["result_name"]
        time = max(int(row["created_at"].timestamp()), last.get(name, 0) + 1)
        last[name] = time
        pending.append(PendingTrickle(result_name=name, time=time, text=row["text"]))
    return pending


def send_down(result_name: str, text: str, *, now: datetime) -> TrickleDown:
    """Queue a text for a running result; it is sent with the next reply to the result's host.

    Raises `CannotSend` if the result is unknown or not in progress, or if `fault_of`
    returns a fault of the text.
    """
    if fault := fault_of(text):
        raise CannotSend(fault)
    result = Result.objects.filter(name=result_name).first()
    if result is None:
        msg = f"There is no result {result_name!r}. Hint: look it up with `manage.py explain`."
        raise CannotSend(msg)
    if result.server_state != ServerState.IN_PROGRESS or result.host_id is None:
        state = ServerState(result.server_state).name.lower()
        msg = f"Result {result_name} is {state}. Hint: only results in progress receive trickles."
        raise CannotSend(msg)
    return TrickleDown.objects.create(
        host_id=result.host_id,
        result_id=result.pk,
        result_name=result.name,
        text=text.strip("\n"),
        created_at=now,
    )


def fault_of(text: str) -> str | None:
    """Return why a text cannot be sent as a trickle, with a hint, or None if it can be sent.

    A text must not be empty, have more than `MAX_BYTES`, or contain a control character or the end
    tag.  A line has at most `MAX_LINE_BYTES`, because clients read lines into a buffer of this
    length.
    """
    if not text.strip():
        return "The text is empty. Hint: pass a text."
    if len(text.encode("utf-8", "replace")) > MAX_BYTES:
        return f"The text has more than {MAX_BYTES} bytes. Hint: send a file instead."
    for number, line in enumerate(text.splitlines(), start=1):
        if len(line.encode("utf-8", "replace")) > MAX_LINE_BYTES:
            return f"Line {number} has more than {MAX_LINE_BYTES} bytes. Hint: break the line."
        if not line.replace("\t", " ").isprintable():
            return f"Line {number} has a control character. Hint: send plain text."
    if _END in text:
        return f"The text contains {_END}. Hint: remove it."
    return None


def _fits(trickle: ReceivedTrickle) -> bool:
    return len(trickle.text.encode()) <= MAX_BYTES


def _clean(trickle: ReceivedTrickle) -> ReceivedTrickle:
    """Return the trickle without characters that PostgreSQL rejects: NUL and lone surrogates."""
    return replace(
        trickle,
        result_name=_plain(trickle.result_name),
        variety=_plain(trickle.variety)[:_MAX_VARIETY_LENGTH],
        text=_plain(trickle.text),
    )


def _plain(text: str) -> str:
    return text.replace("\0", "").encode("utf-8", "replace").decode()
