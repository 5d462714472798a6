"""Ports: one that nobody listens on, and whether a server answers behind one."""

from __future__ import annotations

import socket
import urllib.request
from contextlib import suppress
from http import HTTPStatus
from pathlib import Path
from random import SystemRandom

#: Where we look, below those that Linux gives to whoever calls out.
OURS = range(20_000, 32_000)
CALLERS = Path("/proc/sys/net/ipv4/ip_local_port_range")


def free_port() -> int:
    """Name a port of this computer that nobody listens on now.

    The system gives it to no connection that somebody opens, so that it is still free in a while,
    and whenever a server that has it is started again.
    """
    some = SystemRandom().sample(OURS, min(100, len(OURS)))
    for port in some if OURS.stop <= _first_of_callers() else ():
        with suppress(OSError):
            return _knock(port)
    return _knock(0)


def _knock(port: int) -> int:
    with socket.socket() as knock:
        knock.bind(("127.0.0.1", port))
        return int(knock.getsockname()[1])


def _first_of_callers() -> int:
    with suppress(OSError):
        return int(CALLERS.read_text(encoding="ascii").split()[0])
    return 0


def answers(question: str, *, within: float = 5.0) -> bool:
    """Whether the server gives a good answer to a GET of an address, in so many seconds."""
    # The address is our own: it is made of a host and a port, or of MASTER_URL.
    with suppress(OSError), urllib.request.urlopen(question, timeout=within) as reply:  # noqa: S310
        return bool(reply.status == HTTPStatus.OK)
    return False
