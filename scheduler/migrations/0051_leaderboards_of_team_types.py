from django.db import migrations, models

from scheduler.migrations._indexes import ReplaceIndexConcurrently


class Migration(migrations.Migration):
    """Adds the indexes of the leaderboards of one type of team, while the server runs."""

    # CREATE INDEX CONCURRENTLY cannot run in a transaction.
    atomic = False

    dependencies = [("scheduler", "0050_hidden_computers")]

    operations = [
        ReplaceIndexConcurrently(
            model_name="team",
            index=models.Index(
                fields=["kind", "total_credit", "id"],
                condition=models.Q(("kind__gt", 0)),
                name="read_team_board_total",
            ),
        ),
        ReplaceIndexConcurrently(
            model_name="team",
            index=models.Index(
                fields=["kind", "expavg_credit", "id"],
                condition=models.Q(("kind__gt", 0)),
                name="read_team_board_recent",
            ),
        ),
    ]
