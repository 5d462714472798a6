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
            f"{HOUSEKEEPER}::test_app_version_credit_is_scaled_to_the_cheapest_version_and_its_cost_is_stored",
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
        (f"{APP_CREDITS}::test_count_waits_for_a_validator_that_has_inserted_entries",),
    ),
    Switch(
        "A merge of computers waits while credit by app is counted",
        Code("scheduler.hosts.merge_hosts:_lock_app_credit_cursor", always(None)),
        (f"{APP_CREDITS}::test_merge_waits_for_a_chunk_and_moves_what_it_counted",),
    ),
    Switch(
        "A valid result that was not compared does not increase trust",
        Code("daemons.validator.learning:earns_trust", always(True)),
        (f"{CREDIT}::test_valid_result_without_a_second_host_earns_no_trust",),
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
        (f"{CREDIT}::test_concurrent_loss_of_trust_waits_for_the_validator_and_prevails",),
    ),
    Switch(
        "Only averages without recent credit decay",
        Sql("decay_averages", "AND expavg_at < %(before)s::timestamptz", "", package="daemons.sql"),
        (f"{HOUSEKEEPER}::test_average_credit_granted_recently_or_never_does_not_decay",),
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
        (f"{HOUSEKEEPER}::test_old_messages_of_purged_results_are_deleted",),
    ),
    Switch(
        "The census ignores versions with few samples",
        Sql(
            "read_host_speeds",
            "AND record.et_n >= %(samples)s::double precision",
            "",
            package="daemons.sql",
        ),
        (f"{HOUSEKEEPER}::test_hosts_are_divided_by_speed_into_the_size_classes_of_the_app",),
    ),
    Switch(
        "The census considers the active fraction of a host",
        Sql(
            "read_host_speeds",
            "least(1, greatest(0.1, host.on_frac * host.active_frac))",
            "1",
            package="daemons.sql",
        ),
        (f"{HOUSEKEEPER}::test_host_speed_for_size_classes_is_multiplied_by_the_on_fraction",),
    ),
)
