"""Rules of credit, records and statistics."""

from __future__ import annotations

from tests.mutate.switching import Code, Sql, Switch, always, unchanged

ADAPTIVE = "tests/pure/credit/test_credit_adaptive.py"
CREDIT = "tests/database/credit/test_credit.py"
HOUSEKEEPER = "tests/database/daemons/test_housekeeper.py"
PURE = "tests/pure/credit/test_credit.py"

RULES = (
    Switch(
        "An excessive claim gains nothing",
        Code("scheduler.credit.rules.credit:low_average", max),
        (PURE,),
    ),
    Switch(
        "A recent average halves in a week",
        Code("scheduler.credit.rules.credit:HALF_LIFE_SECONDS", 10**9),
        (PURE,),
    ),
    Switch(
        "No result is paid more than the most",
        Code("scheduler.credit.rules.credit:MAX_GRANTED", 10**30),
        (PURE,),
    ),
    Switch(
        "Unmeasured hosts teach nothing",
        Code("scheduler.credit.rules.adaptive_credit:_is_unmeasured", always(False)),
        (ADAPTIVE,),
    ),
    Switch(
        "Only sane ratios are learned",
        Code("scheduler.credit.rules.adaptive_credit:SANE_RATIOS", (0, 10**30)),
        (ADAPTIVE,),
    ),
    Switch(
        "A host is scaled by its own claims",
        Code("scheduler.credit.rules.adaptive_credit:host_scale", always(1.0)),
        (ADAPTIVE,),
    ),
    Switch(
        "A host is scaled after ten samples",
        Code("scheduler.credit.rules.adaptive_credit:MIN_HOST_SAMPLES", 0),
        (ADAPTIVE,),
    ),
    Switch(
        "A version is scaled after a hundred samples",
        Code("scheduler.credit.rules.adaptive_credit:MIN_VERSION_SAMPLES", 0),
        (ADAPTIVE,),
    ),
    Switch(
        "A host is scaled by ten at most",
        Code("scheduler.credit.rules.adaptive_credit:MAX_HOST_SCALE", 10**9),
        (ADAPTIVE,),
    ),
    Switch(
        "A wild claim weighs little",
        Code(
            "scheduler.credit.rules.adaptive_credit:pegged_average",
            lambda operations, estimated: sum(operations) / len(operations),
        ),
        (ADAPTIVE,),
    ),
    Switch(
        "Versions are brought down to the least",
        Code("scheduler.credit.rules.adaptive_credit:version_scales", always(({}, None))),
        (
            ADAPTIVE,
            HOUSEKEEPER,
        ),
    ),
    Switch(
        "Nothing is paid twice",
        Sql("insert_credit", "ON CONFLICT (result_id, rule) DO NOTHING", "", package="daemons.sql"),
        (CREDIT,),
    ),
    Switch(
        "The team of the moment is credited",
        Sql("insert_credit", "account.team_id", "NULL", package="daemons.sql"),
        (CREDIT,),
    ),
    Switch(
        "Credit by app adds up",
        Sql("pay_accounts", "kept.total + excluded.total", "excluded.total", package="daemons.sql"),
        (CREDIT,),
    ),
    Switch(
        "Agreeing with nobody earns no trust",
        Code("daemons.validator.learning:earns_trust", always(True)),
        (CREDIT,),
    ),
    Switch(
        "Verdicts move the daily quota",
        Code("scheduler.dispatch.rules.trust:after_valid", unchanged),
        (CREDIT,),
    ),
    Switch(
        "Invalid results cost trust",
        Code("scheduler.dispatch.rules.trust:after_invalid", unchanged),
        (CREDIT,),
    ),
    Switch(
        "Records are learned under a lock",
        Sql("lock_host_app_versions", "FOR NO KEY UPDATE", "", package="daemons.sql"),
        (CREDIT,),
    ),
    Switch(
        "Only idle averages fade",
        Sql("decay_averages", "AND expavg_at < %(before)s::timestamptz", "", package="daemons.sql"),
        (HOUSEKEEPER,),
    ),
    Switch(
        "A chore is done when it is due",
        Sql(
            "claim_chore",
            "WHERE done.seen_at <= %(before)s::timestamptz",
            "",
            package="daemons.sql",
        ),
        (HOUSEKEEPER,),
    ),
    Switch(
        "Samples of living results stay",
        Sql(
            "drop_orphaned_samples",
            "AND NOT EXISTS (SELECT FROM result AS r WHERE r.id = kept.result_id)",
            "",
            package="daemons.sql",
        ),
        (HOUSEKEEPER,),
    ),
    Switch(
        "Unhandled trickles stay",
        Sql("drop_orphaned_trickles_up", "AND handled_at IS NOT NULL", "", package="daemons.sql"),
        (HOUSEKEEPER,),
    ),
    Switch(
        "The census leaves out what is not measured enough",
        Sql(
            "read_host_speeds",
            "AND record.et_n >= %(samples)s::double precision",
            "",
            package="daemons.sql",
        ),
        (HOUSEKEEPER,),
    ),
    Switch(
        "The census counts the time a host computes",
        Sql(
            "read_host_speeds",
            "least(1, greatest(0.1, host.on_frac * host.active_frac))",
            "1",
            package="daemons.sql",
        ),
        (HOUSEKEEPER,),
    ),
)
