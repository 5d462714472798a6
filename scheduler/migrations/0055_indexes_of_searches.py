from django.db import migrations, models

from scheduler.migrations._indexes import ReplaceIndexConcurrently


class Migration(migrations.Migration):
    """Adds the indexes of searches of the administration, while the server runs."""

    # CREATE INDEX CONCURRENTLY cannot run in a transaction.
    atomic = False

    dependencies = [("scheduler", "0054_descriptions_and_list_of_news")]

    operations = [
        ReplaceIndexConcurrently(
            model_name="auditentry",
            index=models.Index(fields=["actor", "id"], name="audit_entries_by_actor"),
        ),
        ReplaceIndexConcurrently(
            model_name="auditentry",
            index=models.Index(fields=["subject", "id"], name="audit_entries_by_subject"),
        ),
        ReplaceIndexConcurrently(
            model_name="auditentry",
            index=models.Index(fields=["address", "id"], name="audit_entries_by_address"),
        ),
        ReplaceIndexConcurrently(
            model_name="outboxmessage",
            index=models.Index(fields=["recipient"], name="messages_by_recipient"),
        ),
        ReplaceIndexConcurrently(
            model_name="jobfile",
            index=models.Index(fields=["name"], name="job_files_by_name"),
        ),
    ]
