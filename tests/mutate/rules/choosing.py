"""Rules of choosing work for a host, and of trust in hosts."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import Any

from tests.mutate.switching import Both, Code, Sql, Switch, always, unchanged

ANONYMOUS = "tests/faces/web/test_anonymous.py"
CHOOSING = "tests/faces/boinc/test_choosing.py"
ROLLOUTS = "tests/database/dispatch/test_rollouts_in_claims.py"
SELECTION = "tests/pure/dispatch/test_selection.py"
SHARES = "tests/pure/hosts/test_rollout_shares.py"


def _without(facts: Any, **changes: Any) -> Any:
    return replace(facts, **changes)


def _published_ones(original: Any) -> Any:
    """Return `own_versions` that describes a client's own versions as published ones."""

    def own_versions(catalog: Any, own: Any, **of: Any) -> Any:
        versions = original(catalog, own, **of)
        return {i: replace(version, is_own=False) for i, version in versions.items()}

    return own_versions


RULES = (
    Switch(
        "All results of a workunit go to the homogeneous redundancy class of the first host",
        Code("scheduler.dispatch.rules.fit:_class_misfit", always(None)),
        (f"{CHOOSING}::test_second_result_is_sent_only_to_a_host_of_the_same_hr_class",),
    ),
    Switch(
        "The homogeneous redundancy class of the first host is stored",
        Sql(
            "dispatch/commit_workunits",
            "CASE WHEN a.hr_type > 0 AND w.hr_class = 0 THEN chosen.hr_class ELSE w.hr_class END",
            "w.hr_class",
        ),
        (f"{CHOOSING}::test_second_result_is_sent_only_to_a_host_of_the_same_hr_class",),
    ),
    Switch(
        "The app version of the first result is stored",
        Sql(
            "dispatch/commit_workunits",
            "CASE WHEN a.homogeneous_app_version AND w.app_version_id IS NULL "
            "THEN chosen.app_version_id ELSE w.app_version_id END",
            "w.app_version_id",
        ),
        (f"{CHOOSING}::test_all_results_use_the_same_version_with_homogeneous_app_version",),
    ),
    Switch(
        "A client with its own app versions is sent no published version",
        Code("scheduler.dispatch.catalog:Catalog.own_versions", made=_published_ones),
        (f"{ANONYMOUS}::test_flops_estimate_and_bound_are_scaled_by_the_flops_of_app_info",),
    ),
    Switch(
        "Only native apps allow volunteers' own app versions",
        Code("scheduler.dispatch.facts:AppFacts.takes_own_versions", True),
        (f"{ANONYMOUS}::test_app_that_excludes_the_anonymous_platform_sends_no_work",),
    ),
    Switch(
        "A host without a matching version is delayed for a day only if other versions exist",
        Code("scheduler.boinc.client_messages:_is_unsupported", always(True)),
        (ANONYMOUS,),
    ),
    Switch(
        "A workunit sent to an untrusted host is replicated",
        Code("scheduler.dispatch.rules.fit:Judge._needs_replication", always(False)),
        (f"{CHOOSING}::test_workunit_sent_to_an_untrusted_host_is_replicated",),
    ),
    Switch(
        "A workunit sent to a trusted host is not replicated",
        Code("scheduler.dispatch.rules.trust:is_trusted", always(False)),
        (f"{CHOOSING}::test_workunit_sent_to_a_trusted_host_gets_a_quorum_of_one",),
    ),
    Switch(
        "Trusted hosts are spot-checked",
        Code("scheduler.dispatch.rules.trust:is_spot_check", always(False)),
        (SELECTION, "tests/pure/dispatch/test_trust.py"),
    ),
    Switch(
        "Replication raised at dispatch wakes the transitioner",
        Sql(
            "dispatch/commit_workunits",
            "FROM chosen WHERE replicate",
            "FROM chosen WHERE FALSE",
        ),
        (f"{CHOOSING}::test_workunit_sent_to_an_untrusted_host_is_replicated",),
    ),
    Switch(
        "An account gets at most one result of a workunit",
        Code("scheduler.dispatch.rules.allotment:_is_same", always(False)),
        ("tests/database/dispatch/test_dispatch_races.py", "tests/faces/boinc/test_scheduler.py"),
    ),
    Switch(
        "Retries are sent to reliable hosts first",
        Code("scheduler.dispatch.rules.fit:Judge._is_reliable", always(True)),
        (SELECTION, CHOOSING),
    ),
    Switch(
        "Reliable hosts get less time for a retry",
        Code("scheduler.dispatch.rules.fit:_delay", lambda candidate, *_: candidate.delay_bound),
        (f"{CHOOSING}::test_retry_is_sent_only_to_a_reliable_host_with_half_the_delay_bound",),
    ),
    Switch(
        "A host gets at most its daily quota of results",
        Code("scheduler.dispatch.rules.trust:quota_left", always(None)),
        (SELECTION, CHOOSING),
    ),
    Switch(
        "Errors shrink the quota",
        Code("scheduler.dispatch.rules.trust:after_error", unchanged),
        ("tests/pure/dispatch/test_trust.py", CHOOSING),
    ),
    Switch(
        "A reported success lets the quota grow back",
        Code("scheduler.dispatch.rules.trust:after_success", unchanged),
        ("tests/pure/dispatch/test_trust.py",),
    ),
    Switch(
        "Valid results let the quota grow",
        Code("scheduler.dispatch.rules.trust:after_valid", unchanged),
        ("tests/pure/dispatch/test_trust.py",),
    ),
    Switch(
        "Invalid results shrink the quota",
        Code("scheduler.dispatch.rules.trust:after_invalid", unchanged),
        ("tests/pure/dispatch/test_trust.py",),
    ),
    Switch(
        "Time-outs shrink the quota",
        Code("scheduler.dispatch.rules.trust:after_timeout", unchanged),
        ("tests/pure/dispatch/test_trust.py",),
    ),
    Switch(
        "A new day resets the daily count",
        Code("scheduler.dispatch.rules.trust:reset_if_new_day", unchanged),
        (SELECTION,),
    ),
    Switch(
        "Sent results count towards the daily quota",
        Sql("hosts/update_hosts", "results_today = excluded.results_today", "results_today = 0"),
        (CHOOSING,),
    ),
    Switch(
        "An error resets the count of consecutive valid results",
        Sql(
            "hosts/update_hosts",
            "THEN 0 ELSE record.consecutive_valid",
            "THEN record.consecutive_valid ELSE record.consecutive_valid",
        ),
        (CHOOSING,),
    ),
    Switch(
        "A result that the project aborted does not count against the host",
        Code("scheduler.results.rules.reports:is_the_hosts_fault", always(True)),
        (f"{CHOOSING}::test_result_aborted_by_the_project_does_not_reduce_the_quota",),
    ),
    Switch(
        "In-progress limits include unacknowledged assignments",
        Code("scheduler.dispatch.rules.host_limits:_held_by_device", always({False: 0, True: 0})),
        (SELECTION,),
    ),
    Switch(
        "The number of results in progress on a host is limited",
        Code("scheduler.dispatch.rules.host_limits:Headroom.left", always(1000)),
        (SELECTION,),
    ),
    Switch(
        "A client's listing acknowledges an assignment",
        Sql(
            "hosts/update_hosts",
            "SET acknowledged_at = %(now)s::timestamptz",
            "SET acknowledged_at = NULL",
        ),
        (f"{CHOOSING}::test_a_result_is_acknowledged_when_the_client_lists_it",),
    ),
    Switch(
        "A result that a client keeps losing is given up",
        Code(
            "scheduler.dispatch.rules.lost_results:_lost",
            lambda result, holdings: holdings.resend.append(result),
        ),
        (SELECTION,),
    ),
    Switch(
        "A lost result that would be late again behind the queue is given up",
        Code(
            "scheduler.dispatch.rules.lost_results:new_deadline",
            made=lambda original: (
                lambda *given, **facts: original(*given, **{**facts, "queued_seconds": 0.0})
            ),
        ),
        (SELECTION,),
    ),
    Switch(
        "Lost results are sent again",
        Code("scheduler.dispatch.rules.lost_results:_lost", always(None)),
        (SELECTION,),
    ),
    Switch(
        "Cancelled results are aborted at the client",
        Code("scheduler.boinc.compose:holdings_part", always({})),
        ("tests/faces/boinc/test_scheduler.py", "tests/faces/boinc/test_traps.py"),
    ),
    Switch(
        "A host needs enough usable memory",
        Code("scheduler.dispatch.rules.estimates:usable_memory", always(1e15)),
        ("tests/faces/boinc/test_scheduler.py",),
    ),
    Switch(
        "A host needs enough free disk space",
        Code("scheduler.dispatch.rules.estimates:usable_disk", always(1e15)),
        ("tests/faces/boinc/test_scheduler.py",),
    ),
    Switch(
        "A workunit is sent only to hosts with enough memory, disk and bandwidth",
        Code("scheduler.dispatch.rules.fit:Judge._size_misfit", always(None)),
        (SELECTION,),
    ),
    Switch(
        "A queue must leave time before the deadline",
        Code("scheduler.dispatch.rules.fit:Judge._late", always(None)),
        (SELECTION,),
    ),
    Switch(
        "Results assigned in one request are queued one after another",
        Code("scheduler.dispatch.rules.selection:_devices", always(float("inf"))),
        (f"{CHOOSING}::test_host_gets_no_more_work_than_it_can_report_before_the_deadline",),
    ),
    Switch(
        "Estimates consider the active fraction of a host",
        Code("scheduler.dispatch.rules.estimates:active_fraction", always(1.0)),
        (f"{CHOOSING}::test_host_with_low_availability_is_refused_work_it_would_report_late",),
    ),
    Switch(
        "The fastest version is chosen",
        Code("scheduler.dispatch.rules.estimates:flops", always(1e9)),
        (SELECTION,),
    ),
    Switch(
        "The newest version of each platform and plan class is used",
        Code("scheduler.dispatch.rules.fit:_newest", lambda versions, **_: list(versions)),
        (SELECTION,),
    ),
    Switch(
        "A version in a roll-out is sent only to its share of the hosts",
        Code("scheduler.dispatch.catalog:is_in_share", always(True)),
        (ROLLOUTS,),
    ),
    Switch(
        "A larger share of a roll-out contains every smaller one",
        Code(
            "scheduler.hosts.rules.rollout_shares:is_in_share",
            lambda host, version, percent: (host * 7919 + version + percent) % 100 < percent,
        ),
        (SHARES,),
    ),
    Switch(
        "A version is used only on hosts that satisfy its plan class",
        Code(
            "scheduler.dispatch.catalog:_usage",
            made=lambda original: lambda row, machine: (original(row, machine)[0], ""),
        ),
        (CHOOSING,),
    ),
    Switch(
        "GPUs are served before CPUs",
        Code(
            "scheduler.boinc.translate:work_requests",
            made=lambda original: lambda *args: tuple(reversed(original(*args))),
        ),
        (f"{CHOOSING}::test_gpu_version_is_sent_first_with_its_gpu_usage",),
    ),
    Switch(
        "A device that the volunteer switched off is not used",
        Code(
            "scheduler.boinc.translate:_taste",
            made=lambda original: lambda *args: _without(original(*args), devices_off=frozenset()),
        ),
        (f"{CHOOSING}::test_gpu_disabled_in_the_preferences_gets_no_work",),
    ),
    Switch(
        "Preferences of another account are not stored",
        Code("scheduler.boinc.translate:may_be_from_account", always(True)),
        ("tests/faces/boinc/test_traps.py",),
    ),
    Switch(
        "Results are sent in the order of priority",
        Sql(
            "dispatch/read_candidates",
            "ORDER BY r.priority # -1 ASC, r.workunit_id ASC",
            "ORDER BY r.workunit_id ASC",
        ),
        (f"{CHOOSING}::test_urgent_results_are_sent_before_a_long_queue",),
    ),
    Switch(
        "Apps get shares of the sent results by their weights",
        Code(
            "scheduler.dispatch.rules.fair_share:interleave",
            lambda lanes, *_args, **_kwargs: [one for lane in lanes.values() for one in lane],
        ),
        (SELECTION, "tests/pure/dispatch/test_fair_share.py"),
    ),
    Switch(
        "Targeted work is sent to its target only",
        Both(
            Sql("dispatch/read_candidates", "AND r.target_id = stream.target_id", ""),
            Code("scheduler.dispatch.rules.allotment:_is_mine", always(True)),
        ),
        (f"{CHOOSING}::test_targeted_workunits_are_sent_only_to_the_target_and_first",),
    ),
    Switch(
        "Targeted work comes first",
        Code("scheduler.dispatch.rules.selection:_TARGETED_BONUS", 0),
        (SELECTION,),
    ),
    Switch(
        "A broadcast reaches each host once",
        Sql(
            "dispatch/lock_broadcasts",
            "r.host_id = %(host_id)s::bigint OR (r.target_kind = {{Target.HOST}} AND r.target_id = %(host_id)s::bigint)",
            "FALSE",
        ),
        (f"{CHOOSING}::test_broadcast_workunit_is_sent_to_every_host_once",),
    ),
    Switch(
        "Work with a keyword that the volunteer rejects is not sent",
        Code("scheduler.dispatch.rules.scoring:refuses_keywords", always(False)),
        (CHOOSING, "tests/pure/dispatch/test_scoring.py"),
    ),
    Switch(
        "Work with a keyword that the volunteer prefers is sent first",
        Code("scheduler.dispatch.rules.scoring:keyword_score", always(0.0)),
        (SELECTION,),
    ),
    Switch(
        "Work of non-CPU-intensive apps is sent without a work request",
        Sql("hosts/recognize", "app.non_cpu_intensive AND NOT app.deprecated", "FALSE"),
        (f"{CHOOSING}::test_non_cpu_intensive_result_is_sent_without_a_work_request",),
    ),
    Switch(
        "Workunits of a size class are preferred on hosts of the same speed class",
        Code("scheduler.dispatch.rules.scoring:size_score", always(0.0)),
        (SELECTION,),
    ),
    Switch(
        "Work is preferred on hosts that have its input files",
        Code("scheduler.dispatch.rules.scoring:locality_score", always(0.0)),
        (f"{CHOOSING}::test_work_with_sticky_files_that_the_host_has_is_sent_first",),
    ),
    Switch(
        "Beta apps are sent only to volunteers who accept them",
        Code("scheduler.dispatch.rules.scoring:refuses_beta", always(False)),
        ("tests/pure/dispatch/test_scoring.py",),
    ),
    Switch(
        "Only apps that the volunteer selected are sent",
        Code("scheduler.dispatch.rules.scoring:refuses_app", always(False)),
        (f"{CHOOSING}::test_a_volunteer_who_selected_other_apps_gets_a_message",),
    ),
    Switch(
        "A volunteer's own limit of results in progress is respected",
        Code(
            "scheduler.boinc.translate:_taste",
            made=lambda original: lambda *args: _without(original(*args), max_held=None),
        ),
        (f"{CHOOSING}::test_max_jobs_preference_limits_results_in_progress",),
    ),
    Switch(
        "Permanent refusals are stored by workunit and host",
        Code("scheduler.dispatch.past_refusals:remember", always(None)),
        (CHOOSING,),
    ),
    Switch(
        "The decisions of the last request are stored with the host",
        Code("scheduler.boinc.translate:decision", always(None)),
        (f"{CHOOSING}::test_repeated_refusal_of_a_workunit_is_stored_once_per_host",),
    ),
    Switch(
        "Hosts with a barred operating system or processor get no work",
        Code("scheduler.dispatch.rules.barred_hosts:why_barred", always("")),
        ("tests/pure/dispatch/test_gates.py", "tests/faces/boinc/test_gates.py"),
    ),
    Switch(
        "The speed estimate of an unmeasured version is randomized",
        Code("scheduler.dispatch.rules.estimates:LUCK", 0.0),
        (SELECTION,),
    ),
    Switch(
        "Old clients are turned away",
        Code(
            "scheduler.config:ProjectConfig.min_client_version",
            made=lambda _original: property(lambda _self: 0),
        ),
        ("tests/faces/boinc/test_scheduler.py",),
    ),
    Switch(
        "Denied hosts are not served",
        Sql("hosts/recognize", "h.denied,", "FALSE AS denied,"),
        ("tests/faces/boinc/test_scheduler.py",),
    ),
    Switch(
        "An account gets a limited number of new hosts a day",
        Code("scheduler.hosts.recognition:DAY", timedelta(0)),
        ("tests/security/test_limits.py",),
    ),
)
