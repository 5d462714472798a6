"""The groups of fields in the form of an app, and the help texts of the fields."""

from __future__ import annotations

from scheduler.admin.base import section

_DURATION = "Format: days and hh:mm:ss."

FIELDSETS = (
    section(
        None,
        "name",
        "user_friendly_name",
        "description",
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
    section("On the client", "non_cpu_intensive", "fraction_done_exact", "max_termination_time"),
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
    "name": "Clients and result folders use this name. It cannot be changed.",
    "description": "Plain text for volunteers about the computation and its purpose, which the "
    "front page and the API show. An empty line separates paragraphs; https addresses become "
    "links.",
    "deprecated": "If set, the app accepts no new work, and its unsent results are not sent.",
    "beta": "If set, the app is sent only to volunteers who accept test applications.",
    "weight": "Share of the work that is sent, relative to the weights of other apps.",
    "kind": "native runs BOINC programs, script a run.sh, command a shell command for each "
    "workunit, and container an image with a digest. The kind cannot be changed once the app has "
    "versions (docs/apps.md).",
    "success_rule": "The condition under which a result is a success: exit status 0, empty stderr, "
    "both, or all outputs uploaded (the validator then decides).",
    "workunit_defaults": "A JSON object with default values for submitted workunits, such as "
    '{"min_quorum": 2, "outputs": ["out"]}.',
    "input_template": "BOINC input template for submissions without one. It may be empty.",
    "output_template": "BOINC output template for submissions without one. It may be empty.",
    "validator": "One of bitwise, trivial, numeric, substring, or a name from the allow-list "
    "(PLUGINS).",
    "validator_options": "A JSON object. Unknown options are refused.",
    "assimilator": "One of copy_files, dataset, webhook, or a name from the allow-list (PLUGINS).",
    "assimilator_options": "A JSON object. Unknown options are refused.",
    "science_time_limit": f"Time limit of one call of science code. {_DURATION}",
    "max_science_failures": "A workunit is parked after this number of failures of science code.",
    "one_result_per": "Whether each account, or each host, gets at most one result of a workunit. "
    "With “nothing”, there is no such limit.",
    "retry_same_account_after": "Time until an account that failed a workunit may get it again. "
    f"{_DURATION}",
    "fail_when_all_tried": "If set, a workunit fails once every account (or host) that requested "
    "work in the last 30 days has tried it. Otherwise it waits for another account (or host).",
    "target_nresults": "Adaptive replication: number of results if the first host is not "
    "trusted. 1 disables adaptive replication.",
    "trusted_after": "A host is trusted after this number of valid results in a row.",
    "hr_type": "Homogeneous redundancy: 0 off, 1 fine classes, 2 coarse classes.",
    "homogeneous_app_version": "If set, all results of a workunit use the same app version.",
    "max_infeasible": "A workunit fails when this number of hosts was permanently refused. "
    "If empty, the project's limit applies.",
    "grace": f"Reports are accepted for this time after the deadline sent to hosts. {_DURATION}",
    "ack_timeout": "A result is lost if its client does not list it within this time after it was "
    f"sent. {_DURATION}",
    "reliable_max_turnaround": "Retries go first to hosts that report within this time. If empty, "
    f"they go to all hosts. {_DURATION}",
    "reliable_wait": f"After this time, retries go to any host. {_DURATION}",
    "reduced_delay": "Fraction of the delay bound that a reliable host gets for a retry, 0 to 1.",
    "retry_priority": "This number is added to the priority of retries.",
    "delete_delay": f"Files are kept for this time after the last report. {_DURATION}",
    "daily_quota": "Maximum number of results per day and CPU or GPU. If empty, the project's "
    "limit applies.",
    "max_in_progress_per_cpu": "Maximum number of results in progress per CPU of a host. If empty, "
    "the project's limit applies.",
    "max_in_progress_per_gpu": "Maximum number of results in progress per GPU of a host. If empty, "
    "there is no limit.",
    "max_in_progress_per_host": "Maximum number of results in progress per host. If empty, there "
    "is no limit.",
    "locality": "If set, hosts that already have the input files are preferred.",
    "n_size_classes": "Number of size classes of workunits. 1 disables size classes.",
    "size_bounds": "Speeds between the size classes, in floating-point operations per second. "
    "The housekeeper updates them.",
    "credit_per_workunit": "Credit for a valid result, if the credit rule is “fixed”.",
    "credit_window": "Results reported within this time after the deadline get credit. "
    f"{_DURATION}",
    "host_scale_check": "If set, a host's credit claims are scaled only after 10 valid results in "
    "a row.",
    "non_cpu_intensive": "If set, the app runs in addition to other work, one result at a time.",
    "fraction_done_exact": "If set, clients treat the fraction done that programs report as exact.",
    "max_termination_time": "A cancelled program gets SIGTERM and, if it still runs after this "
    f"time, SIGKILL. One hour at most. {_DURATION}",
    "trickle_handlers": 'A JSON object, such as {"checkpoint": "on_checkpoint"}: for each '
    "variety, a handler from the allow-list (PLUGINS).",
    "generator": "Creates workunits when few results are unsent: a name from the allow-list "
    "(PLUGINS), or copy:WORKUNIT.",
    "cushion": "Number of unsent results that the generator keeps ready. 0 disables the generator.",
}
