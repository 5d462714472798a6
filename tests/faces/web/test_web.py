"""The status page: BOINC's master page, and its numbers."""

from __future__ import annotations

import os
import re
import time
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
from django.conf import settings
from django.test import Client
from django.utils import timezone

from project import env
from scheduler.config import AccountCreation
from scheduler.health import maintenance, status
from scheduler.lifecycle import AssimilateState, FileDeleteState
from scheduler.models import (
    Account,
    App,
    AppVersion,
    CreditEntry,
    Platform,
    WorkunitWakeup,
)
from scheduler.people import roles
from tests.conftest import NOON
from tests.rows import a_host, a_result, a_workunit, an_account, an_app, settled

pytestmark = pytest.mark.django_db

LINK = b'<link rel="boinc_scheduler" href="'


@pytest.fixture
def app() -> App:
    return an_app("primes", user_friendly_name="Primes")


def numbers(client: Client) -> dict[str, Any]:
    status.forget()
    return client.get("/status.json").json()


# The master page


def test_trap_01_the_link_to_the_scheduler_begins_its_line_within_255_bytes(client: Client) -> None:
    page = client.get("/").content
    lines = [line for line in page.split(b"\n") if LINK in line]
    assert len(lines) == 1
    assert lines[0].startswith(LINK)
    assert lines[0].index(b'">') < 255
    url = lines[0].removeprefix(LINK).split(b'"')[0].decode()
    assert url == settings.PROJECT.scheduler_url


def test_scheduler_link_is_in_the_first_six_lines(client: Client) -> None:
    first = client.get("/").content.split(b"\n")[:6]
    assert any(line.startswith(LINK) for line in first)


def test_client_reading_255_byte_chunks_finds_exactly_one_scheduler_link(client: Client) -> None:
    found = []
    for line in client.get("/").content.split(b"\n"):
        for start in range(0, len(line) or 1, 255):
            chunk = line[start : start + 255]
            if chunk.startswith(LINK):
                found.append(chunk)
    assert len(found) == 1


def test_head_returns_the_content_type_of_get_without_a_body(client: Client) -> None:
    answer = client.head("/")
    assert answer.status_code == 200
    assert answer.content == b""
    assert answer["Content-Type"] == client.get("/")["Content-Type"]


def test_post_to_the_status_page_returns_405(client: Client) -> None:
    assert client.post("/").status_code == 405


def test_status_page_shows_attach_commands_with_the_master_url(client: Client) -> None:
    page = client.get("/").content.decode()
    url = settings.PROJECT.master_url
    assert f"boinccmd --project_attach {url} \\\n  KEY</pre>" in page
    assert f"boinccmd --create_account {url}" in page
    assert f"volunteer attach {url}" in page
    assert "pip install ./client" in page


@pytest.mark.parametrize(
    ("creation", "creates"), [(AccountCreation.OPEN, True), (AccountCreation.CLOSED, False)]
)
def test_status_page_shows_account_creation_commands_only_if_allowed(
    creation, creates, client, settings
):
    settings.PROJECT = replace(settings.PROJECT, account_creation=creation)
    page = client.get("/").content.decode()
    assert ("--create --name" in page) is creates
    assert ("--create_account" in page) is creates


def test_status_page_works_on_an_empty_database(client: Client) -> None:
    page = client.get("/").content.decode()
    assert "No app has been published yet" in page
    assert "None yet" in page
    assert all(count == 0 for count in numbers(client)["workunits"].values())


def test_status_page_loads_no_external_resources(client: Client) -> None:
    page = client.get("/").content.decode()
    loaded = re.findall(r'(?:src|rel="stylesheet" href)="([^"]+)"', page)
    assert loaded
    assert all(url.startswith("/") for url in loaded)


# Descriptions of the project and its apps


def test_front_page_describes_the_project_and_each_app_that_sends_work(app, client, settings):
    settings.PROJECT = replace(
        settings.PROJECT, description="We search.\nFor primes.\n\nMore: https://example.org/"
    )
    App.objects.filter(pk=app.pk).update(description="Tests Mersenne numbers.")
    an_app("old", deprecated=True, description="Not computed any more.")
    workunit = a_workunit(app)
    settled(workunit, a_result(workunit, "valid"))
    status.forget()
    page = client.get("/").content.decode()
    assert "<p>We search.<br>\nFor primes.</p>" in page
    link = '<a href="https://example.org/" rel="nofollow noopener noreferrer">'
    assert f"<p>More: {link}https://example.org/</a></p>" in page
    assert re.search(r"<h3>Primes</h3>\s*<p>Tests Mersenne numbers.</p>", page)
    assert "Not computed any more" not in page
    status_json = client.get("/status.json").json()
    assert status_json["description"].startswith("We search.")
    assert status_json["apps"][0] | {"versions": None} == {
        "name": "primes",
        "title": "Primes",
        "description": "Tests Mersenne numbers.",
        "workunits_done": 1,
        "versions": None,
    }
    assert "1 workunit answered" in page


def test_front_page_without_apps_and_description_has_no_section_about_them(client):
    assert 'id="about"' not in client.get("/").content.decode()


def test_only_staff_is_asked_for_missing_descriptions(app, client, settings):
    change_page = f'href="/admin/scheduler/app/{app.pk}/change/"'
    for visitor, asks in ((None, False), ("volunteer", False), ("chief", True)):
        if visitor is not None:
            client.force_login(an_account(visitor, is_superuser=asks, is_staff=asks))
        page = client.get("/").content.decode()
        assert ("PROJECT_DESCRIPTION_FILE" in page) is asks
        assert ("This app has no description yet." in page) is asks
        assert (change_page in page) is asks
    App.objects.update(description="Tests Mersenne numbers.")
    settings.PROJECT = replace(settings.PROJECT, description="We search.")
    status.forget()
    page = client.get("/").content.decode()
    assert "PROJECT_DESCRIPTION_FILE" not in page
    assert "no description yet" not in page


def test_publisher_is_asked_only_for_descriptions_of_apps(app, client):
    publisher = an_account("publisher", is_staff=True)
    roles.give(publisher, "publisher", now=NOON)
    client.force_login(Account.objects.get(pk=publisher.pk))
    page = client.get("/").content.decode()
    assert "This app has no description yet." in page
    assert "PROJECT_DESCRIPTION_FILE" not in page


def test_project_description_is_read_from_a_file(monkeypatch, tmp_path):
    path = tmp_path / "about.txt"
    path.write_text("We search for primes.\n", encoding="utf-8")
    monkeypatch.setenv("PROJECT_DESCRIPTION_FILE", str(path))
    assert env.file_text("PROJECT_DESCRIPTION_FILE") == "We search for primes."
    monkeypatch.setenv("PROJECT_DESCRIPTION_FILE", str(tmp_path / "missing.txt"))
    with pytest.raises(env.BadSetting, match="a file that can be read"):
        env.file_text("PROJECT_DESCRIPTION_FILE")


# The numbers


def test_each_workunit_is_counted_in_exactly_one_stage(app: App, client: Client) -> None:
    a_workunit(app)
    a_workunit(app, need_validate=True)
    settled(a_workunit(app), assimilate_state=AssimilateState.READY)
    done = {"assimilate_state": AssimilateState.DONE}
    settled(a_workunit(app), **done)
    settled(a_workunit(app), file_delete_state=FileDeleteState.READY, **done)
    settled(a_workunit(app), file_delete_state=FileDeleteState.DONE, **done)
    assert numbers(client)["workunits"] == {
        "in_progress": 1,
        "waiting_for_validation": 1,
        "waiting_for_assimilation": 1,
        "waiting_for_deletion": 2,
        "finished": 1,
        "failed": 4,
    }


def test_results_are_counted_by_state_or_by_outcome_if_over(app: App, client: Client) -> None:
    workunit, host = a_workunit(app), a_host()
    for word in ("unsent", "inactive", "sent", "success", "valid", "noreply", "error"):
        a_result(workunit, word, host=None if word in {"unsent", "inactive"} else host)
    said = numbers(client)
    assert said["results"] == {"inactive": 1, "unsent": 1, "in_progress": 1, "over": 4}
    assert {name: count for name, count in said["outcomes"].items() if count} == {
        "success": 2,
        "no_reply": 1,
        "client_error": 1,
    }
    assert said["people"] == {"accounts": 1, "hosts": 1}


def test_bar_of_outcomes_has_a_segment_for_each_share(app: App, client: Client) -> None:
    for word in ("success", "success", "success", "noreply"):
        a_result(a_workunit(app), word)
    status.forget()
    page = client.get("/").content.decode()
    bar = re.search(r'<svg class="bar".*?</svg>', page)[0]  # type: ignore[index]
    drawn = re.findall(r'<rect class="(\w+)" x="([\d.]+)" width="([\d.]+)"', bar)
    assert [segment for segment in drawn if segment[2] != "0.00"] == [
        ("good", "0.00", "75.00"),
        ("uneasy", "75.00", "25.00"),
    ]
    assert "csp_nonce" not in page
    assert "<style" not in page


def test_daemon_lag_is_the_age_of_its_oldest_overdue_row(app: App, client: Client) -> None:
    now = timezone.now()
    for _ in range(2):
        WorkunitWakeup.objects.create(
            workunit_id=a_workunit(app, transition_at=None).pk,
            inserted_at=now - timedelta(seconds=90),
        )
    a_workunit(app, transition_at=now + timedelta(days=1))
    said = numbers(client)
    assert said["waiting"]["transitioner"] == 2
    assert 90 <= said["behind_seconds"]["transitioner"] < 120
    assert said["labels"]["behind.transitioner"] == "1 min"
    assert "timeout_checker" not in said["behind_seconds"]


def test_apps_are_listed_with_the_newest_version_of_each_platform(app: App, client: Client) -> None:
    linux = Platform.objects.create(name="x86_64-pc-linux-gnu")
    for number in (100, 103, 102):
        AppVersion.objects.create(
            app=app, platform=linux, version_num=number, created_at=timezone.now()
        )
    AppVersion.objects.create(
        app=app, platform=linux, version_num=200, deprecated=True, created_at=timezone.now()
    )
    (said,) = numbers(client)["apps"]
    assert said["versions"] == [
        {"platform": "x86_64-pc-linux-gnu", "version": "1.03", "plan_class": ""}
    ]
    assert "x86_64-pc-linux-gnu" in client.get("/").content.decode()


def test_status_page_shows_names_and_never_email_addresses_of_volunteers(
    app: App, client: Client
) -> None:
    named = a_host(an_account("Ada", email="ada@example.org"))
    nameless = a_host(an_account("nobody", email="secret@example.net"))
    Account.objects.filter(pk=nameless.account_id).update(name="")
    for number, host in enumerate((named, nameless)):
        CreditEntry.objects.create(
            result_id=number,
            rule="validated",
            account=host.account,
            host=host,
            app=app,
            amount=1,
            granted_at=NOON,
        )
    page = client.get("/").content.decode()
    assert "Ada" in page
    assert "a volunteer" in page
    assert "secret@" not in page
    assert "ada@" not in page


def test_markup_in_an_app_name_is_escaped(app: App, client: Client) -> None:
    App.objects.filter(pk=app.pk).update(user_friendly_name="<script>alert(1)</script>")
    assert "<script>alert" not in client.get("/").content.decode()


def test_status_is_cached_between_requests(
    client: Client, django_assert_num_queries: Any, django_assert_max_num_queries: Any
) -> None:
    with django_assert_max_num_queries(14):
        client.get("/")
    with django_assert_num_queries(0):
        client.get("/")
        client.get("/status.json")


# Liveness


def test_status_shows_when_each_daemon_was_last_alive(client: Client) -> None:
    run = settings.VAR_DIR / "run"
    run.mkdir(parents=True)
    (run / "validator.alive").touch()
    (run / "purger.alive").touch()
    long_ago = time.time() - 7300
    os.utime(run / "purger.alive", (long_ago, long_ago))
    said = numbers(client)
    assert [said["labels"][f"life.{name}"] for name in ("validator", "purger", "assimilator")] == [
        "alive",
        "silent for 2 h",
        "never seen",
    ]
    tones = [said["tones"][f"life.{name}"] for name in ("validator", "purger", "assimilator")]
    assert tones == ["good", "bad", "bad"]
    page = client.get("/").content.decode()
    assert 'data-tone="bad">silent for 2 h<' in page
    assert 'data-tone="good">alive<' in page
    assert said["silent_seconds"]["assimilator"] is None
    assert 7300 <= said["silent_seconds"]["purger"] < 7400


def test_status_page_shows_the_maintenance_message(client: Client) -> None:
    assert "for maintenance" not in client.get("/").content.decode()
    maintenance.begin(message="New disks.", now=NOON)
    page = client.get("/").content.decode()
    assert "Project is temporarily shut down for maintenance. New disks.</p>" in page


def test_status_page_shows_alerts_only_to_staff(client: Client) -> None:
    assert "Needs attention" not in client.get("/").content.decode()
    client.force_login(an_account("volunteer"))
    assert "Needs attention" not in client.get("/").content.decode()
    client.force_login(an_account("chief", is_superuser=True))
    assert "No daemon has ever run here." in client.get("/").content.decode()


# Errors


def test_unknown_url_returns_a_404_page(client: Client) -> None:
    answer = client.get("/no/such/page")
    assert answer.status_code == 404
    assert "There is no such page" in answer.content.decode()


def test_unhandled_exception_returns_the_500_page(
    client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(**_: object) -> None:
        raise RuntimeError

    monkeypatch.setattr(status, "current", broken)
    client.raise_request_exception = False
    answer = client.get("/")
    assert answer.status_code == 500
    assert "Something broke on our side" in answer.content.decode()
