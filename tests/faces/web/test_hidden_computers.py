"""The switch with which owners hide one computer from others: page, lists and API."""

from __future__ import annotations

import re

import pytest
from django.test import Client

from scheduler.models import Account, AuditEntry, Host
from tests.faces.apis import a_program
from tests.rows import a_host, an_account, update

pytestmark = pytest.mark.django_db


@pytest.fixture
def ada() -> Account:
    return an_account("ada", show_hosts=True)


@pytest.fixture
def host(ada: Account) -> Host:
    return a_host(ada, domain_name="desk", venue="work")


@pytest.fixture
def browser(client: Client, ada: Account) -> Client:
    client.force_login(ada)
    return client


def is_public(host: Host) -> bool:
    status = Client().get("/show_host_detail.php", {"hostid": host.pk}).status_code
    assert status in (200, 404)
    return status == 200


def test_owner_hides_and_shows_a_computer_on_its_page(browser, host):
    path = f"/account/computers/{host.pk}/"
    text = browser.get(path).content.decode()
    assert "everybody can open the page of this one" in text
    assert f'href="/show_host_detail.php?hostid={host.pk}"' in text
    assert is_public(host)
    text = browser.post(path, {"hidden": "true"}, follow=True).content.decode()
    assert "The computer is hidden from others." in text
    assert "others cannot open its page" in text
    assert 'name="hidden" value="false"' in text
    assert not is_public(host)
    text = browser.post(path, {"hidden": "false"}, follow=True).content.decode()
    assert "The change is saved." in text
    assert is_public(host)
    host.refresh_from_db()
    assert (host.venue, host.own_max_held) == ("work", None)
    entries = AuditEntry.objects.filter(event="host_changed").order_by("pk")
    assert [entry.details for entry in entries] == [{"hidden": True}, {"hidden": False}]
    assert {entry.actor for entry in entries} == {host.account.email}


@pytest.mark.parametrize("value", ["", "x", "0", "False", "true\0"])
def test_unknown_value_hides_rather_than_shows(browser, host, value):
    update(host, hidden=True)
    browser.post(f"/account/computers/{host.pk}/", {"hidden": value})
    host.refresh_from_db()
    assert host.hidden


def test_page_of_an_account_that_shows_no_computers_explains_the_switch(browser, ada, host):
    update(ada, show_hosts=False)
    text = browser.get(f"/account/computers/{host.pk}/").content.decode()
    assert "You do not show your computers" in text
    assert "show_host_detail" not in text
    browser.post(f"/account/computers/{host.pk}/", {"hidden": "true"})
    update(ada, show_hosts=True)
    assert not is_public(host)


def test_other_forms_of_the_page_do_not_change_the_switch(browser, host):
    update(host, hidden=True)
    path = f"/account/computers/{host.pk}/"
    browser.post(path, {"venue": "home"})
    browser.post(path, {"max_held": "1", "max_cpus": ""})
    host.refresh_from_db()
    assert (host.hidden, host.venue, host.own_max_held) == (True, "home", 1)


def test_computers_of_others_cannot_be_hidden(browser, ada):
    other = a_host(an_account("bob", show_hosts=True))
    path = f"/account/computers/{other.pk}/"
    assert browser.post(path, {"hidden": "true"}).status_code == 404
    program = a_program(ada, "submit")
    changed = program.send("patch", f"/me/computers/{other.pk}", {"hidden": True})
    assert changed.status_code == 404
    assert is_public(other)


def test_form_needs_its_csrf_token(ada, host):
    browser = Client(enforce_csrf_checks=True)
    browser.force_login(ada)
    assert browser.post(f"/account/computers/{host.pk}/", {"hidden": "true"}).status_code == 403
    assert is_public(host)


def test_program_hides_and_shows_a_computer(ada, host):
    program, path = a_program(ada, "read", "submit"), f"/me/computers/{host.pk}"
    assert program.send("get", path).json()["hidden"] is False
    changed = program.send("patch", path, {"hidden": True}).json()
    assert (changed["hidden"], changed["venue"]) == (True, "work")
    assert not is_public(host)
    for bad in ({"hidden": None}, {"hidden": "yes"}, {"hidden": 1}):
        assert program.send("patch", path, bad).status_code == 400
    program.send("patch", path, {"hidden": False})
    assert is_public(host)
    assert a_program(ada, "read").send("patch", path, {"hidden": True}).status_code == 403


# Lists


def names(browser: Client, query: str = "") -> list[str]:
    answer = browser.get(f"/account/computers/{query}")
    assert answer.status_code == 200
    return re.findall(r'role="rowheader"><a [^>]*>([^<]+)</a>', answer.content.decode())


def test_list_of_computers_is_filtered_and_keeps_the_filters_in_its_links(
    browser, ada, host, monkeypatch
):
    monkeypatch.setattr("scheduler.web.volunteers.views.COMPUTERS_PER_PAGE", 1)
    update(host, hidden=True, os_name="Linux")
    a_host(ada, domain_name="tower", hidden=True, os_name="Linux")
    a_host(ada, domain_name="laptop", os_name="Microsoft Windows 11")
    assert names(browser, "?show=hidden&sort=name") == ["desk"]
    assert names(browser, "?show=hidden&sort=name&page=2") == ["tower"]
    assert names(browser, "?system=windows") == ["laptop"]
    assert names(browser, "?system=linux&show=hidden&sort=-name") == ["tower"]
    assert names(browser, "?show=x&system=y&sort=name") == ["desk"]
    text = browser.get("/account/computers/?show=hidden&system=linux&sort=name").content.decode()
    for link in (
        "?show=hidden&amp;system=linux&amp;sort=name&amp;page=2",
        "?show=hidden&amp;system=linux&amp;sort=-name",
        "?system=linux&amp;sort=name",
        "?show=hidden&amp;system=windows&amp;sort=name",
    ):
        assert f'href="{link}"' in text, link
    assert re.findall(r'aria-current="page">([^<]+)<', text) == ["hidden", "Linux"]
    assert '<span class="tag plain">hidden</span>' in text
    assert "3 computers are attached" in text
    text = browser.get("/account/computers/?system=android").content.decode()
    assert "No computer matches." in text
    assert "No computer is attached" not in text
    assert "?show=active" in text


def test_list_of_one_computer_has_no_filters(browser, host):
    assert "?show=" not in browser.get("/account/computers/").content.decode()


def test_program_filters_its_computers(ada, host):
    hidden = a_host(ada, hidden=True, os_name="Linux", rpc_at="2020-01-01T00:00:00Z")
    update(host, os_name="Darwin")
    program = a_program(ada, "read")

    def ids(query: str) -> list[int]:
        return [
            row["id"] for row in program.send("get", f"/me/computers?{query}").json()["results"]
        ]

    assert ids("show=hidden") == [hidden.pk]
    assert ids("show=inactive&system=linux") == [hidden.pk]
    assert ids("system=macos") == [host.pk]
    assert ids("system=other") == []
    assert ids("") == [hidden.pk, host.pk]
    for query in ("show=x", "show=", "system=beos"):
        assert program.send("get", f"/me/computers?{query}").status_code == 400
