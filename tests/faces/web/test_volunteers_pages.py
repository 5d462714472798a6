"""The pages of a volunteer's computers and results."""

from __future__ import annotations

import re
from datetime import timedelta
from decimal import Decimal
from typing import Any

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from scheduler.lifecycle import Actor, Axis, Because, ResultState
from scheduler.models import Account, AuditEntry, CreditEntry, Host, LedgerEntry, Result
from scheduler.web.volunteers import shown, views
from scheduler.work.volunteers import result_lists
from tests.conftest import NOON
from tests.faces.pages import INLINE
from tests.rows import a_host, a_result, a_workunit, an_account, an_app, settled, update

pytestmark = pytest.mark.django_db

DECISION = {
    "at": "2026-01-01T12:00:00+00:00",
    "given": 0,
    "resent": 0,
    "refused": {"memory": 3},
    "sentences": {"memory": "needs 4 GB, has 2 GB"},
    "said": ["Not enough memory"],
}


@pytest.fixture
def ada() -> Account:
    return an_account("ada")


@pytest.fixture
def browser(client: Client, ada: Account) -> Client:
    """A browser in which Ada has logged in."""
    client.force_login(ada)
    return client


@pytest.fixture
def host(ada: Account) -> Host:
    return a_host(
        ada,
        domain_name="desk",
        os_name="Linux",
        os_version="6.1",
        p_model="Ryzen",
        p_ncpus=8,
        p_fpops=4.2e9,
        p_iops=2.5e10,
        capabilities={"gpus": [{"kind": "nvidia", "name": "T4", "ram_bytes": 2.0**34}]},
        last_decisions=[DECISION],
    )


def page(browser: Client, path: str, status: int = 200) -> str:
    answer = browser.get(path)
    assert answer.status_code == status
    text = answer.content.decode()
    assert not INLINE.search(text)
    return text


def statements(browser: Client, path: str) -> int:
    with CaptureQueriesContext(connection) as captured:
        page(browser, path)
    return len(captured)


# Computers


def test_list_of_computers_shows_each_with_its_figures(browser, host):
    a_result(a_workunit(), "sent", host=host)
    update(host, total_credit=Decimal(12345), expavg_credit=67.8)
    text = page(browser, "/account/computers/")
    for part in ("desk", "Linux 6.1", "8 × Ryzen", "T4 (16.0 GiB)", "4.20 GFLOPS", "25.00 GIOPS"):
        assert part in text
    assert "12,345" in text
    assert "67.8" in text
    assert f'title="{NOON:%Y-%m-%d %H:%M:%S} UTC"' in text
    assert ">1<span" in text


def test_list_without_computers_tells_how_to_attach_one(browser):
    text = page(browser, "/account/computers/")
    assert "No computer is attached" in text
    assert "Add project" in text
    assert "<table" not in text


def test_list_of_computers_has_pages_and_sorts(browser, ada, monkeypatch):
    monkeypatch.setattr(views, "COMPUTERS_PER_PAGE", 2)
    for name in ("cat", "ant", "bee"):
        a_host(ada, domain_name=name)

    def names(query: str) -> list[str]:
        return re.findall(r">(ant|bee|cat)</a>", page(browser, f"/account/computers/{query}"))

    assert names("?sort=name") == ["ant", "bee"]
    assert names("?sort=name&page=2") == ["cat"]
    assert names("?sort=-name") == ["cat", "bee"]
    text = page(browser, "/account/computers/?sort=name")
    assert 'aria-sort="ascending"' in text
    assert "?sort=name&amp;page=2" in text
    assert "Page 1 of 2" in text
    default = page(browser, "/account/computers/")
    for query in ("?sort=password", "?sort=--name", "?page=x", "?page=-1", "?page=1²", "?sort="):
        assert re.findall(r"<td.*", page(browser, f"/account/computers/{query}")) == re.findall(
            r"<td.*", default
        )
    assert names(f"?page={'9' * 30}") == names("")


def test_lists_take_the_same_number_of_statements_for_one_row_and_for_many(browser, ada, host):
    paths = (
        *("/account/computers/", "/account/computers/?show=active&system=other"),
        *("/account/results/", "/account/results/?sort=id"),
        f"/account/computers/{host.pk}/results/",
    )
    a_result(a_workunit(), "sent", host=host)
    few = [statements(browser, path) for path in paths]
    for _ in range(8):
        a_result(a_workunit(), "valid", host=host)
        a_result(a_workunit(), "sent", host=a_host(ada))
    assert [statements(browser, path) for path in paths] == few
    assert max(few) <= 5  # two of them read the session and the account


def test_page_of_a_computer_tells_why_it_got_no_work(browser, host):
    text = page(browser, f"/account/computers/{host.pk}/")
    assert "No work: the available results do not fit this computer" in text
    assert "more memory than BOINC may use here" in text
    assert "needs 4 GB, has 2 GB" in text
    assert "Not enough memory" in text
    update(host, last_decisions=[], denied=True, deny_reason="internal note")
    text = page(browser, f"/account/computers/{host.pk}/")
    assert "has not requested work yet" in text
    assert "denies work" in text
    assert "internal note" not in text


def test_page_of_a_computer_survives_unreadable_stored_values(browser, host):
    update(host, last_decisions=["x", {"at": 7}], capabilities=[], client_version=-1)
    assert "none reported" in page(browser, f"/account/computers/{host.pk}/")


def test_location_of_a_computer_is_changed_and_recorded(browser, host):
    answer = browser.post(f"/account/computers/{host.pk}/", {"venue": "school"}, follow=True)
    assert "The location is saved" in answer.content.decode()
    host.refresh_from_db()
    assert host.venue == "school"
    assert AuditEntry.objects.get(event="host_changed").details == {"venue": "school"}
    answer = browser.post(f"/account/computers/{host.pk}/", {"venue": "<b>"}, follow=True)
    assert "is not a venue" in answer.content.decode()
    host.refresh_from_db()
    assert host.venue == "school"


def test_owner_merges_an_older_entry_of_a_computer(browser, ada, host):
    day = timedelta(days=1)
    old = a_host(ada, domain_name="desk before", rpc_at=NOON - day, created_at=NOON - 9 * day)
    update(old, os_name="Linux Mint", total_credit=Decimal(5))
    a_host(ada, domain_name="laptop", os_name="Linux", rpc_at=NOON + day)  # in use as well
    result = a_result(a_workunit(), "valid", host=old)
    path = f"/account/computers/{host.pk}/"
    text = page(browser, path)
    assert "desk before (number" in text
    assert "laptop" not in text
    answer = browser.post(f"{path}merge/", {"merged": old.pk}, follow=True)
    assert "The older entry is merged" in answer.content.decode()
    old.refresh_from_db()
    result.refresh_from_db()
    assert (old.merged_into_id, result.host_id) == (host.pk, host.pk)
    entry = AuditEntry.objects.get(event="host_changed")
    assert (entry.subject, entry.details) == (f"host {host.pk}", {"merged": old.pk})
    assert "Older entries" not in page(browser, path)


def test_owner_deletes_a_computer_without_results(browser, ada, host):
    path = f"/account/computers/{host.pk}/"
    result = a_result(a_workunit(), "sent", host=host)
    assert "has results in progress" in page(browser, path)
    answer = browser.post(f"{path}delete/", follow=True)
    assert "has results in progress" in answer.content.decode()
    result.delete()
    assert "This cannot be undone" in page(browser, path)
    answer = browser.post(f"{path}delete/", follow=True)
    assert "The computer is deleted" in answer.content.decode()
    assert answer.redirect_chain == [("/account/computers/", 302)]
    assert "No computer is attached" in page(browser, "/account/computers/")
    page(browser, path, status=404)
    assert browser.post(f"{path}delete/").status_code == 404
    assert browser.get(f"{path}delete/").status_code == 405


def test_merge_without_a_choice_or_of_another_machine_changes_nothing(browser, ada, host):
    laptop = a_host(ada, domain_name="laptop", os_name="Linux", rpc_at=NOON + timedelta(days=1))
    path = f"/account/computers/{host.pk}/merge/"
    for merged, expected in (
        ("", "Choose the older entry"),
        ("9" * 30, "Choose the older entry"),
        (laptop.pk, "they are different machines"),
        (host.pk, "cannot be merged into itself"),
        (10**9, "has no computer 1000000000"),
    ):
        answer = browser.post(path, {"merged": merged}, follow=True)
        assert expected in answer.content.decode()
    assert not Host.objects.filter(merged_into__isnull=False).exists()
    assert browser.get(path).status_code == 405


# Results


def test_list_of_results_shows_state_deadline_and_credit(browser, host):
    workunit = a_workunit(an_app("primes", user_friendly_name="Prime numbers"))
    soon = timezone.now() + timedelta(days=3, hours=1)
    sent = a_result(workunit, "sent", host=host, report_deadline=soon)
    a_result(workunit, "valid", host=host, granted_credit=Decimal("1234.5"))
    text = page(browser, "/account/results/")
    for part in ("Prime numbers", "in progress", "in 3 days", "1,234.50", "50 min", "desk"):
        assert part in text
    assert text.index("/account/results/") < text.index(f"/account/results/{sent.pk}/")
    update(sent, report_deadline=NOON - timedelta(days=1))
    assert "was due" in page(browser, "/account/results/")


def test_list_of_results_is_filtered_by_state_and_by_computer(browser, ada, host):
    other = a_host(ada, domain_name="laptop")
    valid = a_result(a_workunit(), "valid", host=host)
    error = a_result(a_workunit(), "error", host=other)

    def ids(path: str) -> list[int]:
        return [int(pk) for pk in re.findall(r'"/account/results/(\d+)/"', page(browser, path))]

    assert ids("/account/results/") == [error.pk, valid.pk]
    assert ids("/account/results/?state=valid") == [valid.pk]
    assert ids("/account/results/?state=error") == [error.pk]
    assert ids("/account/results/?state=nonsense") == [error.pk, valid.pk]
    assert ids(f"/account/computers/{other.pk}/results/") == [error.pk]
    assert ids(f"/account/computers/{other.pk}/results/?state=valid") == []
    text = page(browser, "/account/results/?state=valid")
    assert 'href="?state=valid" aria-current="page">valid</a>' in text


def test_older_results_are_on_the_next_page(browser, host, monkeypatch):
    monkeypatch.setattr(views, "RESULTS_PER_PAGE", 2)
    results = [a_result(a_workunit(), "valid", host=host) for _ in range(3)]
    text = page(browser, "/account/results/?state=valid")
    link = f"?state=valid&before={results[1].pk}"
    assert link.replace("&", "&amp;") in text
    text = page(browser, f"/account/results/{link}")
    assert f"/account/results/{results[0].pk}/" in text
    assert f"/account/results/{results[1].pk}/" not in text
    assert "Newest results" in text
    assert "Older results" not in text
    for before in ("x", "-1", "9" * 40, "1²", "\x00"):
        assert (
            "Older results" in browser.get("/account/results/", {"before": before}).content.decode()
        )


def test_oldest_results_are_listed_first_on_request(browser, host, monkeypatch):
    monkeypatch.setattr(views, "RESULTS_PER_PAGE", 2)
    results = [a_result(a_workunit(), "valid", host=host) for _ in range(3)]

    def ids(text: str) -> list[int]:
        return [int(pk) for pk in re.findall(r'"/account/results/(\d+)/"', text)]

    text = page(browser, "/account/results/?state=valid")
    assert 'aria-sort="descending"><a id="sort-id" href="?state=valid&amp;sort=id"' in text
    text = page(browser, "/account/results/?state=valid&sort=id")
    assert ids(text) == [results[0].pk, results[1].pk]
    assert 'aria-sort="ascending"><a id="sort-id" href="?state=valid&amp;sort=-id"' in text
    assert 'href="?state=error&amp;sort=id"' in text
    link = f"?state=valid&sort=id&after={results[1].pk}"
    assert f'href="{link.replace("&", "&amp;")}" rel="next">Newer results</a>' in text
    text = page(browser, f"/account/results/{link}")
    assert ids(text) == [results[2].pk]
    assert '<a href="?state=valid&amp;sort=id">Oldest results</a>' in text
    assert "rel=" not in text.partition('class="pages"')[2]
    text = page(browser, f"/account/results/?sort=id&after={results[2].pk}")
    assert "There are no newer results." in text
    # The position of the other order is ignored, as every invalid parameter.
    assert ids(page(browser, "/account/results/?sort=id&before=1")) == [
        results[0].pk,
        results[1].pk,
    ]
    for sort in ("", "x", "--id", "-id"):
        text = page(browser, f"/account/results/?sort={sort}")
        assert ids(text) == [results[2].pk, results[1].pk]


def test_lists_without_results_tell_what_to_do(browser, host, monkeypatch):
    assert "are attached, and why" in page(browser, "/account/results/")
    assert f'href="/account/computers/{host.pk}/"' in page(
        browser, f"/account/computers/{host.pk}/results/"
    )
    assert "No result is in the state “valid”" in page(browser, "/account/results/?state=valid")
    a_result(a_workunit(), "error", host=host)
    assert "no older results" in page(browser, "/account/results/?before=1")
    monkeypatch.setattr(result_lists, "MAX_READ", 0)
    monkeypatch.setattr(views, "RESULTS_PER_PAGE", 0)
    assert "Older ones may exist" in page(browser, "/account/results/?state=valid")
    assert "Newer ones may exist" in page(browser, "/account/results/?state=valid&sort=id")


def test_page_of_a_result_explains_its_state_and_its_credit(browser, host):
    workunit = a_workunit()
    mine = a_result(workunit, "valid", host=host, stderr="<b>done</b>\nbye")
    a_result(workunit, "invalid", host=a_host(an_account(show_hosts=False)))
    CreditEntry.objects.create(
        result_id=mine.pk,
        rule=CreditEntry.VALIDATED,
        account=host.account,
        host=host,
        app=workunit.app,
        amount=Decimal("7.5"),
        granted_at=NOON,
    )
    settled(workunit, mine)
    text = page(browser, f"/account/results/{mine.pk}/")
    for part in (
        "agrees with the accepted answer",
        "7.50",
        "by the rule “runtime”.",
        "the speed of the devices",
        "50 min × 1.00 GFLOPS",
        "&lt;b&gt;done&lt;/b&gt;",
        f"Other results of workunit {workunit.pk}",
        "Another computer",
    ):
        assert part in text
    assert "<b>done" not in text


def test_page_of_a_result_shows_its_timeline_in_words_with_the_labels_of_the_moves(browser, host):
    result = a_result(a_workunit(), "success", host=host)
    for number, (source, target, because) in enumerate(
        (
            (ResultState.UNSENT, ResultState.IN_PROGRESS, Because.SENT),
            (ResultState.IN_PROGRESS, ResultState.SUCCESS, Because.REPORTED),
        )
    ):
        LedgerEntry.objects.create(
            at=NOON + timedelta(minutes=number),
            workunit_id=result.workunit_id,
            result_id=result.pk,
            axis=Axis.RESULT,
            source=source,
            target=target,
            because=because,
            by=Actor.SCHEDULER,
        )
    steps = re.findall(
        r"<li>(.*?)<small>.*?<span lang=\"en\">(.*?)</span>", timeline(browser, result)
    )
    assert steps == [
        ("Sent to this computer.", "IN_PROGRESS: sent to a host"),
        ("Reported: the program finished without an error.", "OVER/SUCCESS: reported"),
    ]
    german = timeline(browser, result, headers={"accept-language": "de"})
    assert "An diesen Computer gesendet." in german
    assert "Gemeldet: Das Programm wurde ohne Fehler beendet." in german


def timeline(browser: Client, result: Result, **options: Any) -> str:
    text = browser.get(f"/account/results/{result.pk}/", **options).content.decode()
    [found] = re.findall(r'<ol class="timeline">.*?</ol>', text, re.DOTALL)
    return str(found)


@pytest.mark.parametrize(
    ("word", "part"),
    [
        ("sent", "has not reported it yet"),
        ("invalid", "disagrees with the accepted answer"),
        ("unreadable", "a file was missing or unreadable"),
        ("noreply", "did not report the result before the deadline"),
        ("aborted", "was aborted on your computer"),
        ("toolate", "after the files for the comparison were deleted"),
    ],
)
def test_page_of_a_result_tells_why_it_is_not_valid(browser, host, word, part):
    result = a_result(a_workunit(), word, host=host)
    assert part in page(browser, f"/account/results/{result.pk}/")


def test_pages_are_linked_from_the_account(browser):
    text = page(browser, "/account/")
    assert 'href="/account/computers/"' in text
    assert 'href="/account/results/"' in text


@pytest.mark.parametrize(
    ("difference", "text"),
    [
        (timedelta(seconds=20), "just now"),
        (timedelta(hours=3), "in 3 hours"),
        (timedelta(days=-8), "1 week ago"),
    ],
)
def test_times_are_relative_to_now(difference, text):
    time: Any = shown.time_of(NOON + difference, now=NOON)
    assert time.ago == text
    assert shown.time_of(None, now=NOON) is None
