from django.db import migrations, models


class Migration(migrations.Migration):
    """Adds the audit events of plan classes and platforms."""

    dependencies = [("scheduler", "0055_indexes_of_searches")]

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
                    ("plan_class_changed", "Plan Class Changed"),
                    ("platform_changed", "Platform Changed"),
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
                    ("badge_changed", "Badge Changed"),
                    ("badge_awarded", "Badge Awarded"),
                    ("badge_withdrawn", "Badge Withdrawn"),
                    ("credit_granted", "Credit Granted"),
                    ("letter_changed", "Letter Changed"),
                    ("action_taken", "Action Taken"),
                ],
                max_length=40,
            ),
        ),
    ]
