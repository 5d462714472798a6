"""Reads scheduler RPCs from HTTP requests and returns the encoded replies.

`scheduler_app` is the fast path: a plain WSGI function beside Django's application.  An RPC needs
no session, user or middleware, and Django's request handling would double its cost.
"""

from __future__ import annotations

import logging
import random
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from datetime import timedelta
from mmap import ACCESS_READ, mmap
from tempfile import SpooledTemporaryFile
from time import perf_counter
from typing import TYPE_CHECKING

from django.conf import settings
from django.db import InterfaceError, OperationalError, close_old_connections, connection
from django.utils import timezone

from scheduler import metrics
from scheduler.boinc import compose, conversation
from scheduler.boinc.call_batches import Batches, QueueFull
from scheduler.boinc.conversation import Call
from scheduler.boinc.database_outages import database_watchdog, outage_log
from scheduler.boinc.rules import addresses
from scheduler.boinc.wire import replies, requests
from scheduler.boinc.wire.messages import SchedulerReply, SchedulerRequest
from scheduler.boinc.wire.xml import BadXml
from scheduler.health import maintenance
from scheduler.metrics import RpcOutcome
from scheduler.sql import plans

if TYPE_CHECKING:
    from wsgiref.types import StartResponse, WSGIEnvironment

    from scheduler.boinc.wire.spare import Body

log = logging.getLogger(__name__)

MINUTE = timedelta(minutes=1)
HOUR = 3600.0
BUSY = "The project has more requests than it can answer; your client will try again."
#: The maximum number of RPCs in one transaction.
MAX_BATCH = 32
#: The size of a read from a request's body.
_CHUNK_BYTES = 1 << 18
#: Longer requests are spooled to disk until they are complete.  Then they are decoded and answered
#: one at a time; at most `_MAX_LONG` are in the queue, for up to `_LONG_TIMEOUT_SECONDS` each.
_LONG_BYTES = 1 << 20
_LONG_TIMEOUT_SECONDS = 10.0
_MAX_LONG = 8
_long_lock = threading.Lock()
_long_slots = threading.BoundedSemaphore(_MAX_LONG)


def scheduler_app(environ: WSGIEnvironment, start_response: StartResponse) -> Iterable[bytes]:
    """Answer one scheduler RPC as a WSGI application.

    Unexpected errors are logged, and the status is 500.
    """
    if environ["REQUEST_METHOD"] not in ("POST", "GET"):
        start_response("405 Method Not Allowed", [("Allow", "POST"), ("Content-Length", "0")])
        return [b""]
    close_old_connections()
    try:
        # A chunked body has no length and is read to its end.
        is_chunked = "chunked" in environ.get("HTTP_TRANSFER_ENCODING", "").lower()
        length = environ.get("CONTENT_LENGTH") or ("" if is_chunked else "0")
        body = reply(
            length,
            environ["wsgi.input"].read,
            environ.get("REMOTE_ADDR", ""),
            attached_url=attached_url_of(environ),
        )
    except Exception:
        # The client retries after its own back-off, with the same reports.
        log.exception("scheduler_failed")
        metrics.RPCS[RpcOutcome.ERROR].inc()
        start_response("500 Internal Server Error", [("Content-Length", "0")])
        return [b""]
    finally:
        close_old_connections()
    start_response("200 OK", [("Content-Type", "text/xml"), ("Content-Length", str(len(body)))])
    return [body]


def reply(
    length: str, read: Callable[[int], bytes], ip_addr: str, *, attached_url: str = ""
) -> bytes:
    """Read a request and return its encoded reply, which may be a refusal.

    `length` is the Content-Length; if it is empty, the body is read to its end.  `attached_url` is
    the URL of the project at which the request arrived, if it is not the current one.
    """
    config = settings.PROJECT
    max_bytes = config.max_request_bytes
    decoded_at: float | None = None
    # The outcome of a request that is refused here; `conversation` counts the others.
    refused: RpcOutcome | None
    keeps_tasks, client_version = True, 0
    try:
        with _received(length, read, max_bytes=max_bytes) as body:
            # Clients send a wrong content type (trap 2), so the raw bytes are read, never a form.
            # No local variable refers to the bytes, so that they are freed after decoding.
            request = requests.decode_request(body(), max_results=config.max_results_accepted)
            keeps_tasks = addresses.has_tasks(request)
            client_version = request.client_version
            decoded_at = perf_counter()
            answer, refused = _answer(request, ip_addr)
            # A long request is freed before the next one is decoded.
            del request
    except (_TooLong, BadXml, QueueFull, OperationalError, InterfaceError) as error:
        answer, refused = _refuse(error)
    if attached_url and attached_url != config.master_url:
        answer = addresses.reply_at(
            attached_url, answer, keeps_tasks=keeps_tasks, client_version=client_version
        )
    encoded = replies.encode_reply(answer)
    if refused is not None:
        metrics.RPCS[refused].inc()
    if decoded_at is not None:
        metrics.RPC_SECONDS.observe(perf_counter() - decoded_at)
    return encoded


def _answer(request: SchedulerRequest, ip_addr: str) -> tuple[SchedulerReply, RpcOutcome | None]:
    """Return the reply to a request, and MAINTENANCE if it is refused because of maintenance."""
    config = settings.PROJECT
    if notice := maintenance.stops_scheduler():
        delay = notice.delay(timezone.now())
        refusal = compose.refusal(config, notice.text, delay=delay, down=True)
        return refusal, RpcOutcome.MAINTENANCE
    answer = _batches.answer(Call(request, ip_addr), max_queued=config.max_waiting_rpcs)
    outage_log.end()
    if _batches.is_crowded:
        delay = max(answer.request_delay or 0.0, _spread(config.busy_delay))
        answer = replace(answer, request_delay=delay)
    return answer, None


def _refuse(error: Exception) -> tuple[SchedulerReply, RpcOutcome]:
    """Return the reply to a request that could not be answered, and its outcome."""
    config = settings.PROJECT
    if isinstance(error, _TooLong):
        log.warning("request_too_long", extra={"bytes": str(error)})
        text = f"Your request is longer than {config.max_request_bytes >> 20} MB; it was not read."
        return compose.refusal(config, text, delay=HOUR), RpcOutcome.TOO_LONG
    if isinstance(error, BadXml):
        text = f"Your request cannot be read: {error}"
        return compose.refusal(config, text, delay=HOUR), RpcOutcome.UNREADABLE
    if isinstance(error, QueueFull):
        delay = _spread(config.busy_delay)
        return compose.refusal(config, BUSY, delay=delay, down=True), RpcOutcome.SERVER_BUSY
    # Clients repeat reports that are not acknowledged, so no report is lost.
    outage_log.begin(database_watchdog.cause_of(error))
    text = "The project's database is unavailable; your client will try again."
    delay = _spread(MINUTE)
    return compose.refusal(config, text, delay=delay, down=True), RpcOutcome.DATABASE


def attached_url_of(environ: WSGIEnvironment) -> str:
    """Return the URL of the project, current or former, at which the request arrived."""
    # Headers about the scheme that no trusted proxy sent have been removed.
    scheme = environ.get("HTTP_X_FORWARDED_PROTO") or environ.get("wsgi.url_scheme", "http")
    url: str = settings.PROJECT.attached_url(scheme, environ.get("HTTP_HOST", ""))
    return url


class _TooLong(Exception):
    """A request is longer than `max_request_bytes`; the text is the size in bytes."""


@contextmanager
def _received(
    length: str, read: Callable[[int], bytes], *, max_bytes: int
) -> Iterator[Callable[[], Body]]:
    """Yield a function that returns a request's body; a long body is a mapped file.

    The block of the `with` statement runs for one long request at a time, to limit memory.  A long
    request is received completely before it enters the queue.  Otherwise a slow client would block
    other clients with long requests, and slow transfers could not be detected and aborted.  Raises
    `_TooLong` if the body is longer than `max_bytes`, and `QueueFull` if too many long requests are
    queued, or if this one is queued for too long.
    """
    if _as_int(length) > max_bytes:
        raise _TooLong(length)
    if length and _as_int(length) <= _LONG_BYTES:
        yield lambda: _body(_as_int(length), read)
        return
    with SpooledTemporaryFile(_LONG_BYTES) as file:
        for chunk in _chunks(int(length or max_bytes + 1), read):
            file.write(chunk)
        size = file.tell()
        if size > max_bytes:
            raise _TooLong(size)
        if size <= _LONG_BYTES:
            file.seek(0)
            yield lambda: _body(size, file.read)
            return
        file.flush()
        if not _long_slots.acquire(blocking=False):
            raise QueueFull
        try:
            if not _long_lock.acquire(timeout=_LONG_TIMEOUT_SECONDS):
                raise QueueFull
            try:
                yield lambda: mmap(file.fileno(), size, access=ACCESS_READ)
            finally:
                _long_lock.release()
        finally:
            _long_slots.release()


def _body(nbytes: int, read: Callable[[int], bytes]) -> bytearray:
    body = bytearray()
    for chunk in _chunks(nbytes, read):
        body += chunk
    return body


def _chunks(nbytes: int, read: Callable[[int], bytes]) -> Iterator[bytes]:
    """Yield up to `nbytes` bytes in chunks, or less if the client ends the body earlier."""
    while nbytes > 0 and (chunk := read(min(nbytes, _CHUNK_BYTES))):
        yield chunk
        nbytes -= len(chunk)


def _as_int(length: str) -> int:
    return int(length) if length.isdigit() else 0


def _answer_all(calls: Sequence[Call]) -> list[SchedulerReply | Exception]:
    """Return the reply or the exception for each call; runs in the leader's thread."""
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
    """Return a random delay between 0.5 and 1.5 times `delay`, in seconds.

    It spreads the retries of hosts whose requests arrived at the same time.
    """
    return delay.total_seconds() * random.uniform(0.5, 1.5)  # noqa: S311  no secret
