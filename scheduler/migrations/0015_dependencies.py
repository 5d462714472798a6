import django.db.models.deletion
from django.contrib.postgres.operations import AddConstraintNotValid
from django.db import migrations, models


class Migration(migrations.Migration):
    # A new table and columns with defaults.  The rows that are changed are those of batches that
    # wait for another batch.
    dependencies = [
        ("scheduler", "0014_workunit_wakeups"),
    ]

    operations = [
        migrations.CreateModel(
            name="Dependency",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
                (
                    "child",
                    models.ForeignKey(
                        db_constraint=False,
                        db_index=False,
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="+",
                        to="scheduler.workunit",
                    ),
                ),
                (
                    "parent",
                    models.ForeignKey(
                        db_constraint=False,
                        db_index=False,
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="+",
                        to="scheduler.workunit",
                    ),
                ),
            ],
            options={
                "verbose_name_plural": "dependencies",
                "db_table": "dependency",
                "indexes": [models.Index(fields=["child"], name="parents_of_workunit")],
                "constraints": [
                    models.UniqueConstraint(
                        fields=("parent", "child"), name="dependency_is_one_per_pair"
                    ),
                    models.CheckConstraint(
                        condition=models.Q(("parent", models.F("child")), _negated=True),
                        name="dependency_joins_two_workunits",
                    ),
                ],
            },
        ),
        migrations.AddField(
            model_name="workunit",
            name="has_children",
            field=models.BooleanField(db_default=False, default=False),
        ),
        migrations.AddField(
            model_name="workunit",
            name="has_parents",
            field=models.BooleanField(db_default=False, default=False),
        ),
        migrations.AddField(
            model_name="workunit",
            name="waits_for_batch",
            field=models.BooleanField(db_default=False, default=False),
        ),
        migrations.AddField(
            model_name="workunit",
            name="is_group",
            field=models.BooleanField(db_default=False, default=False),
        ),
        # Not valid: existing workunits are not groups, so the table need not be read.
        AddConstraintNotValid(
            model_name="workunit",
            constraint=models.CheckConstraint(
                condition=models.Q(
                    ("canonical_result__isnull", True),
                    models.Q(("canonical_result", 0), ("is_group", True)),
                    models.Q(("is_group", False), models.Q(("canonical_result", 0), _negated=True)),
                    _connector="OR",
                ),
                name="workunit_is_complete_without_a_result_only_as_a_group",
            ),
        ),
        # Read by the index of a batch's workunits; few batches wait.
        migrations.RunSQL(
            """
            UPDATE workunit SET waits_for_batch = TRUE
            WHERE
                workunit.batch_id IN (
                    SELECT id FROM batch WHERE after_id IS NOT NULL AND let_go_at IS NULL
                )
                AND pending_dependency_count > 0
            """,
            migrations.RunSQL.noop,
        ),
    ]
