"""Rules of a workunit's history, its times and its requested resources."""

from __future__ import annotations

from typing import Any

from scheduler.lifecycle import ErrorMask
from tests.mutate.switching import Code, Sql, Switch, always

REPLICATION = "tests/pure/results/test_replication.py"
TIMEOUTS = "tests/database/daemons/test_timeout_checker.py"
SUBMISSION = "tests/pure/work/test_submission.py"
BULK = "tests/database/work/test_bulk.py"
ROUNDS = "tests/pure/work/test_rounds.py"
STATES = "tests/pure/work/test_predecessor_states.py"
HISTORY = "tests/database/work/test_attempt_history.py"
API_HISTORY = "tests/faces/api/test_api_history.py"
HOUSEKEEPER = "tests/database/daemons/test_housekeeper.py"
SELECTION = "tests/pure/dispatch/test_selection.py"
CHOOSING = "tests/faces/boinc/test_choosing.py"
CLIENT = "tests/pure/client/test_volunteer_state.py"
AGENT = "tests/pure/client/test_volunteer_agent.py"
LOOP = "tests/pure/daemons/test_loop.py"
SCIENTIST = "tests/faces/scientist/test_scientist.py"
TRICKLES = "tests/database/daemons/test_trickle_handler.py"


def _with_draw_zero(original: Any) -> Any:
    return lambda workunit, *, now, draw: original(workunit, now=now, draw=0 * draw)


def _as_one_replica(original: Any) -> Any:
    return lambda attempts, *, replicas: original(attempts, replicas=min(replicas, 1))


def _as_its_version(_original: Any) -> Any:
    from scheduler.dispatch.rules import selection

    return lambda assignment, device: selection._used(assignment.version, device)


def _as_the_workunit(_original: Any) -> Any:
    from scheduler.work.rules.predecessor_states import tdf2_state

    return lambda _result, workunit: tdf2_state(workunit)


def _as_the_host_gives_it(_original: Any) -> Any:
    return lambda said_at, received_at, **_sent_at: min(said_at, received_at)


def _even_for_the_first(_original: Any) -> Any:
    def has_free_memory(_state: Any, project: Any, held_result: Any, rules: Any) -> bool:
        needed = project.workunit_of(held_result).rsc_memory_bound
        return not rules.memory_bytes or needed <= rules.memory_bytes

    return has_free_memory


def _without_old_usage(chores: Any) -> Any:
    return tuple(chore for chore in chores if chore.name != "old usage")


RULES = (
    # Time
    Switch(
        "Successes that were received before end_before are validated after it",
        Code("scheduler.results.rules.replication:came_in_time", always(False)),
        (f"{REPLICATION}::test_successes_received_before_end_before_are_validated_after_it",),
    ),
    Switch(
        "Successes that were received after end_before are not validated",
        Code("scheduler.results.rules.replication:came_in_time", always(True)),
        (f"{TIMEOUTS}::test_workunit_reported_too_late_expires_without_validation",),
    ),
    Switch(
        "A workunit that waits for the validator is not woken at its end again and again",
        Sql("wake_expired_workunits", "AND NOT need_validate", "", package="daemons.sql"),
        (
            f"{TIMEOUTS}::test_workunit_reported_in_time_is_not_woken_at_its_end_while_the_validator_works",
        ),
    ),
    Switch(
        "The start offset is random",
        Code(
            "scheduler.work.submission.rules.new_workunits:with_start_offset", made=_with_draw_zero
        ),
        (f"{BULK}::TestTheSameRows::test_start_offset_gives_each_workunit_its_own_start",),
    ),
    Switch(
        "A workunit with a start offset can always start before its end",
        Code("scheduler.work.submission.rules.new_workunits:_start_offset", always(())),
        (SUBMISSION,),
    ),
    Switch(
        "The names of TDF and TDF2 are other names of fields",
        Code("scheduler.work.submission.rules.work_from_dicts:_OTHER_NAMES", {}),
        (f"{BULK}::TestTheSameRows::test_other_name_of_a_field_replaces_the_default_of_the_app",),
    ),
    Switch(
        "The limit of retries of Eve limits errors and results",
        Code("scheduler.work.submission.rules.work_from_dicts:_MAX_RETRIES", ""),
        (f"{SUBMISSION}::test_max_retry_count_limits_the_attempts_beyond_the_first",),
    ),
    Switch(
        "With --sleep-interval, a daemon waits for the rest of the round",
        Code("daemons.loop:remainder", always(0.0)),
        (LOOP,),
    ),
    # Rounds
    Switch(
        "A new round begins after a failure",
        Code("scheduler.work.rules.rounds:is_failure", always(False)),
        (ROUNDS,),
    ),
    Switch(
        "A new round begins after a time-out",
        Code("scheduler.work.rules.rounds:is_timeout", always(False)),
        (ROUNDS,),
    ),
    Switch(
        "A further replica is not a round",
        Code("scheduler.work.rules.rounds:number_rounds", made=_as_one_replica),
        (f"{ROUNDS}::test_round_is_the_number_of_failures_and_timeouts_before",),
    ),
    Switch(
        "The end of a workunit has the time of the ledger",
        Code("scheduler.work.rules.rounds:_ends", always({})),
        (ROUNDS, HISTORY),
    ),
    # The states of the older systems
    Switch(
        "A result that waits for judgement is executed in TDF and closed in TDF2",
        Code("scheduler.work.rules.predecessor_states:_awaits_judgement", always(False)),
        (STATES,),
    ),
    Switch(
        "A failed attempt that was replaced is archived in TDF2",
        Code("scheduler.work.rules.predecessor_states:tdf2_state_of", made=_as_the_workunit),
        (STATES, HISTORY),
    ),
    Switch(
        "A cancelled workunit is pending cancellation in Eve while a host computes it",
        Code("scheduler.work.rules.predecessor_states:_is_running", always(False)),
        (STATES,),
    ),
    Switch(
        "A workunit whose dependency failed is cancelled in Eve and Disbatch",
        Code("scheduler.work.rules.predecessor_states:_CANCELLED", ErrorMask.CANCELLED),
        (STATES,),
    ),
    Switch(
        "An aborted result has a status of its own in Disbatch",
        Code("scheduler.work.rules.predecessor_states:is_aborted", always(False)),
        (STATES,),
    ),
    # Usage
    Switch(
        "Usage samples are deleted after the configured time",
        Code("daemons.housekeeper:CHORES", made=_without_old_usage),
        (f"{HOUSEKEEPER}::test_usage_samples_are_deleted_after_the_configured_time",),
    ),
    Switch(
        "A sample before its result was sent has the time of its arrival",
        Code("scheduler.messages.rules.trickle_texts:moment_of", made=_as_the_host_gives_it),
        (TRICKLES,),
    ),
    Switch(
        "Messages for an app's own handler are kept",
        Sql(
            "drop_usage_trickles",
            "AND NOT coalesce(app.trickle_handlers, '{}'::jsonb) ? kept.variety",
            "",
            package="daemons.sql",
        ),
        (HOUSEKEEPER,),
    ),
    Switch(
        "A history has the newest usage samples of each attempt",
        Sql("work/read_usage_samples", "ORDER BY usage_sample.at DESC", "ORDER BY usage_sample.at"),
        (HISTORY,),
    ),
    Switch(
        "Only the submitter and staff can read the history of a workunit",
        Code("scheduler.api.endpoints.workunits:_OfWorkunit.own_id", lambda _self, id_: id_),
        (API_HISTORY,),
    ),
    Switch(
        "scientist history prints the errors of each round",
        Code("scientist.commands.history:_errors", always(())),
        (f"{SCIENTIST}::test_history_prints_the_number_of_a_replica_if_there_are_several",),
    ),
    Switch(
        "scientist history prints the newest known usage of an attempt",
        Code("scientist.commands.history:_last", always(None)),
        (f"{SCIENTIST}::test_history_prints_the_rounds_with_their_usage_and_errors",),
    ),
    # Requested resources
    Switch(
        "A host with fewer CPUs or GPUs than requested does not get the workunit",
        Code("scheduler.dispatch.rules.fit:_processor_misfit", always(None)),
        (SELECTION, CHOOSING),
    ),
    Switch(
        "Requested CPUs and GPUs count in place of those of the app version",
        Code("scheduler.dispatch.rules.selection:used_by", made=_as_its_version),
        (SELECTION, CHOOSING),
    ),
    Switch(
        "Clients get the CPUs and GPUs that a workunit requests",
        Code("scheduler.boinc.compose:_requested_usage", always({})),
        (CHOOSING,),
    ),
    Switch(
        "The client runs results on as many processors as their workunits request",
        Code(
            "volunteer.records:Project.processors_of",
            lambda self, held_result: self.version_of(held_result).avg_ncpus,
        ),
        (CLIENT,),
    ),
    Switch(
        "The client runs results at the same time only within the memory",
        Code("volunteer.plan:has_free_memory", always(True)),
        (CLIENT,),
    ),
    Switch(
        "A computer with little memory computes one result at a time",
        Code("volunteer.plan:has_free_memory", made=_even_for_the_first),
        (CLIENT,),
    ),
    Switch(
        "The client sends the usage of running programs at the chosen interval",
        Code("volunteer.agent:Agent._usage_events", lambda _self: iter(())),
        (AGENT,),
    ),
)
