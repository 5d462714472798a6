"""The daemon loop: its pauses, the errors that it survives, and how it stops."""

from __future__ import annotations

import logging
import os
import signal
import threading
import time

import pytest
from django.db import OperationalError

from daemons import loop, registry
from daemons.loop import Daemon, Drive, Rhythm, StopSign, drain, run, stopping_on_signals
from daemons.tally import BadShard, Shard, Tally
from tests.conftest import NOON


class ScriptedStop(StopSign):
    """A stop sign that records the requested pauses and returns at once."""

    def __init__(self):
        super().__init__()
        self.pauses = []
        self.heard = []

    def wait(self, seconds, bell=None):
        self.pauses.append(seconds)
        self.heard.append(bell is not None)
        return self.is_set()


def a_daemon(script, stop):
    """Return a daemon whose passes return or raise the items of `script`, and its calls."""
    steps = iter(script)
    asked = []

    def run_pass(*, now, limit, shard):
        asked.append((now, limit, shard))
        step = next(steps)
        if len(asked) == len(script):
            stop.set()
        if isinstance(step, Exception):
            raise step
        return step

    daemon = Daemon("fake", run_pass, batch=10, pause=1.0, summary="Does nothing.")
    daemon_asked = asked
    return daemon, daemon_asked


def drive(stop, **options):
    return Drive(**{"clock": lambda: NOON, "stop": stop, "limit": 10, "pause": 1.0} | options)


IDLE = Tally()
BUSY = Tally(seen=10, counts={"moved": 10}, more=True)
SHORT = Tally(seen=3, counts={"moved": 3})


@pytest.fixture(autouse=True)
def no_connection(monkeypatch):
    """Disable the closing of broken connections, because these tests have none."""
    monkeypatch.setattr(loop.connection, "close", lambda: None)


def pauses_of(script):
    stop = ScriptedStop()
    daemon, _ = a_daemon(script, stop)
    run(daemon, drive(stop))
    return stop.pauses


def test_pauses_of_an_idle_daemon_grow_up_to_its_maximum():
    assert pauses_of([IDLE] * 9) == [0.02, 0.04, 0.08, 0.16, 0.32, 0.64, 1.0, 1.0, 1.0]


def test_full_batch_is_followed_by_a_pass_without_a_pause():
    assert pauses_of([BUSY, BUSY, SHORT]) == [0.02]


def test_pass_with_work_resets_the_pause_of_an_idle_daemon():
    assert pauses_of([IDLE, IDLE, SHORT, IDLE]) == [0.02, 0.04, 0.02, 0.02]


def test_wakeup_ends_an_idle_pause_but_not_a_wait_for_a_fuller_batch():
    stop = ScriptedStop()
    daemon, _ = a_daemon([IDLE, SHORT, IDLE], stop)
    run(daemon, drive(stop))
    assert stop.heard == [True, False, True]


def test_successive_short_batches_get_longer_pauses_to_fill():
    rhythm = Rhythm(longest=1.0)
    waits = [rhythm.after(SHORT, took=1.0) for _ in range(6)]
    assert waits == [(gap, False) for gap in (0.02, 0.04, 0.08, 0.16, 0.32, 0.32)]
    assert rhythm.after(IDLE, took=1.0) == (0.02, True)
    assert rhythm.after(SHORT, took=1.0) == (0.02, False)


def test_pause_after_short_batches_is_bounded_by_pass_duration_and_maximum():
    rhythm = Rhythm(longest=0.1)
    assert [rhythm.after(SHORT, took=0.005)[0] for _ in range(3)] == [0.02, 0.04, 0.04]
    assert [rhythm.after(SHORT, took=9.0)[0] for _ in range(2)] == [0.1, 0.1]
    assert rhythm.after(BUSY, took=9.0) == (0.0, False)


def test_sleep_interval_is_the_time_from_the_begin_of_a_round_to_the_next(monkeypatch):
    times = iter([0.0, 0.1, 0.2, 0.5, 2.0, 2.5, 2.5, 5.0, 5.0, 5.0, 9.0])
    monkeypatch.setattr(loop, "monotonic", lambda: next(times))
    monkeypatch.setattr(loop, "_try_pass", lambda daemon, drive, quiet: drive.run_pass(daemon))
    stop = ScriptedStop()
    daemon, _ = a_daemon([SHORT, BUSY, SHORT, IDLE], stop)
    run(daemon, drive(stop, sleep_interval=1.5))
    # Rounds: 0.0 to 0.2; two passes from 0.5 to 5.0, longer than the interval; 5.0 to 9.0.
    assert stop.pauses == [pytest.approx(1.3)]
    assert stop.heard == [False]


def test_pauses_grow_while_the_database_is_away_with_one_log_event(caplog):
    away = OperationalError("connection refused\nIs the server running?")
    caplog.set_level(logging.INFO)
    assert pauses_of([away, away, away, IDLE]) == [1.0, 2.0, 4.0, 0.02]
    assert [r.message for r in caplog.records] == ["database_failed", "daemon_recovered"]
    assert caplog.records[0].reason == "connection refused Is the server running?"


def test_exception_in_a_pass_does_not_end_the_daemon(caplog):
    assert pauses_of([ValueError("odd"), SHORT]) == [1.0, 0.02]
    assert "ValueError: odd" in caplog.text


def test_only_passes_with_work_are_logged(caplog):
    caplog.set_level(logging.INFO)
    pauses_of([IDLE, SHORT, IDLE])
    (record,) = caplog.records
    assert (record.message, record.daemon, record.seen, record.did) == (
        "pass_finished",
        "fake",
        3,
        {"moved": 3},
    )


def test_pass_gets_the_time_the_limit_and_the_shard():
    stop = ScriptedStop()
    daemon, asked = a_daemon([IDLE], stop)
    run(daemon, drive(stop, limit=7, shard=Shard(1, 2)))
    assert asked == [(NOON, 7, Shard(1, 2))]


def test_stopped_daemon_makes_no_pass():
    stop = ScriptedStop()
    daemon, asked = a_daemon([IDLE], stop)
    stop.set()
    run(daemon, drive(stop))
    assert asked == []


def test_drain_runs_passes_until_a_short_batch_and_returns_the_sum():
    stop = ScriptedStop()
    daemon, asked = a_daemon([BUSY, SHORT, IDLE], stop)
    total = drain(daemon, drive(stop))
    assert (total.seen, total.done, total.more) == (13, {"moved": 13}, False)
    assert len(asked) == 2


def test_daemon_writes_its_sign_of_life_file(settings):
    pauses_of([IDLE])
    assert (settings.VAR_DIR / "run/fake.alive").exists()


def test_signal_ends_the_pause_immediately():
    stop, said = StopSign(), []
    with stopping_on_signals(stop, said.append):
        threading.Timer(0.1, os.kill, (os.getpid(), signal.SIGTERM)).start()
        began = time.monotonic()
        assert stop.wait(20)
    assert time.monotonic() - began < 5
    assert said == ["finishing..."]


def test_wait_returns_immediately_when_stop_is_set():
    stop = StopSign()
    assert not stop.wait(0.01)
    stop.set()
    assert stop.wait(20)


# Shards and tallies


def test_shard_is_printed_in_the_form_that_is_parsed():
    assert Shard.parse("2/4") == Shard(1, 4)
    assert str(Shard(1, 4)) == "2/4"


@pytest.mark.parametrize("text", ["0/4", "5/4", "1/0", "1", "", "a/b", "-1/2", "1/2/3", "1.5/2"])
def test_invalid_shard_is_refused_with_a_hint(text):
    with pytest.raises(BadShard, match="Hint:"):
        Shard.parse(text)


@pytest.mark.parametrize(
    ("tally", "sentence"),
    [
        (Tally(), "nothing to do"),
        (Tally(seen=2), "2 workunits: nothing to change"),
        (Tally(seen=1, counts={"failed": 1, "replicated": 0}), "1 workunit: 1 failed"),
        (Tally(counts={"ledger days made": 15}), "15 ledger days made"),
    ],
)
def test_tally_is_printed_as_one_sentence(tally, sentence):
    assert tally.sentence() == sentence


# The registry


def test_all_daemons_are_registered_under_the_names_of_their_modules():
    assert list(registry.BY_NAME) == [
        "work_generator",
        "transitioner",
        "timeout_checker",
        "validator",
        "assimilator",
        "trickle_handler",
        "file_deleter",
        "purger",
        "housekeeper",
    ]
    for daemon in registry.DAEMONS:
        assert daemon.run_pass.__module__ == f"daemons.{daemon.name}"
        assert daemon.summary.endswith(".")


def test_unknown_daemon_name_is_refused_with_the_closest_name():
    with pytest.raises(registry.UnknownDaemon, match="did you mean 'validator'"):
        registry.find("validater")


def test_celery_schedule_has_every_daemon_and_late_passes_expire():
    timetable = registry.timetable()
    assert timetable.keys() == registry.BY_NAME.keys()
    for name, entry in timetable.items():
        assert entry["kwargs"] == {"daemon": name}
        assert entry["options"] == {"expires": entry["schedule"], "queue": name}
