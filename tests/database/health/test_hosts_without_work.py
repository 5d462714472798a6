"""Hosts whose newest request for work got nothing are counted by reason."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import pytest
from django.db import connection
from django.utils import timezone

from scheduler import sql
from scheduler.health import recent
from scheduler.hosts.decision_texts import NO_RESULTS, WHY
from scheduler.models import Host
from tests.conftest import NOON
from tests.database.sql.test_web_plans import kept
from tests.rows import a_host
from tests.scripted_client import a_client
from tests.work import an_app, workunits

pytestmark = pytest.mark.django_db

HOUR = timedelta(hours=1)


def refused(
    *, hours_ago: int = 0, given: int = 0, resent: int = 0, **reasons: int
) -> dict[str, Any]:
    """Return the decision of a request for work as `boinc.translate.decision` stores it."""
    at = (NOON - hours_ago * HOUR).isoformat(timespec="seconds")
    return {"at": at, "given": given, "resent": resent, "refused": reasons}


def without_work(*decisions: Any, **fields: Any) -> Host:
    return a_host(last_decisions=list(decisions), **fields)


def counted(now=NOON) -> list[tuple[str, int]]:
    return [(line.reason, line.hosts) for line in recent.hosts_without_work(now=now).counts]


def test_hosts_are_counted_by_the_most_frequent_reason_of_their_newest_request():
    without_work(refused(quota=9, memory=10))
    newest = without_work(refused(in_progress_limit=1), refused(memory=5))
    older = without_work(refused(quota=3, memory=2))
    without_work(refused(memory=1, given=1), refused(quota=4))
    without_work(refused(memory=1, resent=1))
    newer = without_work(refused(quota=1))
    without_work()
    counts = recent.hosts_without_work(now=NOON).counts
    assert [(line.reason, line.hosts) for line in counts] == [
        ("quota", 2),
        ("in progress limit", 1),
        ("memory", 1),
    ]
    assert [line.text for line in counts[:2]] == [WHY["quota"], WHY["in_progress_limit"]]
    assert [line.newest_id for line in counts[:2]] == [newer.pk, newest.pk]
    assert older.pk < newer.pk


def test_request_without_a_refused_result_is_counted_as_no_results():
    without_work(refused())
    (line,) = recent.hosts_without_work(now=NOON).counts
    assert (line.reason, line.text, line.hosts) == ("no results", NO_RESULTS, 1)


def test_unknown_reason_is_counted_without_a_text():
    without_work(refused(new_reason=1))
    (line,) = recent.hosts_without_work(now=NOON).counts
    assert (line.reason, line.text) == ("new reason", "")


@pytest.mark.parametrize(("hours_ago", "hosts"), [(24, 1), (25, 0)])
def test_only_requests_of_the_last_day_are_counted(hours_ago, hosts):
    # The host has reported results since its last request for work.
    without_work(refused(quota=1, hours_ago=hours_ago), rpc_at=NOON)
    assert sum(number for _, number in counted()) == hosts


def test_denied_and_merged_hosts_are_not_counted():
    without_work(refused(quota=1), denied=True)
    without_work(refused(quota=1), merged_into=a_host())
    assert counted() == []


@pytest.mark.parametrize(
    "decision",
    ["text", None, 7, [], {"at": 7}, {"at": []}, {"refused": {"quota": 1}}],
)
def test_unreadable_decisions_do_not_stop_the_count(decision):
    without_work(decision)
    a_host(last_decisions={"at": "x"})
    without_work(refused(memory=1))
    assert ("memory", 1) in counted()


@pytest.mark.parametrize("reasons", ["text", None, 7, ["quota"]])
def test_unreadable_reasons_are_no_reasons(reasons):
    without_work(refused() | {"refused": reasons})
    assert counted() == [("no results", 1)]


def test_only_the_newest_hosts_are_counted(monkeypatch):
    without_work(refused(quota=1))
    without_work(refused(memory=1))
    a_host()
    assert not recent.hosts_without_work(now=NOON).is_cut
    monkeypatch.setattr(recent, "MAX_HOSTS", 2)
    assert recent.hosts_without_work(now=NOON).is_cut
    assert counted() == [("memory", 1)]


def test_requests_of_clients_are_counted():
    workunits(an_app(), 2, rsc_memory_bound=16e9)
    client = a_client()
    client.ask(cpu_req_secs=1)
    now = timezone.now()
    assert counted(now) == [("memory", 1)]
    assert counted(now + recent.REQUESTS_WITHIN + HOUR) == []


def nodes(plan: dict[str, Any]) -> Iterator[dict[str, Any]]:
    yield plan
    for child in plan.get("Plans", ()):
        yield from nodes(child)


def index_scan(plan: dict[str, Any]) -> dict[str, Any]:
    """Return the only scan of the table of hosts."""
    (scan,) = (node for node in nodes(plan) if node.get("Relation Name") == "host")
    return scan


def test_plan_of_web_processes_reads_the_newest_hosts_by_the_primary_key():
    with kept("health/count_hosts_without_work") as plan:
        tree = plan()
    scan = index_scan(tree)
    assert (scan["Index Name"], scan["Scan Direction"]) == ("host_pkey", "Backward")
    assert [node["Node Type"] for node in nodes(tree)].count("Limit") == 2


def test_hosts_beyond_the_limit_are_not_read():
    for _ in range(10):
        without_work(refused(quota=1), denied=True)
    since = NOON - recent.REQUESTS_WITHIN
    params = {"since": since, "since_text": since.isoformat(timespec="seconds"), "limit": 3}
    with connection.cursor() as cursor:
        cursor.execute("SET LOCAL enable_seqscan = off")
        statement = sql.load("health/count_hosts_without_work")
        cursor.execute(f"EXPLAIN (ANALYZE, FORMAT JSON) {statement}", params)
        (plan,) = cursor.fetchone()
    tree = (json.loads(plan) if isinstance(plan, str) else plan)[0]["Plan"]
    assert index_scan(tree)["Actual Rows"] == 3
