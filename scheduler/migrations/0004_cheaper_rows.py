"""Rows that cost less to make: three foreign keys that said what is known anyway (decision 19)."""

from __future__ import annotations

import django.db.models.deletion
from django.db import migrations, models

#: Checked at the end of the statement that makes results, while the locks that it needs are fresh,
#: and not at the commit, when the workunits have been written and must be locked once more.
AT_ONCE = """
DO $$
DECLARE
    name text;
BEGIN
    SELECT conname INTO STRICT name
    FROM pg_constraint
    WHERE contype = 'f' AND conrelid = 'result'::regclass AND confrelid = 'workunit'::regclass;
    EXECUTE format('ALTER TABLE result ALTER CONSTRAINT %I DEFERRABLE INITIALLY IMMEDIATE', name);
END $$
"""


class Migration(migrations.Migration):
    """Drop them; see `scheduler.queries.invariants` for what `fsck` says in their stead."""

    dependencies = [("scheduler", "0003_every_rule")]

    operations = [
        migrations.AlterField(
            model_name="creditentry",
            name="app",
            field=models.ForeignKey(
                db_constraint=False,
                db_index=False,
                on_delete=django.db.models.deletion.PROTECT,
                related_name="+",
                to="scheduler.app",
            ),
        ),
        migrations.AlterField(
            model_name="result",
            name="app",
            field=models.ForeignKey(
                db_constraint=False,
                db_index=False,
                on_delete=django.db.models.deletion.PROTECT,
                related_name="+",
                to="scheduler.app",
            ),
        ),
        migrations.AlterField(
            model_name="workunitfile",
            name="workunit",
            field=models.ForeignKey(
                db_constraint=False,
                db_index=False,
                on_delete=django.db.models.deletion.CASCADE,
                related_name="input_files",
                to="scheduler.workunit",
            ),
        ),
        migrations.RunSQL(AT_ONCE, migrations.RunSQL.noop),
    ]
