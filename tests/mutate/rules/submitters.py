"""Rules of submission: limits, BOINC's templates and BOINC's submission interface."""

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
        (f"{API}::TestWhatIsRefused::test_invalid_first_line_of_a_stream_returns_422",),
    ),
    Switch(
        "An account cannot exceed its limit of unfinished workunits",
        Code("scheduler.people.quotas:require_workunits", always(None)),
        (
            f"{API}::TestRightsAndQuotas::test_submission_above_the_quota_of_unfinished_workunits_is_refused",
        ),
    ),
    Switch(
        "An account cannot exceed its limit of stored bytes",
        Code("scheduler.people.quotas:require_bytes", always(None)),
        (
            f"{API}::TestRightsAndQuotas::test_chunk_above_the_byte_quota_refuses_the_submission_and_deletes_all_holds",
        ),
    ),
    Switch(
        "Kept outputs count in the limit of stored bytes",
        Code("scheduler.people.quotas:kept_output_bytes", always(0)),
        (
            f"{API}::TestRightsAndQuotas::test_outputs_count_in_the_byte_quota_until_their_batch_is_retired",
        ),
    ),
    Switch(
        "A stalled upload releases its slot",
        Code("scheduler.api.endpoints.submissions:_slot_released", nullcontext),
        (f"{API}::TestWhatIsRefused::test_a_stalled_client_does_not_block_other_submissions",),
    ),
    Switch(
        "Managers of an app cannot change its weight or its credit",
        Code("scheduler.apps.rules.app_rights:reserved", always([])),
        (APP_RIGHTS,),
    ),
    Switch(
        "Numbers absent from a template have BOINC's defaults",
        Code("scheduler.boinc_submission.rules.templated:BOINC_DEFAULTS", {}),
        (TEMPLATED,),
    ),
    Switch(
        "Limits of results are at least the number of initial results",
        Code("scheduler.boinc_submission.rules.templated:_with_room", unchanged),
        (TEMPLATED,),
    ),
    Switch(
        "A constant file of a template is not matched with a submitted file",
        Code(
            "scheduler.boinc_submission.facts:TemplateInput.is_constant",
            property(always(False)),
        ),
        (TEMPLATED,),
    ),
    Switch(
        "Only the owner can download outputs",
        Code("scheduler.boinc_submission.remote_outputs:_is_same", always(True)),
        (f"{SUBMISSION}::test_output_of_another_account_returns_404",),
    ),
    Switch(
        "Workunits can be submitted to a created batch once",
        Code("scheduler.boinc_submission.remote_submission:_batch_to_fill", always(None)),
        (f"{SUBMISSION}::test_request_of_the_python_library_submits_a_batch",),
    ),
    Switch(
        "Local files can be read from the shared folder only",
        Code("scheduler.storage.shared:shared_file", unchanged),
        (f"{SUBMISSION}::test_local_files_are_accepted_only_from_the_shared_folder",),
    ),
    Switch(
        "Outputs marked as no_delete are not deleted",
        Sql(
            "read_deletable_outputs",
            "THEN w.outputs END",
            "THEN NULL::jsonb END",
            package="daemons.sql",
        ),
        (f"{SUBMISSION}::test_file_deleter_keeps_outputs_with_no_delete_flag",),
    ),
    Switch(
        "Repeated slashes in an address count as one",
        Code("scheduler.boinc.rules.addresses:collapse_slashes", unchanged),
        ("tests/faces/boinc/test_repeated_slashes.py",),
    ),
)
