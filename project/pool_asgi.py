"""Defines the ASGI application of `runpool`, the long poll of the pool."""

from __future__ import annotations

import asyncio
import json
import multiprocessing
import os
import signal
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final, TypeVar
from urllib.parse import parse_qsl

from daemons.science.kernel import die_with_parent

# As in `project.wsgi`: a worker must not outlive its parent.
if (parent := multiprocessing.parent_process()) is not None:
    die_with_parent(parent.pid, by=signal.SIGKILL)

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "project.settings")

import django

django.setup()

from django.conf import settings  # noqa: E402 - needs Django to be set up
from django.db import connection  # noqa: E402 - as above
from django.utils import timezone  # noqa: E402 - as above

from project.proxies import client_address  # noqa: E402 - needs the settings read
from scheduler.api.http.problems import CONTENT_TYPE, problem  # noqa: E402 - as above
from scheduler.health import installation  # noqa: E402 - as above
from scheduler.people import audit  # noqa: E402 - as above
from scheduler.pool import cancellations, host_tokens  # noqa: E402 - as above
from scheduler.pool.waiting import (  # noqa: E402 - as above
    NotOfThePool,
    Refused,
    TooManyRequests,
    WaitingRoom,
)

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Collection, Mapping

    from scheduler.pool.cancellations import Cancellations
    from scheduler.pool.facts import PoolHost

    Scope = Mapping[str, Any]
    Receive = Callable[[], Awaitable[Mapping[str, Any]]]
    Send = Callable[[Mapping[str, Any]], Awaitable[None]]

installation.refuse_incomplete_restore()

T = TypeVar("T")

PATH: Final = "/api/v1/pool/wait"
MAX_WAIT_SECONDS: Final = 60
_MAX_CURSOR: Final = 64
_MAX_QUERY: Final = 1000
_NOT_FOUND: Final = problem(
    404, "not_found", "The resource does not exist, or it belongs to another account."
)


def _recognize(token: str, address: str) -> PoolHost | None:
    with audit.acting(address=address):
        return _with_connection(host_tokens.recognize, token, now=timezone.now())  # noqa: TID251


def _read(host_ids: Collection[int]) -> Mapping[int, Cancellations]:
    return _with_connection(cancellations.read, host_ids)


def _with_connection(function: Callable[..., T], *arguments: Any, **options: Any) -> T:
    """Call a function; close the connection of the thread after an error."""
    try:
        return function(*arguments, **options)
    except Exception:
        connection.close()
        raise


room = WaitingRoom(_recognize, _read)


class BadRequest(ValueError):
    """A query parameter is not valid. Hint: see the message."""


async def application(scope: Scope, receive: Receive, send: Send) -> None:
    if scope["type"] == "lifespan":
        await _live(receive, send)
    elif scope["type"] == "http":
        await _respond(scope, receive, send)


async def _live(receive: Receive, send: Send) -> None:
    while True:
        message = await receive()
        await send({"type": f"{message['type']}.complete"})
        if message["type"] == "lifespan.shutdown":
            room.close()
            return


async def _respond(scope: Scope, receive: Receive, send: Send) -> None:
    """Answer one request, unless its client disconnects first."""
    answering = asyncio.ensure_future(_answer(scope))
    leaving = asyncio.ensure_future(_disconnected(receive))
    try:
        await asyncio.wait({answering, leaving}, return_when=asyncio.FIRST_COMPLETED)
        if not answering.done():
            return
        status, body, headers = answering.result()
    finally:
        for task in (answering, leaving):
            task.cancel()
            with suppress(asyncio.CancelledError, Exception):
                await task
    content = json.dumps(body).encode()
    kind = "application/json" if status == 200 else CONTENT_TYPE  # noqa: PLR2004  OK
    fields = {"content-type": kind, "content-length": str(len(content)), **headers}
    fields["cache-control"] = "no-store"
    pairs = [(name.encode(), value.encode()) for name, value in fields.items()]
    await send({"type": "http.response.start", "status": status, "headers": pairs})
    await send({"type": "http.response.body", "body": content})


async def _disconnected(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass


async def _answer(scope: Scope) -> tuple[int, Mapping[str, Any], Mapping[str, str]]:
    """Return the status, the body and the headers of the response."""
    headers = {name.decode("latin-1").lower(): value for name, value in scope["headers"]}
    token = _token(headers.get("authorization", b"").decode("latin-1"))
    if scope["path"] != PATH or scope["method"] != "GET" or token is None:
        return 404, _NOT_FOUND, {}
    try:
        cursor, timeout = _parameters(scope["query_string"])
        cancelled = await room.answer(
            token, _address(scope, headers), cursor=cursor, timeout_seconds=timeout
        )
    except BadRequest as error:
        return 400, problem(400, "invalid", str(error)), {}
    except NotOfThePool:
        text = (
            "The host token is unknown, expired or revoked, or its host is denied. "
            "Hint: create another one with `manage.py pool enroll HOST`."
        )
        return 401, problem(401, "authentication_failed", text), {"www-authenticate": "Bearer"}
    except Refused as error:
        status, code = (429, "throttled") if isinstance(error, TooManyRequests) else (503, "busy")
        return status, problem(status, code, str(error)), {"retry-after": str(error.retry_after)}
    except Exception:  # noqa: BLE001 - the database is unavailable, or there is a bug
        text = "The database is unavailable. Hint: send the request again later."
        return 503, problem(503, "database_away", text), {"retry-after": "5"}
    return 200, {"cursor": cancelled.cursor, "aborts": list(cancelled.aborts)}, {}


def _token(header: str) -> str | None:
    words = header.split()
    is_bearer = len(words) == 2 and words[0].lower() == "bearer"  # noqa: PLR2004  scheme and token
    return words[1] if is_bearer and words[1].startswith(host_tokens.PREFIX) else None


def _parameters(query: bytes) -> tuple[str, int]:
    """Return the cursor and the timeout in seconds; raises `BadRequest`."""
    if len(query) > _MAX_QUERY:
        raise BadRequest(f"The query has {len(query)} bytes. Hint: send cursor and timeout only.")
    values = dict(parse_qsl(query.decode("latin-1"), keep_blank_values=True))
    if unknown := values.keys() - {"cursor", "timeout"}:
        msg = f"There is no parameter {min(unknown)[:80]!r}. Hint: valid names: cursor, timeout."
        raise BadRequest(msg)
    cursor, timeout = values.get("cursor", ""), values.get("timeout", str(MAX_WAIT_SECONDS))
    if len(cursor) > _MAX_CURSOR:
        raise BadRequest("The cursor is too long. Hint: send the cursor of the last answer.")
    if not (timeout.isascii() and timeout.isdecimal() and int(timeout[:9]) <= MAX_WAIT_SECONDS):
        msg = f"timeout is {timeout[:20]!r}. Hint: give seconds from 0 to {MAX_WAIT_SECONDS}."
        raise BadRequest(msg)
    return cursor, int(timeout)


def _address(scope: Scope, headers: Mapping[str, bytes]) -> str:
    peer = (scope.get("client") or ("", 0))[0]
    forwarded = headers.get("x-forwarded-for", b"").decode("latin-1")
    return client_address(peer, forwarded, settings.TRUSTED_PROXIES) if forwarded else peer
