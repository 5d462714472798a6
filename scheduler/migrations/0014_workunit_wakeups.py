from django.db import migrations, models


class Migration(migrations.Migration):

    # A new table and a new name for an index.  Workunits that are due are added to the queue by the
    # timeout checker's first pass.
    dependencies = [
        ('scheduler', '0013_totals_of_purged_work'),
    ]

    operations = [
        migrations.CreateModel(
            name='WorkunitWakeup',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('workunit_id', models.BigIntegerField()),
                ('inserted_at', models.DateTimeField()),
            ],
            options={
                'db_table': 'workunit_wakeup',
            },
        ),
        migrations.AddIndex(
            model_name='workunitwakeup',
            index=models.Index(fields=['workunit_id'], name='wakeups_of_workunit'),
        ),
        migrations.RenameIndex(
            model_name='workunit',
            new_name='wake_due_workunits',
            old_name='lock_due_workunits',
        ),
        # The queue is short and changes all the time: it is vacuumed after some thousand rows.
        migrations.RunSQL(
            "ALTER TABLE workunit_wakeup SET ("
            "autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 5000, "
            "autovacuum_vacuum_insert_threshold = -1, autovacuum_analyze_scale_factor = 0, "
            "autovacuum_analyze_threshold = 5000)",
            migrations.RunSQL.noop,
        ),
    ]
