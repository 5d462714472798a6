import django.db.models.deletion
from django.conf import settings
from django.db import migrations, models


class Migration(migrations.Migration):
    """Adds the table of runs of checks."""

    dependencies = [("scheduler", "0052_team_administrators")]

    operations = [
        migrations.CreateModel(
            name="CheckRun",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
                (
                    "kind",
                    models.CharField(
                        choices=[("fsck", "invariants"), ("credit", "sums of credit")],
                        max_length=10,
                    ),
                ),
                ("options", models.JSONField(blank=True, default=dict)),
                ("requested_at", models.DateTimeField(blank=True, null=True)),
                ("started_at", models.DateTimeField(blank=True, null=True)),
                ("ended_at", models.DateTimeField(blank=True, null=True)),
                ("remaining", models.JSONField(blank=True, default=list)),
                ("after_id", models.BigIntegerField(default=0)),
                ("checked_names", models.JSONField(blank=True, default=list)),
                ("to_check", models.BigIntegerField(blank=True, null=True)),
                ("checked", models.BigIntegerField(default=0)),
                ("skipped", models.BigIntegerField(default=0)),
                ("violations", models.BigIntegerField(default=0)),
                ("unresolved", models.BigIntegerField(default=0)),
                ("findings", models.JSONField(blank=True, default=list)),
                ("carried", models.JSONField(blank=True, default=list)),
                ("not_checked", models.JSONField(blank=True, default=list)),
                (
                    "requested_by",
                    models.ForeignKey(
                        blank=True,
                        db_index=False,
                        null=True,
                        on_delete=django.db.models.deletion.SET_NULL,
                        related_name="+",
                        to=settings.AUTH_USER_MODEL,
                    ),
                ),
            ],
            options={
                "verbose_name": "run of a check",
                "verbose_name_plural": "runs of checks",
                "db_table": "check_run",
                "default_permissions": ("view",),
                "constraints": [
                    models.UniqueConstraint(
                        condition=models.Q(("ended_at__isnull", True)),
                        fields=("kind",),
                        name="check_run_is_open_once",
                    ),
                    models.CheckConstraint(
                        condition=models.Q(
                            ("ended_at__isnull", True),
                            ("started_at__isnull", False),
                            _connector="OR",
                        ),
                        name="check_run_ends_after_its_start",
                    ),
                    models.CheckConstraint(
                        condition=models.Q(
                            ("requested_at__isnull", False),
                            ("ended_at__isnull", False),
                            _connector="OR",
                        ),
                        name="check_run_of_a_shell_has_ended",
                    ),
                ],
            },
        ),
    ]
