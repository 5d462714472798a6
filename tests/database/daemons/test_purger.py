"""The purger archives finished workunits and maintains the ledger's partitions."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import datetime, timedelta

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from daemons import file_deleter, purger, transitioner
from scheduler import storage
from scheduler.models import (
    CreditEntry,
    LedgerEntry,
    Refusal,
    Result,
    ResultFile,
    ScienceFailure,
    TrickleDown,
    TrickleUp,
    UsageSample,
    Workunit,
    WorkunitWakeup,
)
from tests import rows
from tests.conftest import NOON
from tests.database.passes import a_pass, statements_of

pytestmark = pytest.mark.django_db


@pytest.fixture(autouse=True)
def made_days():
    """Create the ledger's partitions first, so that a pass does only what is tested."""
    purger.tend_ledger(now=NOON)


def purgeable(app=None, host=None, **fields):
    """Create a finished workunit whose files are deleted."""
    workunit = rows.a_workunit(app, transition_at=None)
    canonical = rows.a_result(workunit, "valid", host=host, output=b"x", file_delete_state=2)
    rows.a_result(workunit, "unneeded", file_delete_state=2)
    return rows.settled(workunit, canonical, assimilate_state=2, file_delete_state=2, **fields)


def archived(settings):
    (path,) = (settings.VAR_DIR / "archive").iterdir()
    return [json.loads(line) for line in storage.read_archive(path)]


def test_a_finished_workunit_is_archived_and_its_rows_are_dropped(settings):
    workunit = purgeable()
    result = workunit.results.first()
    CreditEntry.objects.create(
        result_id=result.pk,
        rule="validated",
        account=result.account,
        host=result.host,
        app=workunit.app,
        amount=2,
        granted_at=NOON,
    )
    assert a_pass(purger).sentence() == "1 workunit: 1 purged"
    (line,) = archived(settings)
    assert line["workunit"]["name"] == workunit.name
    assert line["workunit"]["app"] == workunit.app.name
    assert line["workunit"]["assimilate_state"] == "DONE"
    assert [r["outcome"] for r in line["results"]] == ["SUCCESS", "DIDNT_NEED"]
    assert line["results"][0]["outputs"][0]["nbytes"] == 1
    assert line["credit"][0]["amount"] == 2
    for table in (Workunit, Result, ResultFile):
        assert not table.objects.exists()
    assert CreditEntry.objects.count() == 1


def test_archive_has_every_column_that_is_not_null(settings):
    workunit = purgeable(delay_bound=timedelta(days=1, seconds=30.5))
    result = workunit.results.first()
    columns = {
        name: {
            field.column for field in row._meta.fields if getattr(row, field.attname) is not None
        }
        for name, row in (("workunit", workunit), ("result", result))
    }
    columns["workunit"] -= {"past_inputs"}
    a_pass(purger)
    (line,) = archived(settings)
    assert columns["workunit"] <= line["workunit"].keys()
    assert columns["result"] <= line["results"][0].keys()
    assert line["workunit"]["delay_bound"] == "24:00:30.5"
    assert datetime.fromisoformat(line["workunit"]["created_at"]) == workunit.created_at
    assert None not in line["workunit"].values()


def test_archive_has_the_timeline_as_text(settings):
    workunit = rows.a_workunit(cancel_requested_at=NOON)
    rows.a_result(workunit)
    a_pass(transitioner)
    for result in workunit.results.all():
        rows.walk(result, file_delete_state=1)
        rows.walk(result, file_delete_state=2)
    workunit.refresh_from_db()
    rows.settled(workunit, assimilate_state=2, file_delete_state=2, transition_at=None)
    a_pass(purger)
    (line,) = archived(settings)
    steps = [(step["axis"], step["from"], step["to"], step["by"]) for step in line["timeline"]]
    assert ("workunit", "OPEN", "FAILED", "transitioner") in steps
    assert ("result", "UNSENT", "OVER/DIDNT_NEED", "transitioner") in steps


def test_archive_has_moves_of_a_clock_that_was_set_back(settings):
    workunit = purgeable()
    for at in (NOON - timedelta(hours=2), NOON + timedelta(hours=2)):
        LedgerEntry.objects.create(
            at=at, workunit_id=workunit.pk, axis=4, source=0, target=1, because=1, by=1
        )
    a_pass(purger)
    (line,) = archived(settings)
    assert len(line["timeline"]) == 2


def test_deleted_input_files_are_listed_in_the_archive(settings):
    workunit = rows.a_workunit(transition_at=None)
    file = rows.an_input(workunit, b"12345")
    rows.settled(workunit, assimilate_state=2, file_delete_state=1, finished_at=NOON)
    a_pass(file_deleter)
    a_pass(purger)
    (line,) = archived(settings)
    (listed,) = line["input_files"]
    assert listed == {"open_name": "in", "name": file.name, "nbytes": 5, "sha256": file.sha256}
    assert "past_inputs" not in line["workunit"]


def test_only_messages_usage_refusals_and_failures_of_purged_workunits_are_archived(settings):
    gone, kept = purgeable(), purgeable(finished_at=NOON + timedelta(days=1))
    for workunit in (gone, kept):
        for number, result in enumerate(workunit.results.order_by("id")):
            with_messages(workunit, result, number)
    a_pass(purger, now=NOON)
    (line,) = archived(settings)
    first = line["results"][0]
    assert first["usage"][0]["fraction_done"] == 0.5
    assert first["trickles_up"][0]["variety"] == "progress"
    assert first["trickles_down"][0]["text"] == "hello"
    assert line["refusals"][0]["sentence"] == "too little memory"
    assert line["failures"][0]["error"] == "odd"
    assert Workunit.objects.get() == kept
    for table in (UsageSample, TrickleUp, TrickleDown):
        assert set(table.objects.values_list("result_id", flat=True)) == {
            result.pk for result in kept.results.all()
        }
    assert Refusal.objects.get().workunit_id == kept.pk
    assert ScienceFailure.objects.filter(stage=1).get().subject_id == kept.pk
    assert ScienceFailure.objects.filter(stage=3).count() == TrickleUp.objects.count() == 2
    assert ScienceFailure.objects.filter(stage=4).count() == 2


def with_messages(workunit, result, number):
    """Add messages and failures to a result and, if `number` is 0, to its workunit."""
    app, host = workunit.app, rows.a_host()
    UsageSample.objects.create(result_id=result.pk, at=NOON, fraction_done=0.5)
    trickle = TrickleUp.objects.create(
        result_id=result.pk,
        host=host,
        app=app,
        variety="progress",
        said_at=NOON,
        received_at=NOON,
    )
    TrickleDown.objects.create(
        host=host, result_id=result.pk, result_name=result.name, text="hello", created_at=NOON
    )
    failure = {"app": app, "error": "odd", "failed_at": NOON}
    ScienceFailure.objects.create(stage=3, subject_id=trickle.pk, **failure)
    if number == 0:
        ScienceFailure.objects.create(stage=1, subject_id=workunit.pk, **failure)
        ScienceFailure.objects.create(stage=4, subject_id=workunit.pk, **failure)
        rows.refuse(workunit, host)


def test_a_full_batch_is_dropped_in_short_transactions(monkeypatch):
    monkeypatch.setattr(purger, "DROP_BATCH_SIZE", 2)
    for _ in range(5):
        purgeable()
    assert a_pass(purger).done == {"purged": 5}


@pytest.mark.parametrize(
    "unfinished",
    [
        {"transition_at": NOON + timedelta(days=1)},
        {"need_validate": True},
        {"finished_at": NOON + timedelta(seconds=1)},
        {"lease_until": NOON + timedelta(minutes=1)},
    ],
)
def test_an_unfinished_workunit_is_not_purged(unfinished):
    purgeable(**unfinished)
    assert a_pass(purger).sentence() == "nothing to do"
    assert Workunit.objects.exists()


@pytest.mark.parametrize(("word", "state"), [("sent", 0), ("valid", 1), ("error", 3)])
def test_a_workunit_with_an_unfinished_result_is_not_purged(word, state):
    workunit = purgeable()
    rows.a_result(workunit, word, file_delete_state=state)
    assert a_pass(purger).seen == 0


def test_workunit_in_the_queue_of_wake_ups_is_not_purged():
    workunit = purgeable()
    WorkunitWakeup.objects.create(workunit_id=workunit.pk, inserted_at=NOON)
    assert a_pass(purger).seen == 0
    WorkunitWakeup.objects.all().delete()
    assert a_pass(purger).done == {"purged": 1}


def test_workunits_are_purged_only_after_the_purge_after_setting(settings):
    settings.PROJECT = replace(settings.PROJECT, purge_after=timedelta(days=1))
    purgeable()
    assert a_pass(purger, now=rows.hours(22)).seen == 0
    assert a_pass(purger, now=rows.hours(23)).seen == 1


@pytest.mark.parametrize("by", ["row in the queue", "time"])
def test_workunit_woken_during_archiving_is_not_purged(monkeypatch, by):
    workunit = purgeable()
    append = storage.append_archive

    def and_wake(day, lines):
        if by == "time":
            rows.update(Workunit.objects.get(), transition_at=NOON)
        else:
            WorkunitWakeup.objects.create(workunit_id=workunit.pk, inserted_at=NOON)
        return append(day, lines)

    monkeypatch.setattr(storage, "append_archive", and_wake)
    assert a_pass(purger).done == {"woken meanwhile": 1}
    assert Workunit.objects.get() == workunit


@pytest.mark.parametrize("count", [1, 150])
def test_purger_pass_uses_15_statements_for_any_number_of_rows(count):
    app, host = rows.an_app(), rows.a_host()
    for _ in range(count):
        purgeable(app, host)
    assert statements_of(lambda: a_pass(purger)) == 15
    assert not Workunit.objects.exists()


def rows_read_whole():
    """Return the number of rows that this transaction read by sequential scans, by table."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT relname, seq_tup_read FROM pg_stat_xact_user_tables")
        return dict(cursor.fetchall())


def test_cached_plans_are_discarded_before_rows_are_dropped():
    purgeable()
    with CaptureQueriesContext(connection) as captured:
        a_pass(purger)
    statements = [query["sql"] for query in captured.captured_queries]
    (forgotten,) = (place for place, text in enumerate(statements) if "DISCARD PLANS" in text)
    (dropped,) = (
        place for place, text in enumerate(statements) if "DELETE FROM workunit WHERE" in text
    )
    assert forgotten < dropped


def test_plans_cached_on_small_tables_do_not_cause_full_scans_of_grown_tables():
    app, host = rows.an_app(), rows.a_host()
    kept = purgeable(app, host, finished_at=NOON + timedelta(days=1))
    with connection.cursor() as cursor:
        cursor.execute("ANALYZE workunit, result, result_file, workunit_file")
    for _ in range(8):
        purgeable(app, host)
        a_pass(purger)
        purgeable(app, host)
        Workunit.objects.exclude(pk=kept.pk).delete()
        connection.check_constraints()
    assert Workunit.objects.get() == kept
    for table in ("workunit", "result", "result_file"):
        with connection.cursor() as cursor:
            cursor.execute(MANY[table], {"app": app.pk})
    for _ in range(50):
        purgeable(app, host)
    connection.check_constraints()
    before = rows_read_whole()
    assert a_pass(purger).done == {"purged": 50}
    connection.check_constraints()
    read = {table: number - before.get(table, 0) for table, number in rows_read_whole().items()}
    # Without statistics, each of the 15 statements may scan a table once.  A scan for each of the 50
    # dropped workunits reads 100 000 rows and more.
    assert {table: number for table, number in read.items() if number > 15 * 2100} == {}


#: Inserts of 2000 unfinished workunits, with a result and an output each.
MANY = {
    "workunit": """
        INSERT INTO workunit (name, app_id, outputs, meta, created_at)
        SELECT 'many_' || g, %(app)s, '[]', '{}', now() FROM generate_series(1, 2000) AS g
    """,
    "result": """
        INSERT INTO result (workunit_id, app_id, name, attempt, created_at)
        SELECT id, app_id, name || '_0', 0, now() FROM workunit WHERE name LIKE 'many_%%'
    """,
    "result_file": """
        INSERT INTO result_file (result_id, position, name, nbytes, md5, sha256)
        SELECT id, 0, name || '_0', 1, '', '' FROM result WHERE name LIKE 'many_%%'
    """,
}


# Partitions of the ledger


def days_made():
    with connection.cursor() as cursor:
        cursor.execute("SELECT relname FROM pg_class WHERE relname ~ '^ledger_entry_2' ORDER BY 1")
        return [name for (name,) in cursor.fetchall() if not name.endswith("idx")]


def tables():
    """Return the partitions of January 2026; the migration also made those of today."""
    return [name for name in days_made() if name.startswith("ledger_entry_202601")]


def test_fifteen_ledger_partitions_exist_starting_today():
    assert len(tables()) == 15
    assert tables()[0] == "ledger_entry_20260101"
    assert purger.tend_ledger(now=NOON) == (0, 0)


def test_a_ledger_partition_is_dropped_when_no_existing_workunit_is_as_old():
    old = rows.a_workunit(created_at=NOON)
    assert purger.tend_ledger(now=NOON + timedelta(days=2)) == (2, 0)
    Workunit.objects.filter(pk=old.pk).delete()
    young = rows.a_workunit(created_at=NOON + timedelta(days=1))
    assert purger.tend_ledger(now=NOON + timedelta(days=2)) == (0, 1)
    assert tables()[0] == "ledger_entry_20260102"
    Workunit.objects.filter(pk=young.pk).delete()
    assert purger.tend_ledger(now=NOON + timedelta(days=2)) == (0, 1)


def test_moves_are_stored_in_the_partition_of_their_day_or_in_the_default_partition():
    rows.a_workunit()
    a_pass(transitioner)
    far = NOON + timedelta(days=100)
    rows.a_workunit()
    a_pass(transitioner, now=far)
    with connection.cursor() as cursor:
        cursor.execute("SELECT tableoid::regclass::text, count(*) FROM ledger_entry GROUP BY 1")
        found = dict(cursor.fetchall())
    assert found["ledger_entry_20260101"] == 2
    assert found["ledger_entry_default"] == 2
    assert LedgerEntry.objects.count() == 4


@pytest.fixture
def moves_in_default():
    """Write two moves while their day has no partition, and return the ids of all rows."""
    with connection.cursor() as cursor:
        cursor.execute("DROP TABLE ledger_entry_20260101")
    rows.a_workunit()
    a_pass(transitioner)
    rows.a_workunit()
    a_pass(transitioner, now=NOON + timedelta(days=100))
    return places()


def places():
    with connection.cursor() as cursor:
        cursor.execute("SELECT id, tableoid::regclass::text FROM ledger_entry")
        return dict(cursor.fetchall())


def test_rows_of_a_day_in_the_default_partition_are_moved_to_its_new_partition(moves_in_default):
    assert list(moves_in_default.values()) == ["ledger_entry_default"] * 4
    assert purger.tend_ledger(now=NOON) == (1, 0)
    moved = places()
    assert moved.keys() == moves_in_default.keys()
    assert sorted(moved.values()) == ["ledger_entry_20260101"] * 2 + ["ledger_entry_default"] * 2
    assert purger.tend_ledger(now=NOON) == (0, 0)
    rows.a_workunit()
    a_pass(transitioner)
    assert sorted(places().values()).count("ledger_entry_20260101") == 4


def test_too_many_rows_in_the_default_partition_are_logged_once_and_moved_by_migrate(
    moves_in_default, monkeypatch, caplog
):
    monkeypatch.setattr(purger, "_logged_days", set())
    for _ in range(2):
        assert purger.tend_ledger(now=NOON, max_moved=1) == (0, 0)
    (record,) = caplog.records
    assert (record.getMessage(), record.day) == ("ledger_change_failed", "2026-01-01")
    assert "has more than 1 rows of this day. Hint: stop the project and run" in record.reason
    assert places() == moves_in_default
    assert purger.tend_ledger(now=NOON, max_moved=None) == (1, 0)
    assert set(places().values()) == {"ledger_entry_20260101", "ledger_entry_default"}
