"""The page of the sizes of all tables."""

from __future__ import annotations

import re
from datetime import timedelta

import pytest
from django.test import Client
from django.utils import timezone

from scheduler.models import StatusSample
from scheduler.sql import table_sizes
from tests.faces.admin.test_credit_grants import staff_with
from tests.rows import a_workunit, an_app

pytestmark = pytest.mark.django_db

TABLES = "/admin/tables/"


@pytest.fixture
def operator() -> Client:
    return staff_with("operator")[1]


def read(client: Client) -> str:
    answer = client.get(TABLES)
    assert answer.status_code == 200
    return answer.content.decode()


def keep(days: float, nbytes: int) -> None:
    at = timezone.now() - timedelta(days=days, minutes=30)
    StatusSample.objects.create(at=at, is_hourly=True, figures={"database.nbytes": nbytes})


def growth(client: Client) -> dict[str, str]:
    return dict(client.get(TABLES).context["growth"])


def test_every_table_is_shown_with_sizes_rows_and_a_link_to_its_list(operator):
    a_workunit(an_app())
    text = read(operator)
    for size in table_sizes.read():
        assert re.search(rf'<th scope="row">(<a [^>]*>)?{size.name}<', text), size.name
    assert '<a href="/admin/scheduler/workunit/">workunit</a>' in text
    assert "Rows are estimates" in text
    assert "all tables" in text
    assert re.search(r"ledger_entry</a> <small>\d+ partitions?</small>", text)
    assert not re.search(r"<style|style=|onclick", text)


def test_growth_is_that_of_the_samples_of_the_housekeeper(operator, monkeypatch):
    monkeypatch.setattr(table_sizes, "database_nbytes", lambda: 10 * 2**20)
    assert set(growth(operator).values()) == {"unknown"}
    keep(1, 9 * 2**20)
    keep(7, 12 * 2**20)
    assert growth(operator) == {
        "since yesterday": "+1.0 MiB",
        "since last week": "−2.0 MiB",
        "since 30 days ago": "unknown",
    }
    assert "Size of the database, 30 days: size 9.0 MiB" in read(operator)


def test_samples_from_before_this_figure_do_not_count(operator):
    at = timezone.now() - timedelta(days=1, minutes=5)
    StatusSample.objects.create(at=at, is_hourly=True, figures={"disk.free_nbytes": 1})
    assert growth(operator)["since yesterday"] == "unknown"


def test_page_takes_few_statements(operator, django_assert_max_num_queries):
    with django_assert_max_num_queries(10):
        read(operator)


def test_staff_see_the_page_from_the_desk_and_links_to_lists_that_they_may_view():
    _, moderator = staff_with("moderator")
    assert TABLES in moderator.get("/admin/").content.decode()
    text = read(moderator)
    assert "/admin/scheduler/appversion/" not in text
    assert "/admin/scheduler/account/" in text


def test_visitors_are_sent_to_the_log_in(client):
    assert client.get(TABLES).status_code == 302
