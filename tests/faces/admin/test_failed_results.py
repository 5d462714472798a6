"""The list of workunits shows and filters failed results, by a limited read."""

from __future__ import annotations

import json
import re

import pytest
from django.db import connection, transaction
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.urls import reverse
from django.utils import timezone

from scheduler import sql
from scheduler.health import recent_failures
from scheduler.models import Host, HostOutcomes, Workunit
from tests.faces.admin.test_credit_grants import staff_with
from tests.rows import a_host, a_result, a_workunit, an_app

pytestmark = pytest.mark.django_db

LIST = reverse("admin:scheduler_workunit_changelist")


def failing_host() -> Host:
    host = a_host()
    counts = {"reported": 9, "errors": 9, "invalid": 0}
    HostOutcomes.objects.create(hour=timezone.now(), host_id=host.pk, **counts)
    return host


def failed(count: int, *, app=None, word: str = "error") -> Workunit:
    """Create a workunit with failed results, each of another host with counted errors."""
    workunit = a_workunit(app or an_app())
    for _ in range(count):
        a_result(workunit, word, host=failing_host())
    return workunit


def listed(client: Client, **query: object) -> list[Workunit]:
    answer = client.get(LIST, query)
    assert answer.status_code == 200
    return list(answer.context["cl"].result_list)


@pytest.fixture
def operator() -> Client:
    return staff_with("operator")[1]


def test_workunits_with_a_minimum_of_failed_results_are_listed(operator):
    app = an_app("sums")
    one, two = failed(1, app=app), failed(2)
    five = failed(3, app=app)
    for word in ("unreadable", "error", "noreply", "valid", "unsent"):
        a_result(five, word)
    failed(2, word="noreply")
    a_workunit(app)
    assert listed(operator, failed_results=1) == [five, two, one]
    assert listed(operator, failed_results=2) == [five, two]
    assert listed(operator, failed_results=5) == [five]
    assert listed(operator, failed_results=10) == []
    assert listed(operator, failed_results=1, app__id__exact=app.pk) == [five, one]
    numbers = {row.pk: row.n_failed for row in listed(operator)}
    assert [numbers[row.pk] for row in (one, two, five)] == [1, 2, 5]


def test_page_states_what_the_filter_reads(operator):
    failed(1)
    text = operator.get(LIST, {"failed_results": "2"}).content.decode()
    assert "Read: the newest 40 ended results of each of the computers" in text
    assert "at most the 1,000 with most failed results" in text
    assert "Read: the newest" not in operator.get(LIST).content.decode()


@pytest.mark.parametrize("value", ["3", "x", "", "-1", "1\0"])
def test_other_minima_are_no_filter(operator, value):
    rows = [failed(1), a_workunit()]
    assert listed(operator, failed_results=value) == rows[::-1]


@pytest.mark.parametrize("value", ["9" * 30, "x", ""])
def test_bad_number_of_an_app_is_no_server_error(operator, value):
    failed(1)
    answer = operator.get(LIST, {"failed_results": "1", "app__id__exact": value}, follow=True)
    assert answer.status_code == 200


def test_only_the_newest_results_of_the_computers_with_the_latest_errors_are_read(monkeypatch):
    monkeypatch.setattr(recent_failures, "_LIMITS", {"hosts": 2, "results": 1})
    rows = [failed(1) for _ in range(4)]
    now = timezone.now()
    assert recent_failures.workunits(1, now=now) == [rows[3].pk, rows[2].pk]
    monkeypatch.setattr(recent_failures, "MAX_WORKUNITS", 1)
    twice = failed(2)
    assert recent_failures.workunits(1, now=now) == [twice.pk]


def test_actions_apply_to_the_filtered_workunits(operator):
    twice, _ = failed(2), failed(1)
    sent = {"action": "cancel", "select_across": "1", "index": "0", "_selected_action": twice.pk}
    operator.post(f"{LIST}?failed_results=2", sent | {"confirmed": "yes"})
    rows = Workunit.objects.exclude(cancel_requested_at=None)
    assert [row.pk for row in rows] == [twice.pk]


def test_list_takes_the_same_statements_for_any_number_of_failed_results(operator):
    def statements() -> int:
        with CaptureQueriesContext(connection) as captured:
            listed(operator, failed_results=1)
        return len(captured)

    failed(1)
    few = statements()
    for _ in range(20):
        failed(3)
    assert statements() == few


def test_workunits_are_found_through_the_index_of_ended_results():
    for _ in range(30):
        failed(4)
    params = {
        "host_ids": list(Host.objects.values_list("pk", flat=True)[:5]),
        "results": 4,
        "minimum": 2,
        "app_id": None,
        "limit": 10,
    }
    with transaction.atomic(), connection.cursor() as cursor:
        cursor.execute("ANALYZE result")
        cursor.execute("SET LOCAL enable_seqscan = off")
        statement = sql.load("health/find_failed_workunits")
        cursor.execute(f"EXPLAIN (ANALYZE, FORMAT JSON) {statement}", params)
        (plan,) = cursor.fetchone()
    text = json.dumps(json.loads(plan) if isinstance(plan, str) else plan)
    assert "read_own_results" in re.findall(r'"Index Name": "(\w+)"', text)
    assert not re.search(r'"Node Type": "Seq Scan"[^{}]*"Relation Name": "result"', text)


def test_page_of_failures_links_to_the_filter(operator):
    text = operator.get("/admin/failures/").content.decode()
    assert f"{LIST}?failed_results=2" in text
