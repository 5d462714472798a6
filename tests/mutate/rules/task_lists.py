"""Rules of task lists."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from tests.mutate.switching import Code, Sql, Switch, always

LISTS = "tests/database/task_lists/test_task_lists.py"
RACES = "tests/database/task_lists/test_list_races.py"
CARE = "tests/database/task_lists/test_list_care.py"
TDF2 = "tests/database/task_lists/test_tdf2.py"
FILES = "tests/pure/work/test_tdf2_files.py"
CLIENT = "tests/pure/client/test_volunteer_state.py"
API = "tests/faces/api/test_api_bundles.py"
_INVARIANTS = "scheduler.health.invariant_sql"


def _of_the_longest(_original: Any) -> Any:
    def run_time(bundle: Any, assignments: Any) -> float:
        return max(member.expected_seconds or 0.0 for member in bundle.members)

    return run_time


def _whatever_is_ready(_original: Any) -> Any:
    from scheduler.dispatch.rules import bundle_states

    def ready_results(members: Any) -> frozenset[int]:
        ready = bundle_states.Phase.READY
        return frozenset(m.result_id for m in members if bundle_states.phase_of(m) is ready)

    return ready_results


def _without_fails(_original: Any) -> Any:
    from dataclasses import replace

    return lambda task: replace(task, worker=None, started=None, ended=None)


def _of_any_state(_original: Any) -> Any:
    from scheduler.work.rules import tdf2_files

    return lambda _state, *, created, **_facts: str(tdf2_files.seconds(created))


def _without_retried(original: Any) -> Any:
    return lambda workunit, own, _retried: original(workunit, own, None)


def _seven_lines(original: Any) -> Any:
    return lambda task: "".join(original(task).splitlines(keepends=True)[:7])


RULES = (
    Switch(
        "A task list is sent only if all its workunits can be locked",
        Code(
            "scheduler.dispatch.bundle_claims:_checked",
            made=lambda _original: lambda allotted, apps, *, now: list(allotted),
        ),
        (RACES,),
    ),
    Switch(
        "A claim skips task lists that another claim has locked",
        Sql("dispatch/lock_ready_bundles", "FOR NO KEY UPDATE OF b SKIP LOCKED", ""),
        (f"{RACES}::test_a_spare_list_is_sent_in_place_of_a_locked_one",),
    ),
    Switch(
        "A list whose members changed after it was read is not sent",
        Code("scheduler.dispatch.rules.bundle_states:ready_results", made=_whatever_is_ready),
        (RACES, LISTS),
    ),
    Switch(
        "The lease of a list is the sum of the expected run times of its members",
        Code("scheduler.dispatch.rules.bundle_offers:_run_time", made=_of_the_longest),
        (f"{LISTS}::test_lease_is_three_times_the_sum_of_expected_run_times",),
    ),
    Switch(
        "A list is closed only when all members are over",
        Code(
            "scheduler.dispatch.rules.bundle_states:phase_of",
            made=lambda original: (
                lambda member: original(member._replace(has_ended=member.result_id is not None))
            ),
        ),
        (LISTS, RACES),
    ),
    Switch(
        "A member that a host reported is not opened again with its list",
        Sql(
            "insert_replicas",
            "NOT IN ({{Outcome.NO_REPLY}}, {{Outcome.CLIENT_DETACHED}})",
            "NOT IN (1, 3, {{Outcome.NO_REPLY}}, {{Outcome.CLIENT_DETACHED}})",
            "daemons.sql",
        ),
        (LISTS, TDF2),
    ),
    Switch(
        "A failed member leaves its list",
        Sql("work/leave_bundles", "AND r.target_id = 0", "AND r.target_id < 0"),
        (f"{LISTS}::test_a_failed_member_leaves_the_list_and_gets_a_list_of_its_own",),
    ),
    Switch(
        "A list is read with its members after it was locked",
        Sql("work/lock_bundles", "FOR NO KEY UPDATE", ""),
        (RACES,),
    ),
    Switch(
        "The bundler makes lists of the size that the batch asks for",
        Code("scheduler.work.rules.grouping:_is_full", always(False)),
        (LISTS,),
    ),
    Switch(
        "The bundler makes lists of the run time that the batch asks for",
        Code("scheduler.work.rules.grouping:_fits", always(True)),
        (LISTS,),
    ),
    Switch(
        "An incomplete list waits for more results",
        Code("scheduler.work.rules.grouping:MAX_WAIT", timedelta(0)),
        (f"{LISTS}::test_bundler_groups_new_results_by_their_expected_run_time",),
    ),
    Switch(
        "A new result is put into one list by one bundler",
        Sql("work/lock_new_members", "FOR NO KEY UPDATE SKIP LOCKED", ""),
        (RACES,),
    ),
    Switch(
        "Our client runs the members of a list one after the other",
        Code("volunteer.plan:waits_for_list", always(False)),
        (CLIENT,),
    ),
    Switch(
        "Only workunits with one result at a time can be in a list",
        Code("scheduler.work.submission.rules.bundling:_obstacles", always(())),
        (f"{API}::test_a_member_that_cannot_be_in_a_list_is_refused",),
    ),
    Switch(
        "Apps with adaptive replication have no task lists",
        Code("scheduler.work.submission.rules.bundling:adaptive_fault", always(None)),
        (CARE,),
    ),
    Switch(
        "A workunit that is in a list, or was sent, cannot be put into another list",
        Code("scheduler.work.rules.grouping:_listing_faults", always(())),
        (f"{API}::test_a_list_that_cannot_be_sent_is_refused_with_the_reason",),
    ),
    Switch(
        "fsck compares the state of a list with its members",
        Sql("bundles_follow_their_members", "bundle.state <> expected.state", "FALSE", _INVARIANTS),
        (CARE,),
    ),
    Switch(
        "fsck finds members on several hosts",
        Sql(
            "running_bundles_have_one_host",
            "bundle.state <> {{BundleState.RUNNING}}\n"
            "    OR result.host_id IS DISTINCT FROM bundle.host_id",
            "FALSE",
            _INVARIANTS,
        ),
        (f"{CARE}::test_fsck_finds_a_member_on_another_host",),
    ),
    Switch(
        "The purger drops the memberships of a workunit",
        Sql(
            "drop_bundle_members",
            "workunit_id = any(%(ids)s::bigint[])",
            "workunit_id = any(%(ids)s::bigint[]) AND FALSE",
            "daemons.sql",
        ),
        (f"{CARE}::test_purge_leaves_no_reference_to_a_purged_workunit",),
    ),
    Switch(
        "A task file of TDF2 is refused with the line of each fault",
        Code("scheduler.work.rules.tdf2_files:_number_faults", always(())),
        (FILES,),
    ),
    Switch(
        "The duplicate of a failed task counts the failure in field, id and file name",
        Code("scheduler.work.rules.tdf2_files:Task.failed_again", made=_without_fails),
        (FILES, TDF2),
    ),
    Switch(
        "A failed task of a closed list is tried again only within max_fails and until",
        Code("scheduler.work.rules.tdf2_plans:_is_final", always(False)),
        (FILES,),
    ),
    Switch(
        "A second import of the same files changes nothing",
        Code("scheduler.work.tdf2.importing:_known", always(frozenset())),
        (TDF2,),
    ),
    Switch(
        "An attempt that no host reported leaves no file of TDF2",
        Code("scheduler.work.rules.rounds:is_failure", always(True)),
        (TDF2,),
    ),
    Switch(
        "A retry is exported to TDF2 with the number of the task that it retries",
        Code("scheduler.work.tdf2.exporting:_task", made=_without_retried),
        (f"{TDF2}::test_retry_is_exported_as_the_next_attempt_of_its_task",),
    ),
    Switch(
        "Workunits whose names are no numbers are not exported to TDF2",
        Code("scheduler.work.rules.tdf2_files:is_number", always(True)),
        (TDF2,),
    ),
    Switch(
        "The expected run time of a workunit determines its operations and its deadline",
        Code("scheduler.work.submission.rules.bundling:run_time_defaults", always({})),
        (f"{API}::test_a_submission_names_its_lists_and_a_batch_asks_for_them",),
    ),
    Switch(
        "The name of a task list of TDF2 grows with its state",
        Code("scheduler.work.rules.tdf2_files:list_label", made=_of_any_state),
        (FILES,),
    ),
    Switch(
        "`scientist bundle list` prints the task lists",
        Code("scientist.project:Project.bundles", always(())),
        (
            "tests/faces/scientist/test_scientist.py::test_bundle_commands_list_show_and_create_task_lists",
        ),
    ),
    Switch(
        "A task list is as old as its oldest member",
        Code(
            "scheduler.work.task_lists:_oldest",
            lambda members: max(member.created_at for member in members),
        ),
        (f"{LISTS}::test_a_list_is_as_old_as_its_oldest_member",),
    ),
    Switch(
        "The worker and the times of an executed task are written",
        Code("scheduler.work.rules.tdf2_files:render", made=_seven_lines),
        (f"{FILES}::test_ten_lines_are_read_and_written_with_the_suffix_of_the_id",),
    ),
    Switch(
        "Task lists are claimed by priority, then by age",
        Sql(
            "dispatch/read_bundles",
            "ORDER BY page.priority DESC, page.created_at ASC, page.id ASC, r.workunit_id ASC",
            "ORDER BY page.id DESC, r.workunit_id ASC",
        ),
        (LISTS,),
    ),
    Switch(
        "A claim marks its task list as running",
        Sql("dispatch/start_bundles", "state = {{BundleState.RUNNING}},", "state = b.state,"),
        (LISTS,),
    ),
    Switch(
        "The output of an attempt is exported beside its task",
        Code("scheduler.work.tdf2.exporting:_executed", lambda task, _detail: task),
        (TDF2,),
    ),
)
