"""Lists with a filter: each operator, and each list."""

from __future__ import annotations

import json
from datetime import timedelta

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from scheduler.api.search import fields
from scheduler.models import Queue
from tests.conftest import NOON
from tests.rows import a_host, a_result, an_account, an_app
from tests.scientists import Scientist, a_batch, in_batch

pytestmark = pytest.mark.django_db


@pytest.fixture
def eve():
    return Scientist(name="eve", is_superuser=True)


@pytest.fixture
def batch(eve):
    return a_batch("b", submitter=eve.account, app=an_app("fold"))


def found(scientist, path, expression):
    answer = scientist.get(path, {"filter": json.dumps(expression)})
    assert answer.status_code == 200, answer.content
    return sorted(row["name"] for row in answer.json()["results"])


@pytest.mark.parametrize(
    ("expression", "names"),
    [
        ({"priority": 5}, ["b"]),
        ({"priority": {"eq": 5}}, ["b"]),
        ({"priority": {"$ne": 5}}, ["a", "c"]),
        ({"priority": {"in": [5, 9]}}, ["b", "c"]),
        ({"priority": {"gt": 1, "lte": 5}}, ["b"]),
        ({"priority": {"gte": 5}}, ["b", "c"]),
        ({"priority": {"lt": 5}}, ["a"]),
        ({"name": {"prefix": "a"}}, ["a"]),
        ({"hold_code": None}, ["a", "b"]),
        ({"hold_code": {"null": False}}, ["c"]),
        ({"hold_code": -7, "status": "waiting"}, ["c"]),
        ({"status": {"in": ["waiting", "unsent"]}}, ["a", "b", "c"]),
        ({"status": "failed"}, []),
        ({"or": [{"name": "a"}, {"name": "c"}]}, ["a", "c"]),
        ({"$or": [{"name": "a"}, {"and": [{"priority": 5}, {"app": "fold"}]}]}, ["a", "b"]),
        ({"not": {"name": {"in": ["a", "b"]}}}, ["c"]),
        ({"meta": {"contains": {"study": 7}}}, ["b"]),
        ({"created_at": {"lt": "2025-12-31T00:00"}}, ["a", "b", "c"]),
        ({"queue": "demo"}, ["a"]),
        ({"batch": 0}, []),
    ],
)
def test_operators_select_workunits(eve, batch, expression, names):
    queue = Queue.objects.create(name="demo", created_at=NOON)
    in_batch(batch, name="a", priority=1, queue=queue)
    in_batch(batch, name="b", priority=5, meta={"study": 7})
    in_batch(batch, name="c", priority=9, release_state=2, hold_code=-7)
    assert found(eve, "workunits", expression) == names


def test_results_hosts_queues_and_batches_have_filters(eve, batch):
    host = a_host(eve.account, domain_name="node-1", p_ncpus=8)
    row = in_batch(batch, name="w")
    a_result(row, "error", host=host, exit_status=3)
    a_result(row, "unsent")
    Queue.objects.create(name="slow", order="lifo", created_at=NOON)
    assert found(eve, "results", {"state": "OVER/CLIENT_ERROR", "exit_status": 3}) == ["w_0"]
    assert found(eve, "results", {"state": {"ne": "OVER/CLIENT_ERROR"}}) == ["w_1"]
    assert found(eve, "results", {"host": host.pk}) == ["w_0"]
    assert found(eve, "hosts", {"ncpus": {"gte": 8}, "name": {"prefix": "node"}}) == ["node-1"]
    assert found(eve, "queues", {"order": {"in": ["lifo", "fifo"]}}) == ["slow"]
    assert found(eve, "batches", {"app": "fold", "state": "in_progress"}) == ["b"]


def test_submitter_finds_only_own_workunits(batch):
    ada = Scientist(an_account("ada"))
    in_batch(batch, name="foreign")
    in_batch(a_batch("own", submitter=ada.account), name="mine")
    assert found(ada, "workunits", {"id": {"gt": 0}}) == ["mine"]


def test_search_takes_a_constant_number_of_statements(eve, batch):
    counts = []
    for number in (1, 20):
        for _ in range(number):
            in_batch(batch, priority=3)
        with CaptureQueriesContext(connection) as statements:
            found(eve, "workunits", {"priority": 3, "created_at": {"lt": str(NOON)}})
        counts.append(len(statements))
    assert counts[0] == counts[1]


@pytest.mark.parametrize(
    ("path", "allowed"),
    [
        ("workunits", fields.WORKUNITS),
        ("results", fields.RESULTS),
        ("hosts", fields.HOSTS),
        ("queues", fields.QUEUES),
        ("batches", fields.BATCHES),
    ],
)
def test_every_field_of_a_list_can_be_compared(eve, path, allowed):
    for name, own in allowed.items():
        expression = {name: {"contains": {}}} if own.kind.name == "META" else {name: {"null": True}}
        answer = eve.get(path, {"filter": json.dumps(expression)})
        assert answer.status_code == 200, (name, answer.content)
        later = (NOON + timedelta(days=1)).isoformat()
        value = {"TEXT": "x", "TIME": later, "FLAG": True, "INTEGER": 1, "NUMBER": 1.5}
        if own.kind.name in value:
            same = {name: value[own.kind.name]}
            assert eve.get(path, {"filter": json.dumps(same)}).status_code == 200, name
