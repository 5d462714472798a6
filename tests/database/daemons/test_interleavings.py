"""Daemons and reports that run concurrently on two database connections."""

from __future__ import annotations

import threading
from contextlib import contextmanager

import pytest
from django.db import connection, transaction

from daemons import file_deleter, transitioner, validator
from scheduler import sql
from scheduler.models import File, Result, Workunit, WorkunitFile, WorkunitWakeup
from tests import rows
from tests.conftest import NOON
from tests.database.passes import a_pass, moves

pytestmark = pytest.mark.django_db(transaction=True)

PATIENCE = 20


class Meanwhile:
    """A function that runs in a separate thread on another connection."""

    def __init__(self, act):
        self.answer = None
        self._error = None
        self._act = act
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self):
        try:
            self.answer = self._act()
        except Exception as error:  # noqa: BLE001  raised again in wait()
            self._error = error
        finally:
            connection.close()

    @property
    def is_waiting(self):
        self._thread.join(0.3)
        return self._thread.is_alive()

    def wait(self):
        self._thread.join(PATIENCE)
        assert not self._thread.is_alive(), "the other connection waits for ever"
        if self._error is not None:
            raise self._error
        return self.answer


@contextmanager
def stopped_in(monkeypatch, module, name):
    """Make the first call of a function wait for `go`; yield the events `arrived` and `go`."""
    arrived, go = threading.Event(), threading.Event()
    real = getattr(module, name)

    def still(*args, **kwargs):
        if not arrived.is_set():
            arrived.set()
            assert go.wait(PATIENCE)
        return real(*args, **kwargs)

    monkeypatch.setattr(module, name, still)
    try:
        yield arrived, go
    finally:
        go.set()


def report(result_id, *, at):
    """Write what a report writes: lock the workunit, settle the result, make it due."""
    with transaction.atomic():
        result = Result.objects.get(pk=result_id)
        Workunit.objects.select_for_update(no_key=True).get(pk=result.workunit_id)
        Result.objects.filter(pk=result_id).update(server_state=5, outcome=1, received_at=at)
        rows.an_output(result, b"a")
        WorkunitWakeup.objects.create(workunit_id=result.workunit_id, inserted_at=at)


def test_two_concurrent_transitioners_create_the_results_of_a_workunit_once(monkeypatch):
    workunit = rows.a_workunit()
    with stopped_in(monkeypatch, transitioner.replication, "judge") as (arrived, go):
        first = Meanwhile(lambda: a_pass(transitioner))
        assert arrived.wait(PATIENCE)
        assert a_pass(transitioner).seen == 0
        go.set()
        assert first.wait().seen == 1
    assert a_pass(transitioner).seen == 0
    assert workunit.results.count() == 2


def test_eight_concurrent_transitioners_process_each_workunit_once():
    app = rows.an_app()
    for _ in range(40):
        rows.a_workunit(app)
    crowd = [Meanwhile(lambda: a_pass(transitioner, limit=7)) for _ in range(8)]
    seen = sum(one.wait().seen for one in crowd)
    seen += a_pass(transitioner).seen
    assert seen == 40
    assert Result.objects.count() == 80


def test_transitioner_keeps_the_wake_ups_of_a_locked_workunit():
    workunit = rows.a_workunit()
    locked, go = threading.Event(), threading.Event()

    def hold():
        with transaction.atomic():
            Workunit.objects.select_for_update(no_key=True).get(pk=workunit.pk)
            locked.set()
            assert go.wait(PATIENCE)

    holder = Meanwhile(hold)
    assert locked.wait(PATIENCE)
    assert a_pass(transitioner).seen == 0
    assert rows.due_at(workunit) == NOON
    go.set()
    holder.wait()
    assert a_pass(transitioner).seen == 1
    assert not WorkunitWakeup.objects.exists()


def test_wake_up_inserted_during_a_pass_causes_another_pass(monkeypatch):
    """Inserting a wake-up needs no lock, so it does not wait for the pass."""
    workunit = rows.a_workunit()
    with stopped_in(monkeypatch, transitioner.replication, "judge") as (arrived, go):
        running = Meanwhile(lambda: a_pass(transitioner))
        assert arrived.wait(PATIENCE)
        WorkunitWakeup.objects.create(workunit_id=workunit.pk, inserted_at=rows.hours(1))
        go.set()
        assert running.wait().seen == 1
    assert rows.due_at(workunit) == rows.hours(1)
    assert a_pass(transitioner).seen == 1


def test_wake_up_of_a_deleted_workunit_is_deleted():
    WorkunitWakeup.objects.create(workunit_id=1 << 40, inserted_at=NOON)
    assert a_pass(transitioner).seen == 0
    assert not WorkunitWakeup.objects.exists()


def test_a_report_waits_for_the_validator_and_its_wake_up_is_not_lost(monkeypatch):
    workunit = rows.a_workunit(min_quorum=2, target_nresults=3, need_validate=True)
    for _ in range(2):
        rows.a_result(workunit, "success", output=b"a")
    late = rows.a_result(workunit, "sent")
    with stopped_in(monkeypatch, validator, "judge") as (arrived, go):
        settling = Meanwhile(lambda: a_pass(validator))
        assert arrived.wait(PATIENCE)
        reporting = Meanwhile(lambda: report(late.pk, at=rows.hours(1)))
        assert reporting.is_waiting
        go.set()
        settling.wait()
        reporting.wait()
    workunit.refresh_from_db()
    late.refresh_from_db()
    assert workunit.canonical_result_id is not None
    assert not workunit.need_validate
    assert late.validate_state == 0
    assert rows.due_at(workunit) == rows.hours(1)
    a_pass(transitioner, now=rows.hours(1))
    a_pass(validator, now=rows.hours(1))
    late.refresh_from_db()
    assert late.validate_state == 1


def test_the_validator_skips_a_workunit_locked_by_a_report():
    workunit = rows.a_workunit(need_validate=True)
    first = rows.a_result(workunit, "success", output=b"a")
    second = rows.a_result(workunit, "sent")
    with transaction.atomic():
        report(second.pk, at=rows.hours(1))
        assert Meanwhile(lambda: a_pass(validator)).wait().seen == 0
    a_pass(validator)
    for row in (workunit, first, second):
        row.refresh_from_db()
    assert [first.validate_state, second.validate_state] == [1, 1]


def test_the_transitioner_sees_results_reported_before_it_got_the_lock(monkeypatch):
    """Results are read by a second statement, which sees commits made before the lock."""
    workunit = rows.a_workunit()
    done = rows.a_result(workunit, "success", output=b"a")
    sent = rows.a_result(workunit, "sent")
    real = transitioner.sql.fetch_rows

    def report_first(name, *rest):
        if name == "lock_woken_workunits":
            Meanwhile(lambda: report(sent.pk, at=rows.hours(-0.5))).wait()
        return real(name, *rest)

    monkeypatch.setattr(transitioner.sql, "fetch_rows", report_first)
    a_pass(transitioner)
    workunit.refresh_from_db()
    assert workunit.need_validate
    assert moves(done) == []


def test_a_file_is_deleted_when_its_last_two_references_are_dropped_concurrently(monkeypatch):
    app = rows.an_app()
    file = None
    for _ in range(2):
        workunit = rows.a_workunit(app, transition_at=None)
        file = rows.an_input(workunit, b"shared", file=file)
        rows.settled(workunit, assimilate_state=2, file_delete_state=1)
    with stopped_in(monkeypatch, sql, "execute") as (arrived, go):
        first = Meanwhile(lambda: a_pass(file_deleter, limit=1))
        assert arrived.wait(PATIENCE)
        second = Meanwhile(lambda: a_pass(file_deleter, limit=1))
        assert second.is_waiting
        go.set()
        first.wait()
        second.wait()
    a_pass(file_deleter, now=rows.hours(1))
    assert not File.objects.exists()


def test_a_file_submitted_again_during_deletion_is_not_deleted():
    workunit = rows.a_workunit(transition_at=None)
    file = rows.an_input(workunit)
    rows.settled(workunit, assimilate_state=2, file_delete_state=1)
    other = rows.a_workunit(workunit.app)
    with transaction.atomic():
        found = sql.fetch("files/lock_known_files", {"contents": [file.sha256], "names": []})
        assert [row["id"] for row in found] == [file.pk]
        deleting = Meanwhile(lambda: a_pass(file_deleter))
        assert deleting.is_waiting
        WorkunitFile.objects.create(workunit=other, file=file, position=0)
    deleting.wait()
    file.refresh_from_db()
    assert file.doomed_at is None
    assert other.input_files.count() == 1


def test_a_submission_that_waited_for_the_deleter_does_not_reuse_a_deleted_file(monkeypatch):
    workunit = rows.a_workunit(transition_at=None)
    file = rows.an_input(workunit)
    rows.settled(workunit, assimilate_state=2, file_delete_state=1)
    with stopped_in(monkeypatch, sql, "execute") as (arrived, go):
        deleting = Meanwhile(lambda: a_pass(file_deleter))
        assert arrived.wait(PATIENCE)
        submitting = Meanwhile(
            lambda: sql.fetch("files/lock_known_files", {"contents": [file.sha256], "names": []})
        )
        assert submitting.is_waiting
        go.set()
        deleting.wait()
        assert submitting.wait() == []


def test_a_pass_that_waits_for_the_partition_of_its_day_writes_into_it():
    day = NOON.date()
    workunit = rows.a_workunit()
    try:
        with transaction.atomic(), connection.cursor() as cursor:
            cursor.execute("SELECT create_ledger_day(%s)", [day])
            transitioned = Meanwhile(lambda: a_pass(transitioner))
            assert transitioned.is_waiting
        assert transitioned.wait().seen == 1
        with connection.cursor() as cursor:
            cursor.execute(
                "SELECT DISTINCT tableoid::regclass::text FROM ledger_entry WHERE workunit_id = %s",
                [workunit.pk],
            )
            assert cursor.fetchall() == [(f"ledger_entry_{day:%Y%m%d}",)]
    finally:
        with connection.cursor() as cursor:
            cursor.execute("SELECT drop_ledger_day(%s)", [day])
