"""Ports: one that nobody listens on, and whether a server answers behind one."""

from __future__ import annotations

import socket
import urllib.request
from contextlib import suppress
from http import HTTPStatus


def free_port() -> int:
    """Name a port of this computer that nobody listens on now."""
    with socket.socket() as knock:
        knock.bind(("127.0.0.1", 0))
        return int(knock.getsockname()[1])


def answers(question: str, *, within: float = 5.0) -> bool:
    """Whether the server gives a good answer to a GET of an address, in so many seconds."""
    # The address is our own: it is made of a host and a port, or of MASTER_URL.
    with suppress(OSError), urllib.request.urlopen(question, timeout=within) as reply:  # noqa: S310
        return bool(reply.status == HTTPStatus.OK)
    return False
