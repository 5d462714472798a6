"""The form of an app: groups of fields and their help texts."""

from __future__ import annotations

from scheduler.admin.base import section

_DURATION = "Format: days and hh:mm:ss."

FIELDSETS = (
    section(
        None,
        "name",
        "user_friendly_name",
        "deprecated",
        "beta",
        "weight",
        "created_at",
        "total_credit",
    ),
    section(
        "Programs", "kind", "success_rule", "workunit_defaults", "input_template", "output_template"
    ),
    section(
        "Science",
        "validator",
        "validator_options",
        "assimilator",
        "assimilator_options",
        "science_time_limit",
        "max_science_failures",
    ),
    section(
        "Replication",
        "one_result_per",
        "retry_same_account_after",
        "fail_when_all_tried",
        "target_nresults",
        "trusted_after",
        "hr_type",
        "homogeneous_app_version",
        "max_infeasible",
    ),
    section(
        "Deadlines and retries",
        "grace",
        "ack_timeout",
        "reliable_max_turnaround",
        "reliable_wait",
        "reduced_delay",
        "retry_priority",
        "delete_delay",
    ),
    section(
        "Limits per host",
        "daily_quota",
        "max_in_progress_per_cpu",
        "max_in_progress_per_gpu",
        "max_in_progress_per_host",
    ),
    section("Matching hosts", "locality", "n_size_classes", "size_bounds"),
    section(
        "Credit",
        "credit_rule",
        "credit_per_workunit",
        "credit_window",
        "min_avg_pfc",
        "host_scale_check",
    ),
    section("On the client", "non_cpu_intensive", "fraction_done_exact"),
    section(
        "Messages and generated work",
        "trickle_handlers",
        "generator",
        "generator_options",
        "cushion",
        "generator_state",
        is_collapsed=True,
    ),
)

HELPS = {
    "name": "Clients and result folders use this name; it cannot be changed.",
    "deprecated": "The app accepts no new work, and its unsent results are not sent.",
    "beta": "Only for volunteers who want test applications.",
    "weight": "Share of the work that is sent, relative to the weights of other apps.",
    "kind": "native: BOINC programs; script: a run.sh; command: each workunit is a shell "
    "command; container: an image by digest. Cannot be changed once the app has versions "
    "(docs/apps.md).",
    "success_rule": "Condition for a success: exit status 0, empty stderr, both, or all outputs "
    "uploaded (the validator then decides).",
    "workunit_defaults": "A JSON object with default values for submitted workunits, such as "
    '{"min_quorum": 2, "outputs": ["out"]}.',
    "input_template": "BOINC input template for submissions without one; may be empty.",
    "output_template": "BOINC output template for submissions without one; may be empty.",
    "validator": "bitwise, trivial, numeric, substring, or a name from the allow-list (PLUGINS).",
    "validator_options": "A JSON object; unknown options are refused.",
    "assimilator": "copy_files, dataset, webhook, or a name from the allow-list (PLUGINS).",
    "assimilator_options": "A JSON object; unknown options are refused.",
    "science_time_limit": f"Time limit of one call of science code. {_DURATION}",
    "max_science_failures": "A workunit is parked after this number of failures of science code.",
    "one_result_per": "Send at most one result of a workunit to each account or host; "
    "nothing: no such limit.",
    "retry_same_account_after": "Time until an account that failed a workunit may get it again. "
    f"{_DURATION}",
    "fail_when_all_tried": "If set, a workunit fails once every account (or host) that requested "
    "work in the last 30 days has tried it; otherwise it waits for another account (or host).",
    "target_nresults": "Adaptive replication: number of results if the first host is not "
    "trusted; 1 disables it.",
    "trusted_after": "A host is trusted after this number of valid results in a row.",
    "hr_type": "Homogeneous redundancy: 0 off, 1 fine classes, 2 coarse classes.",
    "homogeneous_app_version": "Send all results of a workunit to one app version.",
    "max_infeasible": "A workunit fails when this number of hosts was permanently refused; "
    "empty: the project's limit.",
    "grace": f"Reports are accepted for this time after the deadline sent to hosts. {_DURATION}",
    "ack_timeout": "A result is lost if its client does not list it within this time after it was "
    f"sent. {_DURATION}",
    "reliable_max_turnaround": "Retries go first to hosts that report within this time; empty: "
    f"to all hosts. {_DURATION}",
    "reliable_wait": f"After this time, retries go to any host. {_DURATION}",
    "reduced_delay": "Fraction of the delay bound that a reliable host gets for a retry, 0 to 1.",
    "retry_priority": "Added to the priority of retries.",
    "delete_delay": f"Files are kept for this time after the last report. {_DURATION}",
    "daily_quota": "Results per day and CPU or GPU; empty: the project's limit.",
    "max_in_progress_per_cpu": "Results in progress per CPU of a host; empty: the project's limit.",
    "max_in_progress_per_gpu": "Results in progress per GPU of a host; empty: no limit.",
    "max_in_progress_per_host": "Results in progress per host; empty: no limit.",
    "locality": "Prefer hosts that already have the input files.",
    "n_size_classes": "Number of size classes of workunits; 1: no size classes.",
    "size_bounds": "Speeds between the size classes, in floating-point operations per second. "
    "Updated by the housekeeper.",
    "credit_per_workunit": "Credit for a valid result, with the credit rule “fixed”.",
    "credit_window": "Results reported within this time after the deadline get credit. "
    f"{_DURATION}",
    "host_scale_check": "Scale a host's credit claims only after 10 valid results in a row.",
    "non_cpu_intensive": "The app runs in addition to other work, one result at a time.",
    "fraction_done_exact": "The fraction done that the app's programs report is exact.",
    "trickle_handlers": 'A JSON object, such as {"checkpoint": "on_checkpoint"}: for each '
    "variety, a handler from the allow-list (PLUGINS).",
    "generator": "Creates workunits when few results are unsent: a name from the allow-list "
    "(PLUGINS), or copy:WORKUNIT.",
    "cushion": "Number of unsent results that the generator keeps ready; 0 disables it.",
}
