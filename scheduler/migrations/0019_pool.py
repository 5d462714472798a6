
import datetime
import django.db.models.deletion
from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("scheduler", "0018_task_lists"),
    ]

    operations = [
        migrations.CreateModel(
            name="HostToken",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
                ("token_hash", models.CharField(max_length=64, unique=True)),
                ("created_at", models.DateTimeField()),
                ("expire_at", models.DateTimeField(blank=True, null=True)),
                ("revoked_at", models.DateTimeField(blank=True, null=True)),
                ("last_used_on", models.DateField(blank=True, null=True)),
            ],
            options={
                "db_table": "host_token",
            },
        ),
        migrations.AddField(
            model_name="app",
            name="max_termination_time",
            field=models.DurationField(
                db_default=datetime.timedelta(seconds=10), default=datetime.timedelta(seconds=10)
            ),
        ),
        migrations.AddField(
            model_name="workunit",
            name="max_termination_time",
            field=models.DurationField(blank=True, null=True),
        ),
        migrations.AddConstraint(
            model_name="app",
            constraint=models.CheckConstraint(
                condition=models.Q(
                    ("max_termination_time__gte", datetime.timedelta(0)),
                    ("max_termination_time__lte", datetime.timedelta(seconds=3600)),
                ),
                name="app_max_termination_time_is_in_range",
            ),
        ),
        migrations.AddField(
            model_name="hosttoken",
            name="host",
            field=models.ForeignKey(
                on_delete=django.db.models.deletion.CASCADE,
                related_name="tokens",
                to="scheduler.host",
            ),
        ),
    ]
