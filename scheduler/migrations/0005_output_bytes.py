from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ('scheduler', '0004_logins'),
    ]

    operations = [
        migrations.AddField(
            model_name='workunit',
            name='output_bytes',
            field=models.BigIntegerField(db_default=0, default=0),
        ),
    ]
