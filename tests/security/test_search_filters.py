"""Filters of lists: no code, no SQL, no foreign rows, and limits on size and time."""

from __future__ import annotations

import json

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from scheduler.api.http import paging, time_limits
from scheduler.models import Workunit
from tests.rows import a_host, an_account
from tests.scientists import Scientist, a_batch, in_batch

pytestmark = pytest.mark.django_db


@pytest.fixture
def eve():
    return Scientist(name="eve", is_superuser=True)


def search(scientist, expression, path="workunits"):
    text = expression if isinstance(expression, str) else json.dumps(expression)
    return scientist.get(path, {"filter": text})


@pytest.mark.parametrize(
    "expression",
    [
        {"$where": "sleep(1000)"},
        {"name": {"$where": "1"}},
        {"name": {"$regex": "(a+)+$"}},
        {"name": {"regex": ".*"}},
        {"name": {"iregex": ".*"}},
        {"name": {"contains": "a"}},
        {"name__startswith": "a"},
        {"batch__submitter__password": {"prefix": "scrypt"}},
        {"app.name": "a"},
        {"password": "x"},
        {"$expr": {}},
        {"$function": {"body": "x"}},
        {"name": {"eq": {"$gt": ""}}},
        {"priority": {"gt": "1 OR 1=1"}},
        {"priority": True},
        {"id": [1]},
        {"status": "failed' OR '1'='1"},
        {"meta": {"$where": "1"}},
        {"meta": {"contains": "x"}},
        {"created_at": {"gt": "now()"}},
        {"id": 2**63},
        {"priority": 1e400},
        {"name": "x" * 251},
        {"not": [{"priority": 1}]},
        {"or": {}},
        {"and": []},
        {"priority": {}},
        {"priority": {"in": []}},
        {"priority": {"in": list(range(1001))}},
        {"or": [{"priority": number} for number in range(51)]},
        {"not": {"not": {"not": {"not": {"not": {"priority": 1}}}}}},
        [],
        "[1]",
        "{",
        "{}",
        '{"priority": NaN}',
        '{"name": "\\u0000"}',
        "[" * 5000,
        '{"name": "' + "x" * 20_000 + '"}',
    ],
)
def test_everything_that_is_no_listed_field_operator_or_value_is_refused(eve, expression):
    in_batch(a_batch(submitter=eve.account))
    with CaptureQueriesContext(connection) as statements:
        answer = search(eve, expression)
    assert answer.status_code in {400, 422}, answer.content
    reply = answer.json()
    assert reply.get("hint") or reply["errors"][0]["hint"]
    assert not any('FROM "workunit"' in found["sql"] for found in statements)


@pytest.mark.parametrize(
    "text", ["'; DROP TABLE workunit; --", '" OR 1=1 --', "%", "_", "\\", "a%' OR '%'='"]
)
def test_texts_are_parameters_and_wildcards_are_letters(eve, text):
    row = in_batch(a_batch(submitter=eve.account))
    for expression in ({"name": text}, {"name": {"prefix": text}}, {"name": {"in": [text]}}):
        answer = search(eve, expression)
        assert (answer.status_code, answer.json()["results"]) == (200, [])
    negated = search(eve, {"name": {"ne": text}}).json()["results"]
    assert [found["id"] for found in negated] == [row.pk]
    assert Workunit.objects.exists()


@pytest.mark.parametrize("path", ["workunits", "results", "hosts", "batches"])
def test_no_filter_returns_rows_of_other_accounts(path):
    bob = an_account("bob")
    in_batch(a_batch(submitter=bob))
    a_host(bob)
    ada = Scientist(an_account("ada"))
    for expression in ({"id": {"gte": 0}}, {"or": [{"id": {"gte": 0}}, {"not": {"id": 1}}]}):
        answer = search(ada, expression, path)
        assert (answer.status_code, answer.json()["results"]) == (200, [])


def test_search_is_stopped_after_its_time(eve, monkeypatch):
    monkeypatch.setattr(time_limits, "TIMEOUT_SECONDS", 0.05)

    def slow(*_):
        with connection.cursor() as cursor:
            cursor.execute("SELECT pg_sleep(5)")

    monkeypatch.setattr(paging, "read_page", slow)
    in_batch(a_batch(submitter=eve.account))
    monkeypatch.setattr("scheduler.api.viewer.read_page", slow)
    answer = search(eve, {"priority": 1})
    assert (answer.status_code, answer.json()["code"]) == (422, "search_too_slow")
    assert "add a condition on id" in answer.json()["hint"]


def test_pages_of_a_search_have_the_limits_of_all_pages(eve):
    batch = a_batch(submitter=eve.account)
    for _ in range(3):
        in_batch(batch, priority=7)
    page = eve.get("workunits", {"filter": '{"priority": 7}', "limit": 2}).json()
    assert len(page["results"]) == 2
    assert "filter=" in page["next"]
    assert eve.get("workunits", {"filter": '{"priority": 7}', "limit": 1001}).status_code == 400
