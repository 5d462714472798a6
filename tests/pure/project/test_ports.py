"""`free_port` returns a free port, if possible outside the ephemeral range."""

from __future__ import annotations

import socket

import pytest

from project import ports


def test_free_port_is_unused_and_outside_the_ephemeral_range(tmp_path, monkeypatch):
    callers = tmp_path / "range"
    callers.write_text("32768\t60999\n")
    monkeypatch.setattr(ports, "EPHEMERAL_RANGE_FILE", callers)

    found = ports.free_port()

    assert found in ports.CANDIDATES
    with socket.create_server(("127.0.0.1", found)):
        pass


@pytest.mark.parametrize("said", ["1024\t65535\n", None], ids=["all are callers'", "unknown"])
def test_any_free_port_is_returned_if_the_ephemeral_range_leaves_no_candidate(
    tmp_path, monkeypatch, said
):
    callers = tmp_path / "range"
    if said:
        callers.write_text(said)
    monkeypatch.setattr(ports, "EPHEMERAL_RANGE_FILE", callers)

    with socket.create_server(("127.0.0.1", ports.free_port())):
        pass


def test_port_in_use_is_not_returned(tmp_path, monkeypatch):
    callers = tmp_path / "range"
    callers.write_text("32768\t60999\n")
    monkeypatch.setattr(ports, "EPHEMERAL_RANGE_FILE", callers)
    with socket.create_server(("127.0.0.1", ports.free_port())) as taken:
        number = taken.getsockname()[1]
        monkeypatch.setattr(ports, "CANDIDATES", range(number, number + 1))

        assert ports.free_port() != number
