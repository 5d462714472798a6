"""Rounds are numbered and dated as in TDF, for one replica and for several."""

from __future__ import annotations

from datetime import datetime
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scheduler.lifecycle import AssimilateState, Axis, ErrorMask, WorkunitState
from scheduler.work.facts import Attempt, MoveFacts, UsageFacts
from scheduler.work.rules import rounds
from scheduler.work.rules.rounds import Round, cpu_utilization, number_rounds
from tests.builders import WORDS, a_workunit, later
from tests.conftest import NOON

REPORTED = {"success", "valid", "invalid", "inconclusive", "error", "aborted", "unreadable"}
#: As clients report it, with a message of their own.
STDERR = "<message>\nexited with code 3\n</message><stderr_txt>\nerrors of {}\n</stderr_txt>"
NEVER_SENT = {"inactive", "unsent", "unneeded", "unsendable"}


def an_attempt(word: str, number: int = 0, **fields: Any) -> Attempt:
    """Return attempt `number`: created at its hour, sent after 10 minutes, reported after 20."""
    server_state, outcome, validate_state = WORDS[word]
    values: dict[str, Any] = {
        "id": number + 1,
        "name": f"wu_{number}",
        "attempt": number,
        "server_state": server_state,
        "outcome": outcome,
        "validate_state": validate_state,
        "exit_status": 203 if word == "aborted" else 0,
        "host_id": None if word in NEVER_SENT else 1,
        "created_at": later(hours=number),
        "sent_at": None if word in NEVER_SENT else later(hours=number, minutes=10),
        "acknowledged_at": None,
        "report_deadline": None,
        "received_at": later(hours=number, minutes=20) if word in REPORTED else None,
        "fraction_done": 0.0,
        "cpu_time": 0.0,
        "elapsed_time": 0.0,
        "peak_working_set_bytes": 0.0,
        "stderr": STDERR.format(number) if word == "error" else "",
    }
    return Attempt(**values | fields)


def attempts(words: str) -> list[Attempt]:
    return [an_attempt(word, number) for number, word in enumerate(words.split())]


def numbers(numbered: tuple[Round, ...]) -> list[tuple[int, int]]:
    return [(entry.replica, entry.index) for entry in numbered]


def at(**duration: float) -> float:
    return later(**duration).timestamp()


@pytest.mark.parametrize(
    ("words", "replicas", "expected"),
    [
        ("", 1, []),
        ("sent", 1, [(0, 0)]),
        # A round for each failure and each time-out.
        ("error noreply error sent", 1, [(0, 0), (0, 1), (0, 2), (0, 3)]),
        ("unreadable valid", 1, [(0, 0), (0, 1)]),
        # An attempt that a volunteer aborted or that a host lost is replaced within its round.
        ("aborted detached unsent", 1, [(0, 0), (0, 0), (0, 0)]),
        ("error aborted sent", 1, [(0, 0), (0, 1), (0, 1)]),
        # Two replicas: the second attempt is no second round (C16).
        ("sent sent", 2, [(0, 0), (1, 0)]),
        ("error sent sent", 2, [(0, 0), (1, 0), (0, 1)]),
        ("success noreply sent", 2, [(0, 0), (1, 0), (1, 1)]),
        # A success that agrees with no other gets a further replica, not a round.
        ("inconclusive inconclusive sent", 2, [(0, 0), (1, 0), (2, 0)]),
    ],
)
def test_round_is_the_number_of_failures_and_timeouts_before(words, replicas, expected):
    assert numbers(number_rounds(attempts(words), replicas=replicas)) == expected


def test_attempt_that_was_created_before_a_failure_is_not_its_replacement():
    tied = [
        an_attempt("error", 0, received_at=later(hours=5)),
        an_attempt("error", 1),
        an_attempt("sent", 2),
    ]
    assert numbers(number_rounds(tied, replicas=2)) == [(0, 0), (1, 0), (1, 1)]


@given(st.lists(st.sampled_from(["error", "noreply", "detached", "aborted"]), max_size=8))
def test_round_of_a_single_replica_equals_failures_plus_timeouts(words):
    numbered = number_rounds(attempts(" ".join([*words, "sent"])), replicas=1)
    counted = sum(word in {"error", "noreply"} for word in words)
    assert rounds.current_round(numbered) == counted
    assert all(after.index - before.index in {0, 1} for before, after in pairwise(numbered))


@pytest.mark.parametrize(
    ("word", "fails", "timeouts"),
    [
        ("error", 1, 0),
        ("unreadable", 1, 0),
        ("noreply", 0, 1),
        ("aborted", 0, 0),
        ("detached", 0, 0),
        ("valid", 0, 0),
        ("sent", 0, 0),
    ],
)
def test_failures_and_timeouts_are_those_that_count_toward_the_limits(word, fails, timeouts):
    attempt = an_attempt(word)
    assert (rounds.is_failure(attempt), rounds.is_timeout(attempt)) == (fails, timeouts)


def the_timeline(words: str, replica: int = 0, **options: Any) -> dict[str, float | str]:
    facts = {"min_quorum": 1, "target_nresults": 1} | options.pop("workunit", {})
    workunit = a_workunit(words, **facts)
    return rounds.timeline(
        number_rounds(attempts(words), replicas=workunit.target_nresults),
        workunit,
        replica=replica,
        created_at=later(minutes=-1),
        **options,
    )


def test_timeline_has_the_time_of_each_state_and_the_texts_of_each_round():
    assert the_timeline("error noreply sent", outputs={1: "partial"}) == {
        "0:open": at(minutes=-1),
        "0:running": at(minutes=10),
        "0:executed": at(minutes=20),
        "0:output": "partial",
        "0:error": "errors of 0",
        "1:open": at(hours=1),
        "1:running": at(hours=1, minutes=10),
        "2:open": at(hours=2),
        "2:running": at(hours=2, minutes=10),
    }


def test_time_of_the_fourth_start_has_the_key_of_tdf():
    assert the_timeline("error error error sent")["3:running"] == at(hours=3, minutes=10)


def test_times_are_unix_times_with_milliseconds():
    moment = datetime.fromisoformat("2027-01-31T12:00:00.123456+00:00")
    assert rounds.unix(moment) == pytest.approx(1801396800.123, abs=1e-9)


def test_replaced_attempt_of_a_round_leaves_nothing_in_the_timeline():
    assert the_timeline("aborted sent", outputs={1: "stale"}) == {
        "0:open": at(hours=1),
        "0:running": at(hours=1, minutes=10),
    }


def test_replicas_have_timelines_of_their_own():
    two = {"workunit": {"target_nresults": 2}}
    assert the_timeline("error sent sent", replica=1, **two) == {
        "0:open": at(minutes=-1),
        "0:running": at(hours=1, minutes=10),
    }
    assert "1:running" in the_timeline("error sent sent", replica=0, **two)


def test_workunit_without_results_is_open_since_its_creation():
    assert the_timeline("") == {"0:open": at(minutes=-1)}


def a_move(axis: Axis, target: int, minute: int) -> MoveFacts:
    return MoveFacts(later(minutes=minute), None, axis, target)


@pytest.mark.parametrize(
    ("words", "workunit", "moved_to", "key"),
    [
        ("valid", {"canonical_result_id": 1}, WorkunitState.CANONICAL, "0:succeeded"),
        (
            "error error",
            {"error_mask": ErrorMask.TOO_MANY_ERROR_RESULTS},
            WorkunitState.FAILED,
            "1:failed",
        ),
        (
            "noreply",
            {"error_mask": ErrorMask.TOO_MANY_TIMEOUTS},
            WorkunitState.FAILED,
            "0:timed_out",
        ),
        ("unneeded", {"error_mask": ErrorMask.EXPIRED}, WorkunitState.FAILED, "0:expired"),
    ],
)
def test_end_and_archiving_have_the_times_of_the_ledger(words, workunit, moved_to, key):
    done = {**workunit, "assimilate_state": AssimilateState.DONE}
    moves = [
        a_move(Axis.WORKUNIT, WorkunitState.OPEN, 0),
        a_move(Axis.RESULT, 50, 40),
        a_move(Axis.WORKUNIT, moved_to, 45),
        a_move(Axis.ASSIMILATION, AssimilateState.READY, 45),
        a_move(Axis.ASSIMILATION, AssimilateState.DONE, 50),
    ]
    shown = the_timeline(words, workunit=done, moves=moves)
    archived = key.replace(key.partition(":")[2], "archived")
    assert (shown[key], shown[archived]) == (at(minutes=45), at(minutes=50))


def test_end_that_a_revalidation_took_back_is_not_in_the_timeline():
    moves = [
        a_move(Axis.WORKUNIT, WorkunitState.CANONICAL, 45),
        a_move(Axis.WORKUNIT, WorkunitState.OPEN, 46),
    ]
    assert "0:succeeded" not in the_timeline("success", moves=moves)
    assert set(the_timeline("success", moves=moves)) == {
        *("0:open", "0:running", "0:executed", "0:output", "0:error"),
    }


def test_cpu_utilization_is_the_cpu_time_per_second_since_the_sample_before():
    samples = [
        UsageFacts(NOON, cpu_time=30, elapsed_time=60),
        UsageFacts(NOON, memory_bytes=7),
        UsageFacts(NOON, cpu_time=210, elapsed_time=120),
        # The host restarted the program, or repeated a message.
        UsageFacts(NOON, cpu_time=5, elapsed_time=120),
        UsageFacts(NOON, cpu_time=35, elapsed_time=140),
    ]
    assert cpu_utilization(samples) == (0.5, None, 3.0, None, 1.5)


def test_reported_cpu_utilization_takes_precedence_over_the_times():
    samples = [
        UsageFacts(NOON, cpu_utilization=0.8),
        UsageFacts(NOON, cpu_time=30, elapsed_time=60, cpu_utilization=0),
        UsageFacts(NOON, cpu_time=60, elapsed_time=120),
    ]
    assert cpu_utilization(samples) == (0.8, 0, 0.5)
