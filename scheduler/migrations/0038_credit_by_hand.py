import django.db.models.deletion
from django.conf import settings
from django.db import migrations, models


class Migration(migrations.Migration):
    """Adds the table of credit that operators grant by hand, and its kind of audit entry."""

    dependencies = [
        ("scheduler", "0036_merges_by_owners"),
    ]

    operations = [
        migrations.AlterField(
            model_name="auditentry",
            name="event",
            field=models.CharField(
                choices=[
                    ("login_succeeded", "Login Succeeded"),
                    ("login_failed", "Login Failed"),
                    ("login_throttled", "Login Throttled"),
                    ("account_created", "Account Created"),
                    ("account_changed", "Account Changed"),
                    ("password_changed", "Password Changed"),
                    ("rights_changed", "Rights Changed"),
                    ("email_change_requested", "Email Change Requested"),
                    ("email_changed", "Email Changed"),
                    ("email_confirmed", "Email Confirmed"),
                    ("factor_added", "Factor Added"),
                    ("factor_removed", "Factor Removed"),
                    ("account_exported", "Account Exported"),
                    ("account_erased", "Account Erased"),
                    ("token_created", "Token Created"),
                    ("token_revoked", "Token Revoked"),
                    ("token_used", "Token Used"),
                    ("key_created", "Key Created"),
                    ("key_revoked", "Key Revoked"),
                    ("key_used", "Key Used"),
                    ("key_rotated", "Key Rotated"),
                    ("file_signed", "File Signed"),
                    ("version_published", "Version Published"),
                    ("version_changed", "Version Changed"),
                    ("app_created", "App Created"),
                    ("app_changed", "App Changed"),
                    ("host_changed", "Host Changed"),
                    ("queue_created", "Queue Created"),
                    ("queue_changed", "Queue Changed"),
                    ("queue_deleted", "Queue Deleted"),
                    ("invitation_created", "Invitation Created"),
                    ("invitation_revoked", "Invitation Revoked"),
                    ("backup_created", "Backup Created"),
                    ("backup_restored", "Backup Restored"),
                    ("address_changed", "Address Changed"),
                    ("consent_changed", "Consent Changed"),
                    ("team_changed", "Team Changed"),
                    ("news_changed", "News Changed"),
                    ("credit_granted", "Credit Granted"),
                    ("action_taken", "Action Taken"),
                ],
                max_length=40,
            ),
        ),
        migrations.AlterField(
            model_name="creditentry",
            name="app",
            field=models.ForeignKey(
                blank=True,
                db_constraint=False,
                db_index=False,
                null=True,
                on_delete=django.db.models.deletion.PROTECT,
                related_name="+",
                to="scheduler.app",
            ),
        ),
        migrations.AlterField(
            model_name="creditentry",
            name="host",
            field=models.ForeignKey(
                blank=True,
                null=True,
                on_delete=django.db.models.deletion.PROTECT,
                related_name="+",
                to="scheduler.host",
            ),
        ),
        migrations.AlterField(
            model_name="creditentry",
            name="result_id",
            field=models.BigIntegerField(blank=True, null=True),
        ),
        migrations.CreateModel(
            name="ManualGrant",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
                ("reason", models.CharField(max_length=200)),
                ("actor", models.CharField(blank=True, default="", max_length=254)),
                ("request_id", models.UUIDField(unique=True)),
                (
                    "account",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="manual_grants",
                        to=settings.AUTH_USER_MODEL,
                    ),
                ),
                (
                    "entry",
                    models.OneToOneField(
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="manual_grant",
                        to="scheduler.creditentry",
                    ),
                ),
                (
                    "granted_by",
                    models.ForeignKey(
                        blank=True,
                        db_index=False,
                        null=True,
                        on_delete=django.db.models.deletion.SET_NULL,
                        related_name="+",
                        to=settings.AUTH_USER_MODEL,
                    ),
                ),
            ],
            options={
                "db_table": "manual_grant",
                "default_permissions": ("view",),
            },
        ),
    ]
