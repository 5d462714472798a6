"""The facts for alerts are read from tables and files."""

from __future__ import annotations

import io
import json
import os
from datetime import timedelta

import pytest
from django.conf import settings
from django.core.management import call_command
from django.db import connection
from django.test.utils import CaptureQueriesContext

from daemons.registry import DAEMONS
from scheduler.health import alerts, maintenance
from scheduler.models import Batch, CheckRun, Heartbeat, Outage, Refusal, ScienceFailure
from tests.conftest import NOON
from tests.rows import a_host, a_result, a_workunit, an_account, an_app, refuse, update

pytestmark = pytest.mark.django_db

LONG_AGO = NOON - timedelta(hours=2)


@pytest.fixture(autouse=True)
def all_is_well():
    """Every daemon is alive at noon."""
    run = settings.VAR_DIR / "run"
    run.mkdir(parents=True, exist_ok=True)
    for daemon in DAEMONS:
        alive(daemon.name, NOON)


def alive(name, moment):
    path = settings.VAR_DIR / "run" / f"{name}.alive"
    path.touch()
    os.utime(path, (moment.timestamp(), moment.timestamp()))


def found() -> list[tuple[str, str]]:
    return [(alert.kind, alert.sentence) for alert in alerts.current(now=NOON)]


def test_no_alerts_without_problems():
    a_workunit(transition_at=NOON)
    assert found() == []


def test_a_silent_daemon_and_a_daemon_that_never_ran_raise_alerts():
    alive("purger", LONG_AGO)
    (settings.VAR_DIR / "run" / "validator.alive").unlink()
    assert found() == [
        ("daemon_silent", "The validator has never run here."),
        ("daemon_silent", "The purger has sent no heartbeat for 2 h."),
    ]


def test_long_overdue_work_of_a_daemon_raises_an_alert_with_its_age():
    a_workunit(transition_at=LONG_AGO)
    a_workunit(transition_at=None)
    a_result(a_workunit(transition_at=None), "sent", report_deadline=LONG_AGO)
    assert found() == [
        ("daemon_behind", "The transitioner is 2 h behind."),
        ("daemon_behind", "The timeout_checker is 2 h behind."),
    ]


def waiting_for_validation():
    workunit = a_workunit(transition_at=None, need_validate=True)
    a_result(workunit, "success", received_at=LONG_AGO)
    return workunit


def test_validator_delay_is_measured_from_the_report_of_the_results():
    waiting_for_validation()
    assert found() == [("daemon_behind", "The validator is 2 h behind.")]


def test_deferred_or_parked_workunits_do_not_count_as_waiting():
    update(waiting_for_validation(), validate_after=NOON + timedelta(hours=1))
    parked = waiting_for_validation()
    ScienceFailure.objects.create(
        stage=1, subject_id=parked.pk, app=parked.app, failures=5, error="x", failed_at=NOON,
        parked_at=NOON,
    )  # fmt: skip
    assert [kind for kind, _ in found()] == ["science_parked"]


@pytest.mark.parametrize(
    ("hosts", "state", "expected"),
    [(1, "unsent", []), (2, "unsent", ["hard_to_send"]), (2, "sent", [])],
)
def test_unsent_workunits_refused_to_many_hosts_raise_an_alert(hosts, state, expected):
    workunit = a_workunit(an_app(max_infeasible=4), transition_at=None)
    a_result(workunit, state, report_deadline=NOON + timedelta(days=1))
    for host_id in range(hosts):
        Refusal.objects.create(
            workunit_id=workunit.pk, host_id=host_id, app_id=workunit.app_id, reason="memory",
            sentence="", at=NOON,
        )  # fmt: skip
    assert [kind for kind, _ in found()] == expected


def test_refusals_of_the_newest_refused_workunits_are_counted_completely(monkeypatch):
    monkeypatch.setattr(alerts, "MAX_REFUSALS", 2)
    app = an_app(max_infeasible=6)
    old, new = (a_workunit(app, transition_at=None) for _ in range(2))
    for workunit in (old, new):
        a_result(workunit)
    for host_id in range(3):
        refuse(old, a_host(), NOON - timedelta(hours=2))
        refuse(new, a_host(), NOON - timedelta(hours=1 if host_id else 3))
    assert alerts.facts(now=NOON).hard_to_send == 1


def test_workunits_refused_to_every_host_raise_an_alert_with_the_number_of_hosts():
    hosts = [a_host(), a_host()]
    a_host(denied=True)
    a_host(rpc_at=NOON - timedelta(days=31))
    workunit = a_workunit(transition_at=None)
    a_result(workunit)
    sent = a_workunit(transition_at=None)
    a_result(sent, "sent", host=hosts[0])
    for host in hosts:
        refuse(sent, host)
    refuse(workunit, hosts[0])
    assert found() == []
    refuse(workunit, hosts[1])
    assert found() == [
        (
            "refused_by_all",
            "1 workunit was refused to each of the 2 hosts that requested work in the last 30 days.",
        )
    ]


def test_apps_with_an_unknown_validator_or_assimilator_raise_alerts():
    an_app("a", validator="bitwize")
    an_app("b", assimilator="nowhere")
    an_app("c", validator="bitwize", deprecated=True)
    said = [sentence for kind, sentence in found() if kind == "unknown_science"]
    assert ["App a: " in said[0], "App b: " in said[1], len(said)] == [True, True, 2]


def test_outages_silent_web_processes_and_maintenance_raise_alerts():
    Outage.objects.create(began_at=LONG_AGO, ended_at=NOON)
    Heartbeat.objects.create(name="web", seen_at=LONG_AGO)
    maintenance.begin(daemons=False, now=NOON)
    assert [kind for kind, _ in found()] == ["maintenance", "web_silent", "outage"]


def a_check(kind, *, hours_ago, **fields):
    ended_at = NOON - timedelta(hours=hours_ago)
    return CheckRun.objects.create(kind=kind, started_at=ended_at, ended_at=ended_at, **fields)


def test_the_newest_ended_run_of_each_check_raises_an_alert_if_violations_are_open():
    a_check("fsck", hours_ago=5, unresolved=0)
    a_check("fsck", hours_ago=3, unresolved=4, violations=4)
    a_check("credit", hours_ago=1, unresolved=2)
    # An open run has not found everything yet.
    CheckRun.objects.create(kind="fsck", requested_at=NOON, violations=9, unresolved=9)
    assert found() == [
        (
            "invariants_violated",
            "4 violations of invariants are known; the last check ended 3 h ago.",
        ),
        (
            "credit_differs",
            "2 sums of credit differ from the entries; the last comparison ended 1 h ago.",
        ),
    ]
    a_check("fsck", hours_ago=2, unresolved=0)
    a_check("credit", hours_ago=0, unresolved=0, violations=2)
    assert found() == []


def test_open_batches_that_expire_soon_raise_an_alert():
    whose = an_account()
    for name, state, expires in [
        ("soon", Batch.State.IN_PROGRESS, NOON + timedelta(days=3)),
        ("sooner", Batch.State.INIT, NOON + timedelta(hours=1)),
        ("later", Batch.State.IN_PROGRESS, NOON + timedelta(days=4)),
        ("over", Batch.State.COMPLETE, NOON + timedelta(hours=1)),
        ("past", Batch.State.IN_PROGRESS, NOON),
        ("never", Batch.State.IN_PROGRESS, None),
    ]:
        Batch.objects.create(
            name=name, submitter=whose, state=state, created_at=LONG_AGO, expire_at=expires
        )
    assert found() == [("batch_expires", "2 batches expire within 3 d: sooner, soon.")]


def test_full_disk_is_an_alert(monkeypatch):
    monkeypatch.setattr("scheduler.storage.has_room_for", lambda nbytes: nbytes == 0)
    assert [kind for kind, _ in found()] == ["disk_nearly_full"]
    monkeypatch.setattr("scheduler.storage.has_room_for", lambda _nbytes: False)
    assert [kind for kind, _ in found()] == ["disk_full"]


def test_alerts_use_four_statements_for_any_number_of_rows():
    counts = []
    for count in (1, 30):
        for _ in range(count):
            waiting_for_validation()
        with CaptureQueriesContext(connection) as captured:
            alerts.current(now=NOON)
        counts.append(len(captured))
    assert counts == [4, 4]


def test_the_command_exits_with_status_1_if_there_is_an_alert():
    out = io.StringIO()
    with pytest.raises(SystemExit) as ended:  # the last signs of life are from NOON, long ago
        call_command("alerts", "--json", stdout=out)
    assert ended.value.code == 1
    assert json.loads(out.getvalue())["alerts"][0]["kind"] == "daemon_silent"


def test_the_command_prints_all_is_well_without_alerts(monkeypatch):
    monkeypatch.setattr("scheduler.health.alerts.current", lambda **_: ())
    out = io.StringIO()
    call_command("alerts", stdout=out)
    assert out.getvalue() == "All is well.\n"
