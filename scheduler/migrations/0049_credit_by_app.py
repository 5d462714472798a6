import django.db.models.deletion
from django.db import migrations, models


def _columns(holder: str) -> list[tuple[str, models.Field]]:
    return [
        (
            "id",
            models.BigAutoField(
                auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
            ),
        ),
        ("total", models.DecimalField(decimal_places=6, default=0, max_digits=20)),
        ("expavg", models.FloatField(default=0)),
        ("expavg_at", models.DateTimeField(blank=True, null=True)),
        *(
            (
                name,
                models.ForeignKey(
                    db_index=False,
                    on_delete=django.db.models.deletion.CASCADE,
                    related_name="+",
                    to=f"scheduler.{name}",
                ),
            )
            for name in ("app", holder)
        ),
    ]


def _options(holder: str) -> dict[str, object]:
    return {
        "db_table": f"{holder}_app_credit",
        "indexes": [
            models.Index(
                condition=models.Q(("total__gt", 0)),
                fields=["app", "total", holder],
                name=f"read_{holder}_app_board_total",
            ),
            models.Index(
                condition=models.Q(("expavg__gt", 0)),
                fields=["app", "expavg", holder],
                name=f"read_{holder}_app_board_recent",
            ),
        ],
        "constraints": [
            models.UniqueConstraint(
                fields=(holder, "app"), name=f"{holder}_app_credit_is_one_per_pair"
            )
        ],
    }


class Migration(migrations.Migration):
    """Adds the credit of computers and teams by app; the housekeeper counts the entries so far."""

    dependencies = [("scheduler", "0048_index_of_failed_workunits")]

    operations = [
        migrations.CreateModel(
            name="AppCreditCursor",
            fields=[
                ("id", models.SmallIntegerField(default=1, primary_key=True, serialize=False)),
                ("counted_to", models.BigIntegerField(default=0)),
            ],
            options={
                "db_table": "app_credit_cursor",
                "constraints": [
                    models.CheckConstraint(
                        condition=models.Q(("id", 1)), name="app_credit_cursor_is_one_row"
                    )
                ],
            },
        ),
        migrations.CreateModel(
            name="HostAppCredit", fields=_columns("host"), options=_options("host")
        ),
        migrations.CreateModel(
            name="TeamAppCredit", fields=_columns("team"), options=_options("team")
        ),
    ]
