"""The addresses that count as public when the server fetches or posts."""

from __future__ import annotations

import pytest

from scheduler.files.rules.sources import is_public


@pytest.mark.parametrize(
    "address",
    [
        "192.0.0.192",  # Oracle Cloud's metadata service
        "192.0.0.9",
        "168.63.129.16",  # Azure's server for agents, reachable only from Azure
        "192.88.99.1",
        "fec0::1",
        "3fff::1",
        # A NAT64 prefix of the network's own has the IPv4 address in bits 48 to 87, past bits 64
        # to 71: this is 10.0.0.1, and only seems to be 8.8.8.8.
        "64:ff9b:1:a00:0:100:808:808",
        "::ffff:192.0.0.192",
        "64:ff9b::a83f:8110",
        "2002:a83f:8110::1",
    ],
)
def test_internal_or_reserved_address_is_not_public(address: str) -> None:
    assert not is_public(address)


@pytest.mark.parametrize("address", ["93.184.216.34", "2606:4700::1111", "64:ff9b::808:808"])
def test_internet_address_is_public(address: str) -> None:
    assert is_public(address)
