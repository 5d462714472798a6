"""Recent failures are grouped by app, version and exit code, by a limited read."""

from __future__ import annotations

import json
import re
from datetime import timedelta

import pytest
from django.db import connection, transaction

from scheduler import sql
from scheduler.health import recent_failures
from scheduler.health.recent_failures import Group
from scheduler.lifecycle import Outcome
from scheduler.models import Host, HostOutcomes, Result
from tests.conftest import NOON
from tests.rows import a_host, a_result, a_workunit, an_app, an_app_version

pytestmark = pytest.mark.django_db

ERROR = Outcome.CLIENT_ERROR.value


def ended(host, version, word="error", *, count=1, **fields) -> list[Result]:
    """Create results that ended, by default with an error; the last one is the newest."""
    with_errors(host)
    return [
        a_result(a_workunit(version.app), word, host=host, app_version=version, **fields)
        for _ in range(count)
    ]


def with_errors(host, *, hours_ago=0, errors=1) -> None:
    """Store the hour in which a computer had errors, if it has none."""
    HostOutcomes.objects.get_or_create(
        host_id=host.pk,
        defaults={
            "hour": NOON - timedelta(hours=hours_ago),
            "reported": errors,
            "errors": errors,
            "invalid": 0,
        },
    )


@pytest.fixture
def version():
    return an_app_version(an_app("mill"), version_num=123, plan_class="mt")


def test_failures_are_counted_by_app_version_and_exit_code(version):
    host, other = a_host(), an_app_version(an_app("sieve"), version_num=7)
    ended(host, version, exit_status=197, count=3)
    ended(host, version, exit_status=-186)
    ended(host, other, exit_status=197, count=2)
    ended(host, other, "unreadable")
    ended(host, other, "valid", count=5)
    failures = recent_failures.grouped(now=NOON)
    lines = [(line.app, line.version, line.code, line.results) for line in failures.groups]
    assert lines[:2] == [
        ("mill", "1.23 x86_64-pc-linux-gnu (mt)", "197 EXIT_TIME_LIMIT_EXCEEDED", 3),
        ("sieve", "0.07 x86_64-pc-linux-gnu", "197 EXIT_TIME_LIMIT_EXCEEDED", 2),
    ]
    assert sorted(code for _, _, code, _ in lines[2:]) == [
        "-186 ERR_RESULT_DOWNLOAD",
        "0, refused by the validator",
    ]
    assert (failures.read_hosts, failures.read_results) == (1, 12)
    assert (failures.failures, failures.n_groups) == (7, 4)


def test_project_without_results_has_no_group():
    failures = recent_failures.grouped(now=NOON)
    assert (failures.read_hosts, failures.read_results, failures.failures) == (0, 0, 0)
    assert failures.groups == ()


def test_only_the_newest_results_of_computers_with_the_latest_errors_are_read(version, monkeypatch):
    monkeypatch.setattr(recent_failures, "_LIMITS", {"hosts": 2, "results": 3})
    for age in (0, 1, 2, 24 * 8):
        host = a_host()
        with_errors(host, hours_ago=age)
        ended(host, version, exit_status=1, count=2)
        ended(host, version, exit_status=2, count=2)
    failures = recent_failures.grouped(now=NOON)
    assert (failures.read_hosts, failures.read_results) == (2, 6)
    counts = {line.group.exit_status: line.results for line in failures.groups}
    assert counts == {2: 4, 1: 2}


def test_results_of_a_group_show_the_end_of_a_long_stderr(version):
    host = a_host()
    long_text = "x" * 5_000 + "the end"
    old, new = ended(host, version, exit_status=9, stderr=long_text, count=2)
    ended(host, version, exit_status=8)
    group = Group(version.app_id, version.pk, ERROR, 9)
    results = recent_failures.of_group(group, now=NOON)
    assert [result.id for result in results] == [new.pk, old.pk]
    assert (results[0].stderr_length, len(results[0].stderr_end)) == (5_007, 2_000)
    assert results[0].stderr_end.endswith("the end")
    assert recent_failures.of_group(Group(version.app_id, None, ERROR, 9), now=NOON) == []


@pytest.mark.parametrize("name", ["count_recent_failures", "read_recent_failures"])
def test_results_are_read_through_the_index_of_ended_results(version, name):
    for _ in range(20):
        host = a_host()
        for _ in range(10):
            ended(host, version, count=1)
    params = {
        "host_ids": list(Host.objects.values_list("pk", flat=True)[:5]), "results": 4, "limit": 10, "stderr": 10, "app_id": version.app_id,
        "app_version_id": version.pk, "outcome": ERROR, "exit_status": 1,
    }  # fmt: skip
    with transaction.atomic(), connection.cursor() as cursor:
        cursor.execute("ANALYZE result")
        cursor.execute("SET LOCAL enable_seqscan = off")
        cursor.execute(f"EXPLAIN (ANALYZE, FORMAT JSON) {sql.load(f'health/{name}')}", params)
        (plan,) = cursor.fetchone()
    text = json.dumps(json.loads(plan) if isinstance(plan, str) else plan)
    assert "read_own_results" in re.findall(r'"Index Name": "(\w+)"', text)
    assert not re.search(r'"Node Type": "Seq Scan"[^{}]*"Relation Name": "result"', text)
