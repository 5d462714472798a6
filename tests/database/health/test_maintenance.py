"""Maintenance stops the scheduler, uploads and daemons, and clients get a message."""

from __future__ import annotations

import io
import json
import logging
from datetime import timedelta

import pytest
from django.conf import settings
from django.core.management import CommandError, call_command

from daemons import loop
from daemons.loop import Daemon, Drive, StopSign
from daemons.tally import Tally
from scheduler import storage
from scheduler.boinc.wire import replies
from scheduler.health import maintenance
from scheduler.sql import plans
from tests.conftest import NOON
from tests.scripted_client import RpcClient


def run(*words) -> str:
    out = io.StringIO()
    call_command("maintenance", *words, stdout=out)
    return out.getvalue().strip()


def test_maintenance_is_off_by_default():
    assert maintenance.current() is None
    assert maintenance.stops_scheduler() is None
    assert not maintenance.stops_daemons()
    assert not storage.uploads_stopped()


def test_maintenance_stops_the_scheduler_uploads_and_daemons():
    maintenance.begin(message="New disks.", until=NOON + timedelta(hours=2), now=NOON)
    found = maintenance.stops_scheduler()
    assert found
    assert found.text == "Project is temporarily shut down for maintenance. New disks"
    assert found.delay(NOON) == 7200
    assert maintenance.stops_daemons()
    assert storage.uploads_stopped()


@pytest.mark.parametrize(
    ("left", "seconds"),
    [(None, 3600), (timedelta(seconds=5), 60), (timedelta(days=9), 86400), (-timedelta(1), 60)],
)
def test_the_client_delay_is_the_remaining_time_between_a_minute_and_a_day(left, seconds):
    until = None if left is None else NOON + left
    assert maintenance.Maintenance(since=NOON, until=until).delay(NOON) == seconds


def test_maintenance_can_stop_only_the_scheduler_or_only_the_daemons():
    maintenance.begin(daemons=False, now=NOON)
    assert (bool(maintenance.stops_scheduler()), maintenance.stops_daemons()) == (True, False)
    maintenance.begin(scheduler=False, now=NOON)
    assert (bool(maintenance.stops_scheduler()), maintenance.stops_daemons()) == (False, True)
    assert not storage.uploads_stopped()


def test_ending_maintenance_does_not_affect_the_stop_upload_file():
    maintenance.begin(now=NOON)
    assert maintenance.end()
    assert maintenance.current() is None
    assert maintenance.end() is None
    (settings.VAR_DIR / "stop_upload").touch()
    assert storage.uploads_stopped()


def test_an_ended_project_still_accepts_reports():
    maintenance.end_project(message="Thank you.", now=NOON)
    found = maintenance.current()
    assert found
    assert found.ended
    assert "has ended" in found.text
    assert maintenance.stops_scheduler() is None
    assert not maintenance.stops_daemons()


def test_a_handwritten_maintenance_file_stops_everything():
    settings.VAR_DIR.mkdir(parents=True, exist_ok=True)
    (settings.VAR_DIR / "maintenance.json").write_text("soon back")
    assert maintenance.stops_scheduler()
    assert maintenance.stops_daemons()


def test_a_past_end_time_and_maintenance_that_stops_nothing_are_refused():
    with pytest.raises(maintenance.BadMaintenance, match="is past"):
        maintenance.begin(until=NOON, now=NOON)
    with pytest.raises(maintenance.BadMaintenance, match="Nothing would be stopped"):
        maintenance.begin(scheduler=False, daemons=False, now=NOON)
    assert maintenance.current() is None


def test_the_command_switches_maintenance_and_prints_its_status():
    assert run("status") == "Maintenance is off."
    said = run("on", "--message", "Back soon.", "--until", "2999-01-01", "--scheduler-only")
    assert "until about 2999-01-01 00:00 UTC: volunteers are turned away" in said
    facts = json.loads(run("status", "--json"))
    assert (facts["on"], facts["daemons"], facts["message"]) == (True, False, "Back soon.")
    assert run("off") == "Maintenance is off."
    assert run("off") == "Maintenance was off already."
    assert "has ended" in run("end")
    with pytest.raises(CommandError, match="use them with `on`"):
        run("off", "--message", "x")


@pytest.fixture(autouse=True)
def loop_without_a_database(monkeypatch):
    monkeypatch.setattr(plans, "renew", lambda: None)


class Switching(StopSign):
    """A stop sign that ends the maintenance in its third pause."""

    pauses = 0

    def wait(self, _seconds, _bell=None):
        self.pauses += 1
        if self.pauses == 3:
            maintenance.end()
        return self.is_set()


def test_a_daemon_logs_one_line_when_it_pauses_and_one_when_it_resumes(caplog):
    maintenance.begin(now=NOON)
    stop, passes = Switching(), []

    def run_pass(*, now, limit, shard):
        passes.append(stop.pauses)
        stop.set()
        return Tally()

    daemon = Daemon("fake", run_pass, batch=1, pause=1.0, summary="Does nothing.")
    with caplog.at_level(logging.INFO, "daemons.loop"):
        loop.run(daemon, Drive(clock=lambda: NOON, stop=stop, limit=1, pause=1.0))
    assert passes == [3]
    assert [r.message for r in caplog.records] == ["daemon_paused", "daemon_resumed"]


def test_a_paused_daemon_can_be_stopped():
    maintenance.begin(now=NOON)
    stop = StopSign()
    stop.set()
    daemon = Daemon("fake", lambda **_: pytest.fail("made a pass"), 1, 1.0, "Does nothing.")
    loop.run(daemon, Drive(clock=lambda: NOON, stop=stop, limit=1, pause=1.0))
    assert stop.is_set()


def test_a_daemon_driven_by_messages_writes_its_heartbeat_file():
    daemon = Daemon("fake", lambda **_: Tally(), 1, 1.0, "Does nothing.")
    loop.drain(daemon, Drive(clock=lambda: NOON, stop=StopSign(), limit=1, pause=1.0))
    assert list(storage.signs_of_life()) == ["fake"]


@pytest.mark.parametrize("shut", [True, False])
def test_maintenance_reply_to_a_client_needs_no_database(shut):
    client = RpcClient()
    maintenance.begin(message="New disks.", scheduler=shut, now=NOON)
    # The test has no database marker: an RPC that queried the database would fail.
    if not shut:
        with pytest.raises(RuntimeError, match="Database access not allowed"):
            client.post("/cgi/scheduler", b"<scheduler_request></scheduler_request>", "text/xml")
        return
    answer = client.post("/cgi/scheduler", b"<scheduler_request></scheduler_request>", "text/xml")
    reply = replies.decode_reply(answer.content)
    assert (reply.project_is_down, reply.request_delay) == (True, 3600)
    assert reply.messages[0].text.startswith("Project is temporarily shut down for maintenance")
