from django.db import migrations, models


class Migration(migrations.Migration):
    """Adds the CPU utilization that a host reports; the table is not rewritten."""

    dependencies = [("scheduler", "0057_changed_news")]

    operations = [
        migrations.AddField(
            model_name="usagesample",
            name="cpu_utilization",
            field=models.FloatField(blank=True, null=True),
        ),
    ]
