from django.db import migrations, models

from scheduler.migrations._indexes import ReplaceIndexConcurrently


class Migration(migrations.Migration):
    """Adds the index that a change of a queue's app or trust reads, while the server runs."""

    # CREATE INDEX CONCURRENTLY cannot run in a transaction.
    atomic = False

    dependencies = [("scheduler", "0034_hardware_counts")]

    operations = [
        ReplaceIndexConcurrently(
            model_name="workunit",
            index=models.Index(
                fields=["queue", "app"],
                condition=models.Q(("finished_at__isnull", True), ("queue__isnull", False)),
                name="read_unfinished_of_queue",
            ),
        ),
    ]
