"""The scheduler RPC over HTTP: reads a request, has it answered, writes the reply.

`scheduler_app` is the fast path: a plain WSGI function beside Django's.  An RPC needs no session,
user or middleware, and Django's request handling would double its cost.
"""

from __future__ import annotations

import logging
import random
import threading
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from datetime import timedelta
from tempfile import SpooledTemporaryFile
from typing import IO, TYPE_CHECKING

from django.conf import settings
from django.db import InterfaceError, OperationalError, close_old_connections, connection
from django.utils import timezone

from scheduler.boinc import conversation
from scheduler.boinc.absence import outage_log
from scheduler.boinc.call_batches import Batches, QueueFull
from scheduler.boinc.conversation import Call
from scheduler.boinc.patience import database_watchdog
from scheduler.boinc.wire import replies, requests
from scheduler.boinc.wire.messages import SchedulerReply
from scheduler.boinc.wire.xml import BadXml
from scheduler.config import ProjectConfig
from scheduler.health import maintenance
from scheduler.sql import plans

if TYPE_CHECKING:
    from wsgiref.types import StartResponse, WSGIEnvironment

log = logging.getLogger(__name__)

MINUTE = timedelta(minutes=1)
HOUR = 3600.0
BUSY = "The project has more requests than it can answer; your client will try again."
#: The most RPCs that share one transaction.
MAX_BATCH = 32
#: The size of a read from a request's body.
_CHUNK_BYTES = 1 << 18
#: Longer requests are spooled to disk until they are complete.  Then they are decoded and answered
#: one at a time; at most `_MAX_LONG` wait, for up to `_LONG_TIMEOUT_SECONDS` each.
_LONG_BYTES = 1 << 20
_LONG_TIMEOUT_SECONDS = 10.0
_MAX_LONG = 8
_long_lock = threading.Lock()
_long_slots = threading.BoundedSemaphore(_MAX_LONG)


def scheduler_app(environ: WSGIEnvironment, start_response: StartResponse) -> Iterable[bytes]:
    """Answer one scheduler RPC as a WSGI application; an unexpected error is logged, with a 500."""
    if environ["REQUEST_METHOD"] not in ("POST", "GET"):
        start_response("405 Method Not Allowed", [("Allow", "POST"), ("Content-Length", "0")])
        return [b""]
    close_old_connections()
    try:
        body = reply(
            _length(environ),
            environ["wsgi.input"].read,
            environ.get("REMOTE_ADDR", ""),
        )
    except Exception:
        # The client retries after its own back-off, with the same reports.
        log.exception("scheduler_failed")
        start_response("500 Internal Server Error", [("Content-Length", "0")])
        return [b""]
    finally:
        close_old_connections()
    start_response("200 OK", [("Content-Type", "text/xml"), ("Content-Length", str(len(body)))])
    return [body]


def _length(environ: WSGIEnvironment) -> str:
    """Return the Content-Length; empty for a chunked body, which is read to its end."""
    is_chunked = "chunked" in environ.get("HTTP_TRANSFER_ENCODING", "").lower()
    return environ.get("CONTENT_LENGTH") or ("" if is_chunked else "0")


def reply(length: str, read: Callable[[int], bytes], ip_addr: str) -> bytes:
    """Read a request and return its encoded reply, which may be a refusal.

    `length` is the Content-Length; if it is empty, the body is read to its end.
    """
    return replies.encode_reply(_answer(length, read, ip_addr))


class _TooLong(Exception):
    """The request is longer than `max_request_bytes`; not all of it was read."""


def _body(length: str, read: Callable[[int], bytes], *, max_bytes: int) -> bytearray:
    """Read a request's body in chunks; raises `_TooLong` if `length` is more than `max_bytes`."""
    left = _as_int(length)
    if left > max_bytes:
        raise _TooLong
    body = bytearray()
    while left > 0 and (chunk := read(min(left, _CHUNK_BYTES))):
        body += chunk
        left -= len(chunk)
    return body


def _spool(length: str, read: Callable[[int], bytes], file: IO[bytes], *, max_bytes: int) -> str:
    """Copy a request's body to a file and rewind it; returns the number of bytes copied.

    If no length is declared (`length` is empty), at most `max_bytes` + 1 bytes are read.
    """
    left = int(length) if length else max_bytes + 1
    while left > 0 and (chunk := read(min(left, _CHUNK_BYTES))):
        file.write(chunk)
        left -= len(chunk)
    size = file.tell()
    file.seek(0)
    return str(size)


def _answer(length: str, read: Callable[[int], bytes], ip_addr: str) -> SchedulerReply:
    """Answer a short request at once; decode long requests one at a time, to limit memory.

    A long request is read completely before it waits for its turn.  Otherwise a slow client would
    block the others, whose transfers would not be recognized and cut as slow ones.
    """
    max_bytes = settings.PROJECT.max_request_bytes
    if length and not _LONG_BYTES < _as_int(length) <= max_bytes:
        return _answer_now(length, read, ip_addr)
    with SpooledTemporaryFile(_LONG_BYTES) as file:
        size = _spool(length, read, file, max_bytes=max_bytes)
        if int(size) <= _LONG_BYTES:
            return _answer_now(size, file.read, ip_addr)
        if not _long_slots.acquire(blocking=False):
            return _busy()
        try:
            if not _long_lock.acquire(timeout=_LONG_TIMEOUT_SECONDS):
                return _busy()
            try:
                return _answer_now(size, file.read, ip_addr)
            finally:
                _long_lock.release()
        finally:
            _long_slots.release()


def _as_int(length: str) -> int:
    return int(length) if length.isdigit() else 0


def _busy() -> SchedulerReply:
    config = settings.PROJECT
    return conversation.refuse(config, BUSY, delay=_spread(config.busy_delay), down=True)


def _answer_now(length: str, read: Callable[[int], bytes], ip_addr: str) -> SchedulerReply:
    config = settings.PROJECT
    try:
        # The content type is wrong (trap 2): the raw bytes are read, never a form.  The body has no
        # name here, so that it is freed once it is decoded.
        message = requests.decode_request(
            _body(length, read, max_bytes=config.max_request_bytes),
            max_results=config.max_results_accepted,
        )
    except _TooLong:
        log.warning("request_too_long", extra={"bytes": length})
        text = f"Your request is longer than {config.max_request_bytes >> 20} MB; it was not read."
        return conversation.refuse(config, text, delay=HOUR)
    except BadXml as error:
        return conversation.refuse(config, f"Your request cannot be read: {error}", delay=HOUR)
    if shut := maintenance.stops_scheduler():
        delay = shut.delay(timezone.now())
        return conversation.refuse(config, shut.text, delay=delay, down=True)
    try:
        reply = _batches.answer(Call(message, ip_addr), max_queued=config.max_waiting_rpcs)
    except QueueFull:
        return conversation.refuse(config, BUSY, delay=_spread(config.busy_delay), down=True)
    except (OperationalError, InterfaceError) as error:
        # Clients lose nothing: they repeat reports that are not acknowledged.
        outage_log.begin(database_watchdog.cause_of(error))
        text = "The project's database is away for the moment; your client will try again."
        return conversation.refuse(config, text, delay=_spread(MINUTE), down=True)
    outage_log.end()
    return _with_delay(reply, config)


def _answer_all(calls: Sequence[Call]) -> list[SchedulerReply | Exception]:
    try:
        with database_watchdog.watching():
            plans.renew()
            return conversation.answer_all(calls, config=settings.PROJECT, now=timezone.now())
    finally:
        # The next leader needs a connection while this thread encodes its own reply.
        if not connection.in_atomic_block:
            close_old_connections()


_batches: Batches[Call, SchedulerReply] = Batches(_answer_all, max_batch=MAX_BATCH)


def _spread(delay: timedelta) -> float:
    """Return a random time of half to one and a half of `delay`, in seconds.

    So hosts that sent requests at the same moment do not retry at the same moment.
    """
    return delay.total_seconds() * random.uniform(0.5, 1.5)  # noqa: S311  no secret


def _with_delay(reply: SchedulerReply, config: ProjectConfig) -> SchedulerReply:
    """Return the reply, with a longer delay while more calls are queued than fit into one batch."""
    if not _batches.is_crowded:
        return reply
    return replace(reply, request_delay=max(reply.request_delay or 0.0, _spread(config.busy_delay)))
