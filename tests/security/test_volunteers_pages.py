"""Pages of results show only own rows, and no sibling result too early."""

from __future__ import annotations

from datetime import timedelta

import pytest
from django.test import Client

from scheduler.models import Account, Host
from scheduler.work.volunteers import own_result
from tests.conftest import NOON
from tests.faces.apis import Program, a_program
from tests.faces.pages import comparable
from tests.rows import a_host, a_result, a_workunit, an_account, settled, update

pytestmark = pytest.mark.django_db


@pytest.fixture
def ada() -> Account:
    return an_account("ada")


@pytest.fixture
def host(ada: Account) -> Host:
    return a_host(ada, domain_name="adas-secret-computer")


def browser_of(account: Account, **options: object) -> Client:
    client = Client(**options)
    client.force_login(account)
    return client


# Other accounts


@pytest.mark.parametrize("staff", [False, True])
def test_rows_of_other_accounts_are_not_found(ada, host, staff):
    result = a_result(a_workunit(), "valid", host=host)
    eve = an_account("eve", is_staff=staff, is_superuser=staff)
    browser, program = browser_of(eve), a_program(eve, "read")
    for path in (
        f"/account/computers/{host.pk}/",
        f"/account/computers/{host.pk}/results/",
        f"/account/results/{result.pk}/",
    ):
        assert browser.get(path).status_code == 404
    assert browser.post(f"/account/computers/{host.pk}/", {"venue": "work"}).status_code == 404
    host.refresh_from_db()
    assert host.venue == ""
    for path in (f"/me/computers/{host.pk}", f"/me/results/{result.pk}"):
        assert program.send("get", path).status_code == 404
    # Lists are empty, also with the number of a computer of another account.
    for path in ("/account/computers/", "/account/results/"):
        assert b"adas-secret-computer" not in browser.get(path).content
    for path in ("/me/computers", "/me/results", f"/me/results?computer={host.pk}"):
        assert program.send("get", path).json()["results"] == []


@pytest.mark.parametrize("staff", [False, True])
def test_computers_of_other_accounts_cannot_be_merged_or_deleted(ada, host, staff):
    eve = an_account("eve", is_staff=staff, is_superuser=staff)
    long_ago = NOON - timedelta(days=1)
    own = a_host(eve, rpc_at=long_ago, created_at=long_ago)
    update(host, rpc_at=long_ago)
    browser, program = browser_of(eve), a_program(eve, "submit")
    for kept, merged, status in ((host, own, 404), (own, host, 302)):
        path = f"/account/computers/{kept.pk}/merge/"
        assert browser.post(path, {"merged": merged.pk}).status_code == status
        path = f"/me/computers/{kept.pk}/merge"
        assert program.send("post", path, {"merged": merged.pk}).status_code == 404
    assert program.send("patch", f"/me/computers/{host.pk}", {"venue": "work"}).status_code == 404
    assert program.send("delete", f"/me/computers/{host.pk}").status_code == 404
    assert browser.post(f"/account/computers/{host.pk}/delete/").status_code == 404
    assert not Host.objects.filter(merged_into__isnull=False).exists()


@pytest.mark.parametrize("decision", [{"denied": True}, {"max_in_progress": 1}])
def test_owner_cannot_merge_away_a_denial_or_a_limit(ada, host, decision):
    long_ago = NOON - timedelta(days=1)
    old = a_host(ada, rpc_at=long_ago, created_at=long_ago)
    program = a_program(ada, "submit")
    for limited in (old, host):
        update(limited, **decision)
        refused = program.send("post", f"/me/computers/{host.pk}/merge", {"merged": old.pk})
        assert (refused.status_code, refused.json()["code"]) == (409, "merge_refused")
        update(limited, denied=False, max_in_progress=None)


def test_unknown_numbers_give_the_same_page_as_numbers_of_other_accounts(ada, host):
    browser = browser_of(an_account("eve"))
    result = a_result(a_workunit(), "valid", host=host)
    for name, number in (("computers", host.pk), ("results", result.pk)):
        pages = [
            browser.get(f"/account/{name}/{each}/") for each in (number, 10**15, 10**19, 10**200)
        ]
        assert {page.status_code for page in pages} == {404}
        assert len({comparable(page) for page in pages}) == 1


def test_visitors_without_a_log_in_are_sent_to_the_log_in(host):
    for path in (
        "/account/computers/",
        f"/account/computers/{host.pk}/",
        f"/account/computers/{host.pk}/results/",
        "/account/results/",
        "/account/results/1/",
    ):
        answer = Client().get(path)
        assert answer.status_code == 302
        assert answer["Location"].startswith("/account/login/?next=")
    for path in ("/me/computers", f"/me/computers/{host.pk}", "/me/results", "/me/results/1"):
        assert Program().send("get", path).status_code == 401


def test_merged_computer_has_no_page(ada, host):
    old = a_host(ada)
    update(old, merged_into=host)
    assert browser_of(ada).get(f"/account/computers/{old.pk}/").status_code == 404


def test_location_is_changed_only_with_the_token_of_the_page(ada, host):
    browser = browser_of(ada, enforce_csrf_checks=True)
    answer = browser.post(f"/account/computers/{host.pk}/", {"venue": "work"})
    assert answer.status_code == 403
    host.refresh_from_db()
    assert host.venue == ""


def test_pages_are_not_cached_by_others(ada, host):
    browser = browser_of(ada)
    for path in ("/account/computers/", f"/account/computers/{host.pk}/", "/account/results/"):
        assert "no-store" in browser.get(path)["Cache-Control"]


# Texts of clients


@pytest.mark.lengthy
def test_texts_of_clients_are_escaped_and_bounded(ada):
    evil = "<script>alert(1)</script>"
    host = a_host(
        ada,
        domain_name=evil,
        os_name=evil,
        p_model=evil,
        venue=evil,
        capabilities={"gpus": [{"kind": evil, "name": "x" * 100_000, "count": evil}] * 1000},
        last_decisions=[
            {
                "at": evil,
                "refused": {evil: evil, "y" * 100_000: 1},
                "sentences": {evil: evil},
                "said": [evil, "z" * 100_000] * 100,
            }
        ],
    )
    result = a_result(a_workunit(), "error", host=host, stderr=evil + "w" * 60_000 + evil)
    browser = browser_of(ada)
    for path in (
        "/account/computers/",
        f"/account/computers/{host.pk}/",
        f"/account/computers/{host.pk}/results/",
        "/account/results/",
        f"/account/results/{result.pk}/",
    ):
        answer = browser.get(path)
        assert answer.status_code == 200
        assert b"<script>" not in answer.content
        assert len(answer.content) < 60_000
    for path in ("/me/computers", f"/me/computers/{host.pk}", f"/me/results/{result.pk}"):
        answer = a_program(ada, "read").send("get", path)
        assert answer.status_code == 200
        assert len(answer.content) < 60_000


# Siblings


def siblings(account: Account, result) -> object:
    return own_result.find(account, result.pk).siblings


def test_siblings_are_withheld_until_the_result_is_reported(ada, host):
    """Otherwise a host could send wrong answers exactly when they will not be compared."""
    workunit = a_workunit()
    result = a_result(workunit, "sent", host=host)
    a_result(workunit, "sent")
    assert siblings(ada, result) is None
    page = browser_of(ada).get(f"/account/results/{result.pk}/").content.decode()
    assert "Another computer" not in page
    assert a_program(ada).send("get", f"/me/results/{result.pk}").json()["siblings"] is None


@pytest.mark.parametrize("word", ["success", "error", "unreadable", "noreply", "detached"])
def test_siblings_are_withheld_until_the_workunit_is_decided(ada, host, word):
    """Otherwise one of two accounts could learn that both have all copies of a workunit."""
    workunit = a_workunit()
    result = a_result(workunit, word, host=host)
    other = a_result(workunit, "valid")
    assert siblings(ada, result) is None
    settled(workunit, other)
    assert len(siblings(ada, result)) == 1


def test_siblings_wait_for_all_results_of_the_account(ada, host):
    workunit = a_workunit()
    result = a_result(workunit, "success", host=host)
    second = a_result(workunit, "sent", host=a_host(ada))
    a_result(workunit, "sent")
    assert siblings(ada, result) is None
    assert siblings(ada, second) is None


def test_computers_of_siblings_are_named_only_with_the_consent_of_their_owners(ada, host):
    workunit = a_workunit()
    result = a_result(workunit, "success", host=host)
    shows = a_host(an_account("shows", show_hosts=True))
    hides = a_host(an_account("hides", show_hosts=False))
    erased = a_host(an_account("erased", is_active=False))
    hidden = a_host(an_account("partly", show_hosts=True), hidden=True)
    others = [a_result(workunit, "valid", host=each) for each in (shows, hides, erased, hidden)]
    settled(workunit, others[0])
    assert [each.shown_host_id for each in siblings(ada, result)] == [shows.pk, None, None, None]
    page = browser_of(ada).get(f"/account/results/{result.pk}/").content.decode()
    assert f"?hostid={shows.pk}" in page
    assert f"?hostid={hidden.pk}" not in page
    assert page.count("Another computer") == 3
    assert "hides" not in page
