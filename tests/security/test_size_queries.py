"""Size queries of uploads need no grant, and are limited by address."""

from __future__ import annotations

from dataclasses import replace

import pytest

from scheduler.boinc import uploads as face
from scheduler.boinc.size_queries import SizeQueries
from scheduler.boinc.wire.uploads import SizeQuery, decode_reply, encode_request
from tests.fuzz.raw import RawRequest


@pytest.fixture
def asked(settings, monkeypatch):
    """Return a function that queries a size from an address, at a moment in seconds."""
    settings.PROJECT = replace(settings.PROJECT, size_queries_per_second=2)
    clock = [0.0]
    monkeypatch.setattr(face, "_size_queries", SizeQueries(clock=lambda: clock[0]))

    def ask(address: str = "192.0.2.1", at: float = 0.0):
        clock[0] = at
        environ = RawRequest(b"POST", b"/upload/x", (), encode_request(SizeQuery("a"))).environ()
        environ["REMOTE_ADDR"] = address
        body = b"".join(face.upload_app(environ, lambda *_: None))
        return decode_reply(body)

    return ask


def test_too_many_size_queries_get_a_transient_error(asked):
    statuses = [asked().status for _ in range(50)]
    assert statuses[:20] == [0] * 20
    assert set(statuses[20:]) == {1}
    assert "size" in asked().message


def test_size_query_limit_is_per_address_and_recovers_over_time(asked):
    for _ in range(50):
        asked()
    assert asked("192.0.2.2").status == 0
    assert [asked(at=1.0).status for _ in range(3)] == [0, 0, 1]


def test_addresses_of_one_ipv6_network_share_the_limit(asked):
    statuses = [asked(f"2001:db8::{number:x}").status for number in range(1, 50)]
    assert statuses.count(0) == 20
    assert asked("2001:db8:0:1::1").status == 0


def test_zero_disables_the_limit(asked, settings):
    settings.PROJECT = replace(settings.PROJECT, size_queries_per_second=0)
    assert {asked().status for _ in range(200)} == {0}


def test_number_of_tracked_networks_is_bounded():
    queries = SizeQueries(clock=lambda: 0.0, max_networks=100)
    for number in range(1000):
        assert queries.admit(f"10.0.{number // 250}.{number % 250}", per_second=1)
    assert len(queries) <= 100


@pytest.mark.parametrize("address", ["", "x", "::ffff:192.0.2.1", "fe80::1%eth0"])
def test_size_query_is_admitted_for_any_address_text(address):
    assert SizeQueries(clock=lambda: 0.0).admit(address, per_second=1)
