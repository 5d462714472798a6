"""The database itself refuses states and moves that the law does not name."""

from __future__ import annotations

from itertools import permutations, product

import pytest
from django.db import IntegrityError, connection, transaction

from scheduler.lifecycle import (
    INITIAL,
    MOVES,
    NO_RESULT,
    STATES,
    Actor,
    Axis,
    Outcome,
    ResultState,
    ServerState,
    WorkunitState,
    edges,
)
from scheduler.models import LedgerEntry, Result, Workunit
from tests import rows
from tests.conftest import NOON

pytestmark = pytest.mark.django_db

#: Axis -> its column, for axes that are stored in one column.
COLUMNS = {
    Axis.VALIDATION: "validate_state",
    Axis.RESULT_FILES: "file_delete_state",
    Axis.RELEASE: "release_state",
    Axis.ASSIMILATION: "assimilate_state",
    Axis.WORKUNIT_FILES: "file_delete_state",
}


def a_row(axis):
    """Create a row whose CHECK constraints allow every state of the axis."""
    if axis in {Axis.RESULT, Axis.VALIDATION, Axis.RESULT_FILES}:
        return rows.a_result(rows.a_workunit(), "success")
    workunit = rows.a_workunit()
    if axis is Axis.ASSIMILATION:
        return rows.settled(workunit)
    if axis is Axis.WORKUNIT_FILES:
        return rows.settled(workunit, assimilate_state=2)
    return workunit


def columns(axis, state, row):
    """Return the values of the columns that store this state of an axis."""
    if axis is Axis.RESULT:
        return {"server_state": state // 10, "outcome": state % 10}
    if axis is Axis.WORKUNIT:
        result = row.results.first() or rows.a_result(row)
        canonical = {WorkunitState.CANONICAL: result.pk, WorkunitState.COMPLETE: NO_RESULT}
        return {
            "canonical_result_id": canonical.get(state),
            "is_group": state == WorkunitState.COMPLETE,
            "error_mask": 16 if state == WorkunitState.FAILED else 0,
        }
    return {COLUMNS[axis]: state}


def set_unguarded(row, **values):
    """Change columns without firing triggers; CHECK constraints still apply."""
    with connection.cursor() as cursor:
        cursor.execute("SET LOCAL session_replication_role = replica")
        type(row).objects.filter(pk=row.pk).update(**values)
        cursor.execute("SET LOCAL session_replication_role = origin")


def is_refused(act, reason):
    """Return whether the database refuses a call; raise other errors than for `reason`."""
    try:
        with transaction.atomic():
            act()
    except IntegrityError as error:
        if reason not in str(error):
            raise
        return True
    return False


@pytest.mark.parametrize("axis", list(Axis))
def test_the_database_refuses_every_illegal_move(axis):
    row = a_row(axis)
    table = type(row).objects.filter(pk=row.pk)
    taken = set()
    for source, target in permutations(map(int, STATES[axis]), 2):
        before, after = columns(axis, source, row), columns(axis, target, row)
        set_unguarded(row, **before)
        if not is_refused(lambda after=after: table.update(**after), "The law does not contain"):
            taken.add((source, target))
    assert taken == {(source, target) for source, target in edges(axis) if source != target}


@pytest.mark.parametrize("axis", [Axis.RESULT, Axis.RESULT_FILES, Axis.RELEASE])
def test_the_database_accepts_new_rows_only_in_initial_states(axis):
    workunit = rows.a_workunit()
    born = set()
    for number, state in enumerate(map(int, STATES[axis])):
        if axis is Axis.RELEASE:
            given = {"app": workunit.app, "name": f"born{number}", "created_at": NOON}
            model = Workunit
        else:
            given = {"workunit": workunit, "app": workunit.app, "name": f"born{number}"}
            given |= {"attempt": number, "created_at": NOON, "server_state": 2}
            given |= {"host": None, "account": None}
            model = Result
        given |= columns(axis, state, workunit)
        if state == ResultState.IN_PROGRESS:
            host = rows.a_host()
            given |= {"host": host, "account": host.account}
            given |= {"sent_at": NOON, "report_deadline": NOON}
        if not is_refused(lambda m=model, g=given: m.objects.create(**g), "to start in state"):
            born.add(state)
    assert born == {int(state) for state in INITIAL[axis]}


def test_the_ledger_accepts_a_move_only_by_its_legal_actor():
    workunit = rows.a_workunit()
    result = rows.a_result(workunit)
    taken = set()
    for move, by in product(MOVES, Actor):
        entry = {
            "at": NOON,
            "workunit_id": workunit.pk,
            "result_id": result.pk,
            "axis": move.axis,
            "source": move.source,
            "target": move.target,
            "because": move.because,
            "by": by,
        }
        write = lambda entry=entry: LedgerEntry.objects.create(**entry)  # noqa: E731
        if not is_refused(write, "The law does not contain"):
            taken.add((move, by))
    assert taken == {(move, move.by) for move in MOVES}


def test_the_database_accepts_an_outcome_only_for_results_that_are_over():
    row = a_row(Axis.RESULT)
    taken = {
        (server_state, outcome)
        for server_state, outcome in product(ServerState, Outcome)
        if not is_refused(
            lambda s=server_state, o=outcome: set_unguarded(row, server_state=s, outcome=o),
            "result_has_an_outcome_when_over",
        )
    }
    assert taken == {(state.server_state, state.outcome) for state in ResultState}
