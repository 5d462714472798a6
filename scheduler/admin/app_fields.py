"""The form of an app: which fields stand together, and what each means."""

from __future__ import annotations

from typing import Any

_DURATION = "Days and hh:mm:ss."

FIELDSETS: Any = (
    (
        None,
        {
            "fields": (
                "name",
                "user_friendly_name",
                "deprecated",
                "beta",
                "weight",
                "created_at",
                "total_credit",
            )
        },
    ),
    (
        "What its programs are",
        {
            "fields": (
                "kind",
                "success_rule",
                "workunit_defaults",
                "input_template",
                "output_template",
            )
        },
    ),
    (
        "Science",
        {
            "fields": (
                "validator",
                "validator_options",
                "assimilator",
                "assimilator_options",
                "science_time_limit",
                "max_science_failures",
            )
        },
    ),
    (
        "Replication",
        {
            "fields": (
                "one_result_per",
                "retry_same_account_after",
                "fail_when_all_tried",
                "target_nresults",
                "trusted_after",
                "hr_type",
                "homogeneous_app_version",
                "max_infeasible",
            )
        },
    ),
    (
        "Deadlines and retries",
        {
            "fields": (
                "grace",
                "ack_timeout",
                "reliable_max_turnaround",
                "reliable_wait",
                "reduced_delay",
                "retry_priority",
                "delete_delay",
            )
        },
    ),
    (
        "Limits per host",
        {
            "fields": (
                "daily_quota",
                "max_in_progress_per_cpu",
                "max_in_progress_per_gpu",
                "max_in_progress_per_host",
            )
        },
    ),
    (
        "Whom work suits",
        {"fields": ("locality", "n_size_classes", "size_bounds")},
    ),
    (
        "Credit",
        {
            "fields": (
                "credit_rule",
                "credit_per_workunit",
                "credit_window",
                "min_avg_pfc",
                "host_scale_check",
            )
        },
    ),
    ("On the client", {"fields": ("non_cpu_intensive", "fraction_done_exact")}),
    (
        "Messages and generated work",
        {
            "classes": ("collapse",),
            "fields": (
                "trickle_handlers",
                "generator",
                "generator_options",
                "cushion",
                "generator_state",
            ),
        },
    ),
)

HELPS = {
    "name": "Clients and results folders are called by it; it stays as it is.",
    "deprecated": "Takes no more work and sends none.",
    "beta": "Only for volunteers who want test applications.",
    "weight": "Its part of what is sent, beside the other apps' weights.",
    "kind": "native: BOINC's programs; script: a run.sh; command: each workunit is a shell's "
    "command; container: an image by digest. It stays once there are versions (docs/apps.md).",
    "success_rule": "What makes a report a success: the program exited with 0, wrote nothing to "
    "its stderr, both, or its outputs came and the validator judges.",
    "workunit_defaults": "A JSON object with what a submission need not say, such as "
    '{"min_quorum": 2, "outputs": ["out"]}.',
    "input_template": "BOINC's input template for submissions that name none; may be empty.",
    "output_template": "BOINC's output template for submissions that name none; may be empty.",
    "validator": "bitwise, trivial, numeric, substring, or a name of the allow-list (PLUGINS).",
    "validator_options": "A JSON object; unknown options are refused.",
    "assimilator": "copy_files, dataset, webhook, or a name of the allow-list (PLUGINS).",
    "assimilator_options": "A JSON object; unknown options are refused.",
    "science_time_limit": f"How long one call of science code may take. {_DURATION}",
    "max_science_failures": "A workunit on which science failed so often is parked.",
    "one_result_per": "How apart the results of a workunit are kept.",
    "retry_same_account_after": f"An account that failed a workunit may try again. {_DURATION}",
    "fail_when_all_tried": "End a workunit without an answer once every account (or host) that "
    "asked in the last 30 days had its turn, rather than wait for another.",
    "target_nresults": "Adaptive replication: so many results where the first host is not "
    "trusted; 1 switches it off.",
    "trusted_after": "Valid results in a row that make a host trusted.",
    "hr_type": "Homogeneous redundancy: 0 off, 1 fine classes, 2 coarse classes.",
    "homogeneous_app_version": "All results of a workunit by one app version.",
    "max_infeasible": "Hosts refused for good until a workunit is given up; empty: the project's.",
    "grace": f"Reports are taken so long after the deadline that hosts are told. {_DURATION}",
    "ack_timeout": f"A result that no client lists so long after it was sent is lost. {_DURATION}",
    "reliable_max_turnaround": "Retries go first to hosts that answer within this time; empty: "
    f"to all. {_DURATION}",
    "reliable_wait": f"After this time retries go to any host. {_DURATION}",
    "reduced_delay": "The part of the delay bound that a reliable host gets for a retry, 0 to 1.",
    "retry_priority": "Added to the priority of retries.",
    "delete_delay": f"Files are kept so long after the last report. {_DURATION}",
    "daily_quota": "Results a day and CPU or GPU; empty: the project's.",
    "max_in_progress_per_cpu": "Results that a host may hold per CPU; empty: the project's.",
    "max_in_progress_per_gpu": "Results that a host may hold per GPU; empty: no limit.",
    "max_in_progress_per_host": "Results that a host may hold at all; empty: no limit.",
    "locality": "Prefer hosts that have the input files already.",
    "n_size_classes": "Into how many classes of size its work falls; 1: no classes.",
    "size_bounds": "Speeds between the classes, floating-point operations a second; kept by the "
    "housekeeper.",
    "credit_per_workunit": "Credits for a valid result, with the rule fixed.",
    "credit_window": f"Results reported so long after the deadline are still paid. {_DURATION}",
    "host_scale_check": "Scale a host's claims only once it has been right for long.",
    "non_cpu_intensive": "Runs beside other work, one at a time.",
    "fraction_done_exact": "Clients may trust the fraction that it reports as done.",
    "trickle_handlers": 'A JSON object, such as {"checkpoint": "on_checkpoint"}: for each '
    "variety a handler of the allow-list (PLUGINS).",
    "generator": "Makes workunits when few are unsent: a name of the allow-list (PLUGINS), or "
    "copy:WORKUNIT.",
    "cushion": "As many unsent results are kept ready by the generator; 0: none.",
}
