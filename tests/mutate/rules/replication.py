"""Rules of replication, errors, time and files."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from tests.mutate.switching import Code, Sql, Switch, always

REPLICATION = "tests/pure/results/test_replication.py"
TRANSITIONER = "tests/database/daemons/test_transitioner.py"
_STAY = "test_files_of_a_timed_out_result_stay_if_it_was_reported_after_the_judgement"
TIMEOUTS = "tests/database/daemons/test_timeout_checker.py"
OUTAGES = "tests/pure/results/test_outages.py"
SENDABILITY = "tests/pure/dispatch/test_sendability.py"
DELETER = "tests/database/daemons/test_file_deleter.py"
BATCH_ENDS = "tests/database/work/test_batch_ends.py"
ANTIQUES = "tests/database/files/test_antiques.py"
EXPLAIN = "tests/database/work/test_explain.py"
OUTAGES_KEPT = "tests/database/results/test_outages.py"

INTERLEAVINGS = "tests/database/daemons/test_interleavings.py"

NEVER = timedelta(days=36500)


def _delete_last(original: Any) -> Any:
    """Return a function that deletes all wake-ups of the workunits after writing the verdicts."""

    def write(judged: Any, *, now: Any) -> None:
        from scheduler.models import WorkunitWakeup

        original(judged, now=now)
        workunit_ids = [workunit_id for group in judged for workunit_id in group.workunit_ids]
        WorkunitWakeup.objects.filter(workunit_id__in=workunit_ids).delete()

    return write


RULES = (
    Switch(
        "A refusal counts only if it is repeated after a day",
        Sql(
            "count_refusals",
            "r.counts_at_once OR r.at >= greatest(r.first_at, newest.created_at) "
            "+ %(counts_after)s::interval",
            "TRUE",
            "daemons.sql",
        ),
        ("tests/database/daemons/test_timeout_checker.py",),
    ),
    Switch(
        "A refusal counts immediately if no version can ever fit the host",
        Code("scheduler.dispatch.catalog:Catalog.never_fits", always(False)),
        ("tests/faces/boinc/test_choosing.py",),
    ),
    Switch(
        "A workunit fails after more errors than its limit",
        Code("scheduler.results.rules.replication:has_too_many_errors", always(False)),
        (REPLICATION,),
    ),
    Switch(
        "A workunit fails, if the app says so, when every active account has had a result",
        Code("scheduler.results.rules.replication:has_no_other_host", always(False)),
        (TRANSITIONER,),
    ),
    Switch(
        "A workunit fails after more time-outs than its limit",
        Code("scheduler.results.rules.replication:has_too_many_timeouts", always(False)),
        (REPLICATION,),
    ),
    Switch(
        "A workunit fails after its limit of successes without agreement",
        Code("scheduler.results.rules.replication:has_too_many_successes", always(False)),
        (REPLICATION,),
    ),
    Switch(
        "The total number of results is limited",
        Code("scheduler.results.rules.replication:_is_out_of_results", always(False)),
        (REPLICATION,),
    ),
    Switch(
        "A result that a volunteer aborted is not an error",
        Code("scheduler.results.rules.replication:EXIT_ABORTED_BY_USER", -1),
        (REPLICATION,),
    ),
    Switch(
        "A workunit that ends without agreement has a reason of its own",
        Code("scheduler.results.rules.replication:_has_no_agreement", always(False)),
        (REPLICATION,),
    ),
    Switch(
        "An unsendable result fails its workunit",
        Code("scheduler.results.rules.replication:_is_unsendable", always(False)),
        (REPLICATION,),
    ),
    Switch(
        "A result for which no host qualifies is COULDNT_SEND",
        Code(
            "scheduler.results.rules.settled:drop_unsent",
            made=lambda original: lambda result, because, failures=(): original(result, because),
        ),
        (
            REPLICATION,
            TRANSITIONER,
        ),
    ),
    Switch(
        "The homogeneous redundancy class is cleared after errors only",
        Code("scheduler.results.rules.replication:_only_errors_came", always(False)),
        (REPLICATION,),
    ),
    Switch(
        "Outputs are kept until their submitter retires the batch",
        Code("scheduler.results.rules.settled:outputs_are_kept", always(False)),
        (REPLICATION, BATCH_ENDS),
    ),
    Switch(
        "Inputs of failed workunits are kept for a retry",
        Code("scheduler.results.rules.settled:inputs_are_kept", always(False)),
        (
            f"{BATCH_ENDS}::test_input_files_of_failed_workunits_are_kept_until_the_batch_is_retired",
        ),
    ),
    Switch(
        "A workunit fails with the batch or the workunit that it waits for",
        Code("scheduler.results.rules.replication:dependency_failed", always(False)),
        (f"{BATCH_ENDS}::test_failed_batch_fails_all_batches_that_follow_it",),
    ),
    Switch(
        "A batch waits until the one that it follows has no open workunit",
        Code("scheduler.work.submission.new_batches:is_running", always(False)),
        (
            f"{BATCH_ENDS}::test_a_following_batch_keeps_waiting_if_its_predecessor_gets_new_workunits",
        ),
    ),
    Switch(
        "A failed workunit that was retried does not fail the batches that follow",
        Sql("work/lock_predecessor", "AND workunit.retried_as IS NULL", ""),
        (BATCH_ENDS,),
    ),
    Switch(
        "A workunit expires at its end time",
        Code("scheduler.results.rules.replication:_has_expired", always(False)),
        (REPLICATION,),
    ),
    Switch(
        "A broadcast workunit gets no replicas",
        Code(
            "scheduler.results.rules.replication:replicas_wanted",
            lambda w, c: max(0, min(w.target_nresults - c.alive, w.max_total_results - c.total)),
        ),
        (REPLICATION,),
    ),
    Switch(
        "A broadcast workunit is validated at its end time",
        Code(
            "scheduler.results.rules.replication:_is_worth_validating",
            lambda w, c, **_: c.fresh > 0 and c.successes >= w.min_quorum,
        ),
        (REPLICATION,),
    ),
    Switch(
        "Staff can have an answer validated again",
        Code("scheduler.results.rules.replication:may_be_reopened", always(False)),
        (REPLICATION,),
    ),
    Switch(
        "A reopened workunit has no canonical result",
        Sql(
            "transition_workunits",
            "CASE WHEN NOT verdict.reopened THEN w.canonical_result_id END",
            "w.canonical_result_id",
            package="daemons.sql",
        ),
        (
            TRANSITIONER,
            "tests/database/work/test_revalidate.py",
        ),
    ),
    Switch(
        "The mark `unsendable_at` is cleared when the result was sent",
        Sql(
            "transition_workunits",
            "WHEN verdict.error_mask & %(couldnt_send)s::integer <> 0 THEN w.unsendable_at",
            "WHEN TRUE THEN w.unsendable_at",
            package="daemons.sql",
        ),
        (f"{TRANSITIONER}::test_request_to_give_up_is_dropped_if_the_result_was_sent_meanwhile",),
    ),
    Switch(
        "Open workunits are rechecked after an interval",
        Code("scheduler.results.rules.replication:RECHECK_INTERVAL", NEVER),
        (REPLICATION,),
    ),
    Switch(
        "A success after its credit deadline is too late",
        Code("scheduler.results.rules.settled:came_after_credit_deadline", always(False)),
        (REPLICATION,),
    ),
    Switch(
        "A success without files to compare with is too late",
        Code("scheduler.results.rules.settled:canonical_is_kept", always(True)),
        (REPLICATION,),
    ),
    Switch(
        "Files are kept for the app's `delete_delay`",
        Code("scheduler.results.rules.settled:files_kept_until", always(None)),
        (REPLICATION,),
    ),
    Switch(
        "Outputs are kept while a late result can still be validated",
        Code("scheduler.results.rules.settled:_may_still_come", always(False)),
        (REPLICATION,),
    ),
    Switch(
        "A retry gets the app's `retry_priority`",
        Sql(
            "insert_replicas",
            "CASE WHEN urgent.is_so THEN app.retry_priority ELSE 0 END",
            "0",
            package="daemons.sql",
        ),
        (TRANSITIONER,),
    ),
    Switch(
        "A retry is reserved for reliable hosts",
        Sql(
            "insert_replicas",
            "urgent.is_so AND app.reliable_max_turnaround IS NOT NULL",
            "FALSE",
            package="daemons.sql",
        ),
        (
            f"{TRANSITIONER}::test_a_retry_result_gets_higher_priority_and_is_reserved_for_reliable_hosts",
        ),
    ),
    Switch(
        "All results of an accelerated batch are urgent",
        Sql("insert_replicas", "coalesce(batch.accelerate, FALSE)", "FALSE", package="daemons.sql"),
        (f"{TRANSITIONER}::test_results_of_an_accelerated_batch_get_the_retry_priority",),
    ),
    Switch(
        "A result has the target of its workunit",
        Sql(
            "insert_replicas",
            "coalesce(w.target_host_id, w.target_account_id, w.target_team_id, w.queue_id, 0)",
            "0",
            package="daemons.sql",
        ),
        (f"{TRANSITIONER}::test_results_have_the_target_of_their_workunit",),
    ),
    Switch(
        "Files that arrive after the other outputs were deleted are deleted, too",
        Sql(
            "results/settle_reports",
            "CASE WHEN r.file_delete_state = {{FileDeleteState.DONE}} "
            "THEN {{FileDeleteState.READY}} ELSE r.file_delete_state END",
            "r.file_delete_state",
        ),
        (DELETER,),
    ),
    Switch(
        "A result is given up after its limit of refused hosts",
        Code("scheduler.dispatch.rules.sendability:is_unsendable", always(False)),
        (
            SENDABILITY,
            TIMEOUTS,
        ),
    ),
    Switch(
        "A result that is nearly unsendable is logged",
        Code("scheduler.dispatch.rules.sendability:is_nearly", always(False)),
        (f"{TIMEOUTS}::test_result_that_is_hard_to_send_is_logged_once",),
    ),
    Switch(
        "Denied hosts do not count as active",
        Sql("count_refusals", "AND NOT h.denied", "", package="daemons.sql"),
        (TIMEOUTS,),
    ),
    Switch(
        "A host to which a workunit was refused does not count as untried",
        Sql("lock_woken_workunits", "AND f.host_id = h.id", "AND FALSE", package="daemons.sql"),
        (TRANSITIONER,),
    ),
    Switch(
        "A host with a refusal older than the newest version counts as untried",
        Sql(
            "lock_woken_workunits",
            "AND f.at >= coalesce(newest.created_at, f.at)",
            "",
            package="daemons.sql",
        ),
        (TRANSITIONER,),
    ),
    Switch(
        "Refusals from before the newest version do not count",
        Sql(
            "count_refusals",
            "AND r.at >= coalesce(newest.created_at, '-infinity'::timestamptz)",
            "",
            package="daemons.sql",
        ),
        (
            f"{TIMEOUTS}::test_refusals_older_than_the_newest_app_version_never_count_under_any_rule",
        ),
    ),
    Switch(
        "Only refusals of target hosts count for a targeted result",
        Sql(
            "count_refusals",
            "WHEN waiting.target_host_id IS NOT NULL THEN",
            "WHEN FALSE THEN",
            package="daemons.sql",
        ),
        (TIMEOUTS,),
    ),
    Switch(
        "A result times out only after the app's grace",
        Sql(
            "time_out_results",
            "r.report_deadline + app.grace <=",
            "r.report_deadline <=",
            package="daemons.sql",
        ),
        (f"{TIMEOUTS}::test_a_result_times_out_only_after_the_grace_period_of_the_app",),
    ),
    Switch(
        "An assignment that is never acknowledged is given up",
        Sql("time_out_results", "app.ack_timeout IS NOT NULL", "FALSE", package="daemons.sql"),
        (f"{TIMEOUTS}::test_the_acknowledgement_timeout_restarts_after_an_outage",),
    ),
    Switch(
        "An assignment to a host of the pool that is never acknowledged is given up",
        Sql("time_out_results", "app.ack_timeout IS NULL", "FALSE", package="daemons.sql"),
        (TIMEOUTS,),
    ),
    Switch(
        "A result whose usage a host of the pool reports is not given up",
        Sql(
            "time_out_results",
            "sample.result_id = r.id",
            "FALSE",
            package="daemons.sql",
        ),
        (f"{TIMEOUTS}::test_a_claim_whose_usage_the_host_reports_is_kept",),
    ),
    Switch(
        "A result is given up early only on hosts that are enrolled in the pool now",
        Sql("time_out_results", "token.revoked_at IS NULL", "TRUE", package="daemons.sql"),
        (f"{TIMEOUTS}::test_hosts_outside_of_the_pool_keep_what_they_have_not_acknowledged",),
    ),
    Switch(
        "A result is given up early only if its queue is trusted",
        Sql("time_out_results", "AND queue.trusted", "", package="daemons.sql"),
        (f"{TIMEOUTS}::test_a_host_of_the_pool_keeps_unacknowledged_results_of_other_work",),
    ),
    Switch(
        "A host that did not reply loses its count of consecutive valid results",
        Sql("distrust_hosts", "consecutive_valid = 0,", "", package="daemons.sql"),
        (f"{TIMEOUTS}::test_a_timeout_resets_the_consecutive_valid_count_of_the_host",),
    ),
    Switch(
        "A host that did not reply has its quota lowered",
        Code(
            "daemons.timeout_checker:quota_after",
            lambda *, max_results_per_day, **_: max_results_per_day,
        ),
        (TIMEOUTS,),
    ),
    Switch(
        "No result times out while volunteers cannot reach the server",
        Code("scheduler.results.rules.deadline_moves:is_silent", always(False)),
        (f"{TIMEOUTS}::test_no_result_times_out_while_the_web_heartbeat_is_missing",),
    ),
    Switch(
        "Deadlines are extended by an outage before results time out",
        Sql("results/read_signs", "AS is_pending", "AND FALSE AS is_pending"),
        (TIMEOUTS,),
    ),
    Switch(
        "Deadlines are extended by the length of an outage",
        Code(
            "scheduler.results.rules.deadline_moves:moved_deadline", lambda deadline, **_: deadline
        ),
        (
            OUTAGES,
            OUTAGES_KEPT,
        ),
    ),
    Switch(
        "Overlapping outages extend a deadline only once",
        Code("scheduler.results.rules.deadline_moves:uncovered", lambda span, others: (span,)),
        (
            OUTAGES,
            OUTAGES_KEPT,
        ),
    ),
    Switch(
        "A long gap between heartbeats is stored as an outage",
        Sql(
            "results/beat",
            "was.seen_at + %(outage_after)s::interval < %(now)s::timestamptz",
            "FALSE",
        ),
        (OUTAGES_KEPT,),
    ),
    Switch(
        "Files newer than the oldest unassimilated workunit are not antique",
        Code(
            "scheduler.files.antiques:antique_before",
            lambda *args, **kwargs: kwargs["now"] if "now" in kwargs else args[-1],
        ),
        (ANTIQUES,),
    ),
    Switch(
        "Files of a result that is not deleted are not antique",
        Sql("files/read_living_results", "<> 2", "<> file_delete_state"),
        (ANTIQUES,),
    ),
    Switch(
        "The command explain shows which hosts requested work and why they got none",
        Code("scheduler.work.rules.explanation:explain_sending", always(())),
        (EXPLAIN,),
    ),
    Switch(
        "A pass deletes only the wake-ups that it read before it judged",
        Code("daemons.transitioner:_write_workunits", made=_delete_last),
        (f"{INTERLEAVINGS}::test_wake_up_inserted_during_a_pass_causes_another_pass",),
    ),
    Switch(
        "A pass checks all judged states of a result that it moves",
        Code("daemons.transitioner:_position", always({})),
        (f"{TRANSITIONER}::{_STAY}",),
    ),
    Switch(
        "A pass keeps the wake-ups of workunits that others have locked",
        Sql("lock_woken_workunits", "WHERE skipped.id IS NULL", "", "daemons.sql"),
        (
            f"{INTERLEAVINGS}::test_two_concurrent_transitioners_create_the_results_of_a_workunit_once",
        ),
    ),
    Switch(
        "A workunit with a later time of its next check is woken at that time",
        Sql("wake_due_workunits", "transition_at <= %(now)s::timestamptz", "FALSE", "daemons.sql"),
        (
            f"{TRANSITIONER}::test_files_of_an_assimilated_workunit_become_deletable_and_late_ones_at_credit_deadline",
        ),
    ),
)
