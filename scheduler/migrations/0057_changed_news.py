from django.db import migrations, models


class Migration(migrations.Migration):
    """Adds the time of the last change of news."""

    dependencies = [("scheduler", "0056_audit_of_plan_classes")]

    operations = [
        migrations.AddField(
            model_name="news",
            name="changed_at",
            field=models.DateTimeField(blank=True, null=True),
        ),
    ]
