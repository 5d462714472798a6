from django.db import migrations, models


class Migration(migrations.Migration):
    """Adds the time of the deletion of teams, and the ids of BOINC-wide teams.

    Both columns are empty, and projects have few teams: the index takes a moment.
    """

    dependencies = [
        ("scheduler", "0046_targeted_work"),
    ]

    operations = [
        migrations.AddField(
            model_name="team",
            name="boinc_wide_id",
            field=models.BigIntegerField(blank=True, null=True, unique=True),
        ),
        migrations.AddField(
            model_name="team",
            name="deleted_at",
            field=models.DateTimeField(blank=True, null=True),
        ),
    ]
