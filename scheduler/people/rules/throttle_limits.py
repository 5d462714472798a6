"""Computes limits on log-in attempts by network and account [pure].

A limit is a leaky bucket (GCRA): a burst of `attempts` is allowed, then one attempt every
`window / attempts`.  The state of a bucket is the time at which the bucket will be empty.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from datetime import datetime, timedelta
from ipaddress import IPv6Address, ip_address, ip_network

_IPV4_PREFIX, _IPV6_PREFIX = 24, 64
#: Network of a caller without an IP address, such as a caller on a Unix socket.
NO_NETWORK = "unknown"


@dataclass(frozen=True, slots=True)
class Limit:
    """A bucket with room for `attempts`; a full bucket drains in `window`."""

    name: str
    attempts: int
    window: timedelta

    @property
    def interval(self) -> timedelta:
        """The time in which the bucket drains by one attempt."""
        return self.window / self.attempts


def network_of(address: str) -> str:
    """Return the /24 (IPv4) or /64 (IPv6) network of an address.

    An IPv4 address that is mapped into IPv6 counts as the IPv4 address.  Returns `NO_NETWORK` for a
    text that is not an IP address.

    >>> network_of("192.0.2.7"), network_of("::ffff:192.0.2.7"), network_of("2001:db8::1:2:3:4")
    ('192.0.2.0/24', '192.0.2.0/24', '2001:db8::/64')
    """
    try:
        parsed = ip_address(address.partition("%")[0])
    except ValueError:
        return NO_NETWORK
    if isinstance(parsed, IPv6Address) and parsed.ipv4_mapped is not None:
        parsed = parsed.ipv4_mapped
    prefix = _IPV6_PREFIX if isinstance(parsed, IPv6Address) else _IPV4_PREFIX
    return str(ip_network(f"{parsed}/{prefix}", strict=False))


def seconds_to_wait(limit: Limit, *, empty_at: datetime, now: datetime) -> int:
    """Return the number of seconds, at least 1, until a full bucket has room for an attempt.

    >>> from datetime import UTC
    >>> noon = datetime(2026, 1, 1, 12, tzinfo=UTC)
    >>> limit = Limit("network", 10, timedelta(seconds=100))
    >>> seconds_to_wait(limit, empty_at=noon + timedelta(seconds=95), now=noon)
    5
    """
    missing = empty_at + limit.interval - (now + limit.window)
    return max(1, math.ceil(missing.total_seconds()))
