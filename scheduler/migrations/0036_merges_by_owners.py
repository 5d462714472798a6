from django.db import migrations, models

from scheduler.migrations._indexes import ReplaceIndexConcurrently


class Migration(migrations.Migration):
    """Adds the index that a merge of two hosts reads, while the server runs."""

    # CREATE INDEX CONCURRENTLY cannot run in a transaction.
    atomic = False

    dependencies = [("scheduler", "0035_unfinished_work_of_queues")]

    operations = [
        ReplaceIndexConcurrently(
            model_name="workunit",
            index=models.Index(
                fields=["target_host"],
                condition=models.Q(("target_host__isnull", False)),
                name="retarget_workunits",
            ),
        ),
    ]
