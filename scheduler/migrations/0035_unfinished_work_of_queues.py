from datetime import timedelta

from django.db import migrations, models

from scheduler.migrations._indexes import ReplaceIndexConcurrently


class Migration(migrations.Migration):
    """Adds indexes of queues' unfinished work and of names, while the server runs."""

    # CREATE INDEX CONCURRENTLY cannot run in a transaction.
    atomic = False

    dependencies = [("scheduler", "0034_hardware_counts")]

    operations = [
        ReplaceIndexConcurrently(
            model_name="workunit",
            index=models.Index(
                fields=["queue", "app"],
                condition=models.Q(("finished_at__isnull", True), ("queue__isnull", False)),
                name="read_work_of_other_apps",
            ),
        ),
        ReplaceIndexConcurrently(
            model_name="workunit",
            index=models.Index(
                fields=["queue", "app"],
                condition=models.Q(
                    ("delay_bound", timedelta(days=36600)),
                    ("finished_at__isnull", True),
                    ("queue__isnull", False),
                ),
                name="read_endless_work",
            ),
        ),
        ReplaceIndexConcurrently(
            model_name="batch",
            index=models.Index(fields=["name", "submitter"], name="find_batch_by_name"),
        ),
        ReplaceIndexConcurrently(
            model_name="host",
            index=models.Index(fields=["domain_name", "account"], name="find_host_by_name"),
        ),
    ]
