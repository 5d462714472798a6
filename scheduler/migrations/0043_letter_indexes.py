from django.db import migrations, models

from scheduler.migrations._indexes import ReplaceIndexConcurrently


class Migration(migrations.Migration):
    """Adds the indexes of letters to tables that are in use, while the server runs."""

    # CREATE INDEX CONCURRENTLY cannot run in a transaction.
    atomic = False

    dependencies = [("scheduler", "0042_room_for_moved_workunits")]

    operations = [
        ReplaceIndexConcurrently(
            model_name="account",
            index=models.Index(
                fields=["id"],
                condition=models.Q(("is_active", True), ("receive_letters", True)),
                name="read_recipients_of_letters",
            ),
        ),
        ReplaceIndexConcurrently(
            model_name="outboxmessage",
            index=models.Index(
                fields=["letter"],
                condition=models.Q(("letter__isnull", False), ("sent_at__isnull", True)),
                name="unsent_copies_of_letters",
            ),
        ),
    ]
