"""Rules of queues."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import Any

from tests.mutate.switching import Code, Sql, Switch, always

CLAIMS = "tests/database/dispatch/test_queues_in_claims.py"
LISTS = "tests/database/dispatch/test_queues_and_lists.py"
QUEUE_RACES = "tests/database/queues/test_queue_races.py"
QUEUES = "tests/database/queues/test_named_queues.py"
SERVING = "tests/pure/queues/test_serving.py"
SCHEDULES = "tests/pure/queues/test_schedules.py"
QUEUEING = "tests/pure/work/test_queueing.py"
API = "tests/faces/api/test_api_queues.py"
ADMIN = "tests/faces/admin/test_queue_pages.py"
BALANCE = "tests/database/queues/test_balance.py"
BALANCE_RULES = "tests/pure/queues/test_divided_limits.py"


def _denied_prevail(_original: Any) -> Any:
    def serves(queue: Any, *, host_id: int, account_id: int) -> bool:
        if host_id in queue.denied_hosts or account_id in queue.denied_accounts:
            return False
        if not (queue.allowed_hosts or queue.allowed_accounts):
            return True
        return host_id in queue.allowed_hosts or account_id in queue.allowed_accounts

    return serves


def _all_to_each(_original: Any) -> Any:
    return lambda demands, most: {demand.queue_id: most for demand in demands}


def _equal_shares(_original: Any) -> Any:
    return lambda count, wanted: {id_: count // len(wanted) for id_ in wanted}


def _ignored_prevail(original: Any) -> Any:
    def why_unwanted(queue: Any, *, active: Any, ignored: Any) -> Any:
        wanted = set(active) - set(ignored)
        return original(queue, active=wanted, ignored=ignored)

    return why_unwanted


def _without_slots(_original: Any) -> Any:
    return lambda _claims, allotted: (list(allotted), {})


def _from_one(limit: Any) -> Any:
    def set_limit(host_id: int, max_in_progress: int | None, **options: Any) -> None:
        limit(host_id, max_in_progress or None, **options)

    return set_limit


def _without_own_limit(original: Any) -> Any:
    def headroom_for(host: Any, config: Any, **facts: Any) -> Any:
        return original(replace(host, max_in_progress=None), config, **facts)

    return headroom_for


def _lists_for_all(_original: Any) -> Any:
    return lambda search, apps: any(apps[app_id].has_bundles for app_id in search.versions)


def _uncounted_in_batch(original: Any) -> Any:
    def count_sent(candidate: Any, search: Any) -> None:
        original(candidate, replace(search, sent_by_queue=Counter()))

    return count_sent


RULES = (
    Switch(
        "A result of a queue with a limit is sent only with a slot",
        Code("scheduler.dispatch.queue_claims:QueueClaims.with_slots", made=_without_slots),
        (CLAIMS,),
    ),
    Switch(
        "A claim takes only slots that are free",
        Sql("queues/lock_slots", "AND free.result_id IS NULL", ""),
        (f"{CLAIMS}::test_a_limit_holds_for_all_hosts_together",),
    ),
    Switch(
        "A claim skips slots that another claim has locked",
        Sql("queues/lock_slots", "FOR NO KEY UPDATE OF free SKIP LOCKED", ""),
        (f"{CLAIMS}::test_a_claim_skips_slots_that_another_claim_holds",),
    ),
    Switch(
        "A nearly full queue is not read to its end for spare results",
        Code("scheduler.dispatch.search:close_full_queues", always(None)),
        (f"{CLAIMS}::test_a_nearly_full_queue_is_not_read_to_its_end_for_spare_results",),
    ),
    Switch(
        "While a queue has slots above its limit, no slot is free",
        Sql("queues/read_free_slots", "above.number > capped.max_in_progress", "FALSE"),
        (f"{QUEUES}::test_slots_in_use_remain_above_a_lower_limit_until_they_are_free",),
    ),
    Switch(
        "A report frees the slot of its result",
        Code("scheduler.queues.slots:free", always(None)),
        (f"{CLAIMS}::test_an_orphan_with_an_infinite_deadline_frees_its_slot_and_may_report_late",),
    ),
    Switch(
        "A claim that read the former settings of a queue sends nothing of it",
        Sql(
            "dispatch/claim_results",
            "AND q.xmin::text::bigint = chosen.queue_version",
            "",
        ),
        (f"{CLAIMS}::test_a_claim_that_judged_by_an_older_limit_sends_nothing",),
    ),
    Switch(
        "A claim skips a queue that is being changed",
        Sql(
            "dispatch/lock_chosen_workunits",
            "WHERE pg_try_advisory_xact_lock_shared(hashtextextended('queue ' || queue.id, 0))",
            "",
        ),
        (f"{CLAIMS}::test_a_change_of_a_limit_waits_for_running_claims",),
    ),
    Switch(
        "A new limit counts the results in progress",
        Sql("queues/adopt_results", "{{ServerState.IN_PROGRESS}}", "{{ServerState.INACTIVE}}"),
        (QUEUES,),
    ),
    Switch(
        "Queues of a higher priority group come first",
        Code("scheduler.dispatch.rules.selection:_group", always(0)),
        (f"{CLAIMS}::test_higher_priority_groups_come_first",),
    ),
    Switch(
        "Work of queues above group 0 comes before task lists",
        Code("scheduler.dispatch.assign:_assign_before_lists", always(None)),
        (f"{LISTS}::test_work_of_a_higher_group_comes_before_a_ready_list",),
    ),
    Switch(
        "A search in queues alone keeps the scan cursors of other work",
        Code("scheduler.dispatch.search:Search.has_cursors", True),
        (f"{LISTS}::test_scan_cursors_of_other_work_outlive_a_search_in_queues_of_higher_groups",),
    ),
    Switch(
        "A client that names its queues gets no task lists",
        Code("scheduler.dispatch.bundle_claims:may_get_lists", made=_lists_for_all),
        (f"{LISTS}::test_a_client_with_active_queues_gets_no_task_list",),
    ),
    Switch(
        "A ramp limit counts the results that the same batch of RPCs has sent before",
        Code("scheduler.dispatch.claim:_count_sent", made=_uncounted_in_batch),
        (CLAIMS,),
    ),
    Switch(
        "A queue of the order fifo or lifo ignores priorities",
        Code("scheduler.dispatch.rules.selection:_put_in_order", always(None)),
        (f"{CLAIMS}::test_work_is_sent_in_the_order_of_its_queue",),
    ),
    Switch(
        "The lists of denied hosts do not apply beside lists of allowed hosts",
        Code("scheduler.queues.rules.serving:serves", made=_denied_prevail),
        (SERVING,),
    ),
    Switch(
        "A disabled queue sends nothing",
        Code("scheduler.queues.rules.serving:is_disabled", always(False)),
        (f"{CLAIMS}::test_a_disabled_queue_sends_nothing_before_its_time",),
    ),
    Switch(
        "Ramp limits bound the results that one claim sends",
        Code("scheduler.queues.rules.serving:room_for_host", always(None)),
        (f"{CLAIMS}::test_a_limit_holds_for_all_hosts_together",),
    ),
    Switch(
        "An entry of a weekday replaces the entry of every day at the same time",
        Code("scheduler.queues.rules.schedules:_is_replaced", always(False)),
        (SCHEDULES,),
    ),
    Switch(
        "An entry of a schedule is applied once",
        Code("scheduler.queues.named_queues:_is_applied", always(False)),
        (QUEUES,),
    ),
    Switch(
        "A group of the balance gets only what the groups before it do not need",
        Code("scheduler.queues.rules.divided_limits:_shares", made=_all_to_each),
        (BALANCE_RULES, BALANCE),
    ),
    Switch(
        "A queue divides its group's share by its work",
        Code("scheduler.queues.rules.divided_limits:divide", made=_equal_shares),
        (BALANCE_RULES,),
    ),
    Switch(
        "The limit of a queue in the balance is set by the balance alone",
        Code("scheduler.queues.named_queues:require_own_limit", always(None)),
        (f"{BALANCE}::test_a_queue_that_leaves_keeps_its_limit_and_its_schedule_applies_again",),
    ),
    Switch(
        "A change of a queue is in the audit log",
        Code("scheduler.queues.named_queues:_record", always(None)),
        (f"{ADMIN}::test_the_audit_log_names_who_changed_a_queue_on_its_page",),
    ),
    Switch(
        "A client's list of active queues prevails over its list of ignored queues",
        Code("scheduler.queues.rules.serving:why_unwanted", made=_ignored_prevail),
        (SERVING,),
    ),
    Switch(
        "A client gets only work of the queues in its settings",
        Code("scheduler.queues.rules.serving:why_unwanted", always(None)),
        (CLAIMS,),
    ),
    Switch(
        "A result that its host has acknowledged is no orphan",
        Sql("time_out_results", "AND r.acknowledged_at IS NULL", "", package="daemons.sql"),
        (f"{CLAIMS}::test_an_acknowledged_result_is_no_orphan_and_keeps_its_slot",),
    ),
    Switch(
        "A queue with work that stands still raises an alert",
        Code("scheduler.queues.rules.serving:why_still", always(None)),
        (SERVING, QUEUES),
    ),
    Switch(
        "A queue does not lose its trust or its app while workunits are submitted",
        Sql("work/submission/draw_workunit_ids", "\n    FOR KEY SHARE", ""),
        (QUEUE_RACES,),
    ),
    Switch(
        "A queue does not lose its trust or its app while workunits are retried",
        Sql("queues/lock_for_work", "\nFOR KEY SHARE", ""),
        (QUEUE_RACES,),
    ),
    Switch(
        "A submission sees the trust that a changed queue has now",
        Sql("work/submission/draw_workunit_ids", "app_id, trusted", "app_id, TRUE AS trusted"),
        (QUEUE_RACES,),
    ),
    Switch(
        "A workunit that its queue does not accept any more is not retried",
        Code("scheduler.queues.rules.accepted_work:Admission.accepts", always(True)),
        (QUEUE_RACES,),
    ),
    Switch(
        "A queue does not change its app, trust or name while workunits are submitted to it",
        Code("scheduler.queues.admission:lock_against_work", always(None)),
        (QUEUE_RACES,),
    ),
    Switch(
        "Unfinished workunits of apps with lower ids keep the app of a queue",
        Sql("queues/read_work_of_other_apps", "app_id < %(app_id)s::bigint", "FALSE"),
        (QUEUES,),
    ),
    Switch(
        "Unfinished workunits of apps with higher ids keep the app of a queue",
        Sql("queues/read_work_of_other_apps", "app_id > %(app_id)s::bigint", "FALSE"),
        (f"{QUEUES}::test_a_change_compares_with_the_stored_queue_and_not_with_an_older_copy",),
    ),
    Switch(
        "Unfinished workunits with an infinite deadline keep a queue trusted",
        Sql("queues/read_endless_work", "queue_id = %(queue_id)s::bigint", "FALSE"),
        (QUEUES,),
    ),
    Switch(
        "A workunit names an existing queue that accepts its app",
        Code("scheduler.work.submission.rules.queueing:faults", always({})),
        (QUEUEING,),
    ),
    Switch(
        "Results of workunits in a queue go to the hosts that the queue serves",
        Sql(
            "insert_replicas",
            "WHEN w.queue_id IS NOT NULL THEN {{Target.QUEUE}}",
            "",
            package="daemons.sql",
        ),
        (f"{API}::test_a_workunit_is_submitted_to_a_queue",),
    ),
    Switch(
        "The maximum number of results of a host may be 0",
        Code("scheduler.hosts.denials:limit", made=_from_one),
        (f"{CLAIMS}::test_the_maximum_of_a_host_holds_beside_the_limits_of_queues",),
    ),
    Switch(
        "Staff can limit the number of results in progress on a host",
        Code("scheduler.dispatch.rules.host_limits:headroom_for", made=_without_own_limit),
        (f"{CLAIMS}::test_the_maximum_of_a_host_holds_beside_the_limits_of_queues",),
    ),
)
