"""Heartbeats do not depend on the length of passes; passes are counted."""

from __future__ import annotations

import os
import time

import pytest
from django.db import OperationalError

from daemons import vitals
from daemons.management.processes import wait_until
from daemons.tally import Tally
from daemons.vitals import Vitals
from scheduler import storage
from scheduler.health.facts import PassCounts
from scheduler.health.rules.alert_texts import SILENT_AFTER

LONG_AGO = 1_000_000.0


@pytest.fixture(autouse=True)
def short_interval(monkeypatch):
    monkeypatch.setattr(vitals, "ALIVE_INTERVAL_SECONDS", 0.01)


@pytest.fixture
def alive(settings):
    return settings.VAR_DIR / "run" / "fake.alive"


def is_touched(path, *, within=20.0):
    """Set the file's time back; return whether it is touched."""
    os.utime(path, (LONG_AGO, LONG_AGO))
    return wait_until(lambda: path.stat().st_mtime > LONG_AGO, within=within, look_again=0.01)


class Recorded:
    """Adds up recorded counts; fails while `error` is set."""

    def __init__(self):
        self.total = PassCounts()
        self.calls = 0
        self.error = None

    def __call__(self, daemon, counts, *, now):
        assert (daemon, now.tzinfo is None) == ("fake", False)
        if self.error:
            raise self.error
        self.calls += 1
        self.total.passes += counts.passes
        self.total.failed_passes += counts.failed_passes
        self.total.examined_rows += counts.examined_rows
        self.total.busy_seconds += counts.busy_seconds


def make_pass(running, tally):
    running.begin_pass()
    running.end_pass(tally)


def test_there_is_no_heartbeat_before_the_first_successful_pass(alive):
    with Vitals("fake") as running:
        running.begin_pass()
        assert not alive.exists()
        running.end_pass(None)
        assert not alive.exists()
        make_pass(running, Tally())
        assert list(storage.signs_of_life()) == ["fake"]


def test_a_waiting_daemon_and_one_in_a_long_pass_send_heartbeats(alive):
    with Vitals("fake") as running:
        make_pass(running, Tally())
        assert is_touched(alive)
        running.begin_pass()
        assert is_touched(alive)


def test_a_pass_that_hangs_ends_the_heartbeat(alive, monkeypatch):
    with Vitals("fake") as running:
        make_pass(running, Tally())
        monkeypatch.setattr(vitals, "MAX_PASS_SECONDS", 0.0)
        running.begin_pass()
        time.sleep(0.05)
        assert not is_touched(alive, within=0.3)


def test_a_failed_pass_ends_the_heartbeat_until_a_pass_succeeds(alive):
    with Vitals("fake") as running:
        make_pass(running, Tally())
        make_pass(running, None)
        time.sleep(0.05)
        assert not is_touched(alive, within=0.3)
        make_pass(running, Tally())
        assert alive.stat().st_mtime > LONG_AGO


def test_the_heartbeat_ends_with_the_daemon(alive):
    with Vitals("fake") as running:
        make_pass(running, Tally())
    assert not is_touched(alive, within=0.3)


def test_passes_are_counted_and_written_at_intervals(monkeypatch):
    times = [100.0]
    monkeypatch.setattr(vitals, "monotonic", lambda: times[0])
    record = Recorded()
    with Vitals("fake", record=record) as running:
        for seen, seconds in ((3, 1.0), (4, 2.0), (None, 0.5), (5, 14.0)):
            running.begin_pass()
            times[0] += seconds
            running.end_pass(None if seen is None else Tally(seen=seen))
        assert record.calls == 2, "the first pass, and those of the next 15 seconds together"
        make_pass(running, Tally(seen=1))
    assert record.total == PassCounts(4, 1, 13, 17.5)


def test_counts_are_kept_while_the_database_is_away():
    record = Recorded()
    record.error = OperationalError("connection refused")
    with Vitals("fake", record=record) as running:
        make_pass(running, Tally(seen=2))
        record.error = None
    assert (record.total.passes, record.total.examined_rows) == (1, 2)


def test_a_dead_daemon_is_noticed_within_a_minute():
    # Prometheus evaluates its rules every 15 seconds (deploy/prometheus).
    assert SILENT_AFTER.total_seconds() + 15 < 60
    # A living daemon is never that old: an interval, and a scrape of the file and the sample.
    assert SILENT_AFTER.total_seconds() > 5.0 + 15 + 15


def test_a_thread_that_cannot_be_started_is_started_after_the_next_pass(alive, monkeypatch):
    def fail(_thread):
        raise RuntimeError("can't start new thread")

    with Vitals("fake") as running:
        with monkeypatch.context() as patch:
            patch.setattr(vitals.threading.Thread, "start", fail)
            with pytest.raises(RuntimeError):
                make_pass(running, Tally())
        make_pass(running, Tally())
        assert is_touched(alive)
