"""Rules of BOINC's templates and of BOINC's own submission."""

from __future__ import annotations

from contextlib import nullcontext

from tests.mutate.switching import Code, Sql, Switch, always, unchanged

APP_RIGHTS = "tests/pure/apps/test_app_rights.py"
SUBMISSION = "tests/faces/boinc_submission/test_submission.py"
TEMPLATED = "tests/pure/boinc_submission/test_templated.py"

API = "tests/faces/api/test_api_submissions.py"

RULES = (
    Switch(
        "The fields of a batch are checked before it is created",
        Code("scheduler.work.submission.rules.new_workunits:batch_faults", always(())),
        (API,),
    ),
    Switch(
        "An account cannot exceed its limit of unfinished workunits",
        Code("scheduler.people.quotas:require_workunits", always(None)),
        (API,),
    ),
    Switch(
        "An account cannot exceed its limit of stored bytes",
        Code("scheduler.people.quotas:require_bytes", always(None)),
        (API, "tests/faces/api/test_api_files.py"),
    ),
    Switch(
        "Kept outputs count in what somebody may keep",
        Code("scheduler.people.quotas:kept_output_bytes", always(0)),
        (API,),
    ),
    Switch(
        "A stalled upload releases its slot",
        Code("scheduler.api.endpoints.submissions:_slot_released", nullcontext),
        (API,),
    ),
    Switch(
        "Managers of an app do not set its weight or its credit",
        Code("scheduler.apps.rules.app_rights:reserved", always([])),
        (APP_RIGHTS,),
    ),
    Switch(
        "Where nobody says a number of a template's, BOINC's hold",
        Code("scheduler.boinc_submission.rules.templated:BOINC_DEFAULTS", {}),
        (TEMPLATED,),
    ),
    Switch(
        "Limits below the first results are raised to their number",
        Code("scheduler.boinc_submission.rules.templated:_with_room", unchanged),
        (TEMPLATED,),
    ),
    Switch(
        "A constant file takes none of the submission's",
        Code(
            "scheduler.boinc_submission.facts:TemplateInput.is_constant",
            property(always(False)),
        ),
        (TEMPLATED,),
    ),
    Switch(
        "Outputs are for whom they belong to",
        Code("scheduler.boinc_submission.remote_outputs:_is_same", always(True)),
        (SUBMISSION,),
    ),
    Switch(
        "A batch is filled once",
        Code("scheduler.boinc_submission.remote_submission:_batch_to_fill", always(None)),
        (SUBMISSION,),
    ),
    Switch(
        "Local files are those of the shared folder",
        Code("scheduler.storage.shared:shared_file", unchanged),
        (SUBMISSION,),
    ),
    Switch(
        "Outputs that shall stay are not deleted",
        Sql(
            "read_deletable_outputs",
            "THEN w.outputs END",
            "THEN NULL::jsonb END",
            package="daemons.sql",
        ),
        (SUBMISSION,),
    ),
    Switch(
        "Repeated slashes in an address count as one",
        Code("scheduler.boinc.rules.addresses:collapse_slashes", unchanged),
        ("tests/faces/boinc/test_repeated_slashes.py",),
    ),
)
