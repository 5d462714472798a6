"""Limits the rate of upload size queries per network, with token buckets."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from threading import Lock
from time import monotonic

#: An idle network may send a burst of the queries allowed in this time, because many clients behind
#: one address reconnect together after an outage.
BURST_SECONDS = 10.0
MAX_NETWORKS = 20_000
_SIXTY_FOUR_BITS = 4
"""The number of groups of an IPv6 address that form its network."""


class SizeQueries:
    """Limits the queries of each IPv4 address or IPv6 /64 network, in this process.

    The counts of at most `max_networks` networks are stored; the least recently used count is
    dropped first.
    """

    def __init__(
        self, *, clock: Callable[[], float] = monotonic, max_networks: int = MAX_NETWORKS
    ) -> None:
        self._clock = clock
        self._max_networks = max_networks
        self._lock = Lock()
        #: For each network, the number of queries left, and the time of that count.
        self._buckets: OrderedDict[str, tuple[float, float]] = OrderedDict()

    def __len__(self) -> int:
        return len(self._buckets)

    def admit(self, address: str, *, per_second: float) -> bool:
        """Count a query; return whether it is within `per_second`, where 0 means no limit."""
        if per_second <= 0:
            return True
        network, now = _network(address), self._clock()
        capacity = per_second * BURST_SECONDS
        with self._lock:
            left, counted_at = self._buckets.pop(network, (capacity, now))
            left = min(capacity, left + (now - counted_at) * per_second)
            is_admitted = left >= 1
            self._buckets[network] = (left - 1 if is_admitted else left, now)
            if len(self._buckets) > self._max_networks:
                self._buckets.popitem(last=False)
        return is_admitted


def _network(address: str) -> str:
    """Return the IPv4 address, or the network of an IPv6 address.

    >>> _network("192.0.2.1"), _network("2001:db8:0:0:1:2:3:4"), _network("2001:db8::9")
    ('192.0.2.1', '2001:db8:0:0', '2001:db8:0:0')
    """
    if ":" not in address or "." in address:
        return address
    head, gap, tail = address.partition("::")
    groups = head.split(":") if head else []
    if gap:
        behind = tail.split(":") if tail else []
        groups += ["0"] * max(0, 8 - len(groups) - len(behind)) + behind
    return ":".join(groups[:_SIXTY_FOUR_BITS])
