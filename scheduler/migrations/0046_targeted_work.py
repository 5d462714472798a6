from django.db import migrations, models

from scheduler.migrations._indexes import ReplaceIndexConcurrently


class Migration(migrations.Migration):
    """Adds the indexes of the list of targeted work, while the server runs."""

    # CREATE INDEX CONCURRENTLY cannot run in a transaction.
    atomic = False

    dependencies = [("scheduler", "0045_index_of_held_workunits")]

    operations = [
        ReplaceIndexConcurrently(
            model_name="workunit",
            index=models.Index(
                fields=["target_account"],
                condition=models.Q(("target_account__isnull", False)),
                name="workunits_for_account",
            ),
        ),
        ReplaceIndexConcurrently(
            model_name="workunit",
            index=models.Index(
                fields=["target_team"],
                condition=models.Q(("target_team__isnull", False)),
                name="workunits_for_team",
            ),
        ),
        ReplaceIndexConcurrently(
            model_name="workunit",
            index=models.Index(
                fields=["id"],
                condition=models.Q(
                    ("target_host__isnull", False),
                    ("target_account__isnull", False),
                    ("target_team__isnull", False),
                    _connector="OR",
                ),
                name="targeted_workunits",
            ),
        ),
    ]
