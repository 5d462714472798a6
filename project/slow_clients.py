"""Cuts connections of clients that send or read too slowly, to free their threads.

A WSGI thread waits in `wsgi.input.read` until a client has sent its body, and in granian's response
channel until a client has read its reply.  Granian sets no limit to either, so some hundred
connections that send a byte a second would occupy every thread.  nginx buffers both directions;
this module is for a web server without a proxy.

Theory of operation.  `Transfers` lists the bodies that are being read and the replies that are
being sent.  A daemon thread checks the list twice a second.  If a transfer is older than a second,
the thread reads the kernel's counters of each connection (`TCP_INFO`).  A connection is cut, by
shutting its socket down, in two cases:

- The client transferred fewer than 10 bytes a second for 300 seconds.  BOINC's own client gives up
  such a transfer, too.
- More than `max_slow` transfers in one direction are slow at the same time.  Then the slowest
  connections are cut, starting with the network that has the most slow transfers, until three
  quarters of `max_slow` are left.  A single slow client is not cut as long as other networks have
  more slow transfers.  A complete request that waits for a thread transfers no bytes either.
  Threads are assigned in the order of arrival, so the oldest idle connections are cut first, and
  new idle connections only after slow senders.

After a cut, the client reconnects and resumes its upload or download.

Granian provides the address of a request, but not its connection.  Therefore this module selects
the connections of an address by their counters.  It selects a connection if, now and half a second
before, the client was the last to send (for a body), or had unread data (for a reply).  If these
connections are too few, idle connections are cut as well: a client may request `100 Continue` and
then send nothing.  Without Linux's `/proc`, no connection is cut.
"""

from __future__ import annotations

import logging
import os
import socket
import struct
import threading
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from fcntl import ioctl
from ipaddress import IPv6Address, ip_address, ip_network
from pathlib import Path
from termios import TIOCOUTQ
from time import monotonic
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from wsgiref.types import WSGIEnvironment

log = logging.getLogger(__name__)

#: The interval of the checks; seconds.
PAUSE_SECONDS: Final = 0.5
#: A transfer is slow if one piece (at most 256 KiB) takes longer than this.  Most bodies arrive
#: together with their headers, so they are not slow.
SLOW_AFTER_SECONDS: Final = 1.0
#: BOINC's own client gives up a transfer that is slower than this for `STALL_SECONDS`.
MIN_BYTES_PER_SECOND: Final = 10
STALL_SECONDS: Final = 300.0
#: The part of `max_slow` that remains after a cut, so that the next slow client causes no new cut.
KEPT_SHARE: Final = 0.75
#: Bytes that are added for a body without new bytes, because the request may be complete and wait
#: for a thread.  They are divided by the seconds since the last byte: after half a second the speed
#: is 4000 bytes a second, after a minute 33.
QUIET_BYTES: Final = 2000
#: Minimum time between two log messages; seconds.
LOG_PAUSE_SECONDS: Final = 60.0
#: `struct tcp_info` of linux/tcp.h: the offsets of the ages (milliseconds) and the byte counters.
_TCP_INFO_BYTES: Final = 136
_DESCRIPTORS: Final = Path("/proc/self/fd")
_LAST_SENT, _LAST_RECEIVED, _COUNTERS = 8 + 4 * 9, 8 + 4 * 11, 120


class Transfers:
    """Lists the transfers of this process in one direction.

    A transfer is a request body that is being read (`incoming`), or a reply that is being sent.
    `max_slow` is the number of transfers that may be slow at the same time.
    """

    __slots__ = ("active", "incoming", "max_slow")

    def __init__(self, *, incoming: bool, max_slow: int) -> None:
        self.incoming = incoming
        self.max_slow = max_slow
        #: The transfers are the keys of a dict, because single operations on a dict are atomic.
        self.active: dict[Body | Reply, None] = {}

    def slow(self, now: float) -> list[Body | Reply]:
        """Return the transfers whose current piece takes longer than `SLOW_AFTER_SECONDS`."""
        return [each for each in list(self.active) if now - each.began > SLOW_AFTER_SECONDS]


class Body:
    """Wraps a request's body (`wsgi.input`), and lists it in `Transfers` during each read."""

    __slots__ = ("_bodies", "_input", "address", "began", "port")

    def __init__(self, environ: WSGIEnvironment, bodies: Transfers) -> None:
        self._input: Any = environ["wsgi.input"]
        self._bodies = bodies.active
        self.address: str = environ.get("REMOTE_ADDR", "")
        self.port: str = environ.get("SERVER_PORT", "")
        self.began = 0.0

    def read(self, size: int | None = None) -> bytes:
        return self._listed(self._input.read, size)

    def readline(self, size: int | None = None) -> bytes:
        return self._listed(self._input.readline, size)

    def _listed(self, read: Callable[[int | None], bytes], size: int | None) -> bytes:
        if size is not None and size < 0:
            size = None
        self.began = monotonic()
        self._bodies[self] = None
        try:
            return read(size)
        finally:
            del self._bodies[self]


class Reply:
    """Wraps the pieces of a reply, and lists the reply in `Transfers` while a piece is sent."""

    __slots__ = ("_iterator", "_pieces", "_replies", "address", "began", "port")

    def __init__(
        self, pieces: Iterable[bytes], address: str, port: str, replies: Transfers
    ) -> None:
        self._pieces = pieces
        self._iterator = iter(pieces)
        self._replies = replies.active
        self.address, self.port = address, port
        self.began = 0.0

    def __iter__(self) -> Iterator[bytes]:
        return self

    def __next__(self) -> bytes:
        # The client does not cause the time in which the server computes the next piece.
        self._replies.pop(self, None)
        piece = next(self._iterator)
        self.began = monotonic()
        self._replies[self] = None
        return piece

    def close(self) -> None:
        """Remove the reply from `Transfers`, and close the wrapped iterable."""
        self._replies.pop(self, None)
        if (close := getattr(self._pieces, "close", None)) is not None:
            close()


@dataclass(frozen=True, slots=True)
class Counters:
    """The kernel's counters of a TCP connection.

    `received` counts bytes from the client, and `acknowledged` bytes that the client has received.
    `unsent` is the number of bytes that the client has not acknowledged yet.
    """

    received: int
    acknowledged: int
    client_sent_last: bool
    unsent: int
    #: Seconds since the client's last byte.
    quiet_seconds: float


@dataclass(slots=True)
class Sighting:
    """The state of a connection at the first check of its current request or reply.

    With `is_idle`, the kernel's counters do not show whether the server waits for the client.
    """

    since: float
    counters: Counters
    is_idle: bool
    #: The start of the current stall window.
    window_since: float
    window_bytes: int


Connection = tuple[str, int]


def read_counters(connected: socket.socket) -> Counters:
    """Read the kernel's counters of a connection; raises OSError or struct.error."""
    info = connected.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, _TCP_INFO_BYTES)
    (last_sent,) = struct.unpack_from("=I", info, _LAST_SENT)
    (last_received,) = struct.unpack_from("=I", info, _LAST_RECEIVED)
    acknowledged, received = struct.unpack_from("=QQ", info, _COUNTERS)
    (unsent,) = struct.unpack("=i", ioctl(connected.fileno(), TIOCOUTQ, bytes(4)))
    sent_last = received > 0 and (last_received < last_sent or acknowledged <= 1)
    return Counters(
        received,
        acknowledged,
        client_sent_last=sent_last,
        unsent=unsent,
        quiet_seconds=last_received / 1000,
    )


def connections_of(addresses: set[str], port: int) -> Iterator[socket.socket]:
    """Yield duplicates of this process's connections from `addresses` to its port `port`.

    Each duplicate is closed when the next one is yielded.
    """
    for file in _DESCRIPTORS.iterdir() if _DESCRIPTORS.exists() else ():
        with suppress(OSError, ValueError):
            if not str(file.readlink()).startswith("socket:"):
                continue
            with socket.socket(fileno=os.dup(int(file.name))) as connected:
                if connected.family not in (socket.AF_INET, socket.AF_INET6):
                    continue
                if connected.getsockname()[1] != port:
                    continue
                if connected.getpeername()[0] in addresses:
                    yield connected


def network_of(address: str) -> str:
    """Return the network of an address, which usually belongs to a single customer.

    This is an IPv4 address, or an IPv6 network with a prefix of 64 bits.

    >>> network_of("192.0.2.7"), network_of("2001:db8:1:2:3::4")
    ('192.0.2.7', '2001:db8:1:2::/64')
    """
    with suppress(ValueError):
        parsed = ip_address(address.partition("%")[0])
        if isinstance(parsed, IPv6Address) and parsed.ipv4_mapped is None:
            return str(ip_network((parsed, 64), strict=False))
    return address


def excess_by_network(networks: Sequence[str], max_slow: int) -> Counter[str]:
    """Return the number of slow transfers to cut, by network.

    `networks` contains the network of each slow transfer.

    >>> excess_by_network(["a"] * 9 + ["b"] * 2, max_slow=8)
    Counter({'a': 5})
    """
    excess: Counter[str] = Counter()
    if len(networks) <= max_slow:
        return excess
    counts = Counter(networks)
    for _ in range(len(networks) - int(max_slow * KEPT_SHARE)):
        largest = max(counts, key=counts.__getitem__)
        counts[largest] -= 1
        excess[largest] += 1
    return excess


class Watch:
    """Checks the transfers of one direction, and cuts connections."""

    def __init__(self, transfers: Transfers) -> None:
        self._transfers = transfers
        self._seen: dict[Connection, Sighting] = {}
        self._logged_at = -LOG_PAUSE_SECONDS

    def look(self, now: float) -> int:
        """Cut stalled connections and return the number of cut connections.

        If more than `max_slow` transfers are slow, the slowest connections are cut as well.
        """
        slow = self._transfers.slow(now)
        if not slow:
            self._seen.clear()
            return 0
        is_crowded = len(slow) > self._transfers.max_slow
        if not is_crowded and all(now - each.began <= STALL_SECONDS / 2 for each in slow):
            self._seen.clear()
            return 0
        addresses = {each.address for each in slow}
        # All requests of a process arrive at one port.
        waiting = self._waiting(addresses, int(slow[0].port or 0), now)
        excess = excess_by_network(
            [network_of(each.address) for each in slow], self._transfers.max_slow
        )
        chosen = list(self._choose(waiting, excess, now))
        cut = [peer for peer in chosen if _shut_down(peer, int(slow[0].port or 0))]
        if cut and now - self._logged_at >= LOG_PAUSE_SECONDS:
            self._logged_at = now
            log.warning(
                "slow_clients_cut",
                extra={
                    "direction": "incoming" if self._transfers.incoming else "outgoing",
                    "slow": len(slow),
                    "cut": len(cut),
                    "address": cut[0][0],
                },
            )
        return len(cut)

    def _waiting(
        self, addresses: set[str], port: int, now: float
    ) -> dict[Connection, tuple[Sighting, Counters]]:
        """Return the connections that still transfer the same request or reply, or are still idle.

        The values are the state at the first check and the present counters.
        """
        waiting: dict[Connection, tuple[Sighting, Counters]] = {}
        seen: dict[Connection, Sighting] = {}
        for connected in connections_of(addresses, port):
            try:
                counters = read_counters(connected)
                peer = connected.getpeername()[:2]
            except (OSError, struct.error):
                continue
            is_idle = not self._waits(counters)
            before = self._seen.get(peer)
            if before is None or not self._goes_on(before, counters, is_idle=is_idle):
                moved = self._moved(counters)
                seen[peer] = Sighting(
                    now, counters, is_idle=is_idle, window_since=now, window_bytes=moved
                )
            else:
                seen[peer] = before
                waiting[peer] = before, counters
        self._seen = seen
        return waiting

    def _waits(self, counters: Counters) -> bool:
        return counters.client_sent_last if self._transfers.incoming else counters.unsent > 0

    def _goes_on(self, before: Sighting, now: Counters, *, is_idle: bool) -> bool:
        """Return whether a connection still has the same request or reply, or is still idle."""
        then = before.counters
        if before.is_idle or is_idle:
            return before.is_idle and is_idle and self._moved(then) == self._moved(now)
        if self._transfers.incoming:
            return then.acknowledged == now.acknowledged
        return then.received == now.received

    def _moved(self, counters: Counters) -> int:
        return counters.received if self._transfers.incoming else counters.acknowledged

    def _choose(
        self,
        waiting: dict[Connection, tuple[Sighting, Counters]],
        excess: Counter[str],
        now: float,
    ) -> Iterator[Connection]:
        def order(peer: Connection) -> tuple[bool, float]:
            first, counters = waiting[peer]
            return first.is_idle, self._speed(first, counters, now)

        left = Counter(excess)
        for peer in sorted(waiting, key=order):
            network = network_of(peer[0])
            if left[network] > 0 or self._is_stalled(*waiting[peer], now=now):
                left[network] -= 1
                yield peer

    def _speed(self, first: Sighting, counters: Counters, now: float) -> float:
        """Return a connection's speed in bytes a second since the first check."""
        moved = self._moved(counters) - self._moved(first.counters)
        if self._transfers.incoming and moved == 0:
            return QUIET_BYTES / max(counters.quiet_seconds, 0.001)
        return moved / (now - first.since)

    def _is_stalled(self, first: Sighting, counters: Counters, *, now: float) -> bool:
        moved = self._moved(counters)
        if first.is_idle or now - first.window_since < STALL_SECONDS:
            return False
        is_stalled = moved - first.window_bytes < MIN_BYTES_PER_SECOND * STALL_SECONDS
        first.window_since, first.window_bytes = now, moved
        return is_stalled


def _shut_down(peer: Connection, port: int) -> bool:
    """Shut down the connection of a peer; return False if it no longer exists."""
    for connected in connections_of({peer[0]}, port):
        with suppress(OSError):
            if connected.getpeername()[:2] == peer:
                connected.shutdown(socket.SHUT_RDWR)
                return True
    return False


def start(*directions: Transfers) -> None:
    """Start a thread that checks the transfers of each direction until the process ends."""
    watches = [Watch(each) for each in directions]

    def look_often() -> None:
        pause = threading.Event()
        while not pause.wait(PAUSE_SECONDS):
            for watch in watches:
                try:
                    watch.look(monotonic())
                except Exception:
                    log.exception("slow_client_watch_failed")

    threading.Thread(target=look_often, name="slow_clients", daemon=True).start()
