"""Bytes in, bytes out: a scheduler RPC as it comes over HTTP, and its short way.

The short way is a plain WSGI function beside Django's: an RPC needs no session, no user and no
middleware, and Django's front would cost as much again as the whole conversation.
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

from scheduler.boinc import absence, conversation, patience
from scheduler.boinc.call_batches import Batches, TooManyWait
from scheduler.boinc.conversation import Call
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
#: So many RPCs share one transaction at most.
MOST_TOGETHER = 32
#: How much of a body is read at once; bytes.
_CHUNK = 1 << 18
#: Requests longer than this, in bytes, are kept on the disk until they are complete.  Then they are
#: decoded and answered one at a time; at most `_MOST_LONG` wait, up to `_PATIENCE` seconds each.
_LONG = 1 << 20
_PATIENCE = 10.0
_MOST_LONG = 8
_one_long = threading.Lock()
_long_ones = threading.BoundedSemaphore(_MOST_LONG)


def scheduler_app(environ: WSGIEnvironment, start_response: StartResponse) -> Iterable[bytes]:
    """Answer one scheduler RPC as a WSGI application; what nobody foresaw is logged, and 500."""
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
        # The client's own back-off does the rest; what it reports comes again.
        log.exception("scheduler_failed")
        start_response("500 Internal Server Error", [("Content-Length", "0")])
        return [b""]
    finally:
        close_old_connections()
    start_response("200 OK", [("Content-Type", "text/xml"), ("Content-Length", str(len(body)))])
    return [body]


def _length(environ: WSGIEnvironment) -> str:
    """The Content-Length; empty if the body comes in chunks and ends where it ends."""
    is_chunked = "chunked" in environ.get("HTTP_TRANSFER_ENCODING", "").lower()
    return environ.get("CONTENT_LENGTH") or ("" if is_chunked else "0")


def reply(length: str, read: Callable[[int], bytes], ip_addr: str) -> bytes:
    """Read a request and return the reply; refusals are replies, too.

    `length` is its Content-Length, empty if it is read to its end.
    """
    return replies.encode_reply(_answer(length, read, ip_addr))


class _TooLong(Exception):
    """The request is longer than the project reads; not all of it was."""


def _body(length: str, read: Callable[[int], bytes], *, most: int) -> bytearray:
    """Read a request's body, piece by piece; raises `_TooLong` if it has more than `most` bytes."""
    left = _whole(length)
    if left > most:
        raise _TooLong
    body = bytearray()
    while left > 0 and (chunk := read(min(left, _CHUNK))):
        body += chunk
        left -= len(chunk)
    return body


def _spool(length: str, read: Callable[[int], bytes], kept: IO[bytes], *, most: int) -> str:
    """Keep a body in a file, up to its end or a little more than `most` bytes; returns its size.

    `length` is empty if it is not declared.
    """
    left = int(length) if length else most + 1
    while left > 0 and (chunk := read(min(left, _CHUNK))):
        kept.write(chunk)
        left -= len(chunk)
    size = kept.tell()
    kept.seek(0)
    return str(size)


def _answer(length: str, read: Callable[[int], bytes], ip_addr: str) -> SchedulerReply:
    """Answer a short request at once; decode long ones one at a time, because they need memory.

    A long request is read completely before it waits for its turn: otherwise a slow client would
    block the others, whose requests would not count as slow transfers, which are cut.
    """
    most = settings.PROJECT.max_request_bytes
    if length and not _LONG < _whole(length) <= most:
        return _answer_now(length, read, ip_addr)
    with SpooledTemporaryFile(_LONG) as kept:
        size = _spool(length, read, kept, most=most)
        if int(size) <= _LONG:
            return _answer_now(size, kept.read, ip_addr)
        if not _long_ones.acquire(blocking=False):
            return _busy()
        try:
            if not _one_long.acquire(timeout=_PATIENCE):
                return _busy()
            try:
                return _answer_now(size, kept.read, ip_addr)
            finally:
                _one_long.release()
        finally:
            _long_ones.release()


def _whole(length: str) -> int:
    return int(length) if length.isdigit() else 0


def _busy() -> SchedulerReply:
    config = settings.PROJECT
    return conversation.refuse(config, BUSY, delay=_spread(config.busy_delay), down=True)


def _answer_now(length: str, read: Callable[[int], bytes], ip_addr: str) -> SchedulerReply:
    config = settings.PROJECT
    try:
        # The content type lies (trap 2): the raw bytes are read, never a form. Nobody keeps them.
        message = requests.decode_request(
            _body(length, read, most=config.max_request_bytes),
            most_results=config.max_results_accepted,
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
        said = _batches.answer(Call(message, ip_addr), most_waiting=config.max_waiting_rpcs)
    except TooManyWait:
        return conversation.refuse(config, BUSY, delay=_spread(config.busy_delay), down=True)
    except (OperationalError, InterfaceError) as error:
        # Clients lose nothing: what is not acknowledged comes again.
        absence.of_the_database.begins(patience.with_the_database.cause_of(error))
        text = "The project's database is away for the moment; your client will try again."
        return conversation.refuse(config, text, delay=_spread(MINUTE), down=True)
    absence.of_the_database.ends()
    return _at_leisure(said, config)


def _answer_all(calls: Sequence[Call]) -> list[SchedulerReply | Exception]:
    try:
        with patience.with_the_database.waiting():
            plans.renew()
            return conversation.answer_all(calls, config=settings.PROJECT, now=timezone.now())
    finally:
        # The next to lead needs a connection, while this thread writes its own reply.
        if not connection.in_atomic_block:
            close_old_connections()


_batches: Batches[Call, SchedulerReply] = Batches(_answer_all, most=MOST_TOGETHER)


def _spread(delay: timedelta) -> float:
    """About so long, in seconds, and for each another time: who came together comes apart."""
    return delay.total_seconds() * random.uniform(0.5, 1.5)  # noqa: S311  no secret


def _at_leisure(said: SchedulerReply, config: ProjectConfig) -> SchedulerReply:
    """The reply; while more wait than fit into one batch, its host comes again when few do."""
    if not _batches.is_crowded:
        return said
    return replace(said, request_delay=max(said.request_delay or 0.0, _spread(config.busy_delay)))
