"""Each invariant of `fsck` is seen to report a violation in a test."""

from __future__ import annotations

import ast

import pytest

from scheduler.health.invariants import invariants
from tests.house.tracked import read

FSCK = "tests/database/health/test_fsck.py"
QUEUES = "tests/database/queues/test_named_queues.py"
GRAPHS = "tests/database/work/test_dependencies.py"
LISTS = "tests/database/task_lists/test_list_care.py"
ENDS = "tests/database/work/test_batch_ends.py"

#: A test of each invariant: it damages rows and asserts that the invariant finds them.
FIRED_BY = {
    "bundles_follow_their_members": f"{LISTS}::test_fsck_finds_a_list_whose_state_differs_from_its_members",
    "running_bundles_have_one_host": f"{LISTS}::test_fsck_finds_a_member_on_another_host",
    "bundle_members_exist": f"{LISTS}::test_fsck_finds_a_workunit_that_is_no_member_of_its_list",
    "queue_slots_match_results": f"{QUEUES}::test_fsck_finds_slots_of_wrong_results_and_the_chore_repairs_them",
    "queues_accept_their_work": f"{QUEUES}::test_fsck_finds_unfinished_work_that_its_queue_does_not_accept",
    "queue_slots_within_limit": f"{QUEUES}::test_fsck_finds_a_wrong_number_of_slots_and_the_chore_repairs_it",
    "answer_or_reason": f"{FSCK}::test_a_workunit_with_both_a_canonical_result_and_an_error_is_found",
    "canonical_is_valid": f"{FSCK}::test_a_canonical_result_that_is_not_valid_is_found",
    "results_repeat_their_app": f"{FSCK}::test_a_result_whose_app_differs_from_its_workunit_is_found",
    "inputs_have_a_workunit": f"{FSCK}::test_an_input_row_without_a_workunit_is_found",
    "followers_wait": f"{ENDS}::test_fsck_finds_workunits_released_too_early_or_never_released",
    "waiting_workunits_have_a_dependency": f"{FSCK}::test_a_dependent_workunit_without_a_batch_to_follow_is_found",
    "dependency_counts_are_current": f"{GRAPHS}::test_fsck_finds_a_child_that_nothing_wakes",
    "children_of_failed_workunits_fail": f"{GRAPHS}::test_fsck_finds_a_child_that_outlives_a_failed_parent",
    "dependencies_join_workunits": f"{GRAPHS}::test_fsck_finds_an_edge_without_its_workunits",
    "groups_have_no_results": f"{GRAPHS}::test_fsck_finds_a_group_with_results_and_one_that_is_not_ended",
    "no_more_results_than_allowed": f"{FSCK}::test_more_results_than_allowed_are_found",
    "one_live_result_per_host": f"{FSCK}::test_two_results_of_a_workunit_in_progress_on_one_host_are_found",
    "finished_when_assimilated": f"{FSCK}::test_an_assimilated_workunit_without_finished_at_is_found",
    "outputs_kept_until_assimilated": f"{FSCK}::test_outputs_released_before_assimilation_are_found",
    "canonical_outputs_kept_until_judged": f"{FSCK}::test_canonical_outputs_released_before_a_success_is_validated_are_found",
    "kept_outputs_exist": f"{FSCK}::test_kept_outputs_that_are_released_or_outlive_their_batch_are_found",
    "inputs_kept_until_over": f"{FSCK}::test_inputs_deleted_before_all_results_are_over_are_found",
    "host_credit_is_its_sum": f"{FSCK}::test_credit_totals_without_credit_entries_are_found",
    "account_credit_is_its_sum": f"{FSCK}::test_credit_totals_without_credit_entries_are_found",
    "account_app_credit_is_its_sum": f"{FSCK}::test_credit_entries_of_purged_results_still_count",
    "team_credit_is_its_sum": f"{FSCK}::test_credit_totals_without_credit_entries_are_found",
    "host_app_credit_is_its_sum": f"{FSCK}::test_credit_by_computer_and_by_team_that_differs_from_counted_entries_is_found",
    "team_app_credit_is_its_sum": f"{FSCK}::test_credit_by_computer_and_by_team_that_differs_from_counted_entries_is_found",
    "accounts_have_an_email_address": f"{FSCK}::test_an_account_without_its_email_address_is_found",
    "team_administrators_are_members": f"{FSCK}::test_an_administrator_who_is_no_member_or_leads_the_team_is_found",
    "app_credit_is_its_sum": f"{FSCK}::test_credit_entries_of_a_deleted_app_are_found",
    "granted_credit_is_entered": f"{FSCK}::test_granted_credit_without_a_credit_entry_is_found",
    "doomed_files_are_unused": f"{FSCK}::test_a_referenced_file_marked_for_deletion_is_found",
    "unused_files_are_doomed": f"{FSCK}::test_unreferenced_files_not_marked_for_deletion_are_found",
    "moves_are_legal": f"{FSCK}::test_an_illegal_move_in_the_ledger_is_found",
    "states_are_the_last_moves": f"{FSCK}::test_a_gap_between_moves_in_the_ledger_is_found",
    "moves_are_unbroken": f"{FSCK}::test_a_gap_between_moves_in_the_ledger_is_found",
    "first_moves_are_known": f"{FSCK}::test_a_missing_first_move_is_found_while_its_ledger_partition_exists",
    "dependencies_were_met": f"{GRAPHS}::test_fsck_finds_an_early_release",
    "nobody_is_forgotten": f"{FSCK}::test_an_end_time_without_a_transition_time_is_found",
    "dependencies_have_no_cycle": f"{GRAPHS}::test_fsck_finds_a_cycle",
    "needed_outputs_exist": f"{FSCK}::test_missing_input_and_output_files_are_found",
    "deleted_outputs_are_gone": f"{FSCK}::test_outputs_marked_as_deleted_but_still_on_disk_are_found",
    "inputs_exist": f"{FSCK}::test_input_files_of_the_wrong_length_and_old_downloads_without_a_row_are_found",
    "downloads_are_known": f"{FSCK}::test_input_files_of_the_wrong_length_and_old_downloads_without_a_row_are_found",
}


def test_each_invariant_has_a_test_that_sees_it_fire():
    hint = "Hint: write a test that damages a row, and add it to FIRED_BY."
    assert set(FIRED_BY) == {invariant.name for invariant in invariants()}, hint


@pytest.mark.parametrize("name", FIRED_BY)
def test_the_test_of_an_invariant_asserts_that_it_finds_a_violation(name):
    path, _, test = FIRED_BY[name].partition("::")
    functions = {
        node.name: node for node in ast.parse(read(path)).body if isinstance(node, ast.FunctionDef)
    }
    assert test in functions
    function = functions[test]
    is_parameter = name in constants_of(*function.decorator_list)
    assert is_parameter or any(asserts_violation(node, name) for node in ast.walk(function))


def constants_of(*nodes):
    return {
        part.value for node in nodes for part in ast.walk(node) if isinstance(part, ast.Constant)
    }


def asserts_violation(node, name):
    """Return whether an assertion requires violations of the invariant."""
    if not isinstance(node, ast.Assert):
        return False
    is_negative = any(isinstance(part, ast.NotIn | ast.NotEq) for part in ast.walk(node.test))
    return name in constants_of(node.test) and not is_negative
