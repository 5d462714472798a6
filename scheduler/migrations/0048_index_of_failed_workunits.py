from django.db import migrations, models

from scheduler.migrations._indexes import ReplaceIndexConcurrently


class Migration(migrations.Migration):
    """Adds the index of the failed workunits of batches, while the server runs."""

    # CREATE INDEX CONCURRENTLY cannot run in a transaction.
    atomic = False

    dependencies = [("scheduler", "0047_deleted_and_boinc_wide_teams")]

    operations = [
        ReplaceIndexConcurrently(
            model_name="workunit",
            index=models.Index(
                fields=["batch", "id"],
                condition=models.Q(
                    models.Q(("error_mask", 0), _negated=True), ("retried_as__isnull", True)
                ),
                name="failed_in_batch",
            ),
        ),
    ]
