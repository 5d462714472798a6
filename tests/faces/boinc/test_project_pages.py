"""The state of the server and the versions of its apps, for statistics sites."""

from __future__ import annotations

from datetime import timedelta
from decimal import Decimal
from xml.etree import ElementTree as ET

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from scheduler import storage
from scheduler.health import maintenance, server_load, status
from scheduler.models import AppVersion, Platform
from tests import rows

pytestmark = pytest.mark.django_db


def words(text: str) -> list[str]:
    return text.split()


STATES = words(
    "results_ready_to_send results_in_progress workunits_waiting_for_validation "
    "workunits_waiting_for_assimilation workunits_waiting_for_deletion "
    "results_waiting_for_deletion transitioner_backlog_hours users_with_recent_credit "
    "users_with_credit users_registered_in_past_24_hours hosts_with_recent_credit "
    "hosts_with_credit hosts_registered_in_past_24_hours current_floating_point_speed"
)
APP = words("id name unsent in_progress")
RUNTIMES = words("avg_runtime min_runtime max_runtime users")
VERSION = words("platform_short platform_long version_num plan_class date date_unix")


@pytest.fixture(autouse=True)
def nothing_cached():
    server_load.forget()
    status.forget()
    yield
    server_load.forget()
    status.forget()


def get(page: str) -> ET.Element:
    answer = Client().get(f"/{page}")
    assert (answer.status_code, answer["Content-Type"]) == (200, "text/xml")
    assert answer.content.startswith(b'<?xml version="1.0" encoding="ISO-8859-1" ?>\n')
    return ET.fromstring(answer.content)


def server_status() -> ET.Element:
    """Store the figures as the housekeeper does, and return the page."""
    server_load.store(now=timezone.now())
    return get("server_status.php?xml=1")


def tags(element: ET.Element | None) -> list[str]:
    assert element is not None
    return [child.tag for child in element]


def test_server_status_has_the_elements_of_boinc_in_order():
    root = server_status()
    assert root.tag == "server_status"
    assert tags(root) == ["daemon_status", "database_file_states"]
    assert tags(root.find("database_file_states")) == [*STATES, "tasks_by_app"]
    for daemon in root.findall("daemon_status/daemon"):
        assert tags(daemon) == ["host", "command", "status"]


def test_server_status_counts_work_people_and_computers():
    now = timezone.now()
    app = rows.an_app("primes")
    rows.an_app("old", deprecated=True)
    ada = rows.an_account("ada", created_at=now, total_credit=Decimal(9), expavg_credit=300.0)
    rows.an_account("eve", total_credit=Decimal(9), expavg_credit=100.0)
    host = rows.a_host(ada, created_at=now, total_credit=Decimal(9))
    for hours, word in ((2, "valid"), (4, "valid"), (9, "success")):
        rows.a_result(
            rows.a_workunit(app),
            word,
            host=host,
            received_at=now - timedelta(hours=1),
            elapsed_time=3600.0 * hours,
        )
    rows.a_result(rows.a_workunit(app), "unsent")
    rows.a_result(rows.a_workunit(app), "sent", host=host)
    root = server_status()
    states = {child.tag: child.text for child in root.find("database_file_states") or ()}
    assert (states["results_ready_to_send"], states["results_in_progress"]) == ("1", "1")
    assert (states["users_with_recent_credit"], states["users_with_credit"]) == ("2", "2")
    assert states["users_registered_in_past_24_hours"] == "1"
    assert (states["hosts_with_credit"], states["hosts_with_recent_credit"]) == ("1", "0")
    assert states["hosts_registered_in_past_24_hours"] == "1"
    assert states["current_floating_point_speed"] == "2"
    [shown] = root.findall("database_file_states/tasks_by_app/app")
    assert tags(shown) == [*APP, *RUNTIMES]
    assert {child.tag: child.text for child in shown} == {
        "id": str(app.pk),
        "name": "primes",
        "unsent": "1",
        "in_progress": "1",
        "avg_runtime": "3",
        "min_runtime": "2",
        "max_runtime": "4",
        "users": "1",
    }


def test_app_without_recent_results_has_no_run_times():
    rows.an_app("primes")
    [shown] = server_status().findall(".//app")
    assert tags(shown) == APP


def test_daemon_runs_while_it_sends_signs_of_life(monkeypatch):
    now = timezone.now()
    signs = {"transitioner": now, "validator": now - timedelta(hours=3)}
    monkeypatch.setattr(storage, "signs_of_life", lambda: signs)
    daemons = server_status().findall("daemon_status/daemon")
    states = {each.findtext("command"): each.findtext("status") for each in daemons}
    assert states["transitioner"] == "running"
    assert states["validator"] == "not running"
    assert states["assimilator"] == "not running"
    assert states["Scheduler"] == "running"
    assert {each.findtext("host") for each in daemons} == {"127.0.0.1"}


def test_maintenance_disables_scheduler_and_daemons():
    maintenance.begin(now=timezone.now())
    try:
        daemons = server_status().findall("daemon_status/daemon")
    finally:
        maintenance.end()
    states = {each.findtext("command"): each.findtext("status") for each in daemons}
    assert (states["Scheduler"], states["transitioner"]) == ("not running", "disabled")


def test_upload_server_does_not_run_while_uploads_are_stopped(settings):
    settings.VAR_DIR.mkdir(parents=True, exist_ok=True)
    (settings.VAR_DIR / "stop_upload").touch()
    daemons = get("server_status.php?xml=1").findall("daemon_status/daemon")
    states = {each.findtext("command"): each.findtext("status") for each in daemons}
    assert (states["Upload server"], states["Scheduler"]) == ("not running", "running")


def test_upload_server_runs_while_maintenance_stops_the_scheduler_only():
    storage.put_notice("maintenance", {"scheduler": True, "uploads": False})
    daemons = get("server_status.php?xml=1").findall("daemon_status/daemon")
    states = {each.findtext("command"): each.findtext("status") for each in daemons}
    assert (states["Upload server"], states["Scheduler"]) == ("running", "not running")


@pytest.mark.parametrize("age", [None, timedelta(hours=1, minutes=1)])
def test_server_status_leaves_out_figures_that_are_missing_or_old(age):
    rows.an_app("primes")
    if age is not None:
        server_load.store(now=timezone.now() - age)
    root = get("server_status.php?xml=1")
    assert tags(root.find("database_file_states")) == ["tasks_by_app"]
    assert tags(root.find("database_file_states/tasks_by_app")) == []
    assert root.findall("daemon_status/daemon")


def test_figures_of_people_are_read_again_after_ten_minutes():
    now = timezone.now()
    server_load.store(now=now - timedelta(minutes=5))
    rows.an_account("ada", created_at=now)
    rows.a_result(rows.a_workunit(rows.an_app("primes")), "unsent")
    root = server_status()
    assert root.findtext("database_file_states/results_ready_to_send") == "1"
    assert root.findtext("database_file_states/users_registered_in_past_24_hours") == "0"
    server_load.store(now=now + timedelta(minutes=5))
    root = get("server_status.php?xml=1")
    assert root.findtext("database_file_states/users_registered_in_past_24_hours") == "1"


def test_figures_in_another_format_are_not_shown():
    storage.put_notice("run/server_load", {"read_at": "yesterday", "work": {}, "people": []})
    assert tags(get("server_status.php?xml=1").find("database_file_states")) == ["tasks_by_app"]


def test_pages_without_a_format_lead_to_the_status_page():
    for page in ("server_status.php", "server_status.php?xml=0", "apps.php", "apps.php?xml=0"):
        answer = Client().get(f"/{page}")
        assert (answer.status_code, answer["Location"]) == (302, "/")


def test_apps_have_their_newest_version_per_platform_and_plan_class_in_order():
    app = rows.an_app("primes", user_friendly_name="R & D", beta=True)
    rows.an_app("old", deprecated=True)
    rows.an_app_version(app, version_num=101)
    newest = rows.an_app_version(app, version_num=102, beta=True)
    rows.an_app_version(app, version_num=103, deprecated=True)
    rows.an_app_version(app, version_num=100, plan_class="mt")
    anonymous = Platform.objects.create(name="anonymous")
    AppVersion.objects.create(
        app=app, platform=anonymous, version_num=900, created_at=timezone.now()
    )
    root = get("apps.php?xml=1")
    assert root.tag == "app_versions"
    [shown] = root.findall("application")
    assert tags(shown) == ["user_friendly_name", "name", "id", "beta", "version", "version"]
    assert shown.findtext("user_friendly_name") == "R & D"
    first, second = shown.findall("version")
    assert tags(first) == [*VERSION, "beta"]
    assert {child.tag: child.text for child in first} == {
        "platform_short": "x86_64-pc-linux-gnu",
        "platform_long": "x86_64-pc-linux-gnu",
        "version_num": "102",
        "plan_class": None,
        "date": "01 Jan 2026, 12:00:00 UTC",
        "date_unix": str(int(newest.created_at.timestamp())),
        "beta": None,
    }
    assert (second.findtext("plan_class"), tags(second)) == ("mt", VERSION)


@pytest.mark.parametrize("count", [1, 20])
def test_number_of_statements_does_not_depend_on_the_number_of_apps(count):
    for _ in range(count):
        rows.an_app_version(rows.an_app())
    with CaptureQueriesContext(connection) as queries:
        assert len(get("apps.php?xml=1").findall("application/version")) == count
    assert len(queries) == 2
