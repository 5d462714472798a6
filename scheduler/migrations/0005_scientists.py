"""What scientists need: tokens, rights, repeats, kept files, batches that follow others."""

from __future__ import annotations

import django.contrib.postgres.indexes
import django.db.models.deletion
from django.conf import settings
from django.db import migrations, models

# A submission locks its submitter's clock, and the validator pays accounts.
CLOCKS_TO_SUBMITTERS = """
INSERT INTO submitter (account_id, all_apps, share, logical_start_at, created_at)
SELECT id, FALSE, submit_share, logical_start_at, now()
FROM account
WHERE submit_share <> 1 OR logical_start_at IS NOT NULL
"""
CLOCKS_TO_ACCOUNTS = """
UPDATE account
SET submit_share = submitter.share, logical_start_at = submitter.logical_start_at
FROM submitter
WHERE submitter.account_id = account.id
"""


class Migration(migrations.Migration):
    """Add them."""

    dependencies = [
        ('scheduler', '0004_cheaper_rows'),
    ]

    operations = [
        migrations.CreateModel(
            name='ApiToken',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('name', models.CharField(max_length=100)),
                ('token_hash', models.CharField(max_length=64, unique=True)),
                ('may_submit', models.BooleanField(default=False)),
                ('may_read', models.BooleanField(default=True)),
                ('may_administer', models.BooleanField(default=False)),
                ('created_at', models.DateTimeField()),
                ('expire_at', models.DateTimeField(blank=True, null=True)),
                ('last_used_on', models.DateField(blank=True, null=True)),
                ('revoked_at', models.DateTimeField(blank=True, null=True)),
            ],
            options={
                'db_table': 'api_token',
            },
        ),
        migrations.AddField(
            model_name='file',
            name='urls',
            field=models.TextField(blank=True, db_default='', default=''),
        ),
        migrations.CreateModel(
            name='JobFile',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('name', models.CharField(max_length=255)),
                ('created_at', models.DateTimeField()),
                ('account', models.ForeignKey(db_index=False, on_delete=django.db.models.deletion.CASCADE, related_name='+', to=settings.AUTH_USER_MODEL)),
                ('file', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='job_files', to='scheduler.file')),
            ],
            options={
                'db_table': 'job_file',
                'constraints': [models.UniqueConstraint(fields=('account', 'name'), name='job_file_name_is_the_submitters')],
            },
        ),
        migrations.CreateModel(
            name='FileHold',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('until', models.DateTimeField()),
            ],
            options={
                'db_table': 'file_hold',
            },
        ),
        migrations.CreateModel(
            name='IdempotencyKey',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('key', models.CharField(max_length=200)),
                ('request_hash', models.CharField(max_length=64)),
                ('status', models.SmallIntegerField()),
                ('answer', models.JSONField(default=dict)),
                ('created_at', models.DateTimeField()),
            ],
            options={
                'db_table': 'idempotency_key',
            },
        ),
        migrations.CreateModel(
            name='Submitter',
            fields=[
                ('account', models.OneToOneField(on_delete=django.db.models.deletion.CASCADE, primary_key=True, related_name='submitter', serialize=False, to=settings.AUTH_USER_MODEL)),
                ('all_apps', models.BooleanField(db_default=False, default=False)),
                ('max_unfinished_workunits', models.BigIntegerField(blank=True, null=True)),
                ('max_kept_bytes', models.BigIntegerField(blank=True, null=True)),
                ('share', models.FloatField(db_default=1, default=1)),
                ('logical_start_at', models.DateTimeField(blank=True, null=True)),
                ('created_at', models.DateTimeField()),
            ],
            options={
                'db_table': 'submitter',
            },
        ),
        migrations.RunSQL(CLOCKS_TO_SUBMITTERS, CLOCKS_TO_ACCOUNTS),
        migrations.RemoveField(
            model_name='account',
            name='logical_start_at',
        ),
        migrations.RemoveField(
            model_name='account',
            name='submit_share',
        ),
        migrations.CreateModel(
            name='SubmitterApp',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('may_manage', models.BooleanField(db_default=False, default=False)),
            ],
            options={
                'db_table': 'submitter_app',
            },
        ),
        migrations.CreateModel(
            name='BatchUsage',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('day', models.DateField()),
                ('workunits', models.BigIntegerField(db_default=0, default=0)),
                ('results', models.BigIntegerField(db_default=0, default=0)),
                ('cpu_seconds', models.FloatField(db_default=0, default=0)),
                ('elapsed_seconds', models.FloatField(db_default=0, default=0)),
                ('credit', models.FloatField(db_default=0, default=0)),
                ('batch', models.ForeignKey(db_index=False, on_delete=django.db.models.deletion.CASCADE, related_name='usage', to='scheduler.batch')),
            ],
            options={
                'db_table': 'batch_usage',
            },
        ),
        migrations.AddConstraint(
            model_name='batchusage',
            constraint=models.UniqueConstraint(fields=('batch', 'day'), name='batch_usage_is_one_per_day'),
        ),
        migrations.AddField(
            model_name='app',
            name='input_template',
            field=models.TextField(blank=True, default=''),
        ),
        migrations.AddField(
            model_name='app',
            name='kind',
            field=models.CharField(choices=[('native', 'Native'), ('script', 'Script'), ('command', 'Command'), ('container', 'Container')], default='native', max_length=10),
        ),
        migrations.AddField(
            model_name='app',
            name='output_template',
            field=models.TextField(blank=True, default=''),
        ),
        migrations.AddField(
            model_name='app',
            name='success_rule',
            field=models.CharField(choices=[('exit_code', 'Exit Code'), ('empty_stderr', 'Empty Stderr'), ('both', 'Both'), ('validator', 'Validator')], default='exit_code', max_length=12),
        ),
        migrations.AddField(
            model_name='app',
            name='workunit_defaults',
            field=models.JSONField(blank=True, default=dict),
        ),
        migrations.AddField(
            model_name='appversion',
            name='image',
            field=models.CharField(blank=True, default='', max_length=400),
        ),
        migrations.AddField(
            model_name='appversion',
            name='source_url',
            field=models.CharField(blank=True, default='', max_length=1000),
        ),
        migrations.AddField(
            model_name='batch',
            name='accelerate_tail',
            field=models.BooleanField(db_default=False, default=False),
        ),
        migrations.AddField(
            model_name='batch',
            name='after',
            field=models.ForeignKey(blank=True, null=True, on_delete=django.db.models.deletion.PROTECT, related_name='followers', to='scheduler.batch'),
        ),
        migrations.AddField(
            model_name='batch',
            name='after_any',
            field=models.BooleanField(db_default=False, default=False),
        ),
        migrations.AddField(
            model_name='batch',
            name='let_go_at',
            field=models.DateTimeField(blank=True, null=True),
        ),
        migrations.AddField(
            model_name='batch',
            name='tail_at',
            field=models.DateTimeField(blank=True, null=True),
        ),
        migrations.AddField(
            model_name='workunit',
            name='retried_as',
            field=models.BigIntegerField(blank=True, null=True),
        ),
        migrations.AddField(
            model_name='batch',
            name='completed_at',
            field=models.DateTimeField(blank=True, null=True),
        ),
        migrations.AddField(
            model_name='batch',
            name='keep_outputs',
            field=models.BooleanField(db_default=False, default=False),
        ),
        migrations.AddField(
            model_name='batch',
            name='priority',
            field=models.IntegerField(blank=True, null=True),
        ),
        migrations.AddField(
            model_name='batch',
            name='purged_done',
            field=models.BigIntegerField(db_default=0, default=0),
        ),
        migrations.AddField(
            model_name='batch',
            name='purged_failed',
            field=models.BigIntegerField(db_default=0, default=0),
        ),
        migrations.AddField(
            model_name='batch',
            name='retired_at',
            field=models.DateTimeField(blank=True, null=True),
        ),
        migrations.AddField(
            model_name='batch',
            name='workunits_submitted',
            field=models.BigIntegerField(db_default=0, default=0),
        ),
        migrations.AddField(
            model_name='workunit',
            name='dependency_failed_at',
            field=models.DateTimeField(blank=True, null=True),
        ),
        migrations.AddField(
            model_name='workunit',
            name='outputs_kept',
            field=models.BooleanField(db_default=False, default=False),
        ),
        migrations.RemoveIndex(model_name='workunit', name='lock_purgeable'),
        migrations.AddIndex(
            model_name='workunit',
            index=models.Index(condition=models.Q(('file_delete_state', 2), ('outputs_kept', False)), fields=['id'], name='lock_purgeable'),
        ),
        migrations.AddIndex(
            model_name='workunit',
            index=django.contrib.postgres.indexes.GinIndex(fields=['meta'], opclasses=['jsonb_path_ops'], condition=models.Q(('meta', {}), _negated=True), name='workunits_with_meta'),
        ),
        migrations.AddConstraint(
            model_name='app',
            constraint=models.CheckConstraint(condition=models.Q(('kind__in', ['native', 'script', 'command', 'container']), ('success_rule__in', ['exit_code', 'empty_stderr', 'both', 'validator'])), name='app_kind_and_success_rule_are_known'),
        ),
        migrations.AddField(
            model_name='apitoken',
            name='account',
            field=models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='api_tokens', to=settings.AUTH_USER_MODEL),
        ),
        migrations.AddField(
            model_name='filehold',
            name='account',
            field=models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='+', to=settings.AUTH_USER_MODEL),
        ),
        migrations.AddField(
            model_name='filehold',
            name='file',
            field=models.ForeignKey(db_index=False, on_delete=django.db.models.deletion.CASCADE, related_name='holds', to='scheduler.file'),
        ),
        migrations.AddField(
            model_name='idempotencykey',
            name='account',
            field=models.ForeignKey(db_index=False, on_delete=django.db.models.deletion.CASCADE, related_name='+', to=settings.AUTH_USER_MODEL),
        ),
        migrations.AddConstraint(
            model_name='submitter',
            constraint=models.CheckConstraint(condition=models.Q(models.Q(('max_unfinished_workunits__isnull', True), ('max_unfinished_workunits__gte', 0), _connector='OR'), models.Q(('max_kept_bytes__isnull', True), ('max_kept_bytes__gte', 0), _connector='OR')), name='submitter_limits_are_not_negative'),
        ),
        migrations.AddField(
            model_name='submitterapp',
            name='app',
            field=models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='+', to='scheduler.app'),
        ),
        migrations.AddField(
            model_name='submitterapp',
            name='submitter',
            field=models.ForeignKey(db_index=False, on_delete=django.db.models.deletion.CASCADE, related_name='apps', to='scheduler.submitter'),
        ),
        migrations.AddIndex(
            model_name='filehold',
            index=models.Index(fields=['until'], name='drop_past_file_holds'),
        ),
        migrations.AddConstraint(
            model_name='filehold',
            constraint=models.UniqueConstraint(fields=('file', 'account'), name='file_hold_is_one_per_person'),
        ),
        migrations.AddIndex(
            model_name='idempotencykey',
            index=models.Index(fields=['created_at'], name='drop_old_idempotency_keys'),
        ),
        migrations.AddConstraint(
            model_name='idempotencykey',
            constraint=models.UniqueConstraint(fields=('account', 'key'), name='idempotency_key_is_said_once'),
        ),
        migrations.AddConstraint(
            model_name='submitterapp',
            constraint=models.UniqueConstraint(fields=('submitter', 'app'), name='submitter_app_is_one_per_pair'),
        ),
    ]
