from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ('scheduler', '0009_app_version_flags'),
    ]

    operations = [
        migrations.AddField(
            model_name='app',
            name='fail_when_all_tried',
            field=models.BooleanField(db_default=False, default=False),
        ),
    ]
