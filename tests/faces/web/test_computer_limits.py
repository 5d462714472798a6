"""The limits that owners set for one computer: page, API, and claims."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest
from django.test import Client

from scheduler.models import Account, AuditEntry, Host
from tests.faces.apis import a_program
from tests.rows import a_host, an_account, update
from tests.scripted_client import a_client, rpc_statements
from tests.work import an_app, workunits

pytestmark = pytest.mark.django_db


@pytest.fixture
def ada() -> Account:
    return an_account("ada")


@pytest.fixture
def host(ada: Account) -> Host:
    return a_host(ada)


@pytest.fixture
def browser(client: Client, ada: Account) -> Client:
    client.force_login(ada)
    return client


def limits(host: Host) -> tuple[int | None, int | None]:
    host.refresh_from_db()
    return host.own_max_held, host.own_max_cpus


def test_owner_sets_and_clears_the_limits_on_the_page_of_the_computer(browser, host):
    path = f"/account/computers/{host.pk}/"
    update(host, venue="work")
    answer = browser.post(path, {"max_held": " 3 ", "max_cpus": ""}, follow=True)
    text = answer.content.decode()
    assert "The limits are saved." in text
    assert re.search(r'name="max_held"[^>]*value="3"', text)
    assert re.search(r'name="max_cpus"[^>]*value=""', text)
    assert limits(host) == (3, None)
    assert host.venue == "work"
    entry = AuditEntry.objects.filter(event="host_changed").latest("pk")
    assert entry.details == {"own_max_held": 3, "own_max_cpus": None}
    browser.post(path, {"venue": "home"})
    assert limits(host) == (3, None)
    browser.post(path, {"max_held": "", "max_cpus": "0"})
    assert limits(host) == (None, 0)


@pytest.mark.parametrize("value", ["-1", "10001", "x", "1.5", "١", "9" * 50, "1</p><b>"])
def test_wrong_limit_is_refused_with_a_message(browser, host, value):
    path = f"/account/computers/{host.pk}/"
    answer = browser.post(path, {"max_held": value, "max_cpus": "1"}, follow=True)
    text = answer.content.decode()
    assert "is not a limit. Hint: give a whole number from 0 to 10000." in text
    assert "<b>" not in text
    assert limits(host) == (None, None)


def test_limits_of_the_computers_of_others_cannot_be_set(browser, ada):
    other = a_host(an_account("bob"))
    body = {"max_held": "1", "max_cpus": "1"}
    assert browser.post(f"/account/computers/{other.pk}/", body).status_code == 404
    program = a_program(ada, "submit")
    changed = program.send("patch", f"/me/computers/{other.pk}", {"max_held": 1})
    assert changed.status_code == 404
    assert limits(other) == (None, None)


def test_form_needs_its_csrf_token(ada, host):
    browser = Client(enforce_csrf_checks=True)
    browser.force_login(ada)
    body = {"max_held": "1", "max_cpus": "1"}
    assert browser.post(f"/account/computers/{host.pk}/", body).status_code == 403
    assert limits(host) == (None, None)


def test_program_sets_each_field_alone(ada, host):
    program = a_program(ada, "submit")
    path = f"/me/computers/{host.pk}"
    program.send("patch", path, {"venue": "work", "max_cpus": 2})
    changed = program.send("patch", path, {"max_held": 5}).json()
    assert (changed["venue"], changed["max_held"], changed["max_cpus"]) == ("work", 5, 2)
    program.send("patch", path, {"max_cpus": None})
    assert limits(host) == (5, None)
    for bad in ({}, {"max_held": -1}, {"max_held": 10_001}, {"max_held": True}, {"venue": None}):
        assert program.send("patch", path, bad).status_code == 400, bad
    assert limits(host) == (5, None)
    assert a_program(ada, "read").send("patch", path, {"max_held": 1}).status_code == 403


def test_limit_of_a_computer_replaces_that_of_the_preferences():
    workunits(an_app(), 9)
    client = a_client()
    [account] = Account.objects.all()
    update(account, project_prefs="<max_jobs>1</max_jobs>")
    client.ask()
    # 0 means no limit, and a lower limit takes no results away.
    for own, held_results in ((None, 1), (3, 3), (2, 3), (0, 9)):
        Host.objects.update(own_max_held=own)
        client.ask_for_work(1e6)
        assert len(client.held) == held_results, own


def test_limit_of_processors_of_a_computer_replaces_that_of_the_preferences(settings):
    settings.PROJECT = replace(settings.PROJECT, max_in_progress_per_cpu=1)
    workunits(an_app(), 9)
    client = a_client()
    [account] = Account.objects.all()
    update(account, project_prefs="<max_cpus>1</max_cpus>")
    client.ask()
    for own, held_results in ((None, 1), (3, 3), (0, 4)):
        Host.objects.update(own_max_cpus=own)
        client.ask_for_work(1e6)
        assert len(client.held) == held_results, own


def test_limit_of_a_computer_needs_no_further_statement():
    workunits(an_app(), 9)
    client = a_client()
    client.ask()

    def statements() -> int:
        return len(rpc_statements(lambda: client.ask_for_work(1e6)))

    client.ask_for_work(1.0)
    without_limit = statements()
    Host.objects.update(own_max_held=2, own_max_cpus=1)
    assert statements() <= without_limit
