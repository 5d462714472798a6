"""Lists and tables of the administration are sorted by quick columns."""

from __future__ import annotations

import re
from datetime import timedelta
from decimal import Decimal
from typing import Any

import pytest
from django.test import Client
from django.urls import reverse
from django.utils import timezone

from scheduler.models import (
    Account,
    App,
    AuditEntry,
    Host,
    HostOutcomes,
    Result,
    Team,
    VersionOutcomes,
)
from tests.conftest import NOON
from tests.rows import a_host, a_result, a_workunit, an_account, an_app, an_app_version

pytestmark = pytest.mark.django_db


def path_of(model: Any) -> str:
    return reverse(f"admin:scheduler_{model._meta.model_name}_changelist")


@pytest.fixture
def chief() -> Client:
    account = an_account("chief", is_staff=True, is_superuser=True)
    client = Client()
    client.force_login(account)
    return client


def heads(client: Client, model: Any, query: str = "") -> dict[str, str]:
    """Return the links of the heads of a list, by their texts, in lower case."""
    text = client.get(path_of(model) + query).content.decode()
    links = re.findall(r'<div class="text"><a href="([^"]*)">([^<]*)</a>', text)
    return {title.lower(): link.replace("&amp;", "&") for link, title in links}


def listed(client: Client, model: Any, query: str) -> list[Any]:
    return list(client.get(path_of(model) + query).context["cl"].result_list)


def sorted_by(client: Client, model: Any, title: str) -> tuple[list[Any], list[Any]]:
    """Return the rows after a click on the head of a column, and after another click."""
    first = heads(client, model)[title]
    rows = listed(client, model, first)
    text = client.get(path_of(model) + first).content.decode()
    [toggle] = re.findall(r'<a href="([^"]*)" class="toggle', text)
    return rows, listed(client, model, toggle.replace("&amp;", "&"))


# Lists


def test_accounts_are_sorted_by_address_and_by_name_in_any_case(chief):
    for name in ("bob", "Ada", "cid"):
        an_account(email=f"{name}@example.org".lower(), name=name)
    rows, backwards = sorted_by(chief, Account, "name")
    assert [row.name for row in rows] == ["Ada", "bob", "chief", "cid"]
    assert backwards == rows[::-1]
    rows, backwards = sorted_by(chief, Account, "email")
    assert [row.email[:3] for row in rows] == ["ada", "bob", "chi", "cid"]
    assert backwards == rows[::-1]


def test_accounts_by_credit_are_those_of_the_leaderboard_and_the_list_states_it(chief):
    few, many = an_account("few", total_credit=5), an_account("many", total_credit=50)
    an_account("none")
    an_account("hidden", total_credit=9, share_statistics=False)
    an_account("blocked", total_credit=9, is_active=False)
    rows, backwards = sorted_by(chief, Account, "credit")
    assert (rows, backwards) == ([few, many], [many, few])
    text = chief.get(path_of(Account) + heads(chief, Account)["credit"]).content.decode()
    assert "only accounts with credit that are active and share statistics" in text
    assert "This order lists only" not in chief.get(path_of(Account)).content.decode()


def test_hosts_are_sorted_by_name_and_credit(chief):
    mill = a_host(domain_name="mill", total_credit=Decimal(3))
    farm = a_host(domain_name="farm", total_credit=Decimal(7))
    merged = a_host(domain_name="old", total_credit=Decimal(9), merged_into=mill)
    assert sorted_by(chief, Host, "host")[0] == [farm, mill, merged]
    assert sorted_by(chief, Host, "credit")[1] == [farm, mill]


def test_results_in_progress_are_sorted_by_deadline(chief):
    later = a_result(a_workunit(), "sent", report_deadline=NOON + timedelta(days=3))
    sooner = a_result(a_workunit(), "sent", report_deadline=NOON + timedelta(days=2))
    a_result(a_workunit(), "success")
    a_result(a_workunit())
    assert sorted_by(chief, Result, "report deadline")[0] == [sooner, later]


def test_teams_are_sorted_by_credit(chief):
    low, high = (
        Team.objects.create(name=name, total_credit=credit, created_at=NOON)
        for name, credit in (("low", 1), ("high", 2))
    )
    assert sorted_by(chief, Team, "credit") == ([low, high], [high, low])


def test_small_tables_are_sorted_by_each_column(chief):
    second, first = an_app("second", weight=2), an_app("first", weight=1)
    assert sorted_by(chief, App, "weight") == ([first, second], [second, first])
    titles = {"name", "title", "kind", "deprecated", "weight", "validator", "assimilator"}
    assert titles <= set(heads(chief, App))


def test_times_of_creation_sort_by_the_number_and_mark_the_usual_order(chief):
    first, second = an_account("ada"), an_account("bob")
    text = chief.get(path_of(Account)).content.decode()
    assert re.search(r'class="sortable column-created_at sorted descending"', text)
    rows, _ = sorted_by(chief, Account, "created at")
    assert rows[-2:] == [first, second]


@pytest.mark.parametrize("query", ["?o=99", "?o=-99", "?o=x", "?o=", "?o=1.2", "?o=9999999999"])
def test_unknown_columns_leave_the_usual_order(chief, query):
    rows = [a_host() for _ in range(3)]
    listed_rows = listed(chief, Host, query)
    assert set(listed_rows) == set(rows)
    if query != "?o=1.2":
        assert listed_rows == rows[::-1]


def test_columns_of_large_tables_without_an_index_do_not_sort(chief):
    for name in ("b", "a", "c"):
        a_host(an_account(name), platform_name=name)
    titles = heads(chief, Host)
    assert set(titles) == {"host", "credit"}
    columns = chief.get(path_of(Host)).context["cl"].list_display
    usual = listed(chief, Host, "")
    for place in range(len(columns)):
        if f"?o={place}" not in titles.values():
            assert listed(chief, Host, f"?o={place}") == usual


def test_order_is_kept_by_searches_and_filters(chief):
    for name in ("mill b", "mill a", "farm"):
        a_host(domain_name=name)
    query = heads(chief, Host)["host"] + "&q=mill"
    assert [host.domain_name for host in listed(chief, Host, query)] == ["mill a", "mill b"]


def test_audit_log_is_sorted_by_time(chief):
    for days in (2, 1):
        AuditEntry.objects.create(
            at=NOON + timedelta(days=days), event="host_changed", subject=f"host {days}"
        )
    rows, backwards = sorted_by(chief, AuditEntry, "when (utc)")
    # The last one is the log-in of this test.
    assert [row.subject for row in rows][:2] == ["host 1", "host 2"]
    assert backwards == rows[::-1]


# Tables of the desk's own pages


def first_cells(text: str, part: str) -> list[str]:
    """Return the texts of the heads of rows in a section of a page."""
    section = text[text.index(f'id="{part}"') :]
    body = section[section.index("<tbody>") : section.index("</tbody>")]
    return [re.sub(r"<[^>]*>", "", row).strip() for row in re.findall(r"<tr><th.*?</th>", body)]


def order_link(text: str, part: str, title: str) -> str:
    section = text[text.index(f'id="{part}"') :]
    [link] = re.findall(rf'<a href="(\?[^"]*)">{re.escape(title)}</a>', section)[:1]
    return link.partition("#")[0].replace("&amp;", "&")


def test_error_rates_are_sorted_by_the_chosen_column(chief):
    now = timezone.now()
    for name, reported, errors in (("b", 10, 9), ("a", 100, 20), ("c", 50, 0)):
        VersionOutcomes.objects.create(
            hour=now,
            app_version=an_app_version(an_app(name)),
            reported=reported,
            errors=errors,
            invalid=0,
        )
    path = "/admin/error-rates/"
    text = chief.get(path + "?period=week").content.decode()
    assert first_cells(text, "apps") == ["b", "a", "c"]
    by_results = order_link(text, "apps", "Results")
    assert "period=week" in by_results
    text = chief.get(path + by_results).content.decode()
    assert first_cells(text, "apps") == ["a", "c", "b"]
    assert text.count('aria-sort="descending"') == text.count('<div class="results rates">')
    text = chief.get(path + order_link(text, "apps", "Results")).content.decode()
    assert first_cells(text, "apps") == ["b", "c", "a"]
    text = chief.get(path + order_link(text, "apps", "App")).content.decode()
    assert first_cells(text, "apps") == ["a", "b", "c"]
    assert not re.search(r"<style|style=|onclick", text)


def test_failures_are_sorted_and_links_to_groups_keep_the_order(chief):
    host, now = a_host(), timezone.now()
    for app, count in (("b", 1), ("a", 2)):
        version = an_app_version(an_app(app))
        for _ in range(count):
            fields = {"app_version": version, "exit_status": 7}
            a_result(a_workunit(version.app), "error", host=host, **fields)
    HostOutcomes.objects.create(hour=now, host_id=host.pk, reported=3, errors=3, invalid=0)
    path = "/admin/failures/"
    text = chief.get(path).content.decode()
    assert first_cells(text, "groups") == ["a", "b"]
    assert 'aria-sort="descending"' in text
    text = chief.get(path + "?order=results").content.decode()
    assert first_cells(text, "groups") == ["b", "a"]
    [link, _] = re.findall(r'href="(\?app=[^"#]*)#results"', text)
    assert "order=results" in link
    text = chief.get(path + link.replace("&amp;", "&")).content.decode()
    assert first_cells(text, "groups") == ["b", "a"]
    assert 'aria-current="true"' in text


def test_sizes_of_tables_are_sorted_by_name_and_by_the_last_vacuum(chief):
    path = "/admin/tables/"
    names = first_cells(chief.get(path + "?order=table").content.decode(), "sizes")
    assert names == sorted(names)
    assert len(names) > 50
    backwards = first_cells(chief.get(path + "?order=-table").content.decode(), "sizes")
    assert backwards == names[::-1]
    text = chief.get(path + "?order=-vacuum").content.decode()
    assert set(first_cells(text, "sizes")) == set(names)


def test_classes_of_computers_are_sorted_by_unsent_results(chief):
    app = an_app("sums", hr_type=1)
    for hr_class, count in ((277, 1), (278, 2)):
        for _ in range(count):
            a_result(a_workunit(app, hr_class=hr_class))
    context = chief.get("/admin/host-classes/?order=-results").context
    assert [each.results for each, _, _ in context["lines"]] == [2, 1]
    assert all("order=-results" in query for _, query, _ in context["lines"])


@pytest.mark.parametrize("path", ["error-rates", "failures", "tables", "host-classes"])
@pytest.mark.parametrize("order", ["x", "-", "--name", "\0", "name' OR 1=1", "é" * 500])
def test_unknown_order_of_a_table_is_ignored(chief, path, order):
    usual = chief.get(f"/admin/{path}/")
    assert chief.get(f"/admin/{path}/", {"order": order}).status_code == usual.status_code == 200
