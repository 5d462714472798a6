"""Rules of the trusted pool, and of cancelled programs."""

from __future__ import annotations

from typing import Any

from tests.mutate.switching import Code, Sql, Switch, always
from volunteer.events import Print

API = "tests/faces/api/test_api_pool.py"
BACKLOG = "tests/faces/api/test_api_pool_backlog.py"
ACCESS = "tests/security/test_pool_access.py"
WAITING = "tests/pure/pool/test_waiting.py"
CLAIMS = "tests/faces/api/test_api_pool_client.py"
CLIENT = "tests/pure/client/test_volunteer_pool.py"
STATES = "tests/database/work/test_cancellation_states.py"
REPLIES = "tests/faces/boinc/test_scheduler.py"


def _for_any_reason(original: Any) -> Any:
    return lambda self, _reason, sentence: original(self, "unavailable", sentence)


def _killed_at_once(original: Any) -> Any:
    return lambda self, key, request="<quit/>", _grace=0.0: original(self, key, request, 0.0)


def _own_status(_original: Any) -> Any:
    return lambda report: report.exit_status


RULES = (
    Switch(
        "Only results of trusted queues are listed and claimed in the pool",
        Code("scheduler.pool.claims:_POOL_QUEUES", {}),
        (f"{API}::test_work_outside_of_trusted_queues_is_neither_listed_nor_claimed",),
    ),
    Switch(
        "A host claims only results of trusted queues that serve it",
        Code("scheduler.pool.claims:_serves", always(True)),
        (API,),
    ),
    Switch(
        "Cancelled workunits are not listed in the pool",
        Sql("pool/read_available", "AND w.cancel_requested_at IS NULL", ""),
        (f"{API}::test_claim_of_a_cancelled_workunit_is_refused",),
    ),
    Switch(
        "Results of workunits that the account had before do not keep a host from other work",
        Sql("pool/read_acquirable", "AND page.one_result_per = 'account'", "AND FALSE"),
        (f"{API}::test_work_behind_replicas_for_other_accounts_is_acquired",),
    ),
    Switch(
        "Work behind a page of results that do not fit is acquired",
        Code("scheduler.pool.acquisition:MAX_PAGES", 1),
        (API,),
    ),
    Switch(
        "A request for work of the pool does not read the whole backlog",
        Code("scheduler.pool.acquisition:_equal_share", always(10**9)),
        (BACKLOG,),
    ),
    Switch(
        "A host reports usage only of its own results",
        Sql("pool/insert_usage", "AND r.host_id = %(host_id)s::bigint", ""),
        (f"{ACCESS}::test_a_host_cannot_report_usage_of_another_hosts_result",),
    ),
    Switch(
        "A result gets at most one usage sample a second of each kind of value in the pool",
        Sql("pool/insert_usage", "WHERE recent.lacks_a_value", ""),
        (f"{API}::test_each_kind_of_value_is_stored_at_most_once_a_second_and_changes_no_state",),
    ),
    Switch(
        "Values that are reported by calls of their own in one second are all stored in the pool",
        Sql("pool/insert_usage", "count(s.cpu_utilization) = 0", "count(*) = 0"),
        (f"{API}::test_the_three_reports_of_eve_are_all_stored_and_shown",),
    ),
    Switch(
        "A CPU utilization that the host reports is shown",
        Sql("work/read_usage_samples", "newest.cpu_utilization", "NULL"),
        (f"{API}::test_the_three_reports_of_eve_are_all_stored_and_shown",),
    ),
    Switch(
        "A host waits for cancellations of its own results",
        Sql("pool/read_cancelled", "r.host_id = any(%(host_ids)s::bigint[])", "r.host_id > 0"),
        (f"{API}::test_cancellations_of_a_host_are_returned_with_a_cursor",),
    ),
    Switch(
        "A cancellation ends the waiting of a host",
        Code("scheduler.pool.waiting:_finish", always(None)),
        (f"{WAITING}::test_a_failed_read_does_not_end_the_waiting",),
    ),
    Switch(
        "In a pool our client reports usage by the ids of its results",
        Code("volunteer.pool:PoolLink.report", always(None)),
        (f"{CLIENT}::test_a_report_that_fails_is_lost_and_the_next_one_is_sent",),
    ),
    Switch(
        "A host lists its own claimed results only",
        Sql("pool/read_claimed", "r.host_id = %(host_id)s::bigint AND", ""),
        (f"{ACCESS}::test_a_host_cannot_list_the_results_of_another_host",),
    ),
    Switch(
        "A cancelled program gets its termination time between SIGTERM and SIGKILL",
        Code("volunteer.runner:Runner.stop", made=_killed_at_once),
        (f"{CLIENT}::test_sigterm_then_sigkill_to_the_process_group",),
    ),
    Switch(
        "A reply has the termination time of the workunit, or else that of its app",
        Code("scheduler.boinc.compose:_termination_seconds", always(None)),
        (f"{REPLIES}::test_reply_has_the_termination_time_of_the_workunit_or_else_of_the_app",),
    ),
    Switch(
        "The termination time of a workunit prevails over that of its app",
        Sql(
            "dispatch/claim_results",
            "coalesce(w.max_termination_time, a.max_termination_time)",
            "a.max_termination_time",
        ),
        (f"{REPLIES}::test_reply_has_the_termination_time_of_the_workunit_or_else_of_the_app",),
    ),
    Switch(
        "A program that was being started when it was cancelled is killed",
        Code(
            "volunteer.runs:Kill",
            made=lambda _original: lambda project, result, _grace: Print(f"{project} {result}"),
        ),
        (CLIENT,),
    ),
    Switch(
        "A token that waits too often is refused",
        Code("scheduler.pool.waiting:RateLimit.take", always(True)),
        (WAITING,),
    ),
    Switch(
        "The exit status of a program that ended after SIGTERM is stored",
        Code("scheduler.results.report:recorded_status", made=_own_status),
        (f"{STATES}::test_exit_status_after_sigterm_is_stored",),
    ),
    Switch(
        "Names of projects cannot lead output files to other folders",
        Code("volunteer.workers:_safe", lambda text: text),
        (f"{CLIENT}::test_names_of_output_files_follow_the_template_and_stay_in_the_folder",),
    ),
    Switch(
        "In a pool the worker's own sleeps replace the delays of the project",
        Code(
            "volunteer.config:Rules.contact_delay",
            made=lambda _original: lambda rules, delay: max(delay, rules.poll_seconds),
        ),
        (CLIENT,),
    ),
    Switch(
        "A claim assigns the result to the host",
        Code("scheduler.pool.claims:_claim", always([])),
        (f"{API}::test_one_of_two_racing_hosts_gets_each_result",),
    ),
    Switch(
        "A refused claim names the reason",
        Code("scheduler.pool.claims:ClaimRefused.__init__", made=_for_any_reason),
        (f"{API}::test_the_pages_of_one_request_are_limited",),
    ),
    Switch(
        "The settings of a worker are read from its file",
        Code("volunteer.workers:read_settings", always({})),
        (CLIENT,),
    ),
    Switch(
        "After a lost race, our client claims the next result",
        Code("volunteer.pool:_CONFLICT", 0),
        (CLIENT,),
    ),
    Switch(
        "With --claim, our client lets the server select results",
        Code("volunteer.pool:PoolLink._acquire", always(None)),
        (f"{CLAIMS}::test_our_client_claims_nothing_if_nothing_fits",),
    ),
    Switch(
        "Our client uses the list if no result that the server has looked at fits",
        Code("volunteer.pool:_UNFIT", ""),
        (
            f"{CLAIMS}::test_our_client_uses_the_list_for_a_minute_after_a_search_without_a_result_that_fits",
        ),
    ),
    Switch(
        "A claimed result that a reply does not contain is requested again",
        Code("volunteer.state:MAX_REQUESTS_FOR_CLAIMED", 0),
        (CLIENT,),
    ),
    Switch(
        "A worker of a pool repeats a failed contact while it has results",
        Code("volunteer.state:_retry_by", lambda project, _now, _rules: project.contact_by),
        (CLIENT,),
    ),
    Switch(
        "Each named worker has a folder of its own",
        Code("volunteer.workers:prepare_folder", lambda base, _name: base),
        (CLIENT,),
    ),
)
