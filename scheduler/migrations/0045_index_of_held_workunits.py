from django.db import migrations, models

from scheduler.migrations._indexes import ReplaceIndexConcurrently


class Migration(migrations.Migration):
    """Adds the index of held workunits with a code, while the server runs."""

    # CREATE INDEX CONCURRENTLY cannot run in a transaction.
    atomic = False

    dependencies = [("scheduler", "0044_room_for_moved_results")]

    operations = [
        ReplaceIndexConcurrently(
            model_name="workunit",
            index=models.Index(
                fields=["hold_code", "id"],
                condition=models.Q(("hold_code__isnull", False)),
                name="read_held_workunits",
            ),
        ),
    ]
