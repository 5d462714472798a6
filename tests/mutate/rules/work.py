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
        "Only a tail is accelerated",
        Code("scheduler.work.rules.batch_tails:is_tail", always(True)),
        (BATCH_TAILS,),
    ),
    Switch(
        "The first move of a row is its birth",
        Sql(
            "first_moves_are_known",
            "first_move.source <> {{NOTHING}}",
            "FALSE",
            "scheduler.health.invariant_sql",
        ),
        ("tests/database/health/test_fsck.py",),
    ),
    Switch(
        "Answers that are missing are found",
        Code("scheduler.files.file_checks:wrong_answers", always([])),
        ("tests/database/health/test_fsck.py",),
    ),
    Switch(
        "Uploads of no result are found",
        Code("scheduler.files.file_checks:stray_uploads", always([])),
        ("tests/database/health/test_fsck.py",),
    ),
    Switch(
        "A bare count of dependencies is refused",
        Code("scheduler.work.submission.rules.new_workunits:_release", always(())),
        (SUBMISSION, "tests/database/work/test_submit.py"),
    ),
    Switch(
        "A size class is one of the app's",
        Code("scheduler.work.submission.rules.aiming:_size", always(())),
        (AIMING,),
    ),
    Switch(
        "A broadcast needs an end and the trivial validator",
        Code("scheduler.work.submission.rules.aiming:_broadcast", always(())),
        (AIMING,),
    ),
    Switch(
        "A target exists",
        Code("scheduler.work.submission.rules.aiming:_target", always(())),
        (AIMING,),
    ),
    Switch(
        "Adaptive replication needs room",
        Code("scheduler.work.submission.rules.aiming:_adaptive", always(())),
        (AIMING,),
    ),
    Switch(
        "A moment that no program reads is refused",
        Code("scheduler.work.submission.rules.new_workunits:_is_unreadable", always(False)),
        (SUBMISSION,),
    ),
    Switch(
        "A command line has an end",
        Code("scheduler.work.submission.rules.new_workunits:_line_fault", always(None)),
        (SUBMISSION,),
    ),
    Switch(
        "The meta of a workunit is valid JSON of limited length",
        Code("scheduler.work.submission.rules.new_workunits:_meta_fault", always(None)),
        (SUBMISSION,),
    ),
    Switch(
        "Idle submitters save nothing up",
        Code(
            "scheduler.work.submission.rules.share_priorities:logical_start",
            lambda before, *_a, **_k: before,
        ),
        (SHARES,),
    ),
    Switch(
        "A wish of a submitter is not followed where shares are fair",
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
        "Inputs that no computer has room for are warned of",
        Code("scheduler.work.submission.rules.new_workunits:Survey.add_inputs", always(None)),
        ("tests/faces/api/test_api_submissions.py",),
    ),
    Switch(
        "A missing account is named while work waits for it",
        Code("scheduler.health.rules.standstill_causes:_of_turns", always(())),
        (STANDSTILL,),
    ),
    Switch(
        "A project that no computer contacts says so",
        Code("scheduler.health.rules.standstill_causes:_of_contacts", always(())),
        (STANDSTILL,),
    ),
    Switch(
        "Refusals before the newest version explain nothing",
        Sql(
            "health/read_unsent_waits",
            "AND refusal.at >= waiting.newest_at",
            "",
        ),
        (STANDSTILL,),
    ),
    Switch(
        "Purged work stays in the totals",
        Sql(
            "health/count_workunits",
            "coalesce(purged.done, 0) AS purged_done",
            "0 AS purged_done",
        ),
        (COUNTS,),
    ),
    Switch(
        "Large tables are counted again in time",
        Code("scheduler.health.counts:Counts.serves", always(True)),
        (COUNTS,),
    ),
    Switch(
        "Maintenance turns requests away",
        Code("scheduler.health.maintenance:stops_scheduler", always(None)),
        (MAINTENANCE,),
    ),
    Switch(
        "Daemons wait for the end of maintenance",
        Code("daemons.loop:_waits_for_maintenance", always(False)),
        (MAINTENANCE,),
    ),
    Switch(
        "A project that is over sends nothing",
        Code("scheduler.boinc.conversation:_end_of_project", always(())),
        ("tests/faces/boinc/test_choosing.py",),
    ),
)
