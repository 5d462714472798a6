"""The client address behind proxies is the last one added by a trusted proxy."""

from __future__ import annotations

import pytest

from project.env import BadSetting, networks
from project.proxies import client_address
from project.proxies import networks as read

OURS = read(["10.0.0.0/24", "fd00::/8"])


@pytest.mark.parametrize(
    ("peer", "said", "address"),
    [
        ("192.0.2.1", "", "192.0.2.1"),
        ("192.0.2.1", "6.6.6.6", "192.0.2.1"),
        ("10.0.0.7", "192.0.2.1", "192.0.2.1"),
        ("10.0.0.7", "6.6.6.6, 192.0.2.1", "192.0.2.1"),
        ("10.0.0.7", "6.6.6.6, 192.0.2.1, 10.0.0.8", "192.0.2.1"),
        ("fd00::1", "2001:db8::5", "2001:db8::5"),
        ("10.0.0.7", "nonsense", "10.0.0.7"),
        ("10.0.0.7", "", "10.0.0.7"),
        ("", "6.6.6.6", ""),
    ],
)
def test_only_addresses_added_by_trusted_proxies_are_used(peer, said, address):
    assert client_address(peer, said, OURS) == address


def test_forwarded_addresses_are_ignored_without_trusted_proxies():
    assert client_address("127.0.0.1", "6.6.6.6", ()) == "127.0.0.1"


def test_invalid_network_in_trusted_proxies_is_refused(monkeypatch):
    monkeypatch.setenv("TRUSTED_PROXIES", "10.0.0.0/24, nginx")
    with pytest.raises(BadSetting, match="expected addresses or networks, such as"):
        networks("TRUSTED_PROXIES")
