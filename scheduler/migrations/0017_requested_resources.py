from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("scheduler", "0016_named_queues"),
    ]

    operations = [
        migrations.AddField(
            model_name="workunit",
            name="requested_cpus",
            field=models.FloatField(db_default=0, default=0),
        ),
        migrations.AddField(
            model_name="workunit",
            name="requested_gpus",
            field=models.FloatField(db_default=0, default=0),
        ),
    ]
