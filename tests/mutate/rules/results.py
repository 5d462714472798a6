"""Rules of the states of results: sending, reports, verdicts and outputs."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from scheduler.lifecycle import Outcome
from tests.mutate.switching import Both, Code, Sql, Switch, always

REPLICATION = "tests/pure/results/test_replication.py"
LIFECYCLE = "tests/pure/test_lifecycle.py"
QUORUM = "tests/pure/results/test_quorum.py"
SELECTION = "tests/pure/dispatch/test_selection.py"
RACES = "tests/database/dispatch/test_dispatch_races.py"
DELETER = "tests/database/daemons/test_file_deleter.py"
HOUSEKEEPER = "tests/database/daemons/test_housekeeper.py"
CREDIT = "tests/database/credit/test_credit.py"
SCHEDULER = "tests/faces/boinc/test_scheduler.py"
NUMBERS = "tests/security/test_numbers_from_the_wire.py"

_DAEMONS = "daemons.sql"


def _listed_twice(original: Any) -> Any:
    """Return a comparison that lists valid results as inconclusive, too."""

    def check_set(*args: Any, **options: Any) -> Any:
        consensus = original(*args, **options)
        return replace(consensus, inconclusive=consensus.inconclusive + consensus.valid)

    return check_set


RULES = (
    # B20
    Switch(
        "Unsent results of a held workunit are inactive",
        Code("scheduler.results.rules.replication:_holds_and_releases", always(())),
        (
            f"{REPLICATION}::test_unsent_results_become_inactive_while_held_and_unsent_after_release",
        ),
    ),
    # B21
    Switch(
        "A result is claimed under the lock of its workunit, and only while it is unsent",
        Both(
            Sql("dispatch/lock_chosen_workunits", "FOR NO KEY UPDATE OF w SKIP LOCKED", ""),
            Sql(
                "dispatch/claim_results",
                "AND r.server_state * 10 + r.outcome = {{ResultState.UNSENT}}",
                "",
            ),
        ),
        (f"{RACES}::test_a_result_that_another_transaction_is_claiming_is_sent_once",),
    ),
    # B22
    Switch(
        "A report ends a result in progress",
        Sql(
            "results/settle_reports",
            "r.server_state = {{ServerState.IN_PROGRESS}} AND r.outcome = {{Outcome.INIT}}",
            "FALSE",
        ),
        (f"{SCHEDULER}::test_first_of_two_reports_of_a_result_in_one_request_is_used",),
    ),
    Switch(
        "A report of a result that timed out is accepted",
        Sql(
            "results/settle_reports",
            "r.server_state = {{ServerState.OVER}} AND r.outcome = {{Outcome.NO_REPLY}}",
            "FALSE",
        ),
        (f"{SCHEDULER}::test_late_report_of_a_no_reply_result_is_accepted",),
    ),
    # B25
    Switch(
        "The outcome of a report follows its client state",
        Code("scheduler.results.rules.reports:outcome", always(Outcome.SUCCESS)),
        (f"{SELECTION}::test_report_outcome_follows_client_state_and_exit_status",),
    ),
    # B31
    Switch(
        "A compared result has one verdict",
        Code("scheduler.results.rules.quorum:check_set", made=_listed_twice),
        (f"{QUORUM}::test_each_result_is_in_at_most_one_list_and_valid_results_agree",),
    ),
    # B33
    Switch(
        "A reported error is invalid",
        Sql(
            "results/settle_reports",
            "WHEN report.outcome = {{Outcome.CLIENT_ERROR}} THEN {{ValidateState.INVALID}}",
            "WHEN FALSE THEN {{ValidateState.INVALID}}",
        ),
        (f"{SCHEDULER}::test_reported_error_is_stored_as_invalid_with_its_stderr",),
    ),
    # B26
    Switch(
        "The deletion of outputs is recorded",
        Sql(
            "settle_deleted_outputs",
            "SET file_delete_state = tried.target,",
            "SET file_delete_state = tried.source,",
            _DAEMONS,
        ),
        (f"{DELETER}::test_output_files_of_a_ready_result_are_deleted",),
    ),
    # B27
    Switch(
        "Outputs are deleted after assimilation, when all results are over",
        Code("scheduler.results.rules.settled:_files_to_delete", always(())),
        (f"{REPLICATION}::test_all_files_are_deleted_once_all_results_are_over_and_assimilated",),
    ),
    # B30
    Switch(
        "The deletion of outputs is retried after an error",
        Code("daemons.file_deleter:_OUTPUT_SOURCES", [1]),
        (f"{DELETER}::test_a_failed_file_deletion_is_retried_after_an_hour",),
    ),
)
