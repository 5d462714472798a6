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
        "A program that did not end by itself is no success",
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
        "A suspicious result is not believed alone",
        Code("scheduler.results.rules.quorum:doubt", lambda found, _suspicious: found),
        ("tests/pure/results/test_quorum.py", SCIENCE),
    ),
    Switch(
        "The validator skips deferred workunits",
        Sql(
            "claim_unvalidated",
            "AND (w.validate_after IS NULL OR w.validate_after <= %(now)s::timestamptz)",
            "",
            package="daemons.sql",
        ),
        (SCIENCE,),
    ),
    Switch(
        "The validator leaves out what is parked",
        Sql("claim_unvalidated", "f.parked_at IS NOT NULL", "FALSE", package="daemons.sql"),
        (SCIENCE,),
    ),
    Switch(
        "One validator compares a workunit at a time",
        Sql(
            "claim_unvalidated",
            "AND (w.lease_until IS NULL OR w.lease_until <= %(now)s::timestamptz)",
            "",
            package="daemons.sql",
        ),
        (SCIENCE,),
    ),
    Switch(
        "Fresh workunits come before those that failed",
        Sql(
            "claim_unvalidated",
            "ORDER BY w.validate_after NULLS FIRST, w.id",
            "ORDER BY w.id",
            package="daemons.sql",
        ),
        (SCIENCE,),
    ),
    Switch(
        "A settlement is fenced by its token",
        Sql(
            "lock_claimed", "WHERE w.lease_token = claim.token AND", "WHERE", package="daemons.sql"
        ),
        (SCIENCE,),
    ),
    Switch(
        "Only what still asks is judged",
        Sql("lock_claimed", "AND w.need_validate", "", package="daemons.sql"),
        (SCIENCE,),
    ),
    Switch(
        "Only unchanged results are judged",
        Code("daemons.validator.turns:_content", always(0)),
        (SCIENCE,),
    ),
    Switch(
        "A success that comes meanwhile is judged next",
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
            "transition_at = %(now)s::timestamptz",
            "transition_at = w.transition_at",
            package="daemons.sql",
        ),
        (
            SCIENCE,
            VALIDATOR,
        ),
    ),
    Switch(
        "Another daemon's lease is left alone",
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
        (SCIENCE,),
    ),
    Switch(
        "An app that keeps hanging rests",
        Code("daemons.validator.turns:_rest", always(None)),
        (SCIENCE,),
    ),
    Switch(
        "Whatever came is valid to the trivial validator",
        Code("daemons.science.trivial:agree", always(False)),
        (
            VALIDATOR,
            "tests/pure/science/test_trivial.py",
        ),
    ),
    Switch(
        "Bitwise results agree when they are the same",
        Code("daemons.science.bitwise:agree", always(True)),
        (VALIDATOR,),
    ),
    Switch(
        "Numbers agree within their tolerance",
        Code("daemons.science.numeric:Tolerance.covers", always(True)),
        ("tests/pure/science/test_numeric.py",),
    ),
    Switch(
        "A script's exit status decides",
        Code("daemons.science.script:_accepts", always(True)),
        ("tests/pure/science/test_script.py",),
    ),
    Switch(
        "Failures are counted up to the app's limit",
        Sql("record_science_failures", "failures >= allowed OR", "FALSE OR", package="daemons.sql"),
        (
            POISON,
            SCIENCE,
        ),
    ),
    Switch(
        "Passing failures weigh a tenth",
        Code("daemons.poison:TRANSIENT_WEIGHT", 1),
        (
            POISON,
            SCIENCE,
        ),
    ),
    Switch(
        "Passing failures are counted apart",
        Sql("record_science_failures", "(NOT u.transient)::integer", "1", package="daemons.sql"),
        (POISON,),
    ),
    Switch(
        "The retry delay grows with each failure (assimilator)",
        Code("daemons.poison:wait_after", always(timedelta(seconds=10))),
        (
            POISON,
            ASSIMILATOR,
        ),
    ),
    Switch(
        "The assimilator leaves out what is parked",
        Sql("claim_unassimilated", "f.parked_at IS NOT NULL", "FALSE", package="daemons.sql"),
        (ASSIMILATOR,),
    ),
    Switch(
        "Success forgets earlier failures",
        Sql(
            "settle_assimilated",
            "f.stage = any('{1, 2}'::smallint[])",
            "FALSE",
            package="daemons.sql",
        ),
        (ASSIMILATOR,),
    ),
    Switch(
        "A deferred workunit waits",
        Code("daemons.assimilator:_defer", always(False)),
        (ASSIMILATOR,),
    ),
    Switch(
        "An app whose science fails slowly waits its turn",
        Code("daemons.assimilator:_is_exhausted", always(False)),
        (ASSIMILATOR,),
    ),
    Switch(
        "A temporary error does not count as a failure",
        Code("daemons.assimilator:_is_transient", always(False)),
        (ASSIMILATOR,),
    ),
    Switch(
        "Options that nobody knows are refused",
        Code("daemons.science.checking:checked", lambda options, *_args, **_kwargs: dict(options)),
        (
            ASSIMILATORS,
            "tests/pure/science/test_numeric.py",
        ),
    ),
    Switch(
        "A webhook is signed",
        Code("daemons.science.webhook:signature", always("none")),
        (ASSIMILATORS,),
    ),
    Switch(
        "The server's own tables are refused",
        Code("daemons.science.table:_is_server_table", always(False)),
        (ASSIMILATORS,),
    ),
    Switch(
        "An assimilator that lost its lease settles nothing",
        Sql("settle_assimilated", "w.lease_token = u.token", "TRUE", package="daemons.sql"),
        (ASSIMILATOR,),
    ),
    Switch(
        "parked retry tries at once",
        Sql(
            "health/retry_science",
            "WHEN EXISTS (SELECT FROM forgotten AS f WHERE f.stage = 2 AND f.subject_id = w.id) THEN NULL",
            "WHEN FALSE THEN NULL",
        ),
        (PARKED,),
    ),
    Switch(
        "parked drop asks first",
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
        (REVALIDATE,),
    ),
)
