import django.db.models.deletion
from django.conf import settings
from django.db import migrations, models


class Migration(migrations.Migration):
    """Adds the table of the administrators of teams."""

    dependencies = [
        ("scheduler", "0051_leaderboards_of_team_types"),
    ]

    operations = [
        migrations.CreateModel(
            name="TeamAdministrator",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
                ("named_at", models.DateTimeField()),
                (
                    "account",
                    models.OneToOneField(
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="administratorship",
                        to=settings.AUTH_USER_MODEL,
                    ),
                ),
                (
                    "team",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="administrators",
                        to="scheduler.team",
                    ),
                ),
            ],
            options={
                "verbose_name": "administrator of a team",
                "verbose_name_plural": "administrators of teams",
                "db_table": "team_administrator",
                "default_permissions": ("view",),
            },
        ),
    ]
