"""Add the flags of `version.xml` that clients are told of."""

from __future__ import annotations

from django.db import migrations, models


class Migration(migrations.Migration):
    """Three columns with defaults: no table is rewritten."""

    dependencies = [("scheduler", "0008_refusals_confirmed")]

    operations = [
        migrations.AddField(
            model_name="appversion", name=name, field=models.BooleanField(default=False)
        )
        for name in ("dont_throttle", "needs_network", "is_wrapper")
    ]
