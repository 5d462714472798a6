"""Rules of validators, assimilators and poison."""

from __future__ import annotations

from datetime import timedelta

from scheduler.results.rules import quorum
from tests.mutate.switching import Code, Sql, Switch, always

VALIDATOR = "tests/database/daemons/test_validator.py"
SCIENCE = "tests/database/daemons/test_validator_science.py"
ASSIMILATOR = "tests/database/daemons/test_assimilator.py"
ASSIMILATORS = "tests/database/daemons/test_assimilators.py"
PARKED = "tests/database/health/test_parked.py"
POISON = "tests/database/daemons/test_poison.py"
REVALIDATE = "tests/database/work/test_revalidate.py"

RULES = (
    Switch(
        "A program's stderr output counts if the app's rule includes it",
        Code("scheduler.results.rules.reports:own_stderr", always("")),
        ("tests/pure/results/test_success_rules.py",),
    ),
    Switch(
        "Programs are not fetched from the server's own network",
        Code("scheduler.files.rules.sources:is_public", always(True)),
        ("tests/pure/files/test_sources.py",),
    ),
    Switch(
        "Images are named by their digests",
        Code("scheduler.apps.rules.packaging:check_image", always(None)),
        ("tests/faces/api/test_api_publishing.py",),
    ),
    Switch(
        "A program that did not exit by itself is not a success",
        Code("scheduler.results.rules.reports:_ended_by_itself", always(True)),
        ("tests/pure/results/test_success_rules.py",),
    ),
    Switch(
        "The best-supported result is canonical",
        Code("scheduler.results.rules.quorum:majority", always(1)),
        ("tests/pure/results/test_quorum.py",),
    ),
    Switch(
        "Late successes are compared with the canonical result",
        Code(
            "scheduler.results.rules.quorum:check_late",
            lambda candidates, canonical, **_: quorum.Consensus(canonical=canonical.id),
        ),
        (
            "tests/pure/results/test_quorum.py",
            VALIDATOR,
        ),
    ),
    Switch(
        "A suspicious result is accepted only if another agrees",
        Code("scheduler.results.rules.quorum:doubt_suspicious", lambda found, _suspicious: found),
        (f"{SCIENCE}::test_a_suspicious_result_is_valid_only_with_a_matching_sibling_result",),
    ),
    Switch(
        "The validator skips deferred workunits",
        Sql(
            "lease_unvalidated",
            "AND (w.validate_after IS NULL OR w.validate_after <= %(now)s::timestamptz)",
            "",
            package="daemons.sql",
        ),
        (f"{SCIENCE}::test_a_workunit_whose_validation_fails_too_often_is_parked",),
    ),
    Switch(
        "The validator skips parked workunits",
        Sql("lease_unvalidated", "f.parked_at IS NOT NULL", "FALSE", package="daemons.sql"),
        (f"{SCIENCE}::test_a_workunit_whose_validation_fails_too_often_is_parked",),
    ),
    Switch(
        "One validator compares a workunit at a time",
        Sql(
            "lease_unvalidated",
            "AND (w.lease_until IS NULL OR w.lease_until <= %(now)s::timestamptz)",
            "",
            package="daemons.sql",
        ),
        (f"{SCIENCE}::test_the_lease_is_longer_than_the_science_time_limit",),
    ),
    Switch(
        "New workunits are validated before failed ones",
        Sql(
            "lease_unvalidated",
            "ORDER BY w.validate_after NULLS FIRST, w.id",
            "ORDER BY w.id",
            package="daemons.sql",
        ),
        (SCIENCE,),
    ),
    Switch(
        "A validator that lost its lease settles nothing",
        Sql(
            "lock_claimed", "WHERE w.lease_token = claim.token AND", "WHERE", package="daemons.sql"
        ),
        (f"{SCIENCE}::test_validator_settles_nothing_while_another_holds_the_lease",),
    ),
    Switch(
        "Only workunits that still need validation are settled",
        Sql("lock_claimed", "AND w.need_validate", "", package="daemons.sql"),
        (f"{SCIENCE}::test_workunit_that_no_longer_needs_validation_is_released",),
    ),
    Switch(
        "Results that changed during validation are not settled",
        Code("daemons.validator.turns:_content", always(0)),
        (SCIENCE,),
    ),
    Switch(
        "A success reported during validation is validated in the next pass",
        Sql(
            "settle_validated",
            "need_validate = verdict.unfinished",
            "need_validate = FALSE",
            package="daemons.sql",
        ),
        (SCIENCE,),
    ),
    Switch(
        "The validator always wakes the transitioner",
        Sql(
            "settle_validated",
            "SELECT id, %(now)s::timestamptz FROM settled",
            "SELECT id, %(now)s::timestamptz FROM settled WHERE FALSE",
            package="daemons.sql",
        ),
        (
            SCIENCE,
            VALIDATOR,
        ),
    ),
    Switch(
        "The validator does not clear the lease of another daemon",
        Sql(
            "settle_validated",
            "CASE WHEN %(is_leased)s::boolean THEN NULL ELSE w.lease_until END",
            "NULL",
            package="daemons.sql",
        ),
        (VALIDATOR,),
    ),
    Switch(
        "The retry delay grows with each failure (validator)",
        Code("daemons.poison:wait_after", always(timedelta(seconds=10))),
        (f"{SCIENCE}::test_transient_errors_have_growing_delays_until_success",),
    ),
    Switch(
        "An app whose science code hangs repeatedly is suspended",
        Code("daemons.validator.turns:_rest", always(None)),
        (f"{SCIENCE}::test_an_app_that_hangs_repeatedly_is_skipped_for_a_while",),
    ),
    Switch(
        "The trivial validator accepts all results",
        Code("daemons.science.trivial:agree", always(False)),
        (
            VALIDATOR,
            "tests/pure/science/test_trivial.py",
        ),
    ),
    Switch(
        "The bitwise validator accepts equal results only",
        Code("daemons.science.bitwise:agree", always(True)),
        (f"{VALIDATOR}::test_results_can_reach_all_six_validate_states",),
    ),
    Switch(
        "The numeric validator accepts numbers within the tolerance only",
        Code("daemons.science.numeric:Tolerance.covers", always(True)),
        ("tests/pure/science/test_numeric.py",),
    ),
    Switch(
        "The script validator decides by the exit status",
        Code("daemons.science.script:_accepts", always(True)),
        ("tests/pure/science/test_script.py",),
    ),
    Switch(
        "Failures are counted up to the app's limit",
        Sql("record_science_failures", "failures >= allowed OR", "FALSE OR", package="daemons.sql"),
        (f"{SCIENCE}::test_a_workunit_whose_validation_fails_too_often_is_parked",),
    ),
    Switch(
        "A temporary failure has a tenth of the weight",
        Code("daemons.poison:TRANSIENT_WEIGHT", 1),
        (f"{SCIENCE}::test_workunit_is_parked_after_ten_times_as_many_transient_errors",),
    ),
    Switch(
        "Temporary failures are counted separately",
        Sql("record_science_failures", "(NOT u.transient)::integer", "1", package="daemons.sql"),
        (POISON,),
    ),
    Switch(
        "The retry delay grows with each failure (assimilator)",
        Code("daemons.poison:wait_after", always(timedelta(seconds=10))),
        (f"{ASSIMILATOR}::test_delay_grows_with_each_failure",),
    ),
    Switch(
        "The assimilator skips parked workunits",
        Sql("lease_unassimilated", "f.parked_at IS NOT NULL", "FALSE", package="daemons.sql"),
        (ASSIMILATOR,),
    ),
    Switch(
        "A success deletes the records of earlier failures",
        Sql(
            "settle_assimilated",
            "f.stage = any('{1, 2}'::smallint[])",
            "FALSE",
            package="daemons.sql",
        ),
        (ASSIMILATOR,),
    ),
    Switch(
        "A deferred workunit is not assimilated before its time",
        Code("daemons.assimilator:_defer", always(False)),
        (ASSIMILATOR,),
    ),
    Switch(
        "An app with slow failures does not delay other apps",
        Code("daemons.assimilator:_is_exhausted", always(False)),
        (f"{ASSIMILATOR}::test_an_app_that_failed_slowly_is_skipped_for_the_rest_of_the_pass",),
    ),
    Switch(
        "A temporary error does not count as a failure",
        Code("daemons.assimilator:_is_transient", always(False)),
        (ASSIMILATOR,),
    ),
    Switch(
        "Unknown options are refused",
        Code("daemons.science.checking:checked", lambda options, *_args, **_kwargs: dict(options)),
        (
            ASSIMILATORS,
            "tests/pure/science/test_numeric.py",
        ),
    ),
    Switch(
        "A plug-in whose module has changed gets a new worker",
        Code("daemons.science.worker:_module_versions", always(())),
        (f"{SCIENCE}::test_an_edited_plugin_takes_effect_at_the_next_scan",),
    ),
    Switch(
        "A webhook is signed",
        Code("daemons.science.webhook:signature", always("none")),
        (f"{ASSIMILATORS}::TestWebhook::test_webhook_sends_outputs_as_signed_json",),
    ),
    Switch(
        "The server's own tables are refused",
        Code("daemons.science.table:_is_server_table", always(False)),
        (f"{ASSIMILATORS}::TestOptions::test_unknown_options_are_refused_with_the_valid_ones",),
    ),
    Switch(
        "An assimilator that lost its lease settles nothing",
        Sql("settle_assimilated", "w.lease_token = u.token", "TRUE", package="daemons.sql"),
        (f"{ASSIMILATOR}::test_assimilator_settles_nothing_while_another_holds_the_lease",),
    ),
    Switch(
        "The command parked retry makes workunits due immediately",
        Sql(
            "health/retry_science",
            "WHEN EXISTS (SELECT FROM forgotten AS f WHERE f.stage = 2 AND f.subject_id = w.id) THEN NULL",
            "WHEN FALSE THEN NULL",
        ),
        (PARKED,),
    ),
    Switch(
        "The command parked drop asks for confirmation",
        Code("scheduler.management.commands.parked:_agreed", always(True)),
        (PARKED,),
    ),
    Switch(
        "Only eligible workunits are validated again",
        Sql(
            "results/choose_revalidation",
            "WHEN w.assimilate_state = {{AssimilateState.DONE}} THEN 'assimilated'",
            "",
        ),
        (
            f"{REVALIDATE}::TestChoosing::test_workunits_past_revalidation_are_refused_with_the_reason",
        ),
    ),
)
