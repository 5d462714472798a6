"""Rules that the other four designs have in common with BOINC's (docs/lineage.md)."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace
from datetime import timedelta
from typing import Any

from tests.mutate.switching import Both, Code, Sql, Switch, always

TRANSITIONER = "tests/database/daemons/test_transitioner.py"
ASSIMILATOR = "tests/database/daemons/test_assimilator.py"
ASSIMILATORS = "tests/database/daemons/test_assimilators.py"
SUBMIT = "tests/database/work/test_submit.py::TestWhatIsWritten"
SUBMISSIONS = "tests/faces/api/test_api_submissions.py"
CONTROL = "tests/database/work/test_control.py"
DEPENDENCIES = "tests/faces/api/test_api_dependencies.py"
HISTORY = "tests/database/work/test_attempt_history.py"
API_HISTORY = "tests/faces/api/test_api_history.py"
TIMES_OF_APPS = "test_times_and_memory_of_an_app_and_of_the_project_are_those_of_its_batches"
STATES = "tests/pure/work/test_predecessor_states.py"
LAUNCHING = "tests/pure/dispatch/test_launching.py"
PUBLISHING = "tests/faces/api/test_api_publishing.py"
SOURCES = "tests/faces/api/test_api_sources.py"
SCHEDULER = "tests/faces/boinc/test_scheduler.py"
CHOOSING = "tests/faces/boinc/test_choosing.py"
TRAPS = "tests/faces/boinc/test_traps.py"
INSTALLATION = "tests/database/health/test_installation.py"
WIRE = "tests/pure/client/test_volunteer_wire.py"
CLIENT = "tests/pure/client/test_volunteer_state.py"
LOOP = "tests/pure/daemons/test_loop.py"

_DAEMONS = "daemons.sql"
_START_IS_AHEAD = "AND ({0}.start_before IS NULL OR {0}.start_before > %(now)s::timestamptz)"
_STARTED = "AND ({0}.start_after IS NULL OR {0}.start_after <= %(now)s::timestamptz)"


def _a_day_earlier(original: Any) -> Any:
    return lambda context, now: original(context, now - timedelta(days=1))


def _with_a_line(original: Any) -> Any:
    """Return a function that writes a standard error even if the program wrote none."""
    return lambda report: original(replace(report, stderr=report.stderr or "-"))


def _copies_files(original: Any) -> Any:
    """Return a search for assimilators that always finds the built-in one."""
    return lambda _name, _options, time_limit: original("copy_files", {}, time_limit)


def _without_source(original: Any) -> Any:
    return lambda app, platform, facts, files: original(
        app, platform, replace(facts, source_url=""), files
    )


def _last_execution(_original: Any) -> Any:
    from scheduler.work.attempt_history import history_of

    return lambda workunit_id, *, now: history_of(workunit_id, now=now).history[-1]


def _parents_as_children(original: Any) -> Any:
    """Return a query in which the continuations of a workunit are its parents."""
    from scheduler.work.submitted import _parent_ids

    return lambda workunits: original(workunits).annotate(child_ids=_parent_ids())


def _without_moves(original: Any) -> Any:
    """Return a query in which the time of the last state change is that of the creation."""
    from django.db.models import F

    return lambda workunits: original(workunits).annotate(modified_at=F("created_at"))


def _accepts_any_database(original: Any) -> Any:
    def claim_folder() -> None:
        from django.core.management.base import CommandError

        with suppress(CommandError):
            original()

    return claim_folder


def _of_another_reason(original: Any) -> Any:
    from scheduler.dispatch.rules.fit import RefusalReason

    def version_for(*arguments: Any) -> Any:
        version = original(*arguments)
        if isinstance(version, tuple) and version[0] is RefusalReason.NO_VERSION:
            return RefusalReason.PLAN_CLASS, version[1]
        return version

    return version_for


def _read_once(original: Any) -> Any:
    """Return a catalog that is read only for the first request of the process."""
    catalogs: list[Any] = []

    def current(sign: str) -> Any:
        if not catalogs:
            catalogs.append(original(sign))
        return catalogs[0]

    return current


def _without_timeouts(original: Any) -> Any:
    from scheduler.work.rules.predecessor_states import TdfState

    def tdf_state(workunit: Any) -> Any:
        state = original(workunit)
        return TdfState.FAILED if state is TdfState.TIMED_OUT else state

    return tdf_state


RULES = (
    # Submission
    Switch(
        "Workunits get ascending ids in the order of the submission",
        Sql(
            "work/submission/draw_workunit_ids",
            "array_agg(nextval((SELECT pg_get_serial_sequence('workunit', 'id')::regclass)))"
            " AS ids FROM generate_series(1, %(count)s::integer)",
            "array_agg(id ORDER BY id DESC) AS ids FROM (SELECT nextval((SELECT "
            "pg_get_serial_sequence('workunit', 'id')::regclass)) AS id "
            "FROM generate_series(1, %(count)s::integer)) AS drawn",
        ),
        (f"{SUBMIT}::test_ids_and_names_are_returned_in_submission_order",),
    ),
    Switch(
        "The time of the submission is stored",
        Code("scheduler.work.submission.workunit_rows:_workunit_end", made=_a_day_earlier),
        (f"{SUBMIT}::test_a_submitted_workunit_is_due_at_once_with_all_its_parameters",),
    ),
    Switch(
        "The inputs of a workunit are stored",
        Code("scheduler.work.submission.workunit_rows:_inputs", always("")),
        (f"{SUBMIT}::test_equal_input_content_is_stored_once_and_can_be_downloaded",),
    ),
    Switch(
        "Defaults of an app apply to workunits without a value",
        Code("scheduler.work.submission.bulk:_with_defaults_of_app", lambda _app, own: dict(own)),
        (f"{SUBMISSIONS}::TestWhatIsMade::test_defaults_of_the_app_have_the_lowest_precedence",),
    ),
    Switch(
        "A cancelled workunit is not cancelled again",
        Sql("work/request_cancellation", "cancel_requested_at IS NOT NULL", "FALSE"),
        (f"{CONTROL}::test_cancelling_again_changes_nothing",),
    ),
    # Programs
    Switch(
        "The command line of an app of the kind command is one shell command",
        Code("scheduler.dispatch.rules.launching:COMMAND", "none"),
        (f"{LAUNCHING}::test_command_is_one_argument_and_optional_outputs_are_marked",),
    ),
    Switch(
        "An archive of a script has a run.sh at its top",
        Code("scheduler.apps.rules.packaging:check_script", always(None)),
        (f"{PUBLISHING}::test_archive_without_a_runnable_run_sh_at_its_top_is_refused",),
    ),
    Switch(
        "A member of an archive stays in its folder",
        Code("scheduler.apps.rules.packaging:check_relative", always(None)),
        (f"{PUBLISHING}::test_archive_member_outside_its_folder_is_refused",),
    ),
    Switch(
        "The address of a program's source is stored with its version",
        Code("scheduler.apps.app_versions:_publish", made=_without_source),
        (f"{SOURCES}::test_source_url_is_downloaded_only_once_per_version",),
    ),
    Switch(
        "A version is used from the first request after its publication",
        Code("scheduler.dispatch.catalog:current", made=_read_once),
        (f"{TRAPS}::test_version_published_between_two_requests_is_used_without_a_restart",),
    ),
    Switch(
        "A host without a version of the app for its platform is refused with the reason",
        Code("scheduler.dispatch.rules.fit:Judge._version_for", made=_of_another_reason),
        (f"{CHOOSING}::test_app_without_a_version_for_the_platform_stores_a_refusal",),
    ),
    # Attempts
    Switch(
        "The name of a result ends with the number of its attempt",
        Sql(
            "insert_replicas",
            "w.name || '_' || replica.attempt",
            "w.name || '-' || replica.attempt",
            _DAEMONS,
        ),
        (f"{TRANSITIONER}::test_results_are_created_for_a_new_workunit",),
    ),
    Switch(
        "A workunit is not sent before start_after",
        Both(
            Sql("dispatch/read_candidates", _STARTED.format("workunit")),
            Sql("dispatch/lock_chosen_workunits", _STARTED.format("w")),
        ),
        (
            f"{SCHEDULER}::test_only_released_uncancelled_workunits_within_their_time_window_are_sent",
        ),
    ),
    Switch(
        "A workunit is not sent after start_before",
        Both(
            Sql("dispatch/read_candidates", _START_IS_AHEAD.format("workunit")),
            Sql("dispatch/lock_chosen_workunits", _START_IS_AHEAD.format("w")),
        ),
        (
            f"{SCHEDULER}::test_only_released_uncancelled_workunits_within_their_time_window_are_sent",
        ),
    ),
    Switch(
        "A claim is recorded as the start of an attempt",
        Sql("dispatch/claim_results", "sent_at = %(now)s::timestamptz,"),
        (f"{HISTORY}::test_attempt_counts_from_its_claim",),
    ),
    Switch(
        "The exit status of a report is stored",
        Sql("results/settle_reports", "exit_status = report.exit_status,", ""),
        (f"{SCHEDULER}::test_reported_error_is_stored_as_invalid_with_its_stderr",),
    ),
    Switch(
        "The outputs of a report are stored",
        Sql(
            "results/settle_reports",
            "AS f (result_id, position, name, nbytes, md5, sha256)",
            "AS f (result_id, position, name, nbytes, md5, sha256) WHERE FALSE",
        ),
        (f"{SCHEDULER}::test_reported_success_is_over_and_schedules_a_workunit_transition",),
    ),
    Switch(
        "The time of the last request of a host is stored",
        Sql("hosts/update_hosts", "rpc_at = %(now)s::timestamptz,", ""),
        (f"{SCHEDULER}::test_each_request_stores_the_name_and_the_time_of_the_host",),
    ),
    # The client
    Switch(
        "An empty standard error is not sent",
        Code("volunteer.wire.requests:_stderr_out", made=_with_a_line),
        (f"{WIRE}::test_report_has_a_standard_error_only_if_the_program_wrote_one",),
    ),
    Switch(
        "A failed download ends the result with an error message",
        Code("volunteer.plan:download_verdict", always(None)),
        (f"{CLIENT}::test_permanent_download_error_fails_the_result",),
    ),
    Switch(
        "A program over its time limit is killed",
        Code("volunteer.config:Rules.time_limit", always(1e30)),
        (f"{CLIENT}::test_program_over_its_time_limit_is_killed_and_reported_with_status_197",),
    ),
    # Daemons and plug-ins
    Switch(
        "A database that was not migrated is refused with a hint",
        Code("scheduler.health.installation:claim_folder", made=_accepts_any_database),
        (f"{INSTALLATION}::test_a_database_without_the_table_is_refused_with_a_hint",),
    ),
    Switch(
        "A generator makes work while the unsent results are fewer than the cushion",
        Code("daemons.work_generator:missing", always(0)),
        ("tests/database/daemons/test_work_generator.py::test_the_cushion_is_filled_once",),
    ),
    Switch(
        "A daemon shows that it runs",
        Code("daemons.vitals:Vitals._touch", always(None)),
        (f"{LOOP}::test_daemon_writes_its_sign_of_life_file",),
    ),
    Switch(
        "The assimilator of the app is called",
        Code("daemons.science.assimilators:find", made=_copies_files),
        (f"{ASSIMILATOR}::test_a_function_gets_all_facts_of_the_workunit",),
    ),
    Switch(
        "Records of the assimilator `table` are written to its table",
        Code("daemons.science.table:Table._insert", always(None)),
        (
            f"{ASSIMILATORS}::TestTable::test_table_writes_record_fields_into_columns_of_the_same_name",
        ),
    ),
    # Continuations
    Switch(
        "Continuations are added",
        Sql(
            "work/insert_dependencies",
            "INSERT INTO dependency (parent_id, child_id) SELECT parent_id, child_id FROM pair",
            "INSERT INTO dependency (parent_id, child_id) SELECT parent_id, child_id FROM pair "
            "WHERE FALSE",
        ),
        (f"{DEPENDENCIES}::test_continuations_are_added_and_removed",),
    ),
    Switch(
        "Continuations are removed",
        Sql(
            "work/delete_dependencies",
            "child_id = any(%(child_ids)s::bigint[])",
            "child_id = any(%(child_ids)s::bigint[]) AND FALSE",
        ),
        (f"{DEPENDENCIES}::test_continuations_are_added_and_removed",),
    ),
    Switch(
        "A workunit shows its continuations",
        Code("scheduler.work.submitted:with_inputs", made=_parents_as_children),
        (f"{DEPENDENCIES}::test_graph_is_submitted_and_shown",),
    ),
    # History
    Switch(
        "The current attempt is the one that was sent last",
        Code("scheduler.work.attempt_history:current_execution", made=_last_execution),
        (f"{HISTORY}::test_current_attempt_is_the_one_that_was_sent_last",),
    ),
    Switch(
        "An attempt has the time of its start",
        Code("scheduler.api.history_shown:ExecutionShown.read_time_started", always(None)),
        (f"{API_HISTORY}::test_history_lists_attempts_with_usage_and_states_of_the_older_systems",),
    ),
    Switch(
        "A workunit has the time of its last state change",
        Code("scheduler.work.submitted:with_inputs", made=_without_moves),
        (f"{API_HISTORY}::test_workunit_shows_the_time_of_its_last_state_change",),
    ),
    Switch(
        "Statistics of an app count its failed workunits",
        Sql(
            "health/count_workunits",
            "count(*) FILTER (WHERE workunit.error_mask <> 0) AS failed",
            "0 AS failed",
        ),
        (f"{API_HISTORY}::test_statistics_of_an_app_and_of_the_project",),
    ),
    Switch(
        "Statistics count the successes",
        Sql(
            "work/result_statistics",
            "count(*) FILTER (WHERE result.outcome = {{Outcome.SUCCESS}}) AS successes",
            "0 AS successes",
        ),
        (f"{API_HISTORY}::test_statistics_of_a_workunit_and_of_its_batch",),
    ),
    Switch(
        "Apps and the project have the times and the memory of their results",
        Code("scheduler.health.counts:_resources", always({})),
        (f"{API_HISTORY}::{TIMES_OF_APPS}",),
    ),
    Switch(
        "Messages of a running result are stored as samples",
        Sql("insert_usage_samples", "WHERE NOT EXISTS (", "WHERE FALSE AND NOT EXISTS (", _DAEMONS),
        (f"{HISTORY}::test_messages_of_a_running_result_become_its_samples",),
    ),
    Switch(
        "The log has a line for each move",
        Code("scheduler.work.attempt_history:_log", always("")),
        (f"{HISTORY}::test_log_has_a_line_for_each_move_in_order",),
    ),
    Switch(
        "A round has the output of its attempt",
        Code("scheduler.work.attempt_history:_output_texts", always({})),
        (f"{HISTORY}::test_rounds_have_states_counters_times_outputs_and_errors",),
    ),
    Switch(
        "A workunit with too many time-outs is timed out in TDF",
        Code("scheduler.work.rules.predecessor_states:tdf_state", made=_without_timeouts),
        (f"{STATES}::test_the_state_of_tdf",),
    ),
)
