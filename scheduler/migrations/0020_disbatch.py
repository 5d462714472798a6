from django.contrib.postgres.operations import AddConstraintNotValid
from django.db import migrations, models

# Functions with the owner's rights, so that the daemons' role need not own the ledger.  The search
# path is fixed, because a caller could otherwise put tables of its own before the ledger.
CREATE = """
DO $do$
BEGIN
    EXECUTE format($function$
        CREATE FUNCTION create_ledger_day(day date) RETURNS boolean
        LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, %1$I, pg_temp AS $body$
        DECLARE
            part text := 'ledger_entry_' || to_char(day, 'YYYYMMDD');
            first text := to_char(day, 'YYYY-MM-DD') || ' 00:00:00+00';
            last text := to_char(day + 1, 'YYYY-MM-DD') || ' 00:00:00+00';
        BEGIN
            -- In the order in which ATTACH takes them; the first lock excludes other purgers.  It
            -- also excludes writers if they may have rows of this day: a writer that waited for the
            -- default partition until ATTACH would fail, because its rows no longer belong there.
            IF day <= current_date + 1 THEN
                LOCK TABLE ONLY %1$I.ledger_entry IN SHARE ROW EXCLUSIVE MODE;
            ELSE
                LOCK TABLE ONLY %1$I.ledger_entry IN SHARE UPDATE EXCLUSIVE MODE;
            END IF;
            LOCK TABLE %1$I.ledger_entry_default IN ACCESS EXCLUSIVE MODE;
            IF to_regclass(format('%1$I.%%I', part)) IS NOT NULL THEN
                RETURN FALSE;
            END IF;
            EXECUTE format(
                'CREATE TABLE %1$I.%%I (LIKE %1$I.ledger_entry INCLUDING DEFAULTS)', part
            );
            EXECUTE format(
                'WITH moved AS (DELETE FROM %1$I.ledger_entry_default'
                ' WHERE at >= %%L AND at < %%L RETURNING *)'
                ' INSERT INTO %1$I.%%I SELECT * FROM moved',
                first, last, part
            );
            EXECUTE format(
                'ALTER TABLE %1$I.ledger_entry ATTACH PARTITION %1$I.%%I FOR VALUES FROM (%%L) TO (%%L)',
                part, first, last
            );
            RETURN TRUE;
        END $body$
    $function$, current_schema());
    EXECUTE format($function$
        CREATE FUNCTION drop_ledger_day(day date) RETURNS void
        LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, %1$I, pg_temp AS $body$
        BEGIN
            EXECUTE format(
                'DROP TABLE IF EXISTS %1$I.%%I', 'ledger_entry_' || to_char(day, 'YYYYMMDD')
            );
        END $body$
    $function$, current_schema());
    REVOKE ALL ON FUNCTION create_ledger_day(date), drop_ledger_day(date) FROM PUBLIC;
END $do$
"""


RULES = [
    ("exit_code", "Exit Code"),
    ("empty_stderr", "Empty Stderr"),
    ("both", "Both"),
    ("validator", "Validator"),
    ("runner", "Runner"),
]


class Migration(migrations.Migration):
    dependencies = [
        ("scheduler", "0019_pool"),
    ]

    operations = [
        migrations.RunSQL(
            CREATE,
            "DROP FUNCTION create_ledger_day(date), drop_ledger_day(date)",
        ),
        migrations.AddField(
            model_name="workunit",
            name="hold_code",
            field=models.SmallIntegerField(blank=True, null=True),
        ),
        # Not valid: existing workunits have no code, so the table need not be read.
        AddConstraintNotValid(
            model_name="workunit",
            constraint=models.CheckConstraint(
                condition=models.Q(
                    ("hold_code__isnull", True),
                    models.Q(("hold_code__lt", 0), ("release_state", 2)),
                    _connector="OR",
                ),
                name="workunit_hold_code_is_of_a_held_workunit",
            ),
        ),
        migrations.AddField(
            model_name="result",
            name="app_status",
            field=models.IntegerField(blank=True, null=True),
        ),
        migrations.AddField(
            model_name="result",
            name="stdout",
            field=models.TextField(blank=True, null=True),
        ),
        migrations.AlterField(
            model_name="app",
            name="success_rule",
            field=models.CharField(choices=RULES, default="exit_code", max_length=12),
        ),
        migrations.RemoveConstraint(model_name="app", name="app_kind_and_success_rule_are_known"),
        migrations.AddConstraint(
            model_name="app",
            constraint=models.CheckConstraint(
                condition=models.Q(
                    ("kind__in", ["native", "script", "command", "container"]),
                    ("success_rule__in", [value for value, _ in RULES]),
                ),
                name="app_kind_and_success_rule_are_known",
            ),
        ),
    ]
