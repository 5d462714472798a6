"""Rules of dependencies between workunits."""

from __future__ import annotations

from tests.mutate.switching import Code, Sql, Switch, always

GRAPHS = "tests/pure/work/test_dependency_graphs.py"
DEPENDENCIES = "tests/database/work/test_dependencies.py"
RACES = "tests/database/work/test_dependency_races.py"
_INVARIANTS = "scheduler.health.invariant_sql"
_DAEMONS = "daemons.sql"

RULES = (
    Switch(
        "A workunit can get a dependency only until it is released",
        Code("scheduler.work.rules.dependency_graphs:refusal_of_child", always("")),
        (GRAPHS, DEPENDENCIES),
    ),
    Switch(
        "No workunit can wait for a failed workunit",
        Code("scheduler.work.rules.dependency_graphs:refusal_of_parent", always("")),
        (GRAPHS, DEPENDENCIES),
    ),
    Switch(
        "Dependencies that form a cycle are refused",
        Code("scheduler.work.rules.dependency_graphs:find_cycle", always(())),
        (f"{DEPENDENCIES}::test_long_cycle_is_shortened_in_the_message",),
    ),
    Switch(
        "A cycle through existing dependencies is refused",
        Sql(
            "work/read_descendants", "WHERE dependency.parent_id = reached.child_id", "WHERE FALSE"
        ),
        (f"{DEPENDENCIES}::test_long_cycle_through_existing_workunits_is_refused",),
    ),
    Switch(
        "Changes of the dependencies of a submitter exclude each other",
        Code("scheduler.work.dependencies:lock_graph", always(None)),
        (RACES,),
    ),
    Switch(
        "Dependencies join workunits of one submitter",
        Sql(
            "work/lock_linked_workunits",
            "AND b.submitter_id IS NOT DISTINCT FROM %(account_id)s::bigint",
            "AND (TRUE OR %(account_id)s::bigint IS NULL)",
        ),
        (f"{DEPENDENCIES}::test_workunits_of_another_submitter_are_unknown",),
    ),
    Switch(
        "Only a canonical result meets a dependency",
        Sql(
            "work/recount_dependencies", "p.canonical_result_id IS NULL", "p.file_delete_state > 9"
        ),
        (DEPENDENCIES,),
    ),
    Switch(
        "A revalidation does not take back a release",
        Sql(
            "work/recount_dependencies",
            "AND w.release_state = {{ReleaseState.INACTIVE}}",
            "AND TRUE",
        ),
        (f"{DEPENDENCIES}::test_revalidation_does_not_take_back_a_release",),
    ),
    Switch(
        "The failure of a workunit is recorded in those that depend on it",
        Sql("work/recount_dependencies", "bool_or(p.error_mask <> 0)", "bool_or(FALSE)"),
        (DEPENDENCIES,),
    ),
    Switch(
        "Workunits that depend on a failed one do not wait for its results in progress",
        Sql(
            "work/recount_dependencies",
            "bool_or(p.error_mask <> 0)",
            "bool_or(p.error_mask <> 0 AND NOT EXISTS (SELECT FROM result AS r WHERE "
            "r.workunit_id = p.id AND r.server_state = {{ServerState.IN_PROGRESS}}))",
        ),
        (
            f"{DEPENDENCIES}::test_children_of_a_cancelled_parent_fail_while_a_host_still_computes_it",
        ),
    ),
    Switch(
        "A failed workunit on which another one no longer depends does not make it fail",
        Sql(
            "work/recount_dependencies",
            "SET pending_dependency_count = counted.unmet",
            "SET dependency_failed_at = CASE WHEN counted.has_failed THEN %(now)s::timestamptz "
            "ELSE w.dependency_failed_at END, pending_dependency_count = counted.unmet",
        ),
        (
            f"{DEPENDENCIES}::test_removed_dependency_on_a_failed_workunit_has_no_effect_beside_a_batch",
        ),
    ),
    Switch(
        "A failed batch ends the workunits that wait for it, also if they waited for others",
        Sql("work/recount_dependencies", "ELSE w.dependency_failed_at", "ELSE NULL"),
        (f"{DEPENDENCIES}::test_failed_batch_counts_after_a_dependency_was_removed",),
    ),
    Switch(
        "The end of a workunit wakes those that depend on it",
        Sql("wake_children", "WHERE parent_id = any", "WHERE FALSE AND parent_id = any", _DAEMONS),
        (DEPENDENCIES,),
    ),
    Switch(
        "The transitioner counts the dependencies of a child under its lock",
        Code(
            "daemons.transitioner:_recounted",
            lambda workunits, _children, now: list(workunits),
        ),
        (DEPENDENCIES,),
    ),
    Switch(
        "A held workunit that becomes a continuation is released by its dependencies",
        Sql(
            "work/insert_dependencies",
            "WHEN linked.is_child THEN {{ReleaseState.INACTIVE}}",
            "WHEN FALSE THEN {{ReleaseState.INACTIVE}}",
        ),
        (f"{DEPENDENCIES}::test_held_workunit_becomes_inactive_when_it_becomes_a_continuation",),
    ),
    Switch(
        "A continuation in the same submission is created inactive",
        Code("scheduler.work.submission.submit:Pipeline.note_dependencies", always(None)),
        (f"{DEPENDENCIES}::test_continuation_in_the_same_submission_waits",),
    ),
    Switch(
        "The retry of a workunit waits for the retries of its parents",
        Sql(
            "work/copy_dependencies_to_retries",
            "WHERE parent.retried_as IS NOT NULL",
            "WHERE parent.retried_as IS NOT NULL AND FALSE",
        ),
        (DEPENDENCIES,),
    ),
    Switch(
        "A retry waits for the end of a parent that is being judged",
        Sql("work/lock_failed_graph", "UNION SELECT linked.id FROM linked", ""),
        (f"{RACES}::test_retry_waits_for_the_end_of_a_parent_that_is_being_judged",),
    ),
    Switch(
        "Workunits with dependencies are retried after the others, in one transaction",
        Sql(
            "work/lock_failed",
            "AND has_parents = %(are_joined)s::boolean",
            "AND (TRUE OR %(are_joined)s::boolean)",
        ),
        (f"{DEPENDENCIES}::test_retry_does_not_depend_on_the_order_of_submission",),
    ),
    Switch(
        "A workunit that also waits for its batch is not released by its parents alone",
        Sql("work/recount_dependencies", "+ w.waits_for_batch::integer", "+ 0"),
        (f"{DEPENDENCIES}::test_workunit_waits_for_its_parents_and_for_its_batch",),
    ),
    Switch(
        "A parent is kept until its children have ended",
        Sql(
            "lease_purgeable",
            "w.has_children AND EXISTS (",
            "FALSE AND EXISTS (",
            _DAEMONS,
        ),
        (DEPENDENCIES,),
    ),
    Switch(
        "A failed parent is kept until its children are purged",
        Sql("lease_purgeable", "w.error_mask <> 0 OR (", "FALSE OR (", _DAEMONS),
        (f"{DEPENDENCIES}::test_failed_parent_is_kept_until_its_children_are_purged",),
    ),
    Switch(
        "Purged workunits take their dependencies with them",
        Sql(
            "drop_dependencies",
            "DELETE FROM dependency WHERE",
            "DELETE FROM dependency WHERE FALSE AND",
            _DAEMONS,
        ),
        (f"{DEPENDENCIES}::test_parent_is_kept_until_its_children_have_ended",),
    ),
    Switch(
        "The archive keeps the dependencies",
        Sql(
            "read_archivable",
            "WHERE d.parent_id = any(%(ids)s::bigint[])",
            "WHERE FALSE",
            _DAEMONS,
        ),
        (f"{DEPENDENCIES}::test_archive_keeps_the_dependencies",),
    ),
    Switch(
        "fsck finds wrong counts of dependencies",
        Sql(
            "dependency_counts_are_current",
            "AND w.pending_dependency_count <> counted.unmet",
            "AND FALSE",
            _INVARIANTS,
        ),
        (DEPENDENCIES,),
    ),
    Switch(
        "fsck finds open workunits that depend on failed ones",
        Sql("children_of_failed_workunits_fail", "p.error_mask <> 0", "FALSE", _INVARIANTS),
        (DEPENDENCIES,),
    ),
    Switch(
        "fsck finds workunits that were released early",
        Sql("dependencies_were_met", "AND p.canonical_result_id IS NULL", "AND FALSE", _INVARIANTS),
        (f"{DEPENDENCIES}::test_fsck_finds_an_early_release",),
    ),
    Switch(
        "fsck finds dependencies without workunits",
        Sql(
            "dependencies_join_workunits",
            "p.id IS NULL OR c.id IS NULL OR",
            "FALSE AND",
            _INVARIANTS,
        ),
        (f"{DEPENDENCIES}::test_fsck_finds_an_edge_without_its_workunits",),
    ),
    Switch(
        "A group is complete when its dependencies are met",
        Code("scheduler.results.rules.replication:is_complete_group", always(False)),
        (f"{DEPENDENCIES}::test_group_is_complete_when_its_dependencies_are_met",),
    ),
    Switch(
        "No assimilator is called for a group that fails",
        Code(
            "scheduler.results.rules.verdicts:Verdict.ends_group",
            property(lambda verdict: verdict.complete),
        ),
        (f"{DEPENDENCIES}::test_failed_group_ends_without_an_assimilator",),
    ),
    Switch(
        "A group has no command",
        Code("scheduler.work.submission.rules.new_workunits:_command_of_group", always(())),
        (f"{DEPENDENCIES}::test_group_with_a_command_or_results_is_refused",),
    ),
    Switch(
        "fsck finds groups with results",
        Sql("groups_have_no_results", "WHERE w.is_group AND (", "WHERE FALSE AND (", _INVARIANTS),
        (f"{DEPENDENCIES}::test_fsck_finds_a_group_with_results_and_one_that_is_not_ended",),
    ),
)
