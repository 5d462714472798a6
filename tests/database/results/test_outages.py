"""Outages are detected once or recorded by staff, and extend deadlines."""

from __future__ import annotations

import json
import threading
from datetime import timedelta
from io import StringIO

import pytest
from django.core.management import CommandError, call_command
from django.db import connection

from daemons import clock
from project import heartbeat
from scheduler.models import AuditEntry, Heartbeat, Outage
from scheduler.results import outages
from tests import rows
from tests.conftest import NOON
from tests.database.passes import statements_of

pytestmark = pytest.mark.django_db


def spans():
    return list(Outage.objects.order_by("began_at").values_list("began_at", "ended_at"))


# The audit log


def entries():
    rows = AuditEntry.objects.filter(event="action_taken").order_by("pk")
    return [(row.subject, row.details["action"], row.details["reason"]) for row in rows]


def test_outages_that_staff_add_and_remove_are_in_the_audit_log():
    span = ("2026-01-10T10:00", "2026-01-10T12:00")
    call_command("outage", "add", *span, "--reason", "router", stdout=StringIO())
    outage = Outage.objects.get()
    call_command("outage", "remove", str(outage.pk), stdout=StringIO())
    subject = f"outage {outage.pk}"
    assert entries() == [(subject, "add", "router"), (subject, "remove", "router")]
    details = AuditEntry.objects.first().details
    assert (details["began_at"], details["ended_at"]) == (
        "2026-01-10T10:00:00+00:00",
        "2026-01-10T12:00:00+00:00",
    )


def test_detected_outages_and_dry_runs_are_not_in_the_audit_log():
    outages.beat(now=NOON)
    outages.beat(now=rows.hours(5))
    clock.set_forward(rows.hours(6), rows.hours(7))
    span = ("2026-01-10T10:00", "2026-01-10T12:00", "--dry-run")
    call_command("outage", "add", *span, stdout=StringIO())
    assert len(spans()) == 2
    assert entries() == []


# Signs of life


def test_the_first_heartbeat_records_no_outage():
    assert outages.beat(now=NOON) is None
    assert Heartbeat.objects.get().seen_at == NOON


@pytest.mark.parametrize(("minutes", "expected"), [(10, []), (11, [(0, 11)])])
def test_a_long_gap_between_heartbeats_is_recorded_as_an_outage(minutes, expected):
    outages.beat(now=NOON)
    outages.beat(now=NOON + timedelta(minutes=minutes))
    assert spans() == [(rows.hours(a / 60), rows.hours(b / 60)) for a, b in expected]


def test_a_heartbeat_from_a_clock_that_is_behind_is_ignored():
    outages.beat(now=NOON)
    outages.beat(now=rows.hours(-1))
    assert Heartbeat.objects.get().seen_at == NOON
    assert spans() == []


def test_a_heartbeat_uses_one_statement():
    outages.beat(now=NOON)
    assert statements_of(lambda: outages.beat(now=rows.hours(5))) == 1
    assert len(spans()) == 1


@pytest.mark.django_db(transaction=True)
def test_concurrent_heartbeats_after_an_outage_record_it_once():
    outages.beat(now=NOON)
    ready = threading.Barrier(4)

    def come_back():
        connection.ensure_connection()
        ready.wait()
        outages.beat(now=rows.hours(1))
        connection.close()

    threads = [threading.Thread(target=come_back) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert spans() == [(NOON, rows.hours(1))]


def test_a_failed_heartbeat_of_a_web_process_is_logged_once(monkeypatch, caplog):
    beats = []
    monkeypatch.setattr(connection, "close", lambda: None)
    monkeypatch.setattr(outages, "beat", lambda *, now: beats.append(now))
    assert heartbeat.beat_once()
    assert len(beats) == 1

    def fail(*, now):
        raise OSError(f"the database is away at {now}")

    monkeypatch.setattr(outages, "beat", fail)
    assert not heartbeat.beat_once()
    assert not heartbeat.beat_once(log_failure=False)
    assert caplog.messages == ["heartbeat_failed"]


def test_the_heartbeat_thread_runs_until_it_is_stopped(monkeypatch):
    beaten = threading.Semaphore(0)
    monkeypatch.setattr(
        heartbeat, "beat_once", lambda *, log_failure: beaten.release() or log_failure
    )
    stop = heartbeat.start(every=0.001)
    assert all(beaten.acquire(timeout=10) for _ in range(3))
    stop.set()
    # After the patch is undone, a running thread could write a heartbeat during a later test.
    for thread in threading.enumerate():
        if thread.name == "heartbeat":
            thread.join(timeout=10)
            assert not thread.is_alive()


# Moving deadlines


def an_outage(began, ended, **fields):
    return Outage.objects.create(began_at=rows.hours(began), ended_at=rows.hours(ended), **fields)


def apply_all(limit=1000):
    total = 0
    while not (step := outages.apply_next(now=NOON, limit=limit)).done:
        total += step.results
    return total


def deadlines(result):
    result.refresh_from_db()
    return result.report_deadline, result.credit_deadline


def test_an_outage_extends_both_deadlines_of_a_result_in_progress():
    result = rows.a_result(rows.a_workunit(), "sent")
    outage = an_outage(-1, 0)
    assert apply_all() == 1
    assert deadlines(result) == (rows.hours(25), rows.hours(49))
    outage.refresh_from_db()
    assert outage.applied_at == NOON
    assert apply_all() == 0
    assert deadlines(result) == (rows.hours(25), rows.hours(49))


def test_an_outage_extends_the_credit_deadline_of_a_timed_out_result():
    workunit = rows.a_workunit()
    late = rows.a_result(workunit, "noreply", report_deadline=rows.hours(-1.5))
    over = rows.a_result(workunit, "success")
    an_outage(-1, 0)
    assert apply_all() == 1
    assert deadlines(late) == (rows.hours(-1.5), rows.hours(49))
    assert deadlines(over) == (rows.hours(24), rows.hours(48))


def test_deadlines_of_results_sent_after_or_due_before_an_outage_do_not_change():
    workunit = rows.a_workunit()
    rows.a_result(workunit, "sent", sent_at=rows.hours(-0.5))
    rows.a_result(
        workunit, "sent", report_deadline=rows.hours(-1.8), credit_deadline=rows.hours(-1.7)
    )
    an_outage(-1.5, -0.5)
    assert apply_all() == 0


def test_overlapping_outages_extend_a_deadline_once():
    result = rows.a_result(rows.a_workunit(), "sent", sent_at=rows.hours(-10))
    an_outage(-5, -2)
    an_outage(-4, -1)
    apply_all()
    assert deadlines(result)[0] == rows.hours(28)


def test_deadlines_are_extended_in_batches_with_a_cursor():
    results = [rows.a_result(rows.a_workunit(), "sent") for _ in range(5)]
    outage = an_outage(-1, 0)
    step = outages.apply_next(now=NOON, limit=2)
    outage.refresh_from_db()
    assert (step.results, step.done, outage.applied_at) == (2, False, None)
    assert outage.applied_up_to == results[1].pk
    assert apply_all(limit=2) == 3
    assert {deadlines(result)[0] for result in results} == {rows.hours(25)}


@pytest.mark.parametrize("count", [1, 200])
def test_a_batch_of_extended_deadlines_uses_8_statements_for_any_number_of_results(count):
    host = rows.a_host()
    for _ in range(count):
        rows.a_result(rows.a_workunit(), "sent", host=host)
    an_outage(-1, 0)
    assert statements_of(lambda: outages.apply_next(now=NOON, limit=1000)) == 8


# The command


def said(*words):
    page = StringIO()
    call_command("outage", *words, stdout=page)
    return page.getvalue().strip()


def test_outages_are_added_listed_and_removed_by_command():
    rows.a_result(rows.a_workunit(), "sent", sent_at=rows.hours(-10), report_deadline=rows.hours(5))
    words = ("add", "2026-01-01T08:00", "2026-01-01T10:00", "--reason", "the router")
    assert said("list") == "There were no outages."
    assert said(*words, "--dry-run") == (
        "Would move the deadlines of 1 result in progress by up to 2:00:00."
    )
    assert spans() == []
    said(*words)
    assert spans() == [(rows.hours(-4), rows.hours(-2))]
    number = Outage.objects.get().pk
    assert said("list") == (
        f"{number}: 2026-01-01 08:00:00 to 2026-01-01 10:00:00, "
        "deadlines are still to be moved (the router)"
    )
    assert json.loads(said("list", "--json"))["outages"][0]["id"] == number
    assert said("remove", str(number), "--dry-run") == f"Would remove outage {number}."
    apply_all()
    assert said("remove", str(number)) == (
        f"Removed outage {number}; deadlines that it moved are not moved back."
    )
    assert spans() == []


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (("add", "2026-01-01T10:00", "2026-01-01T08:00"), "not after its start"),
        (("add", "2026-01-01", "2999-01-01"), "which is in the future"),
        (("add", "yesterday", "2026-01-01"), "not a time"),
        (("add", "2026-01-01"), "outage add FROM TO"),
        (("remove", "7"), "no outage 7"),
        (("remove", "x"), "not an id"),
    ],
)
def test_an_outage_with_invalid_times_is_refused_with_a_hint(words, sentence):
    with pytest.raises(CommandError, match=sentence) as refused:
        said(*words)
    assert "Hint" in str(refused.value)
