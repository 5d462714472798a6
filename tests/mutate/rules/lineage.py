"""Rules of docs/lineage.md, docs/features.md and fsck, with the tests named there.

Each switch names single tests, not files, because the test that a row names must itself fail.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable
from dataclasses import replace
from enum import IntEnum
from typing import Any

from scheduler.lifecycle import (
    Actor,
    Axis,
    Because,
    FileDeleteState,
    Move,
    ResultState,
    ValidateState,
)
from tests.mutate.switching import Both, Code, Sql, Switch, always

LIFECYCLE = "tests/pure/test_lifecycle.py"
REPLICATION = "tests/pure/results/test_replication.py"
QUORUM = "tests/pure/results/test_quorum.py"
GUARD = "tests/database/sql/test_guard.py"
TRANSITIONER = "tests/database/daemons/test_transitioner.py"
TIMEOUTS = "tests/database/daemons/test_timeout_checker.py"
VALIDATOR = "tests/database/daemons/test_validator.py"
DELETER = "tests/database/daemons/test_file_deleter.py"
FSCK = "tests/database/health/test_fsck.py"
VALIDATORS_PAGE = "tests/pure/science/test_validators_page.py"
LOGGING = "tests/pure/project/test_logging.py"
SETTINGS = "tests/pure/project/test_settings.py"

_INVARIANTS = "scheduler.health.invariant_sql"


def _with_move(move: Move) -> Any:
    return lambda moves: (*moves, move)


def _outcome_in_progress(_original: object) -> type[IntEnum]:
    """Return states in which IN_PROGRESS has an outcome."""
    values = {state.name: state.value for state in ResultState} | {"IN_PROGRESS": 41}
    changed = IntEnum("ResultState", values)
    for name in ("server_state", "outcome"):
        setattr(changed, name, getattr(ResultState, name))
    return changed


def _judged_settled(change: Any) -> Any:
    """Return a `judge_settled` whose verdict is passed through `change`."""

    def made(original: Any) -> Any:
        def judge_settled(workunit: Any, counts: Any, failures: Any, *, now: Any) -> Any:
            verdict = original(workunit, counts, failures, now=now)
            return change(verdict, original, now)

        return judge_settled

    return made


def _keep_unsent(because: Because) -> Any:
    """Return a `judge_settled` that drops no unsent result for this reason."""

    def change(verdict: Any, _original: Any, _now: Any) -> Any:
        moves = [
            move
            for move in verdict.result_moves
            if (move.target, move.because) != (ResultState.DIDNT_NEED, because)
        ]
        return replace(verdict, result_moves=tuple(moves))

    return _judged_settled(change)


def _as_if_assimilated(verdict: Any, original: Any, now: Any) -> Any:
    """Return the verdict with the moves of an assimilated workunit, which give up outputs."""
    assimilated = replace(verdict.workunit, assimilate_state=2)
    early = original(assimilated, verdict.counts, verdict.failures, now=now)
    return replace(verdict, result_moves=early.result_moves)


def _kept_to_the_end(verdict: Any, _original: Any, _now: Any) -> Any:
    """Return the verdict without moves of outputs while a result is in progress or may be late."""
    if verdict.counts.in_progress == 0 and verdict.look_again_at is None:
        return verdict
    moves = [move for move in verdict.result_moves if move.axis is not Axis.RESULT_FILES]
    return replace(verdict, result_moves=tuple(moves))


def _late_files_kept(verdict: Any, _original: Any, _now: Any) -> Any:
    """Return the verdict without moves of outputs of results that are TOO_LATE."""
    late = {m.result_id for m in verdict.result_moves if m.because is Because.TOO_LATE}
    moves = [
        move
        for move in verdict.result_moves
        if move.axis is not Axis.RESULT_FILES or move.result_id not in late
    ]
    return replace(verdict, result_moves=tuple(moves))


def _files_to_delete(change: Any) -> Any:
    """Return a `files_to_delete` whose counts and awaited results are passed through `change`."""

    def made(original: Any) -> Any:
        def files_to_delete(workunit: Any, counts: Any, awaited: Any, *, now: Any) -> Any:
            return original(workunit, *change(counts, awaited), now=now)

        return files_to_delete

    return made


def _done_too_early(original: Any) -> Any:
    """Return a pass that sets the state DONE before the inputs are unlinked."""
    from scheduler.models import Workunit

    def drop_references(share: Any, *, now: Any) -> Any:
        rows, marked_count = original(share, now=now)
        for row in rows:
            Workunit.objects.filter(pk=row["id"]).update(file_delete_state=FileDeleteState.DONE)
        return rows, marked_count

    return drop_references


def _without(kind: str) -> Any:
    """Return a comparison whose result has no entries of this kind."""

    def made(original: Any) -> Any:
        return lambda *args, **options: replace(original(*args, **options), **{kind: ()})

    return made


def _whatever_came(original: Any) -> Any:
    """Return a comparison that lowers the quorum to the number of candidates."""

    def check_set(candidates: Any, *, min_quorum: int, agree: Any) -> Any:
        good = sum(candidate.evidence is not None for candidate in candidates)
        return original(candidates, min_quorum=min(min_quorum, max(good, 1)), agree=agree)

    return check_set


def _found_of(state: FileDeleteState) -> Any:
    """Return a search for misplaced outputs that skips results in this state."""
    return lambda original: lambda asked: [] if asked is state else original(asked)


def _believed(reader: str) -> Any:
    """Return a reader of settings that replaces invalid values by the default."""
    from project import env

    def made(original: Any) -> Any:
        def read(name: str, *args: Any, **options: Any) -> Any:
            try:
                return original(name, *args, **options)
            except env.BadSetting:
                return next(iter(args), options.get("default"))

        read.__name__ = reader
        return read

    return made


def _unstructured(_self: object, record: logging.LogRecord) -> str:
    """Format a record as Python's own formatter does."""
    return logging.Formatter("%(asctime)s %(message)s").format(record)


def _without_constraint(name: str) -> Any:
    """Return statements that also drop a CHECK constraint of `result`."""
    drop = f"ALTER TABLE result DROP CONSTRAINT IF EXISTS {name}"
    return lambda original: lambda: [*original(), drop]


def _any_actor(original: Any) -> Any:
    """Return a ledger trigger that allows every move."""
    return lambda: original().replace("IF (", "IF FALSE AND (")


def _clauses(name: str, *clauses: tuple[str, str, str]) -> Iterable[Switch]:
    """Yield a switch for each clause of an invariant's statement: (clause, new text, test)."""
    for number, (clause, new, test) in enumerate(clauses, start=1):
        yield Switch(
            f"fsck checks {name} (clause {number} of {len(clauses)})",
            Sql(name, clause, new, _INVARIANTS),
            (f"{FSCK}::{test}",),
        )


RULES = (
    # B1
    Switch(
        "Each transition has one actor",
        Code(
            "scheduler.lifecycle:MOVES",
            made=_with_move(
                Move(
                    Axis.RESULT,
                    ResultState.UNSENT,
                    ResultState.DIDNT_NEED,
                    Because.CANCELLED,
                    Actor.STAFF,
                )
            ),
        ),
        (f"{LIFECYCLE}::test_each_transition_has_one_actor_except_the_listed_ones",),
    ),
    Switch(
        "The moves of an axis lead to states of that axis",
        Code(
            "scheduler.lifecycle:MOVES",
            made=_with_move(
                Move(
                    Axis.VALIDATION,
                    ValidateState.INIT,
                    ResultState.SUCCESS,
                    Because.REPORTED,
                    Actor.SCHEDULER,
                )
            ),
        ),
        (f"{LIFECYCLE}::test_each_axis_has_its_own_states_and_actors",),
    ),
    Switch(
        "The database refuses moves that are not in the table of moves",
        Code("scheduler.sql.guard_triggers:_check_move", always("NULL;")),
        (f"{GUARD}::test_the_database_refuses_every_illegal_move",),
    ),
    Switch(
        "The database allows inserts in initial states only",
        Code("scheduler.sql.guard_triggers:_check_initial", always("NULL;")),
        (f"{GUARD}::test_the_database_accepts_new_rows_only_in_initial_states",),
    ),
    Switch(
        "The ledger refuses a move by a wrong actor",
        Code("scheduler.sql.guard_triggers:_ledger_function", made=_any_actor),
        (f"{GUARD}::test_the_ledger_accepts_a_move_only_by_its_legal_actor",),
    ),
    # B2
    Switch(
        "A result in progress times out at its deadline",
        Sql(
            "time_out_results",
            "r.server_state = {{ServerState.IN_PROGRESS}} AND r.report_deadline <=",
            "FALSE AND r.report_deadline <=",
            "daemons.sql",
        ),
        (f"{TIMEOUTS}::test_a_result_times_out_exactly_at_its_report_deadline",),
    ),
    Switch(
        "A result does not time out before its deadline",
        Both(
            Sql(
                "time_out_results",
                "r.report_deadline <= %(now)s::timestamptz",
                "TRUE",
                "daemons.sql",
            ),
            Sql(
                "time_out_results",
                "r.report_deadline + app.grace <= %(now)s::timestamptz",
                "TRUE",
                "daemons.sql",
            ),
        ),
        (f"{TIMEOUTS}::test_a_result_times_out_exactly_at_its_report_deadline",),
    ),
    Switch(
        "The report deadline is set by the workunit's `delay_bound`",
        Sql(
            "dispatch/claim_results",
            "report_deadline = %(now)s::timestamptz + chosen.delay,",
            "report_deadline = %(now)s::timestamptz + chosen.delay * 2,",
        ),
        (
            "tests/faces/boinc/test_scheduler.py::test_a_sent_result_is_in_progress_with_two_deadlines_and_a_ledger_entry",
        ),
    ),
    # B8
    Switch(
        "Inputs of unfinished workunits are not deleted",
        Both(
            Sql(
                "lock_deletable_inputs",
                "file_delete_state IN ({{FileDeleteState.READY}}, {{FileDeleteState.ERROR}}) AND",
                "",
                "daemons.sql",
            ),
            Code("daemons.file_deleter:_INPUT_SOURCES", [0, 1, 3]),
        ),
        (f"{DELETER}::test_input_files_still_needed_are_not_deleted",),
    ),
    Switch(
        "The deletion of inputs is retried after an error",
        Code("daemons.file_deleter:_INPUT_SOURCES", [1]),
        (f"{DELETER}::test_a_failed_input_deletion_sets_state_error_and_is_retried_after_an_hour",),
    ),
    # B9
    Switch(
        "A workunit's file deletion is DONE only after its inputs are unlinked",
        Code("daemons.file_deleter:_drop_references", made=_done_too_early),
        (f"{DELETER}::test_input_files_are_unlinked_before_file_deletion_is_marked_done",),
    ),
    Switch(
        "Inputs are kept while another workunit refers to them",
        Sql(
            "files/mark_unused_files",
            "AND NOT EXISTS (SELECT FROM workunit_file AS input WHERE input.file_id = file.id)",
        ),
        (f"{DELETER}::test_input_files_are_deleted_with_the_last_workunit_that_references_them",),
    ),
    # B15
    Switch(
        "A workunit that can have no more results fails with a reason",
        Code("scheduler.results.rules.replication:_is_out_of_results", always(False)),
        (f"{REPLICATION}::test_open_workunit_always_waits_for_a_daemon_or_a_host",),
    ),
    Switch(
        "fsck finds a workunit that waits for no batch",
        Sql(
            "waiting_workunits_have_a_dependency",
            "w.pending_dependency_count > 0",
            "FALSE",
            _INVARIANTS,
        ),
        (f"{FSCK}::test_a_dependent_workunit_without_a_batch_to_follow_is_found",),
    ),
    # B23
    Switch(
        "Unsent results are dropped when the workunit has a canonical result",
        Code(
            "scheduler.results.rules.settled:judge_settled",
            made=_keep_unsent(Because.CANONICAL_FOUND),
        ),
        (
            f"{REPLICATION}::test_workunit_with_canonical_result_cancels_unsent_and_inactive_results",
        ),
    ),
    Switch(
        "Unsent results are dropped when the workunit has failed",
        Code(
            "scheduler.results.rules.settled:judge_settled",
            made=_keep_unsent(Because.WORKUNIT_FAILED),
        ),
        (
            f"{REPLICATION}::test_failed_workunit_cancels_unsent_results_and_does_not_validate_successes",
        ),
    ),
    # B24
    Switch(
        "A result has no outcome before it is over (table of moves)",
        Code("scheduler.lifecycle:ResultState", made=_outcome_in_progress),
        (f"{LIFECYCLE}::test_result_state_combines_server_state_and_outcome",),
    ),
    Switch(
        "A result has an outcome if and only if it is over (database)",
        Code(
            "scheduler.sql.guard_triggers:statements",
            made=_without_constraint("result_has_an_outcome_when_over"),
        ),
        (f"{GUARD}::test_the_database_accepts_an_outcome_only_for_results_that_are_over",),
    ),
    # B29
    Switch(
        "Outputs that arrive after the credit deadline are deleted immediately",
        Code(
            "scheduler.results.rules.settled:judge_settled", made=_judged_settled(_late_files_kept)
        ),
        (f"{TRANSITIONER}::test_output_files_of_a_too_late_result_are_deleted_immediately",),
    ),
    # B36
    Switch(
        "fsck finds deleted outputs that are on disk",
        Code(
            "scheduler.health.invariants:_misplaced_outputs",
            made=_found_of(FileDeleteState.DONE),
        ),
        (f"{FSCK}::test_outputs_marked_as_deleted_but_still_on_disk_are_found",),
    ),
    Switch(
        "fsck finds outputs that are never given up",
        Code("scheduler.health.invariants:_forgotten_workunits", always([])),
        (f"{FSCK}::test_outputs_that_are_never_released_are_found",),
    ),
    # B37
    Switch(
        "Outputs stay until the workunit is assimilated",
        Code(
            "scheduler.results.rules.settled:judge_settled",
            made=_judged_settled(_as_if_assimilated),
        ),
        (
            f"{TRANSITIONER}::test_files_of_an_assimilated_workunit_become_deletable_and_late_ones_at_credit_deadline",
        ),
    ),
    Switch(
        "Outputs of other results are deleted when the workunit is assimilated",
        Code(
            "scheduler.results.rules.settled:judge_settled", made=_judged_settled(_kept_to_the_end)
        ),
        (
            f"{TRANSITIONER}::test_files_of_an_assimilated_workunit_become_deletable_and_late_ones_at_credit_deadline",
        ),
    ),
    # B38
    Switch(
        "Canonical outputs are kept while a result is in progress",
        Code(
            "scheduler.results.rules.settled:_files_to_delete",
            made=_files_to_delete(
                lambda counts, awaited: (replace(counts, in_progress=0), awaited)
            ),
        ),
        (f"{REPLICATION}::test_canonical_outputs_are_kept_until_every_success_is_validated",),
    ),
    Switch(
        "Canonical outputs are kept while a success is not validated",
        Code(
            "scheduler.results.rules.settled:_files_to_delete",
            made=_files_to_delete(lambda counts, _awaited: (counts, [])),
        ),
        (f"{REPLICATION}::test_canonical_outputs_are_kept_until_every_success_is_validated",),
    ),
    # B45
    Switch(
        "need_validate is cleared after a validation without agreement",
        Sql(
            "settle_validated",
            "need_validate = verdict.unfinished,",
            "need_validate = verdict.unfinished OR verdict.canonical_id IS NULL,",
            "daemons.sql",
        ),
        (f"{VALIDATOR}::test_a_third_result_is_created_if_two_results_disagree",),
    ),
    Switch(
        "need_validate is cleared after a validation with agreement",
        Sql("settle_validated", "need_validate = verdict.unfinished,", "", "daemons.sql"),
        (f"{VALIDATOR}::test_two_matching_results_are_valid_and_the_first_is_canonical",),
    ),
    # Feature 2
    Switch(
        "A workunit stays open after the failure of a result",
        Code(
            "scheduler.results.rules.replication:has_too_many_errors",
            lambda _workunit, counts: counts.errors > 0,
        ),
        (f"{TRANSITIONER}::test_a_workunit_with_failed_attempts_stays_open_and_gets_replacements",),
    ),
    Switch(
        "A failed result is followed by another",
        Code(
            "scheduler.results.rules.replication:replicas_wanted",
            lambda workunit, counts: 0 if counts.total else workunit.target_nresults,
        ),
        (f"{TRANSITIONER}::test_a_workunit_with_failed_attempts_stays_open_and_gets_replacements",),
    ),
    # Feature 8
    Switch(
        "Successes without agreement are INCONCLUSIVE",
        Code("scheduler.results.rules.quorum:check_set", made=_without("inconclusive")),
        (f"{VALIDATOR}::test_results_can_reach_all_six_validate_states",),
    ),
    Switch(
        "A success that disagrees is INVALID",
        Code("scheduler.results.rules.quorum:check_set", made=_without("invalid")),
        (f"{VALIDATOR}::test_results_can_reach_all_six_validate_states",),
    ),
    Switch(
        "A success that agrees is VALID",
        Code("scheduler.results.rules.quorum:check_set", made=_without("valid")),
        (f"{VALIDATOR}::test_results_can_reach_all_six_validate_states",),
    ),
    Switch(
        "A success of a failed workunit is NO_CHECK, and no other is",
        Code(
            "scheduler.results.rules.settled:_leave_unjudged",
            made=lambda original: (
                lambda result, _because: original(result, Because.CANONICAL_FOUND)
            ),
        ),
        (f"{VALIDATOR}::test_results_can_reach_all_six_validate_states",),
    ),
    Switch(
        "A success that came too late is TOO_LATE, and no other is",
        Code(
            "scheduler.results.rules.settled:_leave_unjudged",
            made=lambda original: (
                lambda result, _because: original(result, Because.WORKUNIT_FAILED)
            ),
        ),
        (f"{VALIDATOR}::test_results_can_reach_all_six_validate_states",),
    ),
    # Feature 17
    Switch(
        "`target_nresults` results are created",
        Code("scheduler.results.rules.replication:effective_target", always(1)),
        (
            f"{REPLICATION}::test_results_are_created_up_to_the_quorum_and_validated_once_it_is_complete",
        ),
    ),
    Switch(
        "Results are compared when the quorum is complete",
        Code(
            "scheduler.results.rules.replication:_is_worth_validating",
            lambda _workunit, counts, **_: counts.fresh > 0,
        ),
        (
            f"{REPLICATION}::test_results_are_created_up_to_the_quorum_and_validated_once_it_is_complete",
        ),
    ),
    Switch(
        "Fewer results than the quorum are not compared",
        Code("scheduler.results.rules.quorum:check_set", made=_whatever_came),
        (f"{QUORUM}::test_more_than_half_of_the_quorum_must_agree",),
    ),
    Switch(
        "More than half of the quorum must agree",
        Code("scheduler.results.rules.quorum:majority", always(1)),
        (f"{QUORUM}::test_more_than_half_of_the_quorum_must_agree",),
    ),
    # Feature 20
    *(
        Switch(
            f"The built-in validator {name} compares results",
            Code(f"daemons.science.{name}:{place}", always(value)),
            (f"{VALIDATORS_PAGE}::test_each_built_in_validator_applies_its_rule",),
        )
        for name, place, value in (
            ("bitwise", "agree", True),
            ("trivial", "agree", False),
            ("numeric", "Tolerance.covers", True),
            ("substring", "prepare", ()),
        )
    ),
    # Feature 73
    Switch(
        "An event is one line, whatever its fields",
        Code("project.logging:_CONTROL", {}),
        (f"{LOGGING}::test_text_format_writes_an_event_as_one_line_with_its_fields",),
    ),
    Switch(
        "Events are written with their fields",
        Code("project.logging:fields", always({})),
        (f"{LOGGING}::test_json_format_writes_an_event_as_one_object_with_its_fields",),
    ),
    Switch(
        "Events are JSON with LOG_FORMAT=json",
        Code("project.logging:JsonLines.format", _unstructured),
        (f"{LOGGING}::test_json_format_writes_an_event_as_one_object_with_its_fields",),
    ),
    # Feature 74
    *(
        Switch(
            f"An invalid value of a variable is refused when it is read ({reader})",
            Code(f"project.env:{reader}", made=_believed(reader)),
            (f"{SETTINGS}::test_invalid_variable_is_refused_when_settings_are_read",),
        )
        for reader in ("integer", "boolean", "choice", "web_url")
    ),
    # The invariants of fsck
    *_clauses(
        "answer_or_reason",
        (
            "(canonical_result_id IS NOT NULL AND error_mask <> 0) OR",
            "",
            "test_a_workunit_with_both_a_canonical_result_and_an_error_is_found",
        ),
        (
            (
                "OR ( assimilate_state <> {{AssimilateState.INIT}} AND canonical_result_id IS NULL "
                "AND error_mask = 0 )"
            ),
            "",
            "test_an_assimilated_workunit_with_neither_canonical_result_nor_error_is_found",
        ),
    ),
    *_clauses(
        "finished_when_assimilated",
        (
            "(assimilate_state = {{AssimilateState.DONE}}) <> (finished_at IS NOT NULL)",
            "assimilate_state <> {{AssimilateState.DONE}} AND finished_at IS NOT NULL",
            "test_an_assimilated_workunit_without_finished_at_is_found",
        ),
        (
            "(assimilate_state = {{AssimilateState.DONE}}) <> (finished_at IS NOT NULL)",
            "assimilate_state = {{AssimilateState.DONE}} AND finished_at IS NULL",
            "test_an_unassimilated_workunit_with_finished_at_is_found",
        ),
    ),
    *_clauses(
        "outputs_kept_until_assimilated",
        (
            "w.assimilate_state <> {{AssimilateState.DONE}}",
            "FALSE",
            "test_outputs_released_before_assimilation_are_found",
        ),
    ),
    *_clauses(
        "canonical_outputs_kept_until_judged",
        (
            "r.server_state <> {{ServerState.OVER}} OR",
            "",
            "test_canonical_outputs_released_while_a_result_is_in_progress_are_found",
        ),
        (
            (
                "OR ( r.outcome = {{Outcome.SUCCESS}} AND r.validate_state IN "
                "({{ValidateState.INIT}}, {{ValidateState.INCONCLUSIVE}}) )"
            ),
            "",
            "test_canonical_outputs_released_before_a_success_is_validated_are_found",
        ),
        (
            "AND NOT EXISTS (SELECT FROM workunit_wakeup AS q WHERE q.workunit_id = w.id)",
            "",
            "test_canonical_outputs_released_while_a_result_is_in_progress_are_found",
        ),
        (
            "canonical.file_delete_state <> {{FileDeleteState.INIT}}",
            "TRUE",
            "test_canonical_outputs_released_while_a_result_is_in_progress_are_found",
        ),
    ),
)
