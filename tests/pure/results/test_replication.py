"""The decisions of the transitioner about workunits."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from scheduler.lifecycle import (
    NOTHING,
    Actor,
    AssimilateState,
    Axis,
    Because,
    ErrorMask,
    FileDeleteState,
    Move,
    Outcome,
    ReleaseState,
    ResultState,
    ValidateState,
    check,
)
from scheduler.results.rules import replication
from scheduler.results.rules.replication import RECHECK_INTERVAL, judge
from tests.builders import WORDS, a_result, a_workunit, later, with_result
from tests.conftest import NOON

DAY = timedelta(days=1)


def said(verdict):
    """Return the verdict as text, in the form of the tables below."""
    words = [f"replicate {verdict.replicas}"] if verdict.replicas else []
    words += ["validate"] * verdict.validate
    words += [f"fail: {because.label}" for because in verdict.failures]
    return ", ".join(words) or "wait"


@pytest.mark.parametrize(
    ("results", "expected"),
    [
        ("", "replicate 2"),
        ("unsent", "replicate 1"),
        ("unsent unsent", "wait"),
        ("sent sent", "wait"),
        ("success sent", "wait"),
        ("success success", "validate"),
        ("success noreply", "replicate 1"),
        ("success detached", "replicate 1"),
        ("success aborted", "replicate 1"),
        ("error sent", "replicate 1"),
        ("error error", "replicate 2"),
        ("unreadable success sent", "wait"),
        ("invalid success sent", "wait"),
        ("inconclusive inconclusive", "replicate 1"),
        ("inconclusive inconclusive sent", "wait"),
        ("inconclusive inconclusive success", "validate"),
        ("inconclusive inconclusive inconclusive", "replicate 1"),
        ("error error error", "replicate 2"),
        ("error error error error", "fail: too many errors"),
        ("aborted aborted aborted aborted aborted", "replicate 2"),
        ("unsendable sent", "fail: unsendable"),
        ("success success noreply", "validate"),
    ],
)
def test_quorum_two_workunit_gets_the_expected_verdict_for_its_results(results, expected):
    assert said(judge(a_workunit(results), now=NOON)) == expected


@pytest.mark.parametrize("quorum", [1, 2, 3, 4, 5])
def test_results_are_created_up_to_the_quorum_and_validated_once_it_is_complete(quorum):
    def needed(results):
        workunit = a_workunit(results, min_quorum=quorum, target_nresults=quorum)
        return said(judge(workunit, now=NOON))

    assert needed("") == f"replicate {quorum}"
    assert needed("success " * (quorum - 1)) == "replicate 1"
    assert needed("success " * (quorum - 1) + "sent") == "wait"
    assert needed("success " * quorum) == "validate"


def test_workunit_that_waits_for_the_validator_is_not_marked_again():
    workunit = a_workunit("success success", need_validate=True)
    assert not judge(workunit, now=NOON).validate


@pytest.mark.parametrize(
    ("results", "limits", "expected"),
    [
        ("noreply", {"max_total_results": 3}, "replicate 2"),
        ("noreply", {"max_total_results": 2}, "fail: too many results"),
        ("noreply noreply", {"max_total_results": 3}, "fail: too many results"),
        ("success noreply", {"max_total_results": 3}, "replicate 1"),
        ("noreply noreply noreply", {"max_total_results": 3}, "fail: too many results"),
        ("success noreply noreply", {"max_total_results": 3}, "fail: too many results"),
        ("noreply noreply sent", {"max_total_results": 3}, "fail: too many results"),
        ("success noreply sent", {"max_total_results": 3}, "wait"),
        ("success success noreply", {"max_total_results": 3, "target_nresults": 3}, "validate"),
        (
            "inconclusive inconclusive",
            {"max_total_results": 2},
            "fail: too many results, fail: no two results agree",
        ),
        ("inconclusive inconclusive sent", {"max_total_results": 3}, "wait"),
        (
            "inconclusive inconclusive inconclusive",
            {"max_success_results": 2},
            "fail: too many successes, fail: no two results agree",
        ),
        ("inconclusive inconclusive", {"max_success_results": 2}, "replicate 1"),
        ("inconclusive inconclusive success", {"max_success_results": 2}, "validate"),
        ("noreply noreply", {"max_timeouts": 1}, "fail: too many timeouts"),
        ("noreply sent", {"max_timeouts": 1}, "replicate 1"),
        ("error", {"max_error_results": 0}, "fail: too many errors"),
    ],
)
def test_workunit_fails_once_it_cannot_finish_within_its_limits(results, limits, expected):
    assert said(judge(a_workunit(results, **limits), now=NOON)) == expected


def test_failed_workunit_cancels_unsent_results_and_does_not_validate_successes():
    verdict = judge(a_workunit("unsent sent success", cancel_requested_at=NOON), now=NOON)
    assert verdict.failures == (Because.CANCELLED,)
    assert verdict.error_mask == ErrorMask.CANCELLED
    assert verdict.assimilate is Because.WORKUNIT_FAILED
    assert [(m.result_id, m.target) for m in verdict.result_moves] == [
        (1, ResultState.DIDNT_NEED),
        (3, ValidateState.NO_CHECK),
    ]


def test_workunit_with_canonical_result_cancels_unsent_and_inactive_results():
    workunit = a_workunit("valid valid unsent inactive sent", canonical_result_id=1)
    verdict = judge(workunit, now=NOON)
    assert verdict.failures == ()
    assert [(m.result_id, m.source, m.target, m.because) for m in verdict.result_moves] == [
        (3, ResultState.UNSENT, ResultState.DIDNT_NEED, Because.CANONICAL_FOUND),
        (4, ResultState.INACTIVE, ResultState.DIDNT_NEED, Because.CANONICAL_FOUND),
    ]


def test_error_mask_has_every_failure_reason_and_the_move_has_the_first():
    workunit = a_workunit("error error error error", cancel_requested_at=NOON)
    verdict = judge(workunit, now=NOON)
    assert verdict.error_mask == ErrorMask.CANCELLED | ErrorMask.TOO_MANY_ERROR_RESULTS
    assert [move.because for move in verdict.workunit_moves] == [
        Because.CANCELLED,
        Because.WORKUNIT_FAILED,
    ]


def test_workunit_with_canonical_result_never_fails():
    workunit = a_workunit(
        "valid valid", canonical_result_id=1, cancel_requested_at=NOON, end_before=NOON
    )
    verdict = judge(workunit, now=NOON)
    assert verdict.failures == ()
    assert verdict.assimilate is Because.CANONICAL_FOUND


def test_success_of_a_failed_workunit_becomes_no_check():
    workunit = a_workunit("success error", error_mask=2, assimilate_state=AssimilateState.DONE)
    moves = judge(workunit, now=NOON).result_moves
    assert ValidateState.NO_CHECK in {m.target for m in moves if m.axis is Axis.VALIDATION}


@pytest.mark.parametrize(
    ("fields", "look_again_at"),
    [
        ({"start_after": later(hours=1)}, later(hours=1)),
        ({"start_after": later(hours=1), "end_before": later(minutes=5)}, later(minutes=5)),
        ({"release_state": ReleaseState.HELD}, later(days=10)),
        (
            {"release_state": ReleaseState.INACTIVE, "pending_dependency_count": 2},
            later(days=10),
        ),
    ],
)
def test_no_results_are_created_before_start_after_or_before_release(fields, look_again_at):
    verdict = judge(a_workunit(**fields), now=NOON)
    assert verdict.replicas == 0
    assert verdict.look_again_at == look_again_at


def test_a_workunit_whose_last_dependency_is_met_is_released_and_replicated():
    verdict = judge(a_workunit(release_state=ReleaseState.INACTIVE), now=NOON)
    assert verdict.release
    assert verdict.replicas == 2


def test_unsent_results_become_inactive_while_held_and_unsent_after_release():
    held = judge(a_workunit("unsent sent", release_state=ReleaseState.HELD), now=NOON)
    assert [(m.source, m.target) for m in held.result_moves] == [
        (ResultState.UNSENT, ResultState.INACTIVE)
    ]
    back = judge(a_workunit("inactive sent"), now=NOON)
    assert [(m.source, m.target) for m in back.result_moves] == [
        (ResultState.INACTIVE, ResultState.UNSENT)
    ]
    assert back.replicas == 0


def test_workunit_expires_at_end_before():
    assert judge(a_workunit("sent sent", end_before=NOON), now=NOON).failures == (Because.EXPIRED,)
    assert not judge(a_workunit("sent", end_before=later(seconds=1)), now=NOON).failures


IN_TIME, TOO_LATE = {"received_at": later(minutes=-1)}, {"received_at": NOON}


@pytest.mark.parametrize(
    ("results", "reports", "expires"),
    [
        ("success success", (IN_TIME, IN_TIME), False),
        ("success success", (IN_TIME, TOO_LATE), True),
        ("success sent", (IN_TIME, {}), True),
        ("success success error", (IN_TIME, IN_TIME, IN_TIME), False),
        ("success invalid", (IN_TIME, IN_TIME), True),
        # The validator compared them, and they disagree.
        ("inconclusive inconclusive", (IN_TIME, IN_TIME), True),
    ],
)
def test_successes_received_before_end_before_are_validated_after_it(results, reports, expires):
    workunit = a_workunit(results, end_before=NOON)
    for number, fields in enumerate(reports, start=1):
        workunit = with_result(workunit, number, **fields)
    verdict = judge(workunit, now=NOON)
    assert (Because.EXPIRED in verdict.failures) is expires
    assert (verdict.validate, verdict.replicas) == (not expires, 0)


def test_no_result_is_created_after_end_before_while_the_validator_works():
    workunit = a_workunit("success success", end_before=NOON, target_nresults=4, need_validate=True)
    for number in (1, 2):
        workunit = with_result(workunit, number, **IN_TIME)
    assert judge(workunit, now=NOON).replicas == 0
    assert judge(workunit, now=later(minutes=-1)).replicas == 2


def test_workunit_never_sent_expires_at_start_before():
    assert judge(a_workunit("unsent", start_before=NOON), now=NOON).failures == (Because.EXPIRED,)
    assert not judge(a_workunit("sent unsent", start_before=NOON), now=NOON).failures


def test_after_start_before_workunit_expires_once_no_result_can_become_canonical():
    for results in ("error unsent", "noreply", "success unsent", "inconclusive inconclusive"):
        workunit = a_workunit(results, start_before=NOON)
        assert Because.EXPIRED in judge(workunit, now=NOON).failures, results
    assert not judge(a_workunit("success success", start_before=NOON), now=NOON).failures
    assert not judge(a_workunit("error sent", start_before=NOON), now=NOON).failures


def test_started_workunit_is_checked_again_at_start_before():
    workunit = a_workunit("sent unsent", start_before=NOON + timedelta(hours=1))
    assert judge(workunit, now=NOON).look_again_at == NOON + timedelta(hours=1)


def test_host_class_and_version_are_reset_when_all_sent_results_ended_in_errors():
    assert judge(a_workunit("error unsent", hr_class=384), now=NOON).reset_class
    assert judge(a_workunit("error", app_version_id=7), now=NOON).reset_class
    assert not judge(a_workunit("error sent", hr_class=384), now=NOON).reset_class
    assert not judge(a_workunit("error noreply", hr_class=384), now=NOON).reset_class
    assert not judge(a_workunit("error"), now=NOON).reset_class


# Late results


def test_late_success_is_validated_while_the_canonical_outputs_are_kept():
    workunit = a_workunit(
        "valid valid success", canonical_result_id=1, assimilate_state=AssimilateState.DONE
    )
    verdict = judge(workunit, now=NOON)
    assert verdict.validate
    assert {m.result_id for m in verdict.result_moves} == {2}


@pytest.mark.parametrize(
    "state", [FileDeleteState.READY, FileDeleteState.DONE, FileDeleteState.ERROR]
)
def test_late_success_becomes_too_late_once_canonical_outputs_are_being_deleted(state):
    workunit = with_result(
        a_workunit("valid success", canonical_result_id=1), 1, file_delete_state=state
    )
    verdict = judge(workunit, now=NOON)
    assert not verdict.validate
    assert [(m.result_id, m.target) for m in verdict.result_moves] == [(2, ValidateState.TOO_LATE)]


# Files


def files_to_delete(workunit, now=NOON):
    moves = judge(workunit, now=now).result_moves
    return [m.result_id for m in moves if m.axis is Axis.RESULT_FILES]


def an_assimilated(results, **fields):
    return a_workunit(
        results, canonical_result_id=1, assimilate_state=AssimilateState.DONE, **fields
    )


def test_no_files_are_deleted_before_assimilation():
    workunit = a_workunit(
        "valid valid", canonical_result_id=1, assimilate_state=AssimilateState.READY
    )
    verdict = judge(workunit, now=NOON)
    assert not verdict.delete_inputs
    assert verdict.result_moves == ()


def test_all_files_are_deleted_once_all_results_are_over_and_assimilated():
    workunit = an_assimilated("valid valid error unneeded")
    assert judge(workunit, now=NOON).delete_inputs
    assert files_to_delete(workunit) == [1, 2, 3, 4]


def test_inputs_and_canonical_outputs_are_kept_while_a_result_is_in_progress():
    workunit = an_assimilated("valid valid sent")
    verdict = judge(workunit, now=NOON)
    assert not verdict.delete_inputs
    assert files_to_delete(workunit) == [2]


def test_canonical_outputs_are_kept_until_every_success_is_validated():
    assert files_to_delete(an_assimilated("valid valid success")) == [2]
    assert files_to_delete(an_assimilated("valid inconclusive")) == []
    assert files_to_delete(an_assimilated("valid valid sent")) == [2]
    assert files_to_delete(an_assimilated("valid valid invalid toolate")) == [1, 2, 3, 4]


def test_canonical_outputs_are_kept_while_a_late_result_can_still_get_credit():
    workunit = an_assimilated("valid valid noreply")
    verdict = judge(workunit, now=NOON)
    assert files_to_delete(workunit) == [2]
    assert verdict.delete_inputs
    assert verdict.look_again_at == NOON + 2 * DAY
    assert files_to_delete(workunit, now=NOON + 2 * DAY) == [1, 2, 3]


def test_output_files_of_a_failed_workunit_are_deleted():
    workunit = a_workunit(
        "nocheck error noreply", error_mask=16, assimilate_state=AssimilateState.DONE
    )
    assert files_to_delete(workunit) == [1, 2]
    assert judge(workunit, now=NOON).look_again_at == NOON + 2 * DAY


@pytest.mark.parametrize(
    ("received_at", "expected"),
    [(NOON + 2 * DAY, None), (later(days=2, seconds=1), ValidateState.TOO_LATE)],
)
def test_success_received_after_its_credit_deadline_is_too_late(received_at, expected):
    workunit = with_result(
        a_workunit("valid valid success", canonical_result_id=1), 3, received_at=received_at
    )
    verdict = judge(workunit, now=later(days=3))
    targets = [m.target for m in verdict.result_moves if m.axis is Axis.VALIDATION]
    assert targets == [expected] * (expected is not None)
    assert verdict.validate is (expected is None)


def test_late_success_is_validated_while_there_is_no_canonical_result():
    workunit = with_result(a_workunit("success success"), 2, received_at=later(days=9))
    assert said(judge(workunit, now=later(days=9))) == "validate"


def test_files_are_kept_for_the_apps_delete_delay_after_the_last_report():
    workunit = with_result(an_assimilated("valid valid"), 2, received_at=NOON)
    workunit = replace(workunit, delete_delay=3 * DAY)
    verdict = judge(workunit, now=later(days=2))
    assert (verdict.delete_inputs, verdict.result_moves) == (False, ())
    assert verdict.look_again_at == later(days=3)
    assert judge(workunit, now=later(days=3)).delete_inputs
    assert files_to_delete(workunit, now=later(days=3)) == [1, 2]


def test_only_the_canonical_outputs_are_kept_for_the_submitter():
    workunit = an_assimilated("valid valid error", outputs_kept=True)
    verdict = judge(workunit, now=NOON)
    assert files_to_delete(workunit) == [2, 3]
    assert verdict.delete_inputs
    assert verdict.look_again_at is None


def test_inputs_of_a_failed_workunit_are_kept_for_a_retry_while_outputs_are_kept():
    failed = a_workunit(
        "nocheck error", error_mask=2, assimilate_state=AssimilateState.DONE, outputs_kept=True
    )
    assert not judge(failed, now=NOON).delete_inputs
    assert files_to_delete(failed) == [1, 2]
    assert judge(replace(failed, outputs_kept=False), now=NOON).delete_inputs


def test_workunit_fails_when_a_batch_it_depends_on_has_failed():
    workunit = a_workunit(
        release_state=ReleaseState.INACTIVE, pending_dependency_count=1, dependency_failed_at=NOON
    )
    assert judge(workunit, now=NOON).failures == (Because.DEPENDENCY_FAILED,)


# Unsendable results


def test_workunit_fails_when_its_unsent_results_are_unsendable():
    workunit = a_workunit("unsent inactive sent", unsendable_at=NOON)
    verdict = judge(workunit, now=NOON)
    assert verdict.failures == (Because.UNSENDABLE,)
    assert verdict.error_mask == ErrorMask.COULDNT_SEND
    assert [(m.result_id, m.target, m.because) for m in verdict.result_moves] == [
        (1, ResultState.COULDNT_SEND, Because.UNSENDABLE),
        (2, ResultState.DIDNT_NEED, Because.WORKUNIT_FAILED),
    ]


def test_result_that_was_sent_after_all_is_not_given_up():
    assert not judge(a_workunit("sent sent", unsendable_at=NOON), now=NOON).failures


# Broadcast


BROADCAST = {"broadcast": True, "end_before": later(days=1), "min_quorum": 1, "max_timeouts": 0}


@pytest.mark.parametrize(
    ("results", "days", "expected"),
    [
        ("", 0, "wait"),
        ("success success sent", 0, "wait"),
        ("error error error error error noreply noreply", 0, "wait"),
        ("success sent error", 1, "validate"),
        ("", 1, "fail: expired"),
        ("sent error", 1, "fail: expired"),
        ("inconclusive inconclusive", 1, "fail: expired, fail: no two results agree"),
    ],
)
def test_broadcast_workunit_gets_no_replicas_and_is_decided_at_its_end(results, days, expected):
    workunit = a_workunit(results, **BROADCAST, max_total_results=2, max_success_results=2)
    assert said(judge(workunit, now=later(days=days))) == expected


def test_a_broadcast_workunit_can_be_cancelled():
    verdict = judge(a_workunit("sent", **BROADCAST, cancel_requested_at=NOON), now=NOON)
    assert verdict.failures == (Because.CANCELLED,)


# Validating again


def test_revalidation_resets_the_answer_and_all_validate_states():
    workunit = a_workunit(
        "valid inconclusive invalid error toolate unsent",
        canonical_result_id=1,
        assimilate_state=AssimilateState.READY,
        revalidate_requested_at=NOON,
    )
    verdict = judge(workunit, now=NOON)
    assert [move.because for move in verdict.workunit_moves] == [Because.REVALIDATION] * 2
    assert [(m.result_id, m.target) for m in verdict.result_moves] == [(1, 0), (2, 0), (3, 0)]
    assert verdict.look_again_at == NOON
    for move in verdict.workunit_moves:
        check(move)


@pytest.mark.parametrize(
    "fields",
    [
        {"error_mask": 2},
        {"canonical_result_id": 1, "assimilate_state": AssimilateState.DONE},
    ],
)
def test_failed_or_assimilated_workunit_is_not_revalidated(fields):
    verdict = judge(a_workunit("valid error", revalidate_requested_at=NOON, **fields), now=NOON)
    assert not verdict.reopen
    assert Because.REVALIDATION not in {m.because for m in verdict.result_moves}


# The safety net


@pytest.mark.parametrize(
    ("delay_bound", "expected"),
    [(None, 10), (timedelta(hours=1), 10), (timedelta(days=7), 10.5), (timedelta(days=20), 30)],
)
def test_open_workunit_is_checked_again_without_a_wakeup(delay_bound, expected):
    workunit = a_workunit("sent sent", delay_bound=delay_bound)
    assert judge(workunit, now=NOON).look_again_at == later(days=expected)


def test_settled_workunit_is_not_scheduled_for_another_check():
    assert judge(an_assimilated("valid valid"), now=NOON).look_again_at is None


# Limits, simulated from the first result to the last


def played(report, **limits):
    """Give each result the state `report` until the workunit fails.

    Successes never agree.  Returns the states of all results and the reasons of the failure.
    """
    workunit = a_workunit(**limits)
    for _ in range(60):
        verdict = judge(workunit, now=NOON)
        workunit = carried_out(verdict)
        if workunit.error_mask:
            return [word_of(r) for r in workunit.results], verdict.failures
        if workunit.need_validate:
            for result in workunit.results:
                if word_of(result) == "success":
                    workunit = with_result(workunit, result.id, validate_state=4)
            workunit = replace(workunit, need_validate=False)
            continue
        unsent = next(r for r in workunit.results if word_of(r) == "unsent")
        workunit = with_word(workunit, unsent.id, report)
    pytest.fail("it never settled")


def word_of(result):
    state = (result.server_state, result.outcome, result.validate_state)
    return next(word for word, known in WORDS.items() if tuple(map(int, known)) == state)


def with_word(workunit, number, word):
    known = a_result(word, number=number)
    return with_result(
        workunit,
        number,
        server_state=known.server_state,
        outcome=known.outcome,
        validate_state=known.validate_state,
        exit_status=known.exit_status,
    )


GENEROUS = {"max_error_results": 50, "max_total_results": 50, "max_success_results": 50}
limits = st.integers(0, 5)


@given(limits)
def test_workunit_fails_at_one_error_above_max_error_results(limit):
    had, failures = played("error", **GENEROUS | {"max_error_results": limit})
    assert had.count("error") == limit + 1
    assert failures == (Because.TOO_MANY_ERRORS,)


@given(limits)
def test_workunit_fails_at_one_timeout_above_max_timeouts(limit):
    had, failures = played("noreply", **GENEROUS, max_timeouts=limit)
    assert had.count("noreply") == limit + 1
    assert failures == (Because.TOO_MANY_TIMEOUTS,)


@given(st.integers(2, 5))
def test_workunit_fails_at_one_disagreeing_success_above_max_success_results(limit):
    had, failures = played("success", **GENEROUS | {"max_success_results": limit})
    assert had == ["nocheck"] * (limit + 1)
    assert failures == (Because.TOO_MANY_SUCCESSES, Because.NO_AGREEMENT)


@pytest.mark.parametrize("report", ["error", "aborted", "detached", "noreply"])
@given(limit=st.integers(2, 5))
def test_no_more_results_are_created_than_max_total_results(report, limit):
    had, failures = played(report, **GENEROUS | {"max_total_results": limit})
    assert len(had) == limit
    assert failures == (Because.TOO_MANY_RESULTS,)


@given(limits)
def test_aborted_and_detached_results_do_not_count_as_errors(limit):
    for report in ("aborted", "detached"):
        had, failures = played(
            report, **GENEROUS | {"max_error_results": limit, "max_total_results": 20}
        )
        assert len(had) == 20
        assert failures == (Because.TOO_MANY_RESULTS,)


# Properties


results_of_any_kind = st.builds(
    a_result,
    st.sampled_from(sorted(WORDS)),
    file_delete_state=st.sampled_from([int(state) for state in FileDeleteState]),
    credit_deadline=st.sampled_from([None, NOON - DAY, NOON + DAY]),
    received_at=st.sampled_from([None, NOON - 2 * DAY, NOON]),
)
maybe_times = st.sampled_from([None, None, NOON - DAY, NOON, NOON + DAY])


@st.composite
def workunits(draw):
    """Draw a workunit that the database's constraints allow."""
    results = tuple(
        replace(result, id=number, attempt=number - 1)
        for number, result in enumerate(draw(st.lists(results_of_any_kind, max_size=8)), start=1)
    )
    ending = draw(st.sampled_from(["open", "answer", "reason"]))
    answers = [r.id for r in results if r.validate_state == ValidateState.VALID]
    quorum = draw(st.integers(1, 3))
    target = quorum + draw(st.integers(0, 2))
    if not answers:
        ending = "reason" if ending == "answer" else ending
    elif ending == "open":
        ending = "answer"  # only the validator sets VALID, and with it the canonical result
    has_ended = (ending == "answer" and answers) or ending == "reason"
    assimilated = draw(st.sampled_from(list(AssimilateState))) if has_ended else 0
    is_done = assimilated == AssimilateState.DONE
    return replace(
        a_workunit(),
        min_quorum=quorum,
        target_nresults=target,
        max_error_results=draw(st.integers(0, 3)),
        max_total_results=target + draw(st.integers(0, 4)),
        max_success_results=target + draw(st.integers(0, 2)),
        max_timeouts=draw(st.sampled_from([None, 0, 2])),
        hr_class=draw(st.sampled_from([0, 384])),
        start_after=draw(maybe_times),
        start_before=draw(maybe_times),
        end_before=draw(maybe_times),
        # A workunit that has had results cannot become inactive.
        release_state=draw(st.sampled_from([s for s in ReleaseState if s > 1 or not results])),
        pending_dependency_count=draw(st.integers(0, 1)),
        cancel_requested_at=draw(maybe_times),
        canonical_result_id=answers[0] if ending == "answer" and answers else None,
        error_mask=2 if ending == "reason" else 0,
        need_validate=draw(st.booleans()),
        unsendable_at=draw(maybe_times),
        dependency_failed_at=draw(maybe_times),
        outputs_kept=draw(st.booleans()),
        all_tried=draw(st.sampled_from([None, None, False, True])),
        broadcast=draw(st.sampled_from([False, False, True])),
        delay_bound=draw(st.sampled_from([None, DAY, 20 * DAY])),
        delete_delay=draw(st.sampled_from([None, timedelta(hours=1), 3 * DAY])),
        assimilate_state=int(assimilated),
        file_delete_state=draw(st.sampled_from([0, 1, 2])) if is_done else 0,
        results=results,
    )


def carried_out(verdict):
    """Return the workunit of a verdict as it is after the verdict is written."""
    workunit = verdict.workunit
    results = {result.id: result for result in workunit.results}
    for move in verdict.result_moves:
        result = results[move.result_id]
        if move.axis is Axis.RESULT:
            state = ResultState(move.target)
            result = replace(result, server_state=state.server_state, outcome=state.outcome)
        elif move.axis is Axis.VALIDATION:
            result = replace(result, validate_state=move.target)
        else:
            result = replace(result, file_delete_state=move.target)
        results[move.result_id] = result
    first = len(results) + 1
    new = [a_result("unsent", number=first + extra) for extra in range(verdict.replicas)]
    return replace(
        workunit,
        results=(*results.values(), *new),
        error_mask=int(verdict.error_mask),
        # The request to give up is dropped if the result was sent in the meantime.
        unsendable_at=workunit.unsendable_at if verdict.error_mask & 1 else None,
        need_validate=workunit.need_validate or verdict.validate,
        release_state=ReleaseState.RELEASED if verdict.release else workunit.release_state,
        hr_class=0 if verdict.reset_class else workunit.hr_class,
        assimilate_state=1 if verdict.assimilate else workunit.assimilate_state,
        file_delete_state=1 if verdict.delete_inputs else workunit.file_delete_state,
    )


@given(workunits())
def test_every_move_of_a_verdict_is_in_the_lifecycle_table(workunit):
    verdict = judge(workunit, now=NOON)
    for move in verdict.workunit_moves:
        check(move)
    for m in verdict.result_moves:
        check(Move(m.axis, m.source, m.target, m.because, Actor.TRANSITIONER))


@given(workunits())
def test_every_result_move_starts_from_the_current_state_of_the_result(workunit):
    verdict = judge(workunit, now=NOON)
    results = {result.id: result for result in workunit.results}
    for move in verdict.result_moves:
        result = results[move.result_id]
        state = {
            Axis.RESULT: result.server_state * 10 + result.outcome,
            Axis.VALIDATION: result.validate_state,
            Axis.RESULT_FILES: result.file_delete_state,
        }[move.axis]
        assert move.source == state
    moved = [(move.result_id, move.axis) for move in verdict.result_moves]
    assert len(moved) == len(set(moved))


@given(workunits())
def test_judging_again_after_applying_a_verdict_changes_nothing(workunit):
    verdict = judge(workunit, now=NOON)
    again = judge(carried_out(verdict), now=NOON)
    assert not again.changes_anything


@given(workunits(), st.timedeltas(timedelta(0), 40 * DAY))
def test_judgement_does_not_change_before_look_again_at(workunit, later):
    verdict = judge(workunit, now=NOON)
    if verdict.look_again_at is None or NOON + later < verdict.look_again_at:
        assert not judge(carried_out(verdict), now=NOON + later).changes_anything


@given(workunits())
def test_look_again_at_is_never_in_the_past(workunit):
    at = judge(workunit, now=NOON).look_again_at
    assert at is None or at > NOON


@given(workunits())
@example(a_workunit("noreply noreply noreply", max_total_results=3))
def test_open_workunit_always_waits_for_a_daemon_or_a_host(workunit):
    """A workunit that no daemon will process and no host computes would never end."""
    verdict = judge(workunit, now=NOON)
    after = carried_out(verdict)
    is_open = after.canonical_result_id is None and not after.error_mask
    if not is_open:
        return
    is_held = after.release_state != ReleaseState.RELEASED
    works = any(result.server_state in {2, 4} for result in after.results)
    is_woken = (
        verdict.look_again_at < NOON + RECHECK_INTERVAL
    )  # woken earlier than by the safety net
    assert works or after.need_validate or is_held or is_woken or after.broadcast


@given(workunits())
def test_replicas_never_exceed_max_total_results(workunit):
    verdict = judge(workunit, now=NOON)
    assert verdict.replicas >= 0
    if verdict.replicas:
        total = len(workunit.results) + verdict.replicas
        assert total <= workunit.max_total_results


@given(workunits())
def test_revalidated_workunit_is_validated_like_a_new_one(workunit):
    """The verdict reopens the workunit and resets the validate state of every success."""
    if workunit.error_mask or workunit.assimilate_state == AssimilateState.DONE:
        return
    asked = replace(workunit, revalidate_requested_at=NOON)
    verdict = judge(asked, now=NOON)
    assert verdict.reopen
    moved = {move.result_id: move for move in verdict.result_moves}
    for result in asked.results:
        if result.outcome != Outcome.SUCCESS:
            assert result.id not in moved
        elif result.validate_state in {1, 2, 4}:
            assert moved[result.id].target == ValidateState.INIT
    for move in verdict.workunit_moves:
        check(move)


@pytest.mark.parametrize(
    ("fields", "moves"),
    [
        ({"pending_dependency_count": 1}, []),
        ({}, ["INACTIVE RELEASED", "OPEN COMPLETE", "INIT DONE"]),
        ({"release_state": ReleaseState.RELEASED}, ["OPEN COMPLETE", "INIT DONE"]),
        ({"release_state": ReleaseState.HELD}, []),
        ({"cancel_requested_at": NOON}, ["OPEN FAILED", "INIT DONE"]),
        (
            {"pending_dependency_count": 1, "dependency_failed_at": NOON},
            ["OPEN FAILED", "INIT DONE"],
        ),
    ],
)
def test_group_ends_without_results_and_without_an_assimilator(fields, moves):
    group = replace(a_workunit(), **{"is_group": True, "release_state": 1} | fields)
    verdict = judge(group, now=NOON)
    names = [f"{m.source.name} {m.target.name}" for m in verdict.workunit_moves]
    assert names == moves
    assert (verdict.look_again_at == NOON) is bool(moves)
    assert verdict.replicas == 0
    for move in verdict.workunit_moves:
        check(move)


def test_creation_of_a_result_is_in_the_lifecycle_table():
    check(replication.CREATION)
    assert replication.CREATION.source == NOTHING
