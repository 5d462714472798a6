from django.contrib.postgres.operations import AddIndexConcurrently
from django.db import migrations, models


class Migration(migrations.Migration):
    """Adds the index of ended results by host while the server runs."""

    # CREATE INDEX CONCURRENTLY cannot run in a transaction.
    atomic = False

    dependencies = [("scheduler", "0028_audit_events")]

    operations = [
        AddIndexConcurrently(
            model_name="result",
            index=models.Index(
                fields=["host", "id"],
                condition=models.Q(("host__isnull", False), ("server_state", 5)),
                name="read_own_results",
            ),
        ),
    ]
