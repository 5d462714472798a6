"""Builders of facts with default values, for tests of rules without a database."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

from scheduler.lifecycle import (
    AssimilateState,
    FileDeleteState,
    Outcome,
    ReleaseState,
    ServerState,
    ValidateState,
)
from scheduler.results.facts import ResultFacts, WorkunitFacts
from tests.conftest import NOON

#: State of a result, as tests name it -> its server state, outcome and validate state.
WORDS: dict[str, tuple[ServerState, Outcome, ValidateState]] = {
    "inactive": (ServerState.INACTIVE, Outcome.INIT, ValidateState.INIT),
    "unsent": (ServerState.UNSENT, Outcome.INIT, ValidateState.INIT),
    "sent": (ServerState.IN_PROGRESS, Outcome.INIT, ValidateState.INIT),
    "success": (ServerState.OVER, Outcome.SUCCESS, ValidateState.INIT),
    "valid": (ServerState.OVER, Outcome.SUCCESS, ValidateState.VALID),
    "invalid": (ServerState.OVER, Outcome.SUCCESS, ValidateState.INVALID),
    "inconclusive": (ServerState.OVER, Outcome.SUCCESS, ValidateState.INCONCLUSIVE),
    "nocheck": (ServerState.OVER, Outcome.SUCCESS, ValidateState.NO_CHECK),
    "toolate": (ServerState.OVER, Outcome.SUCCESS, ValidateState.TOO_LATE),
    "unsendable": (ServerState.OVER, Outcome.COULDNT_SEND, ValidateState.INIT),
    "error": (ServerState.OVER, Outcome.CLIENT_ERROR, ValidateState.INVALID),
    "aborted": (ServerState.OVER, Outcome.CLIENT_ERROR, ValidateState.INVALID),
    "noreply": (ServerState.OVER, Outcome.NO_REPLY, ValidateState.INIT),
    "unneeded": (ServerState.OVER, Outcome.DIDNT_NEED, ValidateState.INIT),
    "unreadable": (ServerState.OVER, Outcome.VALIDATE_ERROR, ValidateState.INVALID),
    "detached": (ServerState.OVER, Outcome.CLIENT_DETACHED, ValidateState.INIT),
}


def a_result(word: str = "unsent", *, number: int = 1, **fields: Any) -> ResultFacts:
    """Return a result in the state named by `word`, with id `number` and attempt `number` - 1."""
    server_state, outcome, validate_state = WORDS[word]
    was_sent = server_state == ServerState.IN_PROGRESS or outcome not in {
        Outcome.INIT,
        Outcome.DIDNT_NEED,
        Outcome.COULDNT_SEND,
    }
    facts = ResultFacts(
        id=number,
        workunit_id=1,
        name=f"wu_{number - 1}",
        attempt=number - 1,
        server_state=server_state,
        outcome=outcome,
        validate_state=validate_state,
        file_delete_state=FileDeleteState.INIT,
        exit_status=203 if word == "aborted" else 0,
        report_deadline=NOON + timedelta(days=1) if was_sent else None,
        credit_deadline=NOON + timedelta(days=2) if was_sent else None,
    )
    return replace(facts, **fields)


def a_workunit(results: str = "", **fields: Any) -> WorkunitFacts:
    """Return a workunit of quorum 2 with a result for each word in `results`, with ids from 1."""
    facts = WorkunitFacts(
        id=1,
        name="wu",
        app_id=1,
        priority=0,
        min_quorum=2,
        target_nresults=2,
        max_error_results=3,
        max_total_results=10,
        max_success_results=6,
        max_timeouts=None,
        hr_class=0,
        app_version_id=None,
        start_after=None,
        start_before=None,
        end_before=None,
        release_state=ReleaseState.RELEASED,
        pending_dependency_count=0,
        cancel_requested_at=None,
        error_mask=0,
        need_validate=False,
        canonical_result_id=None,
        assimilate_state=AssimilateState.INIT,
        file_delete_state=FileDeleteState.INIT,
        transition_at=NOON,
        results=tuple(
            a_result(word, number=number) for number, word in enumerate(results.split(), start=1)
        ),
    )
    return replace(facts, **fields)


def with_result(workunit: WorkunitFacts, number: int, **fields: Any) -> WorkunitFacts:
    """Return a copy of the workunit in which the result with this id has other fields."""
    return replace(
        workunit,
        results=tuple(
            replace(result, **fields) if result.id == number else result
            for result in workunit.results
        ),
    )


def later(**duration: float) -> datetime:
    """Return NOON plus a duration."""
    return NOON + timedelta(**duration)
