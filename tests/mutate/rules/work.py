"""Rules of submission, batches and operation."""

from __future__ import annotations

from tests.mutate.switching import Code, Sql, Switch, always

AIMING = "tests/pure/work/test_aiming.py"
SHARES = "tests/pure/work/test_shares.py"
SHARES_KEPT = "tests/database/work/test_shares.py"
SUBMISSION = "tests/pure/work/test_submission.py"
BATCH_TAILS = "tests/faces/boinc/test_batch_tails.py"
BATCHES = "tests/database/work/test_batches.py"
COUNTS = "tests/database/health/test_counts.py"
STANDSTILL = "tests/database/health/test_standstill.py"
MAINTENANCE = "tests/database/health/test_maintenance.py"

RULES = (
    Switch(
        "The tail of a batch is accelerated",
        Code("scheduler.work.rules.batch_tails:is_tail", always(False)),
        (BATCH_TAILS,),
    ),
    Switch(
        "A batch is not accelerated before its tail",
        Code("scheduler.work.rules.batch_tails:is_tail", always(True)),
        (BATCH_TAILS,),
    ),
    Switch(
        "fsck finds rows whose first move does not start from nothing",
        Sql(
            "first_moves_are_known",
            "first_move.source <> {{NOTHING}}",
            "FALSE",
            "scheduler.health.invariant_sql",
        ),
        ("tests/database/health/test_fsck.py",),
    ),
    Switch(
        "fsck finds missing and changed copies of assimilated outputs",
        Code("scheduler.files.file_checks:wrong_answers", always([])),
        ("tests/database/health/test_fsck.py",),
    ),
    Switch(
        "fsck finds uploads that belong to no result",
        Code("scheduler.files.file_checks:stray_uploads", always([])),
        ("tests/database/health/test_fsck.py",),
    ),
    Switch(
        "A submission with a count of pending dependencies is refused",
        Code("scheduler.work.submission.rules.new_workunits:_release", always(())),
        (SUBMISSION, "tests/database/work/test_submit.py"),
    ),
    Switch(
        "A size class must exist for the app",
        Code("scheduler.work.submission.rules.aiming:_size", always(())),
        (AIMING,),
    ),
    Switch(
        "A broadcast needs an end time and the trivial validator",
        Code("scheduler.work.submission.rules.aiming:_broadcast", always(())),
        (AIMING,),
    ),
    Switch(
        "A target must exist",
        Code("scheduler.work.submission.rules.aiming:_target", always(())),
        (AIMING,),
    ),
    Switch(
        "Limits of results must allow for adaptive replication",
        Code("scheduler.work.submission.rules.aiming:_adaptive", always(())),
        (AIMING,),
    ),
    Switch(
        "A time outside of the range that programs can read is refused",
        Code("scheduler.work.submission.rules.new_workunits:_is_unreadable", always(False)),
        (SUBMISSION,),
    ),
    Switch(
        "The length of a command line is limited",
        Code("scheduler.work.submission.rules.new_workunits:_line_fault", always(None)),
        (SUBMISSION,),
    ),
    Switch(
        "The meta of a workunit is valid JSON of limited length",
        Code("scheduler.work.submission.rules.new_workunits:_meta_fault", always(None)),
        (SUBMISSION,),
    ),
    Switch(
        "Idle submitters do not accumulate a share",
        Code(
            "scheduler.work.submission.rules.share_priorities:logical_start",
            lambda before, *_a, **_k: before,
        ),
        (SHARES,),
    ),
    Switch(
        "With fair share, submitters cannot set priorities",
        Code("scheduler.work.submission.submission_checks:may_set_priority", always(True)),
        (SHARES_KEPT,),
    ),
    Switch(
        "An accelerated batch is sent before others",
        Sql(
            "work/accelerate_results",
            "AND result.server_state IN ({{ServerState.INACTIVE}}, {{ServerState.UNSENT}})",
            "AND FALSE",
        ),
        (BATCHES,),
    ),
    Switch(
        "Inputs that are too large for all hosts cause a warning",
        Code("scheduler.work.submission.rules.new_workunits:Survey.add_inputs", always(None)),
        ("tests/faces/api/test_api_submissions.py",),
    ),
    Switch(
        "The standstill report names work that waits for another account",
        Code("scheduler.health.rules.standstill_causes:_of_turns", always(())),
        (STANDSTILL,),
    ),
    Switch(
        "The standstill report names a lack of contacting hosts",
        Code("scheduler.health.rules.standstill_causes:_of_contacts", always(())),
        (STANDSTILL,),
    ),
    Switch(
        "The standstill report ignores refusals older than the newest version",
        Sql(
            "health/read_unsent_waits",
            "AND refusal.at >= waiting.newest_at",
            "",
        ),
        (STANDSTILL,),
    ),
    Switch(
        "Totals include purged workunits",
        Sql(
            "health/count_workunits",
            "coalesce(purged.done, 0) AS purged_done",
            "0 AS purged_done",
        ),
        (COUNTS,),
    ),
    Switch(
        "Stored counts of large tables expire",
        Code("scheduler.health.counts:Counts.serves", always(True)),
        (COUNTS,),
    ),
    Switch(
        "Scheduler requests are refused during maintenance",
        Code("scheduler.health.maintenance:stops_scheduler", always(None)),
        (MAINTENANCE,),
    ),
    Switch(
        "Daemons wait for the end of maintenance",
        Code("daemons.loop:_waits_for_maintenance", always(False)),
        (MAINTENANCE,),
    ),
    Switch(
        "A finished project sends no work",
        Code("scheduler.boinc.conversation:_end_of_project", always(())),
        ("tests/faces/boinc/test_choosing.py",),
    ),
)
