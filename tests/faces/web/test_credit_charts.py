"""The charts of credit per day, and their twins in the API."""

from __future__ import annotations

import json
import re
from datetime import timedelta
from decimal import Decimal

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from scheduler.credit.credit_samples import Kind
from scheduler.models import Account, CreditSample, Team
from scheduler.people.personal_data import own_data
from tests.conftest import NOON
from tests.faces.apis import a_program
from tests.rows import a_host, an_account, update

pytestmark = pytest.mark.django_db

DAY = timedelta(days=1)


@pytest.fixture
def ada() -> Account:
    return an_account("ada", share_statistics=True)


@pytest.fixture
def browser(client: Client, ada: Account) -> Client:
    client.force_login(ada)
    return client


def sample(kind: Kind, holder_id: int, *totals: int, days_ago: int = 3) -> None:
    """Store totals of consecutive days, beginning `days_ago`, of a holder and of the project."""
    today = timezone.now().date()
    for number, total in enumerate(totals):
        day = today - (days_ago - number) * DAY
        for each, holder in {(kind, holder_id), (Kind.PROJECT, 0)}:
            CreditSample.objects.update_or_create(
                kind=each, holder_id=holder, day=day, defaults={"total_credit": Decimal(total)}
            )


def page(browser: Client, path: str) -> str:
    answer = browser.get(path)
    assert answer.status_code == 200, path
    text = answer.content.decode()
    assert not re.search(r"<style|style=", text)
    return text


def amounts(text: str) -> list[str]:
    table = re.search(r'<table class="days">.*?</table>', text, re.DOTALL)
    return [] if table is None else re.findall(r'<td class="number">([^<]*)</td>', table[0])


def test_own_page_has_the_chart_its_description_and_a_table(browser, ada):
    sample(Kind.ACCOUNT, ada.pk, 1000, 1200, 1250)
    text = page(browser, "/account/")
    assert amounts(text) == ["50.00", "200"]
    assert '<title id="chart-title">Credit per day</title>' in text
    assert "250 credits in this period, at most 200 on one day (" in text
    assert text.count("<polyline") == 1


def test_account_shows_its_chart_to_everybody_only_if_it_shares_statistics(client, ada):
    sample(Kind.ACCOUNT, ada.pk, 1000, 1200, 1250)
    public, api = f"/accounts/{ada.pk}/", f"/api/v1/accounts/{ada.pk}/credit-history"
    assert amounts(page(client, public)) == ["50.00", "200"]
    assert [row["credit"] for row in client.get(api).json()["history"]] == [200.0, 50.0]
    update(ada, share_statistics=False)
    assert client.get(public).status_code == client.get(api).status_code == 404
    program = a_program(ada)
    mine = program.send("get", "/me/credit-history").json()["history"]
    assert [row["credit"] for row in mine] == [200.0, 50.0]


def test_computer_shows_its_chart_only_to_its_owner(browser, ada):
    host, other = a_host(ada), a_host(an_account("bob"))
    sample(Kind.HOST, host.pk, 10, 30, 60)
    assert amounts(page(browser, f"/account/computers/{host.pk}/")) == ["30.00", "20.00"]
    assert browser.get(f"/account/computers/{other.pk}/").status_code == 404
    program = a_program(ada)
    path = "/me/computers/{}/credit-history"
    rows = program.send("get", path.format(host.pk)).json()["history"]
    assert [(row["credit"], row["days"]) for row in rows] == [(20.0, 1), (30.0, 1)]
    assert program.send("get", path.format(other.pk)).status_code == 404


def test_everybody_sees_the_charts_of_teams_and_of_the_project(client, ada):
    team = Team.objects.create(name="primes", founder=ada, created_at=timezone.now())
    sample(Kind.TEAM, team.pk, 10, 30, 60)
    for path in (f"/teams/{team.pk}/", "/statistics/credit/"):
        assert amounts(page(client, path)) == ["30.00", "20.00"]
    program = a_program(ada)
    rows = program.send("get", f"/teams/{team.pk}/credit-history").json()["history"]
    assert [row["credit"] for row in rows] == [20.0, 30.0]
    assert client.get("/api/v1/statistics/credit").json()["history"] == rows
    assert program.send("get", "/teams/9999/credit-history").status_code == 404


def test_period_is_chosen_by_a_link_and_an_unknown_one_is_the_default(client):
    sample(Kind.PROJECT, 0, 10, 30, 60, days_ago=60)
    short = page(client, "/statistics/credit/")
    assert 'href="?days=90#credit-per-day">90 days' in short
    assert amounts(short) == []
    assert "It begins on the second day" in short
    assert amounts(page(client, "/statistics/credit/?days=90")) == ["30.00", "20.00"]
    for days in ("0", "91", "x", "-1", "9" * 50, "%00"):
        text = page(client, f"/statistics/credit/?days={days}")
        assert 'href="?days=30#credit-per-day" aria-current="page"' in text
    assert len(client.get("/api/v1/statistics/credit?days=90").json()["history"]) == 2
    for days in ("0", "367", "x"):
        assert client.get(f"/api/v1/statistics/credit?days={days}").status_code == 400


def test_missing_days_interrupt_nothing_but_are_shown_as_a_mean(client):
    sample(Kind.PROJECT, 0, 100, days_ago=9)
    sample(Kind.PROJECT, 0, 180, days_ago=5)
    text = page(client, "/statistics/credit/")
    assert amounts(text) == ["20.00"]
    assert ", per day</th>" in text
    (points,) = re.findall(r'points="([^"]*)"', text)
    assert len(points.split()) == 4
    assert "80 credits in this period" in text


def test_pages_take_the_same_number_of_statements_for_few_samples_and_for_many(browser, ada):
    host = a_host(ada)
    paths = ("/account/", f"/accounts/{ada.pk}/", f"/account/computers/{host.pk}/")

    def statements() -> list[int]:
        counts = []
        for path in (*paths, "/statistics/credit/"):
            with CaptureQueriesContext(connection) as captured:
                page(browser, path)
            counts.append(len(captured))
        return counts

    few = statements()
    for kind, holder in ((Kind.ACCOUNT, ada.pk), (Kind.HOST, host.pk)):
        sample(kind, holder, *range(0, 200, 10), days_ago=25)
    assert statements() == few


def test_export_has_the_samples_of_the_account_and_its_computers(ada):
    host = a_host(ada)
    sample(Kind.ACCOUNT, ada.pk, 10)
    sample(Kind.HOST, host.pk, 4)
    sample(Kind.ACCOUNT, an_account("bob").pk, 7)
    text = "".join(own_data.export(ada, now=NOON))
    rows = json.loads(text)["credit_samples"]
    assert sorted((row["kind"], row["holder_id"]) for row in rows) == [(1, ada.pk), (2, host.pk)]
