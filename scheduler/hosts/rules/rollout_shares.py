"""Selects the hosts of a staged roll-out of an app version [pure]."""

from __future__ import annotations

import hashlib


def is_in_share(host_id: int, version_id: int, percent: int) -> bool:
    """Return whether the host belongs to the first `percent` percent of hosts for a version.

    The place of a host depends only on the two ids, so a larger share contains every smaller one.
    Each version has an order of its own: the same hosts are not always the first.

    >>> [is_in_share(7, 1, percent) for percent in (0, 100)]
    [False, True]
    """
    return percent > 0 and (percent >= 100 or place(host_id, version_id) < percent)  # noqa: PLR2004


def place(host_id: int, version_id: int) -> float:
    """Return the place of a host in the roll-out of a version, in [0, 100)."""
    digest = hashlib.sha256(f"rollout {version_id} {host_id}".encode()).digest()
    return 100 * (int.from_bytes(digest[:8], "big") >> 11) / 2**53
