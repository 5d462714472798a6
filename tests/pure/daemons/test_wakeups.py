"""Wake-up datagrams: lost, full and stale sockets, and which daemon wakes which."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time

import pytest

from daemons import loop
from daemons.loop import Daemon, Drive, StopSign, run
from daemons.tally import Tally
from daemons.wakes import WAKES, woken_by
from scheduler import wakeups
from scheduler.wakeups import Bell, ring
from tests.conftest import NOON


@pytest.fixture(autouse=True)
def bells_are_looked_for_at_once(monkeypatch):
    """Disable the cache of sockets, which would keep those of the previous test."""
    monkeypatch.setattr(wakeups, "CACHE_SECONDS", 0.0)
    monkeypatch.setattr(loop.connection, "close", lambda: None)


def test_ring_wakes_every_process_of_its_daemon_and_no_other_daemon():
    with Bell("validator") as bell, Bell("validator") as second, Bell("purger") as other:
        ring(["validator"])
        assert wakeups.wait(5, bell.fileno())
        assert (bell.silence(), second.silence(), other.silence()) == (True, True, False)
        assert not bell.silence()


def test_ring_does_not_wake_a_daemon_whose_name_has_the_same_prefix():
    with Bell("validator_of_others") as bell:
        ring(["validator"])
        assert not bell.silence()


def test_ringing_without_a_listener_raises_no_error():
    ring(["validator"])
    with Bell("validator"):
        pass
    ring(["validator"])


def test_ring_does_not_block_when_the_bell_is_full():
    with Bell("validator") as bell:
        ringer = threading.Thread(
            target=lambda: [ring(["validator"]) for _ in range(5000)], daemon=True
        )
        ringer.start()
        ringer.join(60)
        assert not ringer.is_alive(), "it waits for somebody who never listens"
        assert bell.silence()


def test_closed_bell_leaves_no_file():
    with Bell("validator"):
        assert len(list(wakeups.folder().iterdir())) == 1
    assert list(wakeups.folder().iterdir()) == []


def killed_bell():
    """Create the socket of a killed process and return its path."""
    program = (
        "import socket, sys, os, signal\n"
        "s = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)\n"
        "os.chdir(sys.argv[1])\n"
        "s.bind('validator.1.1.bell')\n"
        "os.kill(os.getpid(), signal.SIGKILL)\n"
    )
    folder = wakeups.folder()
    folder.mkdir(parents=True, exist_ok=True)
    subprocess.run([sys.executable, "-c", program, folder], check=False, timeout=30)
    return folder / "validator.1.1.bell"


def test_stale_bell_of_a_killed_daemon_is_ignored_and_later_deleted():
    stale = killed_bell()
    assert stale.exists()
    with Bell("validator") as bell:
        ring(["validator"])
        assert bell.silence()
        assert stale.exists(), "on a shared folder, it may be another machine's"
    long_ago = time.time() - 2 * wakeups.STALE_SECONDS
    os.utime(stale, (long_ago, long_ago))
    with Bell("validator"):
        assert not stale.exists()


def test_bell_of_a_running_daemon_is_never_deleted():
    with Bell("validator") as bell:
        [path] = wakeups.folder().iterdir()
        os.utime(path, (0, 0))
        with Bell("validator"):
            assert path.exists()
        bell.show()
        assert path.stat().st_mtime > 1e9


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="other systems have only polls")
def test_bell_works_in_a_folder_with_a_long_path(settings, tmp_path):
    settings.VAR_DIR = tmp_path / ("long" * 40) / ("longer" * 30)
    with Bell("timeout_checker") as bell:
        assert not bell.is_deaf
        ring(["timeout_checker"])
        assert bell.silence()


def test_bell_without_a_folder_is_deaf_and_logs_an_event(settings, tmp_path, caplog):
    (tmp_path / "file").write_text("")
    settings.VAR_DIR = tmp_path / "file"
    with Bell("validator") as bell:
        assert bell.is_deaf
        assert not bell.silence()
        ring(["validator"])
    assert [record.message for record in caplog.records] == ["bell_unavailable"]


def test_ring_ends_the_pause_of_an_idle_daemon():
    stop, woken = StopSign(), threading.Event()

    def run_pass(*, now, limit, shard):
        passes.append(now)
        if len(passes) == 2:
            woken.set()
            stop.set()
        return Tally()

    passes = []
    daemon = Daemon("fake", run_pass, batch=10, pause=60.0, summary="Does nothing.")
    drive = Drive(clock=lambda: NOON, stop=stop, limit=10, pause=60.0)
    lazy = threading.Thread(target=run, args=(daemon, drive), daemon=True)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(loop, "FIRST_PAUSE", 60.0)
        lazy.start()
        deadline = time.monotonic() + 20
        while not woken.is_set() and time.monotonic() < deadline:
            ring(["fake"])
            time.sleep(0.02)
    stop.set()
    lazy.join(20)
    assert not lazy.is_alive()
    assert len(passes) == 2


def test_signal_ends_the_wait_for_a_bell_immediately():
    stop = StopSign()
    with Bell("fake") as bell, loop.stopping_on_signals(stop, lambda _said: None):
        threading.Timer(0.1, os.kill, (os.getpid(), signal.SIGTERM)).start()
        began = time.monotonic()
        assert stop.wait(20, bell)
    assert time.monotonic() - began < 5


@pytest.mark.parametrize(
    ("daemon", "did", "woken"),
    [
        ("transitioner", {"replicated": 9}, ()),
        (
            "transitioner",
            {"ready to validate": 1, "with files to delete": 2},
            ("file_deleter", "validator"),
        ),
        ("transitioner", {"ready to assimilate": 0}, ()),
        ("validator", {"results valid": 2, "with a canonical result": 1}, ("transitioner",)),
        ("purger", {"purged": 500}, ()),
    ],
)
def test_pass_wakes_the_daemons_that_got_work_from_it(daemon, did, woken):
    assert woken_by(daemon, Tally(counts=did)) == woken


def test_drain_rings_the_bell_of_the_next_daemon():
    def run_pass(*, now, limit, shard):
        return Tally(seen=1, counts={"assimilated": 1})

    daemon = Daemon("assimilator", run_pass, batch=10, pause=1.0, summary="Assimilates.")
    with Bell("transitioner") as bell:
        loop.drain(daemon, Drive(clock=lambda: NOON, stop=StopSign(), limit=10, pause=1.0))
        assert bell.silence()
    assert WAKES["assimilator"]
