"""The table of legal moves is complete and consistent; random walks obey it."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scheduler import lifecycle
from scheduler.lifecycle import (
    ERROR_BITS,
    INITIAL,
    MOVES,
    NOTHING,
    STATES,
    Actor,
    AssimilateState,
    Axis,
    Because,
    ErrorMask,
    FileDeleteState,
    IllegalMove,
    Move,
    Outcome,
    ResultState,
    ServerState,
    ValidateState,
    check,
    edges,
    next_moves,
    sources,
    state_label,
)

#: States that no move leaves.
FINAL = {
    Axis.RESULT: {
        ResultState.COULDNT_SEND,
        ResultState.CLIENT_ERROR,
        ResultState.DIDNT_NEED,
        ResultState.VALIDATE_ERROR,
        ResultState.CLIENT_DETACHED,
    },
    # VALID and INVALID are not final: staff can have results validated again.
    Axis.VALIDATION: {
        ValidateState.NO_CHECK,
        ValidateState.TOO_LATE,
    },
}


#: Axis -> the actors that can move along it.
ACTORS = {
    Axis.RESULT: {
        Actor.SCHEDULER,
        Actor.TRANSITIONER,
        Actor.TIMEOUT_CHECKER,
        Actor.VALIDATOR,
    },
    Axis.VALIDATION: {Actor.SCHEDULER, Actor.TRANSITIONER, Actor.VALIDATOR},
    Axis.RESULT_FILES: {Actor.SCHEDULER, Actor.TRANSITIONER, Actor.FILE_DELETER},
    Axis.WORKUNIT: {Actor.SUBMITTER, Actor.TRANSITIONER, Actor.VALIDATOR},
    Axis.RELEASE: {Actor.SUBMITTER, Actor.TRANSITIONER, Actor.STAFF},
    Axis.ASSIMILATION: {Actor.TRANSITIONER, Actor.ASSIMILATOR, Actor.STAFF},
    Axis.WORKUNIT_FILES: {Actor.TRANSITIONER, Actor.FILE_DELETER},
}


@pytest.mark.parametrize("axis", list(Axis))
def test_each_axis_has_its_own_states_and_actors(axis):
    moves = [move for move in MOVES if move.axis is axis]
    states = {int(state) for state in STATES[axis]}
    assert {int(move.target) for move in moves} <= states
    assert {int(move.source) for move in moves} - {NOTHING} <= states
    assert {move.by for move in moves} == ACTORS[axis]


def test_each_transition_has_one_actor_except_the_listed_ones():
    actors = {}
    for move in MOVES:
        actors.setdefault((move.axis, move.source, move.target), set()).add(move.by)
    assert {edge: found for edge, found in actors.items() if len(found) > 1} == {
        # A broadcast result is made when a host asks for work.
        (Axis.RESULT, NOTHING, ResultState.UNSENT): {Actor.TRANSITIONER, Actor.SCHEDULER},
        # A reported error needs no comparison.
        (Axis.VALIDATION, ValidateState.INIT, ValidateState.INVALID): {
            Actor.SCHEDULER,
            Actor.VALIDATOR,
        },
        # Staff gives up workunits that the assimilator never takes.
        (Axis.ASSIMILATION, AssimilateState.READY, AssimilateState.DONE): {
            Actor.ASSIMILATOR,
            Actor.STAFF,
        },
    }


@pytest.mark.parametrize("axis", list(Axis))
def test_every_state_is_reachable_from_an_initial_state(axis):
    reached = {int(state) for state in INITIAL[axis]}
    while True:
        further = {move.target for s in reached for move in next_moves(axis, s)} - reached
        if not further:
            break
        reached |= further
    assert reached == {int(state) for state in STATES[axis]}


@pytest.mark.parametrize("axis", sorted(FINAL))
def test_no_move_leaves_a_final_state(axis):
    final = {state for state in STATES[axis] if not next_moves(axis, state)}
    assert final == FINAL[axis]


def test_no_move_has_two_actors():
    owners = {}
    for move in MOVES:
        key = (move.axis, move.source, move.target, move.because)
        assert owners.setdefault(key, move.by) is move.by


@pytest.mark.parametrize(
    ("axis", "target", "by"),
    [
        (Axis.RESULT, ResultState.NO_REPLY, Actor.TIMEOUT_CHECKER),
        (Axis.RESULT, ResultState.VALIDATE_ERROR, Actor.VALIDATOR),
        (Axis.VALIDATION, ValidateState.VALID, Actor.VALIDATOR),
        (Axis.VALIDATION, ValidateState.TOO_LATE, Actor.TRANSITIONER),
        (Axis.RESULT_FILES, FileDeleteState.DONE, Actor.FILE_DELETER),
        (Axis.WORKUNIT, lifecycle.WorkunitState.CANONICAL, Actor.VALIDATOR),
        (Axis.WORKUNIT, lifecycle.WorkunitState.FAILED, Actor.TRANSITIONER),
        (Axis.WORKUNIT, lifecycle.WorkunitState.COMPLETE, Actor.TRANSITIONER),
    ],
)
def test_state_is_set_by_one_actor_only(axis, target, by):
    assert {move.by for move in MOVES if move.axis is axis and move.target == target} == {by}


def test_assimilation_ends_by_the_assimilator_by_staff_or_for_groups():
    done = lifecycle.AssimilateState.DONE
    ways = {
        (move.by, move.because)
        for move in MOVES
        if move.axis is Axis.ASSIMILATION and move.target == done
    }
    assert ways == {
        (Actor.ASSIMILATOR, lifecycle.Because.ASSIMILATED),
        (Actor.STAFF, lifecycle.Because.GIVEN_UP),
        (Actor.TRANSITIONER, lifecycle.Because.DEPENDENCIES_MET),
        (Actor.TRANSITIONER, lifecycle.Because.WORKUNIT_FAILED),
    }


def test_state_codes_are_those_of_boinc():
    assert [s.value for s in ServerState] == [1, 2, 4, 5]
    assert [o.value for o in Outcome] == list(range(8))
    assert [v.value for v in ValidateState] == list(range(6))
    assert [f.value for f in FileDeleteState] == list(range(4))
    boincs = [bit.value for bit in ErrorMask if bit.value <= 32]
    assert boincs == [1, 2, 4, 8, 16, 32]


def test_result_state_combines_server_state_and_outcome():
    init = Outcome.INIT
    assert {(s.name, s.value, s.server_state, s.outcome) for s in ResultState} == {
        ("INACTIVE", 10, ServerState.INACTIVE, init),
        ("UNSENT", 20, ServerState.UNSENT, init),
        ("IN_PROGRESS", 40, ServerState.IN_PROGRESS, init),
        ("SUCCESS", 51, ServerState.OVER, Outcome.SUCCESS),
        ("COULDNT_SEND", 52, ServerState.OVER, Outcome.COULDNT_SEND),
        ("CLIENT_ERROR", 53, ServerState.OVER, Outcome.CLIENT_ERROR),
        ("NO_REPLY", 54, ServerState.OVER, Outcome.NO_REPLY),
        ("DIDNT_NEED", 55, ServerState.OVER, Outcome.DIDNT_NEED),
        ("VALIDATE_ERROR", 56, ServerState.OVER, Outcome.VALIDATE_ERROR),
        ("CLIENT_DETACHED", 57, ServerState.OVER, Outcome.CLIENT_DETACHED),
    }


def test_late_report_is_accepted_but_not_after_the_host_detached():
    assert ResultState.SUCCESS in {m.target for m in next_moves(Axis.RESULT, ResultState.NO_REPLY)}
    assert next_moves(Axis.RESULT, ResultState.CLIENT_DETACHED) == ()


def test_late_files_can_be_deleted_again_and_failed_deletions_retried():
    assert (FileDeleteState.DONE, FileDeleteState.READY) in edges(Axis.RESULT_FILES)
    assert (FileDeleteState.ERROR, FileDeleteState.DONE) in edges(Axis.WORKUNIT_FILES)


def test_every_failure_reason_has_an_error_bit_and_a_move():
    failures = {m.because for m in MOVES if m.target == 3 and m.axis is Axis.WORKUNIT}
    assert failures == set(ERROR_BITS)
    assert len(set(ERROR_BITS.values())) == len(ERROR_BITS)


def test_every_reason_is_used_by_a_move():
    assert {move.because for move in MOVES} == set(Because)


def test_illegal_move_is_refused_with_the_names_of_its_states():
    with pytest.raises(IllegalMove, match="OVER/SUCCESS→IN_PROGRESS"):
        check(
            Move(
                Axis.RESULT,
                ResultState.SUCCESS,
                ResultState.IN_PROGRESS,
                Because.SENT,
                Actor.SCHEDULER,
            )
        )


def test_legal_transition_by_the_wrong_actor_is_refused():
    legal = next(iter(next_moves(Axis.RESULT, ResultState.UNSENT)))
    with pytest.raises(IllegalMove):
        check(Move(legal.axis, legal.source, legal.target, legal.because, Actor.STAFF))


def test_source_states_are_derived_from_the_table():
    assert sources(Axis.RESULT, ResultState.SUCCESS) == (40, 54)
    assert sources(Axis.RESULT_FILES, FileDeleteState.DONE) == (1, 3)
    assert sources(Axis.RESULT, ResultState.DIDNT_NEED, Actor.VALIDATOR) == ()


@given(st.sampled_from(list(Axis)), st.data())
def test_random_walk_uses_only_moves_of_the_table(axis, data):
    state = int(data.draw(st.sampled_from(INITIAL[axis])))
    for _ in range(20):
        moves = next_moves(axis, state)
        if not moves:
            break
        move = data.draw(st.sampled_from(moves))
        check(move)
        assert (move.source, move.target) in edges(axis)
        assert move.source in sources(axis, move.target, move.by)
        assert state_label(axis, move.target) != "nothing"
        state = int(move.target)
    assert state in set(STATES[axis])


def test_creation_is_not_an_edge_between_states():
    assert all(source != NOTHING for source, _ in edges(Axis.RESULT))


@pytest.mark.parametrize(
    ("moves", "fault"),
    [
        ((MOVES[0], MOVES[0]), "is listed twice"),
        (MOVES[1:4], "is never reached"),
        (
            (
                *MOVES,
                Move(
                    Axis.RESULT,
                    ResultState.UNSENT,
                    ResultState.IN_PROGRESS,
                    Because.SENT,
                    Actor.STAFF,
                ),
            ),
            "has the owners",
        ),
    ],
)
def test_fault_in_the_move_table_is_detected(moves, fault):
    assert any(fault in said for said in lifecycle._faults(moves))
