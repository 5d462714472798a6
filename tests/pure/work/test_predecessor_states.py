"""The states of TDF, TDF2, Eve and Disbatch follow from a workunit's axes."""

from __future__ import annotations

from itertools import pairwise

import pytest

from scheduler.lifecycle import AssimilateState, ErrorMask, ReleaseState
from scheduler.results.facts import WorkunitFacts
from scheduler.work.rules.predecessor_states import (
    EVE_CHANGES,
    DisbatchStatus,
    EveState,
    Tdf2State,
    TdfState,
    disbatch_status,
    disbatch_status_of,
    eve_state,
    tdf2_state,
    tdf2_state_of,
    tdf_state,
)
from tests.builders import a_result, a_workunit, later
from tests.conftest import NOON

DONE = {"canonical_result_id": 1}
ARCHIVED = {"assimilate_state": AssimilateState.DONE}
M = ErrorMask


def one_at_a_time(results: str = "", **fields: object) -> WorkunitFacts:
    """A workunit as the older systems have it: one result at a time, quorum 1."""
    return a_workunit(results, **{"min_quorum": 1, "target_nresults": 1} | fields)


def failed(*bits: ErrorMask, **fields: object) -> dict[str, object]:
    return {"error_mask": int(sum(bits)), **fields}


@pytest.mark.parametrize(
    ("results", "fields", "state"),
    [
        # T-1, the main states.
        ("", {}, "open"),
        ("unsent", {}, "open"),
        ("inactive", {"release_state": ReleaseState.HELD}, "open"),
        ("unsent", {"start_after": later(hours=1)}, "open"),
        ("sent", {}, "running"),
        ("success", {"need_validate": True}, "executed"),
        ("inconclusive", {}, "executed"),
        ("error", {}, "executed"),
        ("unreadable", {}, "executed"),
        ("valid", {**DONE, **ARCHIVED}, "archived"),
        ("error", failed(M.TOO_MANY_ERROR_RESULTS, **ARCHIVED), "archived"),
        # T-2, the intermediate states.
        ("noreply", failed(M.TOO_MANY_TIMEOUTS), "timed_out"),
        ("unneeded", failed(M.EXPIRED), "expired"),
        ("error", failed(M.EXPIRED, M.TOO_MANY_ERROR_RESULTS), "expired"),
        ("valid", DONE, "succeeded"),
        ("error", failed(M.TOO_MANY_ERROR_RESULTS), "failed"),
        ("unneeded", failed(M.CANCELLED), "failed"),
        # Re-opened: T-8 after a time-out, T-11 after a failure.
        ("noreply", {}, "open"),
        ("noreply unsent", {}, "open"),
        ("noreply sent", {}, "running"),
        ("error unsent", {}, "open"),
        ("error sent", {}, "running"),
        ("error success", {}, "executed"),
        ("aborted", {}, "open"),
        # Two replicas: executed as soon as one was reported.
        ("sent success", {}, "executed"),
        ("sent error", {}, "running"),
    ],
)
def test_the_state_of_tdf(results: str, fields: dict[str, object], state: str):
    assert tdf_state(one_at_a_time(results, **fields)) == TdfState(state)


@pytest.mark.parametrize(
    ("results", "fields", "state"),
    [
        # T2-19
        ("", {}, "new"),
        ("inactive", {"release_state": ReleaseState.HELD}, "new"),
        ("unsent", {}, "open"),
        ("sent", {}, "running"),
        ("success", {}, "closed"),
        ("error", {}, "closed"),
        ("valid", DONE, "completed"),
        ("valid", {**DONE, **ARCHIVED}, "completed_archive"),
        ("error", failed(M.TOO_MANY_ERROR_RESULTS), "failed_count"),
        ("error", failed(M.TOO_MANY_ERROR_RESULTS, **ARCHIVED), "failed_count"),
        ("error", failed(M.EXPIRED), "failed_time"),
        ("unneeded", failed(M.CANCELLED), "failed"),
        # C12: the count has precedence over the time.
        ("error", failed(M.EXPIRED, M.TOO_MANY_ERROR_RESULTS), "failed_count"),
        # T2-21, T2-22: a new result takes the place of a time-out or a failure.
        ("noreply unsent", {}, "open"),
        ("error unsent", {}, "open"),
    ],
)
def test_the_state_of_tdf2(results: str, fields: dict[str, object], state: str):
    assert tdf2_state(one_at_a_time(results, **fields)) == Tdf2State(state)


@pytest.mark.parametrize(
    ("results", "fields", "states"),
    [
        ("error unsent", {}, "failed_archive open"),
        ("error error sent", {}, "failed_archive failed_archive running"),
        ("error valid", {"canonical_result_id": 2}, "failed_archive completed"),
        ("error error", failed(M.TOO_MANY_ERROR_RESULTS), "failed_archive failed_count"),
        # A success that was found invalid is a failed attempt, in whatever order.
        ("invalid valid", {"canonical_result_id": 2}, "failed_archive completed"),
        ("valid invalid", DONE, "completed failed_archive"),
        ("valid error", DONE, "completed failed_archive"),
        ("invalid unsent", {}, "failed_archive open"),
        ("noreply error", failed(M.EXPIRED), "failed_archive failed_time"),
        ("valid valid", {**DONE, **ARCHIVED}, "completed_archive completed_archive"),
        ("success sent", {}, "closed closed"),
        ("sent unsent", {}, "running running"),
        ("inactive unsent", {}, "new open"),
    ],
)
def test_an_attempt_of_tdf2_that_failed_is_archived_when_it_is_replaced(
    results: str, fields: dict[str, object], states: str
):
    workunit = one_at_a_time(results, **fields)
    derived = [tdf2_state_of(result, workunit) for result in workunit.results]
    assert derived == [Tdf2State(word) for word in states.split()]


@pytest.mark.parametrize(
    ("results", "fields", "state"),
    [
        ("", {"release_state": ReleaseState.INACTIVE, "pending_dependency_count": 2}, "inactive"),
        ("inactive", {"release_state": ReleaseState.HELD}, "inactive"),
        ("unsent", {"start_after": later(seconds=1)}, "inactive"),
        ("unsent", {"start_after": NOON}, "available"),
        ("", {}, "available"),
        ("unsent", {}, "available"),
        ("sent", {}, "running"),
        ("success", {}, "running"),
        ("error unsent", {}, "available"),
        ("valid", DONE, "terminated"),
        ("error", failed(M.TOO_MANY_ERROR_RESULTS), "terminated"),
        # Cancellation: C23, E-17, E-18, E-19 and C26.
        ("unsent", {"cancel_requested_at": NOON}, "cancelled"),
        ("unneeded", failed(M.CANCELLED), "cancelled"),
        ("unneeded", failed(M.DEPENDENCY_FAILED), "cancelled"),
        ("sent", {"cancel_requested_at": NOON}, "pending_cancellation"),
        ("sent", failed(M.CANCELLED), "pending_cancellation"),
        ("error", failed(M.CANCELLED), "cancelled"),
        ("noreply", failed(M.CANCELLED), "cancelled"),
        ("nocheck", failed(M.CANCELLED), "terminated"),
        ("valid", {**DONE, "cancel_requested_at": NOON}, "terminated"),
    ],
)
def test_the_state_of_eve(results: str, fields: dict[str, object], state: str):
    assert eve_state(one_at_a_time(results, **fields), now=NOON) == EveState(state)


@pytest.mark.parametrize(
    "lives",
    [
        # One workunit, moved by the law from row to row: E-24.
        (("", {"release_state": ReleaseState.INACTIVE}), ("unsent", {}), ("sent", {})),
        (("sent", {}), ("error", {}), ("error unsent", {}), ("error sent", {})),
        (("sent", {}), ("success", {}), ("valid", DONE), ("valid", {**DONE, **ARCHIVED})),
        (("sent", {}), ("error", {}), ("error", failed(M.TOO_MANY_ERROR_RESULTS))),
        (("sent", {}), ("sent", failed(M.CANCELLED)), ("error", failed(M.CANCELLED))),
        (("sent", {}), ("sent", failed(M.CANCELLED)), ("nocheck", failed(M.CANCELLED))),
        (("", {"release_state": ReleaseState.INACTIVE}), ("", failed(M.CANCELLED))),
        (("unsent", {}), ("unneeded", failed(M.CANCELLED)), ("unneeded", failed(M.CANCELLED))),
    ],
)
def test_a_life_makes_only_the_changes_that_eve_allows(lives):
    states = [eve_state(one_at_a_time(words, **more), now=NOON) for words, more in lives]
    changes = [pair for pair in pairwise(states) if pair[0] != pair[1]]
    assert changes
    assert all(after in EVE_CHANGES[before] for before, after in changes)


@pytest.mark.parametrize(
    ("results", "fields", "status"),
    [
        # D-17
        ("noreply", failed(M.TOO_MANY_TIMEOUTS), -6),
        ("noreply", {}, -6),
        ("detached", {}, -6),
        ("unneeded", failed(M.CANCELLED), -5),
        ("unneeded", failed(M.DEPENDENCY_FAILED), -5),
        ("unsent", {"cancel_requested_at": NOON}, -5),
        ("inactive", {"release_state": ReleaseState.HELD}, -4),
        ("aborted", {}, -3),
        ("", {}, -2),
        ("unsent", {}, -2),
        ("error unsent", {}, -2),
        ("noreply unsent", {}, -2),
        ("sent", {}, -1),
        ("success", {}, 0),
        ("valid", DONE, 1),
        ("error", failed(M.TOO_MANY_ERROR_RESULTS), 2),
        ("error", failed(M.EXPIRED), 2),
        ("sent", {"release_state": ReleaseState.HELD}, -1),
    ],
)
def test_the_status_of_disbatch(results: str, fields: dict[str, object], status: int):
    assert disbatch_status(one_at_a_time(results, **fields)) == status


def test_a_result_that_its_host_confirmed_is_running_in_disbatch():
    workunit = a_workunit("sent sent")
    assert disbatch_status(workunit) == DisbatchStatus.CLAIMED
    assert disbatch_status(workunit, acknowledged={2}) == DisbatchStatus.RUNNING


@pytest.mark.parametrize(
    ("word", "status"),
    [
        ("inactive", -4),
        ("unsent", -2),
        ("sent", -1),
        ("success", 1),
        ("valid", 1),
        ("invalid", 2),
        ("error", 2),
        ("unreadable", 2),
        ("unsendable", 2),
        ("aborted", -3),
        ("noreply", -6),
        ("detached", -6),
        ("unneeded", -5),
    ],
)
def test_the_status_of_disbatch_of_one_result(word: str, status: int):
    assert disbatch_status_of(a_result(word), is_acknowledged=False) == status
