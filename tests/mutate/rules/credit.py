"""Rules of credit, records and statistics."""

from __future__ import annotations

from tests.mutate.switching import Code, Sql, Switch, always, unchanged

ADAPTIVE = "tests/pure/credit/test_credit_adaptive.py"
CREDIT = "tests/database/credit/test_credit.py"
APP_CREDITS = "tests/database/credit/test_app_credits.py"
HOUSEKEEPER = "tests/database/daemons/test_housekeeper.py"
PURE = "tests/pure/credit/test_credit.py"

RULES = (
    Switch(
        "The highest claim does not count in the average",
        Code("scheduler.credit.rules.credit:low_average", max),
        (PURE,),
    ),
    Switch(
        "A recent average credit halves in a week",
        Code("scheduler.credit.rules.credit:HALF_LIFE_SECONDS", 10**9),
        (PURE,),
    ),
    Switch(
        "The credit of a result is limited",
        Code("scheduler.credit.rules.credit:MAX_GRANTED", 10**30),
        (PURE,),
    ),
    Switch(
        "Claims without a speed estimate do not change averages",
        Code("scheduler.credit.rules.adaptive_credit:_is_unmeasured", always(False)),
        (ADAPTIVE,),
    ),
    Switch(
        "Claims with implausible ratios do not change averages",
        Code("scheduler.credit.rules.adaptive_credit:SANE_RATIOS", (0, 10**30)),
        (ADAPTIVE,),
    ),
    Switch(
        "Claims of a host are scaled by its average claim",
        Code("scheduler.credit.rules.adaptive_credit:host_scale", always(1.0)),
        (ADAPTIVE,),
    ),
    Switch(
        "Claims of a host are scaled only after ten samples",
        Code("scheduler.credit.rules.adaptive_credit:MIN_HOST_SAMPLES", 0),
        (ADAPTIVE,),
    ),
    Switch(
        "Claims of a version are scaled only after a hundred samples",
        Code("scheduler.credit.rules.adaptive_credit:MIN_VERSION_SAMPLES", 0),
        (ADAPTIVE,),
    ),
    Switch(
        "The scale of a host is at most ten",
        Code("scheduler.credit.rules.adaptive_credit:MAX_HOST_SCALE", 10**9),
        (ADAPTIVE,),
    ),
    Switch(
        "Claims far from the estimate have little weight",
        Code(
            "scheduler.credit.rules.adaptive_credit:pegged_average",
            lambda operations, estimated: sum(operations) / len(operations),
        ),
        (ADAPTIVE,),
    ),
    Switch(
        "Claims of versions are scaled to the least cost",
        Code("scheduler.credit.rules.adaptive_credit:version_scales", always(({}, None))),
        (
            ADAPTIVE,
            HOUSEKEEPER,
        ),
    ),
    Switch(
        "Credit is granted once per result and rule",
        Sql("insert_credit", "ON CONFLICT (result_id, rule) DO NOTHING", "", package="daemons.sql"),
        (CREDIT,),
    ),
    Switch(
        "The current team of the account is credited",
        Sql("insert_credit", "account.team_id", "NULL", package="daemons.sql"),
        (CREDIT,),
    ),
    Switch(
        "Credit by account and app is summed",
        Sql("pay_accounts", "kept.total + excluded.total", "excluded.total", package="daemons.sql"),
        (CREDIT,),
    ),
    Switch(
        "Credit by computer and app is summed",
        Sql("credit/count_app_credit", "kept.total + excluded.total", "excluded.total"),
        (APP_CREDITS,),
    ),
    Switch(
        "Entries that commit late are counted by app",
        Sql(
            "insert_credit",
            "pg_advisory_xact_lock_shared(hashtextextended('credit entries', 0))",
            "NULL",
            package="daemons.sql",
        ),
        (APP_CREDITS,),
    ),
    Switch(
        "A merge of computers waits while credit by app is counted",
        Code("scheduler.hosts.merge_hosts:_lock_app_credit_cursor", always(None)),
        (APP_CREDITS,),
    ),
    Switch(
        "A valid result that was not compared does not increase trust",
        Code("daemons.validator.learning:earns_trust", always(True)),
        (CREDIT,),
    ),
    Switch(
        "Valid results raise the daily quota",
        Code("scheduler.dispatch.rules.trust:after_valid", unchanged),
        (CREDIT,),
    ),
    Switch(
        "Invalid results reset trust",
        Code("scheduler.dispatch.rules.trust:after_invalid", unchanged),
        (CREDIT,),
    ),
    Switch(
        "Records of hosts and versions are updated under a lock",
        Sql("lock_host_app_versions", "FOR NO KEY UPDATE", "", package="daemons.sql"),
        (CREDIT,),
    ),
    Switch(
        "Only averages without recent credit decay",
        Sql("decay_averages", "AND expavg_at < %(before)s::timestamptz", "", package="daemons.sql"),
        (HOUSEKEEPER,),
    ),
    Switch(
        "The housekeeper runs a chore only when it is due",
        Sql(
            "claim_chore",
            "WHERE done.seen_at <= %(before)s::timestamptz",
            "",
            package="daemons.sql",
        ),
        (HOUSEKEEPER,),
    ),
    Switch(
        "Usage samples of existing results are kept",
        Sql(
            "drop_orphaned_samples",
            "AND NOT EXISTS (SELECT FROM result AS r WHERE r.id = kept.result_id)",
            "",
            package="daemons.sql",
        ),
        (HOUSEKEEPER,),
    ),
    Switch(
        "Unhandled trickles are kept",
        Sql("drop_orphaned_trickles_up", "AND handled_at IS NOT NULL", "", package="daemons.sql"),
        (HOUSEKEEPER,),
    ),
    Switch(
        "The census ignores versions with few samples",
        Sql(
            "read_host_speeds",
            "AND record.et_n >= %(samples)s::double precision",
            "",
            package="daemons.sql",
        ),
        (HOUSEKEEPER,),
    ),
    Switch(
        "The census considers the active fraction of a host",
        Sql(
            "read_host_speeds",
            "least(1, greatest(0.1, host.on_frac * host.active_frac))",
            "1",
            package="daemons.sql",
        ),
        (HOUSEKEEPER,),
    ),
)
