from django.db import migrations, models
from django.db.models.functions import Collate, Lower

from scheduler.migrations._indexes import ReplaceIndexConcurrently


class Migration(migrations.Migration):
    """Adds the indexes of the lists of teams and of their members while the server runs."""

    # CREATE INDEX CONCURRENTLY cannot run in a transaction.
    atomic = False

    dependencies = [("scheduler", "0031_computers_hidden_by_default")]

    operations = [
        ReplaceIndexConcurrently(
            model_name="account",
            index=models.Index(
                fields=["team", "id"],
                condition=models.Q(("is_active", True), ("team__isnull", False)),
                name="list_members_of_teams",
            ),
        ),
        ReplaceIndexConcurrently(
            model_name="team",
            index=models.Index(
                Collate(Lower("name"), "C"), models.F("id"), name="list_teams_by_name"
            ),
        ),
        ReplaceIndexConcurrently(
            model_name="team",
            index=models.Index(fields=["expavg_credit", "id"], name="list_teams_by_recent_credit"),
        ),
        ReplaceIndexConcurrently(
            model_name="team",
            index=models.Index(fields=["total_credit", "id"], name="list_teams_by_total_credit"),
        ),
    ]
