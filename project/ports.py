"""Finds a free port, and checks whether a server answers."""

from __future__ import annotations

import socket
import urllib.request
from contextlib import suppress
from http import HTTPStatus
from pathlib import Path
from random import SystemRandom

#: The ports to try, below those that Linux assigns to outgoing connections.
CANDIDATES = range(20_000, 32_000)
EPHEMERAL_RANGE_FILE = Path("/proc/sys/net/ipv4/ip_local_port_range")


def free_port() -> int:
    """Return a port of 127.0.0.1 on which no process listens now.

    If possible, this is one of `CANDIDATES`.  The system does not assign these to outgoing
    connections, so the port stays free while a server that uses it is restarted.
    """
    ports = SystemRandom().sample(CANDIDATES, min(100, len(CANDIDATES)))
    for port in ports if CANDIDATES.stop <= _first_ephemeral_port() else ():
        with suppress(OSError):
            return _bind(port)
    return _bind(0)


def _bind(port: int) -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", port))
        return int(probe.getsockname()[1])


def _first_ephemeral_port() -> int:
    with suppress(OSError):
        return int(EPHEMERAL_RANGE_FILE.read_text(encoding="ascii").split()[0])
    return 0


def answers(url: str, *, within: float = 5.0) -> bool:
    """Return whether the server answers a GET of `url` with 200 within `within` seconds."""
    # The URL is trusted: it is built from a host and a port, or from MASTER_URL.
    with suppress(OSError), urllib.request.urlopen(url, timeout=within) as reply:  # noqa: S310
        return bool(reply.status == HTTPStatus.OK)
    return False
