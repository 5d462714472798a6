"""The page of a workunit for volunteers, and its twin in the API."""

from __future__ import annotations

import json
import re
from decimal import Decimal

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext

from scheduler.lifecycle import ErrorMask
from scheduler.models import Account, Batch, Host, Workunit
from scheduler.work.volunteers.result_states import OwnState
from scheduler.work.volunteers.workunit_states import WorkunitState, why_workunit, workunit_state
from tests.conftest import NOON
from tests.faces.apis import a_program
from tests.faces.pages import comparable
from tests.rows import (
    a_host,
    a_result,
    a_workunit,
    an_account,
    an_app,
    an_input,
    settled,
    update,
)

pytestmark = pytest.mark.django_db


@pytest.fixture
def ada() -> Account:
    return an_account("ada")


@pytest.fixture
def host(ada: Account) -> Host:
    return a_host(ada, domain_name="desk", p_fpops=1e9)


@pytest.fixture
def workunit() -> Workunit:
    app = an_app("primes", user_friendly_name="Large primes")
    return a_workunit(app, rsc_fpops_est=3.6e12)


@pytest.fixture
def browser(client: Client, ada: Account) -> Client:
    client.force_login(ada)
    return client


def page(browser: Client, workunit: Workunit, status: int = 200) -> str:
    answer = browser.get(f"/account/workunits/{workunit.pk}/")
    assert answer.status_code == status
    text = answer.content.decode()
    assert not re.search(r"<script|<style|style=", text)
    return text


def twin(ada: Account, workunit: Workunit) -> dict:
    answer = a_program(ada).send("get", f"/me/workunits/{workunit.pk}")
    assert answer.status_code == 200, answer.content
    return answer.json()


def test_page_tells_what_was_asked_in_words(browser, ada, host, workunit):
    a_result(workunit, "sent", host=host)
    text = page(browser, workunit)
    for part in (
        "one small part of the computation of “Large primes”",
        "about 1 h on one processor of your computer",
        "waiting for an answer",
        "waits for your computer, which has not reported its result yet",
        "desk",
    ):
        assert part in text
    shown = twin(ada, workunit)
    assert (shown["app"], shown["state"], shown["seconds_estimate"]) == (
        "Large primes",
        "waiting",
        3600.0,
    )
    assert shown["others"] is None


def test_page_is_linked_from_the_results(browser, host, workunit):
    result = a_result(workunit, "sent", host=host)
    link = f'href="/account/workunits/{workunit.pk}/"'
    for path in ("/account/results/", f"/account/results/{result.pk}/"):
        assert link in browser.get(path).content.decode()


def test_workunits_of_others_look_like_missing_ones(browser, ada, host, workunit):
    a_result(workunit, "sent", host=a_host(an_account("bob")))
    missing = Workunit(pk=2**40)
    assert comparable(browser.get(f"/account/workunits/{workunit.pk}/")) == comparable(
        browser.get(f"/account/workunits/{missing.pk}/")
    )
    page(browser, workunit, 404)
    program = a_program(ada)
    answers = [program.send("get", f"/me/workunits/{row.pk}") for row in (workunit, missing)]
    assert {answer.status_code for answer in answers} == {404}
    update(ada, is_superuser=True, is_staff=True)
    assert a_program(ada).send("get", f"/me/workunits/{workunit.pk}").status_code == 404


def test_visitor_without_a_session_must_log_in(client, workunit):
    answer = client.get(f"/account/workunits/{workunit.pk}/")
    assert (answer.status_code, answer["Location"].split("?")[0]) == (302, "/account/login/")


def test_results_of_others_and_the_answer_are_withheld_while_an_own_result_is_in_progress(
    browser, ada, host, workunit
):
    other = a_host(an_account("bob", show_hosts=True, share_statistics=True))
    accepted = a_result(workunit, "valid", host=other)
    mine = a_result(workunit, "sent", host=host)
    before = page(browser, workunit), twin(ada, workunit)
    settled(workunit, accepted)
    assert f"Computer {other.pk}" not in before[0]
    assert page(browser, workunit).count("<tr") == 2
    shown = twin(ada, workunit)
    assert (shown["state"], shown["others"], shown["why"]) == ("waiting", None, before[1]["why"])
    assert [row["own_result"] for row in shown["own"]] == [mine.pk]


def test_results_of_others_are_withheld_until_the_workunit_has_an_answer(
    browser, ada, host, workunit
):
    a_result(workunit, "success", host=host)
    a_result(workunit, "success", host=a_host(an_account("bob")))
    assert "Your result arrived. The project has not accepted an answer yet" in page(
        browser, workunit
    )
    assert twin(ada, workunit)["others"] is None


def test_others_are_named_only_as_they_permit(browser, ada, host, workunit):
    owners = [
        an_account("secret7", show_hosts=False, share_statistics=True),
        an_account("hidden7", show_hosts=True, share_statistics=False),
        an_account("open", show_hosts=True, share_statistics=True),
        an_account("gone7", show_hosts=True, share_statistics=True, is_active=False),
    ]
    hosts = [a_host(owner, domain_name=f"{owner.name}-pc") for owner in owners]
    hosts.append(a_host(an_account("partly7", show_hosts=True), hidden=True))
    mine = a_result(workunit, "valid", host=host)
    update(mine, granted_credit=Decimal("2.5"))
    for each in hosts:
        a_result(workunit, "valid", host=each)
    settled(workunit, mine)
    text = page(browser, workunit)
    assert text.count("Another computer") == 3
    assert ">open</a>" in text
    assert "2.50" in text
    for private in ("secret7", "hidden7", "gone7", "partly7", "-pc", "example.org"):
        assert private not in text.replace(ada.email, "")
    shown = twin(ada, workunit)
    assert [(row["computer"], row["owner"], row["owner_name"]) for row in shown["others"]] == [
        (None, None, ""),
        (hosts[1].pk, None, ""),
        (hosts[2].pk, owners[2].pk, "open"),
        (None, None, ""),
        (None, None, ""),
    ]
    assert shown["own"][0]["credit"] == 2.5


def test_nothing_of_the_submitter_is_shown(browser, ada, host):
    submitter = an_account("submitter7")
    app = an_app("primes")
    batch = Batch.objects.create(
        name="mark-batch", submitter=submitter, app=app, created_at=NOON, meta={"n": "mark-meta"}
    )
    row = a_workunit(
        app,
        batch=batch,
        command_line="--mark-command",
        meta={"n": "mark-meta"},
        keywords="12345678",
    )
    an_input(row, b"mark-input")
    mine = a_result(row, "valid", host=host, output=b"mark-output")
    settled(row, mine)
    shown = page(browser, row) + json.dumps(twin(ada, row))
    for private in ("mark-", "submitter7", "12345678"):
        assert private not in shown


def test_page_takes_the_same_number_of_statements_for_one_result_and_for_many(
    browser, host, workunit
):
    def statements() -> int:
        with CaptureQueriesContext(connection) as captured:
            page(browser, workunit)
        return len(captured)

    mine = a_result(workunit, "valid", host=host)
    a_result(workunit, "valid", host=a_host(an_account("bob")))
    settled(workunit, mine)
    few = statements()
    for number in range(5):
        a_result(workunit, "invalid", host=a_host(an_account(f"a{number}")))
    assert statements() == few


@pytest.mark.parametrize("bit", list(ErrorMask))
def test_each_reason_of_a_failure_has_a_sentence(bit):
    state = workunit_state(has_answer=False, error_mask=bit, own_states=())
    assert state is WorkunitState.FAILED
    sentence = why_workunit(state, error_mask=bit, own_states=())
    unknown = why_workunit(state, error_mask=2**12, own_states=())
    assert sentence != unknown


@pytest.mark.parametrize(
    ("own_states", "part"),
    [
        ({OwnState.IN_PROGRESS, OwnState.ERROR}, "has not reported"),
        ({OwnState.WAITING, OwnState.ERROR}, "Your result arrived"),
        ({OwnState.ERROR}, "Your result gave no answer"),
    ],
)
def test_reason_to_wait_depends_on_the_own_results(own_states, part):
    state = workunit_state(has_answer=False, error_mask=0, own_states=own_states)
    assert part in why_workunit(state, error_mask=0, own_states=own_states)
