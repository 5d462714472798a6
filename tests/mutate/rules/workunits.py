"""Rules of the states of workunits: answers, failures, checks and inputs."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from tests.mutate.switching import Code, Sql, Switch, always

REPLICATION = "tests/pure/results/test_replication.py"
LIFECYCLE = "tests/pure/test_lifecycle.py"
SUBMISSION = "tests/pure/work/test_submission.py"
TRANSITIONER = "tests/database/daemons/test_transitioner.py"
ASSIMILATOR = "tests/database/daemons/test_assimilator.py"
VALIDATOR = "tests/database/daemons/test_validator.py"
SCHEDULER = "tests/faces/boinc/test_scheduler.py"
FSCK = "tests/database/health/test_fsck.py"

_DAEMONS = "daemons.sql"
_SETTLED = "scheduler.results.rules.settled:judge_settled"


def _judged_with(change: Any) -> Any:
    """Return a `judge_settled` that judges a changed workunit and changed counts."""

    def made(original: Any) -> Any:
        def judge_settled(workunit: Any, counts: Any, failures: Any, *, now: Any) -> Any:
            changed_workunit, changed_counts = change(workunit, counts)
            verdict = original(changed_workunit, changed_counts, failures, now=now)
            return replace(verdict, workunit=workunit, counts=counts)

        return judge_settled

    return made


def _verdict_with(**changes: Any) -> Any:
    """Return a `judge_settled` whose verdict has these fields."""
    return lambda original: lambda *facts, now: replace(original(*facts, now=now), **changes)


def _bits_without_one(bits: Any) -> Any:
    return dict(list(bits.items())[:-1])


RULES = (
    # B3
    Switch(
        "A deadline under three run times causes a warning",
        Code("scheduler.work.submission.rules.new_workunits:COMFORTABLE_RUN_TIMES", 0),
        (f"{SUBMISSION}::test_short_deadline_warning_states_that_the_speed_is_a_guess",),
    ),
    # B5
    Switch(
        "A late success is validated while the canonical outputs are kept",
        Code("scheduler.results.rules.settled:canonical_is_kept", always(False)),
        (f"{REPLICATION}::test_late_success_is_validated_while_the_canonical_outputs_are_kept",),
    ),
    # B6
    Switch(
        "The validator sets the canonical result",
        Sql(
            "settle_validated",
            "canonical_result_id = coalesce(w.canonical_result_id, verdict.canonical_id),",
            "",
            _DAEMONS,
        ),
        (f"{VALIDATOR}::test_two_matching_results_are_valid_and_the_first_is_canonical",),
    ),
    # B7
    Switch(
        "A workunit is not checked before the time of its next check",
        Sql("wake_due_workunits", "transition_at <= %(now)s::timestamptz", "TRUE", _DAEMONS),
        (f"{TRANSITIONER}::test_a_workunit_that_is_not_due_is_skipped",),
    ),
    # B8a
    Switch(
        "Files stay until the workunit is assimilated",
        Code(
            _SETTLED,
            made=_judged_with(
                lambda workunit, counts: (replace(workunit, assimilate_state=2), counts)
            ),
        ),
        (f"{REPLICATION}::test_no_files_are_deleted_before_assimilation",),
    ),
    # B8b
    Switch(
        "Inputs are kept while a result is in progress",
        Code(
            _SETTLED,
            made=_judged_with(lambda workunit, counts: (workunit, replace(counts, in_progress=0))),
        ),
        (
            f"{REPLICATION}::test_inputs_and_canonical_outputs_are_kept_while_a_result_is_in_progress",
        ),
    ),
    # B10
    Switch(
        "A finished workunit becomes ready for assimilation",
        Code(_SETTLED, made=_verdict_with(assimilate=None)),
        (f"{TRANSITIONER}::test_a_workunit_with_an_answer_becomes_ready_for_assimilation",),
    ),
    Switch(
        "The assimilator records that a workunit is assimilated",
        Sql(
            "settle_assimilated",
            "assimilate_state = %(target)s::smallint,",
            "assimilate_state = w.assimilate_state + 0 * %(target)s::smallint,",
            _DAEMONS,
        ),
        (f"{ASSIMILATOR}::test_canonical_output_is_copied_to_a_folder_named_after_the_workunit",),
    ),
    # B11
    Switch(
        "Enough successes set need_validate",
        Code("scheduler.results.rules.replication:_is_worth_validating", always(False)),
        (f"{TRANSITIONER}::test_enough_successful_results_set_need_validate",),
    ),
    # B13
    Switch(
        "A report wakes the transitioner",
        Sql(
            "results/settle_reports",
            "SELECT DISTINCT workunit_id, %(now)s::timestamptz FROM settled",
            "SELECT DISTINCT workunit_id, %(now)s::timestamptz FROM settled WHERE FALSE",
        ),
        (f"{SCHEDULER}::test_reported_success_is_over_and_schedules_a_workunit_transition",),
    ),
    # B14
    Switch(
        "Every reason for a failure has a bit of the error mask",
        Code("scheduler.lifecycle:ERROR_BITS", made=_bits_without_one),
        (f"{LIFECYCLE}::test_every_failure_reason_has_an_error_bit_and_a_move",),
    ),
    # B16
    Switch(
        "fsck finds open workunits without a next check",
        Code("scheduler.health.invariants:_forgotten_workunits", always([])),
        (f"{FSCK}::test_an_open_workunit_without_results_or_transition_time_is_found",),
    ),
    # B17
    Switch(
        "The assimilator is called for failed workunits, too",
        Sql(
            "lease_unassimilated",
            "AND (assimilate_after IS NULL",
            "AND error_mask = 0 AND (assimilate_after IS NULL",
            _DAEMONS,
        ),
        (f"{ASSIMILATOR}::test_a_failed_workunit_gets_a_file_with_its_errors",),
    ),
    # B18
    Switch(
        "fsck finds inputs that were deleted too early",
        Sql(
            "inputs_kept_until_over",
            "w.file_delete_state <> {{FileDeleteState.INIT}}",
            "FALSE",
            "scheduler.health.invariant_sql",
        ),
        (f"{FSCK}::test_inputs_deleted_before_all_results_are_over_are_found",),
    ),
    # B44
    Switch(
        "A settled workunit has no next check",
        Code(
            "scheduler.results.rules.settled:_next_look",
            lambda _workunit, _kept_until, *, now: now,
        ),
        (f"{REPLICATION}::test_settled_workunit_is_not_scheduled_for_another_check",),
    ),
)
