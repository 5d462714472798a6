import django.db.models.deletion
from django.conf import settings
from django.db import migrations, models


class Migration(migrations.Migration):
    """Adds the tables of badges and their awards, and the events of the audit log."""

    dependencies = [
        ('scheduler', '0036_merges_by_owners'),
    ]

    operations = [
        migrations.AlterField(
            model_name='auditentry',
            name='event',
            field=models.CharField(choices=[('login_succeeded', 'Login Succeeded'), ('login_failed', 'Login Failed'), ('login_throttled', 'Login Throttled'), ('account_created', 'Account Created'), ('account_changed', 'Account Changed'), ('password_changed', 'Password Changed'), ('rights_changed', 'Rights Changed'), ('email_change_requested', 'Email Change Requested'), ('email_changed', 'Email Changed'), ('email_confirmed', 'Email Confirmed'), ('factor_added', 'Factor Added'), ('factor_removed', 'Factor Removed'), ('account_exported', 'Account Exported'), ('account_erased', 'Account Erased'), ('token_created', 'Token Created'), ('token_revoked', 'Token Revoked'), ('token_used', 'Token Used'), ('key_created', 'Key Created'), ('key_revoked', 'Key Revoked'), ('key_used', 'Key Used'), ('key_rotated', 'Key Rotated'), ('file_signed', 'File Signed'), ('version_published', 'Version Published'), ('version_changed', 'Version Changed'), ('app_created', 'App Created'), ('app_changed', 'App Changed'), ('host_changed', 'Host Changed'), ('queue_created', 'Queue Created'), ('queue_changed', 'Queue Changed'), ('queue_deleted', 'Queue Deleted'), ('invitation_created', 'Invitation Created'), ('invitation_revoked', 'Invitation Revoked'), ('backup_created', 'Backup Created'), ('backup_restored', 'Backup Restored'), ('address_changed', 'Address Changed'), ('consent_changed', 'Consent Changed'), ('team_changed', 'Team Changed'), ('news_changed', 'News Changed'), ('badge_changed', 'Badge Changed'), ('badge_awarded', 'Badge Awarded'), ('badge_withdrawn', 'Badge Withdrawn'), ('action_taken', 'Action Taken')], max_length=40),
        ),
        migrations.CreateModel(
            name='Badge',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('name', models.SlugField(db_index=False, max_length=64, unique=True)),
                ('title', models.CharField(max_length=100)),
                ('description', models.CharField(blank=True, default='', max_length=500)),
                ('rule', models.CharField(choices=[('by_hand', 'by hand'), ('total_credit', 'total credit'), ('recent_percentage', 'top percentage by recent average credit'), ('years', 'years since joining')], default='by_hand', max_length=20)),
                ('threshold', models.DecimalField(blank=True, decimal_places=6, max_digits=20, null=True)),
                ('for_accounts', models.BooleanField(default=True)),
                ('for_teams', models.BooleanField(default=False)),
                ('level', models.SmallIntegerField(default=0)),
                ('color', models.CharField(default='#2b7a66', max_length=7)),
                ('is_published', models.BooleanField(default=False)),
                ('account_count', models.IntegerField(default=0)),
                ('team_count', models.IntegerField(default=0)),
                ('created_at', models.DateTimeField()),
            ],
            options={
                'db_table': 'badge',
                'constraints': [models.CheckConstraint(condition=models.Q(('for_accounts', True), ('for_teams', True), _connector='OR'), name='badge_has_holders'), models.CheckConstraint(condition=models.Q(models.Q(('rule', 'by_hand'), ('threshold__isnull', True)), models.Q(models.Q(models.Q(('rule', 'total_credit'), ('threshold__gt', 0)), models.Q(('rule', 'recent_percentage'), ('threshold__gt', 0), ('threshold__lte', 100)), models.Q(('rule', 'years'), ('threshold__gte', 1), ('threshold__lte', 100)), _connector='OR'), ('threshold__isnull', False)), _connector='OR'), name='badge_threshold_fits_its_rule'), models.CheckConstraint(condition=models.Q(('color__regex', '^#[0-9a-f]{6}$')), name='badge_color_is_a_color')],
            },
        ),
        migrations.CreateModel(
            name='AccountBadge',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('created_at', models.DateTimeField()),
                ('account', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='badges', to=settings.AUTH_USER_MODEL)),
                ('badge', models.ForeignKey(db_index=False, on_delete=django.db.models.deletion.CASCADE, related_name='+', to='scheduler.badge')),
            ],
            options={
                'verbose_name': 'badge of an account',
                'verbose_name_plural': 'badges of accounts',
                'db_table': 'account_badge',
                'constraints': [models.UniqueConstraint(fields=('badge', 'account'), name='account_badge_is_awarded_once')],
            },
        ),
        migrations.CreateModel(
            name='TeamBadge',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('created_at', models.DateTimeField()),
                ('badge', models.ForeignKey(db_index=False, on_delete=django.db.models.deletion.CASCADE, related_name='+', to='scheduler.badge')),
                ('team', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='badges', to='scheduler.team')),
            ],
            options={
                'verbose_name': 'badge of a team',
                'verbose_name_plural': 'badges of teams',
                'db_table': 'team_badge',
                'constraints': [models.UniqueConstraint(fields=('badge', 'team'), name='team_badge_is_awarded_once')],
            },
        ),
    ]
