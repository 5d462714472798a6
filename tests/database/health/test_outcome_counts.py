"""Results are counted by app version and host in each hour."""

from __future__ import annotations

from datetime import timedelta

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from daemons import housekeeper, validator
from scheduler.health import outcome_counts
from scheduler.models import HostAppVersion, HostOutcomes, VersionOutcomes
from tests import rows
from tests.conftest import NOON
from tests.database.passes import a_pass
from tests.scripted_client import a_client
from tests.work import an_app, workunits

pytestmark = pytest.mark.django_db

HOUR, DAY = timedelta(hours=1), timedelta(days=1)


def record(reports=0, errors=0, invalid=0, *, host=None, version=None) -> HostAppVersion:
    return HostAppVersion.objects.create(
        host=host or rows.a_host(),
        app_version=version or rows.an_app_version(rows.an_app()),
        uncounted_reports=reports,
        uncounted_errors=errors,
        uncounted_invalid=invalid,
    )


def add(row: HostAppVersion, reports: int, errors: int = 0) -> None:
    rows.update(row, uncounted_reports=reports, uncounted_errors=errors)


def versions_counted() -> list[tuple[int, ...]]:
    columns = ("app_version_id", "reported", "errors", "invalid")
    return list(VersionOutcomes.objects.order_by("hour", "app_version_id").values_list(*columns))


def hosts_counted() -> list[tuple[int, ...]]:
    columns = ("host_id", "reported", "errors", "invalid")
    return list(HostOutcomes.objects.order_by("hour", "host_id").values_list(*columns))


def uncounted() -> set[tuple[int, int, int]]:
    columns = ("uncounted_reports", "uncounted_errors", "uncounted_invalid")
    return set(HostAppVersion.objects.values_list(*columns))


def test_reports_and_errors_of_clients_are_counted_but_not_aborted_results():
    workunits(an_app(daily_quota=1000), 9)
    client = a_client()
    client.ask()
    names = client.ask_for_work(seconds=1e9)[:5]
    client.report(*names[:2])
    client.report(names[2], upload=None, state=3, exit_status=1)
    client.report(names[3], upload=None, state=6, exit_status=202)
    client.report(names[4])
    assert uncounted() == {(4, 1, 0)}
    assert outcome_counts.count(NOON, 100) == 4
    assert uncounted() == {(0, 0, 0)}
    assert [row[1:] for row in versions_counted()] == [(4, 1, 0)]
    assert hosts_counted() == [(client.hostid, 4, 1, 0)]


def test_invalid_results_are_counted_by_the_validator():
    app = rows.an_app()
    version = rows.an_app_version(app)
    workunit = rows.a_workunit(app, need_validate=True, transition_at=None)
    hosts = [rows.a_host() for _ in range(3)]
    for host, letter in zip(hosts, (b"a", b"b", b"a"), strict=True):
        rows.a_result(workunit, "success", host=host, app_version=version, output=letter)
    a_pass(validator)
    outcome_counts.count(NOON, 100)
    assert versions_counted() == [(version.pk, 0, 0, 1)]
    assert hosts_counted() == [(hosts[1].pk, 0, 0, 1)]


@pytest.mark.parametrize("limit", [1, 2, 100])
def test_each_number_is_counted_once_and_added_to_its_hour(limit):
    first, version = rows.a_host(), rows.an_app_version(rows.an_app())
    record_of_both = record(5, 1, host=first, version=version)
    record(3, 0, 1, version=version)
    record(2, 0, host=first)
    assert outcome_counts.count(NOON, limit) == 10
    assert outcome_counts.count(NOON + timedelta(minutes=10), limit) == 0
    add(record_of_both, 7, 2)
    assert outcome_counts.count(NOON + timedelta(minutes=20), limit) == 7
    add(record_of_both, 4)
    outcome_counts.count(NOON + HOUR, limit)
    assert [row[1:] for row in versions_counted() if row[0] == version.pk] == [
        (15, 3, 1),
        (4, 0, 0),
    ]
    rates = outcome_counts.of_versions(DAY, now=NOON + HOUR)
    assert (rates[version.pk].reported, rates[version.pk].failed) == (19, 4)


def test_a_host_is_counted_from_its_first_error_until_a_week_without_errors():
    row = record(5)
    outcome_counts.count(NOON, 100)
    assert hosts_counted() == []
    add(row, 2, 1)
    outcome_counts.count(NOON + HOUR, 100)
    add(row, 3)
    outcome_counts.count(NOON + DAY, 100)
    [(_, rate)] = outcome_counts.worst_hosts(2 * DAY, now=NOON + DAY)
    assert (rate.reported, rate.errors, rate.percent) == (5, 1, 20)
    add(row, 9)
    outcome_counts.count(NOON + 9 * DAY, 100)
    assert [counted[1] for counted in hosts_counted()] == [2, 3]


def test_number_of_counted_hosts_is_limited_to_those_with_most_errors(monkeypatch):
    monkeypatch.setattr(outcome_counts, "MAX_HOSTS", 2)
    records = [record(9, errors) for errors in (1, 3, 2)]
    outcome_counts.count(NOON, 100)
    assert [row[0] for row in hosts_counted()] == [records[1].host_id, records[2].host_id]
    for row in records:
        add(row, 5, 5)
    outcome_counts.count(NOON, 100)
    assert [row[1:3] for row in hosts_counted()] == [(14, 8), (14, 7)]


def test_worst_hosts_have_many_errors_of_many_results():
    single, many, few = (record(*each) for each in ((1, 1), (100, 60), (100, 2)))
    outcome_counts.count(NOON, 100)
    worst = outcome_counts.worst_hosts(DAY, now=NOON)
    assert [id_ for id_, _ in worst] == [many.host_id, single.host_id, few.host_id]


def test_one_statement_counts_any_number_of_rows():
    for _ in range(30):
        record(3, 1)
    with CaptureQueriesContext(connection) as statements:
        outcome_counts.count(NOON, 100)
    assert len(statements) == 1


def test_housekeeper_counts_every_ten_minutes_and_drops_old_counts():
    row = record(4, 1)
    housekeeper.run_pass(now=NOON, limit=100)
    add(row, 2)
    housekeeper.run_pass(now=NOON + timedelta(minutes=5), limit=100)
    assert [counted[1] for counted in versions_counted()] == [4]
    housekeeper.run_pass(now=NOON + timedelta(minutes=10), limit=100)
    assert [counted[1] for counted in versions_counted()] == [6]
    housekeeper.run_pass(now=NOON + outcome_counts.COUNTS_KEPT + HOUR, limit=100)
    assert versions_counted() == hosts_counted() == []
