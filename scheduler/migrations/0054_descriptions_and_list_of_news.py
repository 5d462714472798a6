import django.core.validators
from django.db import migrations, models


class Migration(migrations.Migration):
    """Adds the description of an app for volunteers, and the index of the list of news.

    Projects have few news: the index takes a moment.
    """

    dependencies = [("scheduler", "0053_check_runs")]

    operations = [
        migrations.AddField(
            model_name="app",
            name="description",
            field=models.TextField(
                blank=True,
                db_default="",
                default="",
                validators=[django.core.validators.MaxLengthValidator(4000)],
            ),
        ),
        migrations.AddIndex(
            model_name="news",
            index=models.Index(
                condition=models.Q(("withdrawn_at__isnull", True)),
                fields=["-id"],
                name="list_news",
            ),
        ),
    ]
