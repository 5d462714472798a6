from django.db import migrations, models


class Migration(migrations.Migration):
    """Adds the switch that hides one computer, and the last use of submission keys."""

    dependencies = [("scheduler", "0049_credit_by_app")]

    operations = [
        migrations.AddField(
            model_name="host",
            name="hidden",
            field=models.BooleanField(db_default=False, default=False),
        ),
        migrations.AddField(
            model_name="accountkey",
            name="last_used_on",
            field=models.DateField(blank=True, null=True),
        ),
    ]
