"""Cancelling, holding and releasing workunits."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from scheduler.lifecycle import Actor, Axis, Because, ErrorMask, ReleaseState
from scheduler.models import Account, App, Batch, LedgerEntry, Workunit, WorkunitWakeup
from scheduler.work import control
from scheduler.work.submission.submit import NewBatch, NewOutput, NewWorkunit, submit
from tests import rows

pytestmark = pytest.mark.django_db

NOON = datetime(2026, 6, 1, 12, tzinfo=UTC)
LATER = NOON + timedelta(hours=1)
GOOD = NewWorkunit(outputs=(NewOutput(open_name="out"),))


def an_account(email: str = "ada@example.org") -> Account:
    return Account.objects.create(email=email, cross_project_id="0" * 32, created_at=NOON)


def some(
    *workunits: NewWorkunit, batch: NewBatch | str | None = None, submitter: Account | None = None
) -> tuple[Workunit, ...]:
    App.objects.get_or_create(name="sieve", defaults={"created_at": NOON})
    done = submit(app="sieve", workunits=workunits, batch=batch, submitter=submitter, now=NOON)
    WorkunitWakeup.objects.all().delete()
    created = Workunit.objects.in_bulk(done.workunit_ids)
    return tuple(created[id_] for id_ in done.workunit_ids)


def moves() -> list[tuple[object, ...]]:
    columns = ("at", "workunit_id", "axis", "source", "target", "because", "by")
    release = LedgerEntry.objects.filter(axis=Axis.RELEASE).order_by("id")
    return list(release.values_list(*columns))


def test_a_cancellation_is_stored_and_wakes_the_transitioner() -> None:
    one, two, three = some(GOOD, GOOD, GOOD)
    done = control.cancel(names=[one.name], ids=[two.pk], reason="wrong input", now=LATER)
    assert done == control.Outcome(changed=2, already=0, finished=0)
    for row in (one, two):
        row.refresh_from_db()
        asked = (row.cancel_requested_at, row.cancel_reason, rows.due_at(row), row.error_mask)
        assert asked == (LATER, "wrong input", LATER, 0)
    three.refresh_from_db()
    assert three.cancel_requested_at is None
    assert not WorkunitWakeup.objects.filter(workunit_id=three.pk).exists()


def test_cancelling_again_changes_nothing() -> None:
    (one,) = some(GOOD)
    control.cancel(ids=[one.pk], reason="first", now=NOON)
    done = control.cancel(ids=[one.pk], names=[one.name], reason="second", now=LATER)
    one.refresh_from_db()
    assert done == control.Outcome(changed=0, already=1, finished=0)
    assert (one.cancel_requested_at, one.cancel_reason) == (NOON, "first")


def test_cancellation_by_chunks_changes_every_workunit_and_leaves_out_purged_ones(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(control, "_CHUNK", 2)
    workunits = some(*[GOOD] * 5)
    control.cancel(ids=[workunits[1].pk], reason="first", now=NOON)
    ids = [999999999, *(workunit.pk for workunit in reversed(workunits))]
    with CaptureQueriesContext(connection) as captured:
        done = control.cancel_in_chunks(ids, reason="second", now=LATER)
    assert done == control.Outcome(changed=4, already=1, finished=0)
    requests = [query for query in captured if "cancel_requested_at" in query["sql"]]
    assert len(requests) == 3
    stored = list(Workunit.objects.order_by("pk").values_list("cancel_requested_at", flat=True))
    assert stored == [LATER, NOON, LATER, LATER, LATER]
    again = control.cancel_in_chunks(ids, reason="third", now=LATER)
    assert again == control.Outcome(changed=0, already=5, finished=0)


def test_interrupted_cancellation_by_chunks_keeps_the_finished_chunks(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(control, "_CHUNK", 2)
    ids = [workunit.pk for workunit in some(*[GOOD] * 5)]
    fetch = control.fetch

    def interrupted(statement: str, params: dict[str, Any]) -> Any:
        if ids[2] in params["ids"]:
            raise OSError
        return fetch(statement, params)

    with monkeypatch.context() as patch:
        patch.setattr(control, "fetch", interrupted)
        with pytest.raises(OSError):
            control.cancel_in_chunks(ids, reason="", now=NOON)
    cancelled = Workunit.objects.exclude(cancel_requested_at=None).order_by("pk")
    assert [workunit.pk for workunit in cancelled] == ids[:2]
    again = control.cancel_in_chunks(ids, reason="", now=LATER)
    assert again == control.Outcome(changed=3, already=2, finished=0)


def test_cancelling_counts_finished_workunits_and_does_not_change_them() -> None:
    failed, going = some(GOOD, GOOD)
    Workunit.objects.filter(pk=failed.pk).update(error_mask=ErrorMask.TOO_MANY_ERROR_RESULTS)
    done = control.cancel(ids=[failed.pk, going.pk], now=LATER)
    failed.refresh_from_db()
    assert done == control.Outcome(changed=1, already=0, finished=1)
    assert failed.cancel_requested_at is None


def test_cancelling_a_batch_cancels_its_workunits_and_aborts_it() -> None:
    ada = an_account()
    some(GOOD, GOOD, batch="b", submitter=ada)
    (other,) = some(GOOD)
    assert control.cancel(batch="b", now=LATER).changed == 2
    other.refresh_from_db()
    assert other.cancel_requested_at is None
    assert Batch.objects.get().state == Batch.State.ABORTED


def test_a_batch_name_used_by_two_accounts_requires_the_submitter() -> None:
    ada, bob = an_account(), an_account("bob@example.org")
    some(GOOD, batch="b", submitter=ada)
    (bobs,) = some(GOOD, batch="b", submitter=bob)
    with pytest.raises(control.AmbiguousBatch, match="Several accounts have a batch 'b'"):
        control.cancel(batch="b", now=LATER)
    assert control.cancel(batch="b", submitter=bob, now=LATER).changed == 1
    bobs.refresh_from_db()
    assert bobs.cancel_requested_at == LATER


def test_unknown_names_and_ids_are_refused_and_nothing_is_changed() -> None:
    (one,) = some(GOOD)
    with pytest.raises(control.WorkunitsNotFound, match="Not found: none, nor, #999999999"):
        control.cancel(names=[one.name, "nor", "none"], ids=[999999999], now=LATER)
    one.refresh_from_db()
    assert one.cancel_requested_at is None
    with pytest.raises(control.WorkunitsNotFound, match="batch nowhere"):
        control.cancel(batch="nowhere", now=LATER)


def test_cancel_without_a_selection_is_refused() -> None:
    with pytest.raises(control.NothingNamed, match="Hint: give names, ids or a batch"):
        control.cancel(now=LATER)


def test_holding_and_releasing_are_recorded_as_staff_moves_in_the_ledger() -> None:
    (one,) = some(GOOD)
    assert control.hold(ids=[one.pk], now=NOON).changed == 1
    one.refresh_from_db()
    assert (one.release_state, rows.due_at(one)) == (ReleaseState.HELD, NOON)
    assert control.release(names=[one.name], now=LATER).changed == 1
    one.refresh_from_db()
    assert (one.release_state, rows.due_at(one)) == (ReleaseState.RELEASED, LATER)
    held, released = ReleaseState.HELD, ReleaseState.RELEASED
    assert moves() == [
        (NOON, one.pk, Axis.RELEASE, released, held, Because.HELD, Actor.STAFF),
        (LATER, one.pk, Axis.RELEASE, held, released, Because.RELEASED, Actor.STAFF),
    ]


def test_holding_a_held_workunit_changes_nothing() -> None:
    (one,) = some(GOOD)
    control.hold(ids=[one.pk], now=NOON)
    assert control.hold(ids=[one.pk], now=LATER) == control.Outcome(
        changed=0, already=1, finished=0
    )
    assert len(moves()) == 1


def test_workunits_with_pending_dependencies_cannot_be_held_or_released() -> None:
    ada = an_account()
    some(GOOD, batch="first", submitter=ada)
    follower = NewBatch(name="second", after=Batch.objects.get().pk)
    (one,) = some(GOOD, batch=follower, submitter=ada)
    outcome = control.Outcome(changed=0, already=0, finished=0, impossible=1)
    assert control.hold(ids=[one.pk], now=LATER) == outcome
    assert control.release(ids=[one.pk], now=LATER) == outcome
    assert moves() == []


def test_holding_and_cancelling_any_number_of_workunits_uses_the_same_statements() -> None:
    rows = some(*[GOOD] * 500)
    counts = []
    for chosen in (rows[:1], rows[1:]):
        with CaptureQueriesContext(connection) as captured:
            control.hold(ids=[row.pk for row in chosen], now=NOON)
            control.cancel(ids=[row.pk for row in chosen], now=NOON)
        counts.append(len(captured))
    assert counts[0] == counts[1]
    assert Workunit.objects.filter(cancel_requested_at=NOON).count() == 500
