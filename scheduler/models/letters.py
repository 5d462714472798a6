"""The tables of letters to accounts that consented, and of their recipients."""

from __future__ import annotations

from django.db import models


class Letter(models.Model):
    """A mail to many accounts.

    A draft has no `started_at`.  The housekeeper writes copies to the outbox in ascending ids of
    accounts; `account_cursor` is the last account that it read.  `ended_at` is set when no account
    is left, or together with `stopped_at` when staff stop the letter.
    """

    class Recipients(models.IntegerChoices):
        """Which of the accounts that receive letters get this one."""

        ALL = 1, "everybody who receives letters"
        TEAM = 2, "members of a team"
        CREDIT = 3, "accounts with credit in the last days"
        STAFF = 4, "staff"

    subject = models.CharField(max_length=200)
    text = models.TextField()
    recipients = models.SmallIntegerField(choices=Recipients.choices, default=Recipients.ALL)
    team = models.ForeignKey(
        "scheduler.Team", models.SET_NULL, null=True, blank=True, related_name="+", db_index=False
    )
    credit_days = models.SmallIntegerField(null=True, blank=True)
    author = models.ForeignKey(
        "scheduler.Account",
        models.SET_NULL,
        null=True,
        blank=True,
        related_name="+",
        db_index=False,
    )
    created_at = models.DateTimeField()
    started_at = models.DateTimeField(null=True, blank=True)
    stopped_at = models.DateTimeField(null=True, blank=True)
    ended_at = models.DateTimeField(null=True, blank=True)
    account_cursor = models.BigIntegerField(default=0)
    copies = models.IntegerField(default=0)

    class Meta:
        db_table = "letter"
        permissions = [("send_letters", "Can send letters to accounts that consented")]
        constraints = [
            models.CheckConstraint(
                condition=models.Q(started_at__isnull=False)
                | models.Q(ended_at__isnull=True, stopped_at__isnull=True),
                name="letter_ends_after_its_start",
            ),
            models.CheckConstraint(
                condition=~models.Q(subject__regex="[[:cntrl:]]"),
                name="letter_subject_is_a_line",
            ),
        ]
        indexes = [
            models.Index(
                fields=["started_at", "id"],
                condition=models.Q(started_at__isnull=False, ended_at__isnull=True),
                name="lock_unsent_letters",
            ),
        ]

    def __str__(self) -> str:
        return self.subject


class LetterRecipient(models.Model):
    """An account for which a copy of a letter was written to the outbox, at most once."""

    letter = models.ForeignKey(Letter, models.CASCADE, related_name="+", db_index=False)
    account = models.ForeignKey("scheduler.Account", models.CASCADE, related_name="+")
    created_at = models.DateTimeField()

    class Meta:
        db_table = "letter_recipient"
        default_permissions = ("view",)
        constraints = [
            models.UniqueConstraint(
                fields=["letter", "account"], name="letter_recipient_gets_one_copy"
            ),
        ]

    def __str__(self) -> str:
        return f"letter {self.letter_id} to account {self.account_id}"
