"""Holding workunits with a code, and releasing them."""

from __future__ import annotations

from datetime import timedelta

import pytest
from django.db import IntegrityError, transaction

from daemons import transitioner
from scheduler.lifecycle import Axis, ReleaseState, ServerState
from scheduler.models import LedgerEntry, Result, Workunit, WorkunitWakeup
from scheduler.work import control, dependencies, explain
from scheduler.work.submission.submission_checks import SubmissionRefused
from scheduler.work.submission.submit import NewOutput, NewWorkunit, submit
from tests.conftest import NOON
from tests.database.passes import a_pass
from tests.scripted_client import a_client
from tests.work import an_app

pytestmark = pytest.mark.django_db

LATER = NOON + timedelta(hours=1)


def some(*fields, app="sieve"):
    outputs = (NewOutput(open_name="out"),)
    an_app(app)
    workunits = [NewWorkunit(outputs=outputs, **own) for own in fields]
    done = submit(app=app, workunits=workunits, now=NOON)
    return [Workunit.objects.get(pk=pk) for pk in done.workunit_ids]


def fresh(row):
    row.refresh_from_db()
    return row.release_state, row.hold_code


def release_moves(row):
    moves = LedgerEntry.objects.filter(workunit_id=row.pk, axis=Axis.RELEASE).order_by("id")
    return list(moves.values_list("source", "target"))


def test_held_workunit_is_not_sent_until_it_is_released():
    (row,) = some({"name": "first"})
    a_pass(transitioner)
    control.hold(ids=[row.pk], hold_code=-7, now=NOON)
    assert fresh(row) == (ReleaseState.HELD, -7)
    assert WorkunitWakeup.objects.filter(workunit_id=row.pk).exists()
    client = a_client()
    assert client.ask_for_work(seconds=100.0) == []
    a_pass(transitioner, now=LATER)
    assert Result.objects.get().server_state == ServerState.INACTIVE
    assert client.ask_for_work(seconds=100.0) == []
    assert "is held until it is released with code -7" in explain.reasons_of(row.pk, now=LATER)
    control.release(ids=[row.pk], now=LATER)
    assert fresh(row) == (ReleaseState.RELEASED, None)
    assert WorkunitWakeup.objects.filter(workunit_id=row.pk).exists()
    a_pass(transitioner, now=LATER)
    assert client.ask_for_work(seconds=100.0) == ["first_0"]
    assert release_moves(row) == [(3, 2), (2, 3)]


def test_new_code_of_a_held_workunit_is_stored_without_a_move():
    (row,) = some({})
    assert control.hold(ids=[row.pk], now=NOON).changed == 1
    WorkunitWakeup.objects.all().delete()
    assert control.hold(ids=[row.pk], hold_code=-9, now=NOON).changed == 1
    assert fresh(row) == (ReleaseState.HELD, -9)
    again = control.hold(ids=[row.pk], hold_code=-9, now=NOON)
    assert (again.already, again.changed) == (1, 0)
    assert fresh(row) == (ReleaseState.HELD, -9)
    without = control.hold(ids=[row.pk], now=NOON)
    assert (without.already, without.changed) == (0, 1)
    assert fresh(row) == (ReleaseState.HELD, None)
    assert control.hold(ids=[row.pk], now=NOON).already == 1
    assert release_moves(row) == [(3, 2)]
    assert not WorkunitWakeup.objects.exists()


def test_submitters_release_only_workunits_with_a_code():
    mine, theirs = some({"hold_code": -5}, {})
    control.hold(ids=[theirs.pk], now=NOON)
    done = control.release(ids=[mine.pk, theirs.pk], only_coded=True, now=NOON)
    assert (done.changed, done.impossible) == (1, 1)
    assert fresh(mine) == (ReleaseState.RELEASED, None)
    assert fresh(theirs) == (ReleaseState.HELD, None)


@pytest.mark.parametrize("code", [0, 1, -1, -2, -6, -40_000])
def test_codes_that_mean_something_else_are_refused(code):
    (row,) = some({})
    with pytest.raises(control.BadHoldCode, match="Hint: use -3"):
        control.hold(ids=[row.pk], hold_code=code, now=NOON)
    with pytest.raises(SubmissionRefused, match="hold_code is"):
        submit(app="sieve", workunits=[NewWorkunit(hold_code=code)], now=NOON)
    assert fresh(row) == (ReleaseState.RELEASED, None)


def test_workunits_are_submitted_with_a_code():
    coded, held, free = some({"hold_code": -7}, {"held": True}, {})
    assert [fresh(row) for row in (coded, held, free)] == [
        (ReleaseState.HELD, -7),
        (ReleaseState.HELD, -4),
        (ReleaseState.RELEASED, None),
    ]


def test_dependency_ends_the_hold_and_its_code():
    parent, child = some({"name": "p"}, {"name": "c", "hold_code": -7})
    dependencies.add_continuations(parent.pk, ["c"], now=NOON)
    assert fresh(child) == (ReleaseState.INACTIVE, None)


@pytest.mark.parametrize("code", [0, 3])
def test_database_refuses_a_code_that_is_not_negative(code):
    (row,) = some({"held": True})
    with pytest.raises(IntegrityError, match="workunit_hold_code"), transaction.atomic():
        Workunit.objects.filter(pk=row.pk).update(hold_code=code)


def test_database_refuses_a_code_without_a_hold():
    free, held = some({}, {"hold_code": -7})
    with pytest.raises(IntegrityError, match="workunit_hold_code"), transaction.atomic():
        Workunit.objects.filter(pk=free.pk).update(hold_code=-7)
    with pytest.raises(IntegrityError, match="workunit_hold_code"), transaction.atomic():
        Workunit.objects.filter(pk=held.pk).update(release_state=ReleaseState.RELEASED)
