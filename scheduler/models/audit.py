"""The table of the security audit log."""

from __future__ import annotations

from django.db import models


class AuditEntry(models.Model):
    """A security event, with its actor and the actor's network address.

    The table is append-only: `people.audit.record` inserts rows, and only the housekeeper deletes
    them, after `AUDIT_KEPT_DAYS`.  It has no foreign keys, so that entries of deleted accounts
    remain.
    """

    class Event(models.TextChoices):
        """The kind of a security event; each name has the form `noun_verb`."""

        LOGIN_SUCCEEDED = "login_succeeded"
        LOGIN_FAILED = "login_failed"
        LOGIN_THROTTLED = "login_throttled"
        ACCOUNT_CREATED = "account_created"
        ACCOUNT_CHANGED = "account_changed"
        PASSWORD_CHANGED = "password_changed"  # noqa: S105 - the name of an event
        RIGHTS_CHANGED = "rights_changed"
        EMAIL_CHANGE_REQUESTED = "email_change_requested"
        EMAIL_CHANGED = "email_changed"
        EMAIL_CONFIRMED = "email_confirmed"
        FACTOR_ADDED = "factor_added"
        FACTOR_REMOVED = "factor_removed"
        ACCOUNT_EXPORTED = "account_exported"
        ACCOUNT_ERASED = "account_erased"
        TOKEN_CREATED = "token_created"  # noqa: S105 - the name of an event
        TOKEN_REVOKED = "token_revoked"  # noqa: S105 - the name of an event
        TOKEN_USED = "token_used"  # noqa: S105 - the name of an event
        KEY_CREATED = "key_created"
        KEY_REVOKED = "key_revoked"
        KEY_USED = "key_used"
        KEY_ROTATED = "key_rotated"
        FILE_SIGNED = "file_signed"
        VERSION_PUBLISHED = "version_published"
        VERSION_CHANGED = "version_changed"
        APP_CREATED = "app_created"
        APP_CHANGED = "app_changed"
        PLAN_CLASS_CHANGED = "plan_class_changed"
        PLATFORM_CHANGED = "platform_changed"
        HOST_CHANGED = "host_changed"
        QUEUE_CREATED = "queue_created"
        QUEUE_CHANGED = "queue_changed"
        QUEUE_DELETED = "queue_deleted"
        INVITATION_CREATED = "invitation_created"
        INVITATION_REVOKED = "invitation_revoked"
        BACKUP_CREATED = "backup_created"
        BACKUP_RESTORED = "backup_restored"
        ADDRESS_CHANGED = "address_changed"
        CONSENT_CHANGED = "consent_changed"
        TEAM_CHANGED = "team_changed"
        NEWS_CHANGED = "news_changed"
        BADGE_CHANGED = "badge_changed"
        BADGE_AWARDED = "badge_awarded"
        BADGE_WITHDRAWN = "badge_withdrawn"
        CREDIT_GRANTED = "credit_granted"
        LETTER_CHANGED = "letter_changed"
        ACTION_TAKEN = "action_taken"

    at = models.DateTimeField()
    event = models.CharField(max_length=40, choices=Event.choices)
    #: The account of the actor; None for the shell, a daemon or an unauthenticated caller.
    account_id = models.BigIntegerField(null=True, blank=True)
    #: E-mail address of the account, `shell:<user>`, or the address of an unauthenticated caller.
    actor = models.CharField(max_length=254, blank=True, default="")
    address = models.GenericIPAddressField(null=True, blank=True)
    #: Subject of the event: of an account the e-mail address, otherwise for example `token 17`,
    #: `app shout` or a file name.
    subject = models.CharField(max_length=254, blank=True, default="")
    details = models.JSONField(default=dict, blank=True)

    class Meta:
        db_table = "audit_entry"
        verbose_name = "audit log entry"
        verbose_name_plural = "audit log"
        # Entries cannot be added, changed or deleted in the admin.
        default_permissions = ("view",)
        indexes = [
            models.Index(fields=["at"], name="drop_old_audit_entries"),
            models.Index(fields=["account_id", "-at"], name="audit_entries_of_account"),
            # The searches and links of the administration.
            models.Index(fields=["actor", "id"], name="audit_entries_by_actor"),
            models.Index(fields=["subject", "id"], name="audit_entries_by_subject"),
            models.Index(fields=["address", "id"], name="audit_entries_by_address"),
        ]

    def __str__(self) -> str:
        return f"{self.event} {self.subject}"
