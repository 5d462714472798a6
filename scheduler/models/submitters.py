"""The tables of who submits: what they may, their tokens, their repeats."""

from __future__ import annotations

from django.db import models


class Submitter(models.Model):
    """What a person who is not of the staff may submit, and how much of it at once.

    Limits that are None do not limit.  Staff needs no row, and has no limits; one is made where
    the project shares fairly, for the clock.
    """

    account = models.OneToOneField(
        "scheduler.Account", models.CASCADE, primary_key=True, related_name="submitter"
    )
    # Of every app; else of those that `SubmitterApp` names.
    all_apps = models.BooleanField(default=False, db_default=False)
    max_unfinished_workunits = models.BigIntegerField(null=True, blank=True)
    max_kept_bytes = models.BigIntegerField(null=True, blank=True)
    # The linear-bounded model: what he is entitled to, and how far his work has gone.  Here and not
    # in the account: the validator pays that, and a submission keeps its row for seconds.
    share = models.FloatField(default=1, db_default=1)
    logical_start_at = models.DateTimeField(null=True, blank=True)
    created_at = models.DateTimeField()

    class Meta:
        """Limits limit."""

        db_table = "submitter"
        constraints = [
            models.CheckConstraint(
                condition=(
                    models.Q(max_unfinished_workunits__isnull=True)
                    | models.Q(max_unfinished_workunits__gte=0)
                )
                & (models.Q(max_kept_bytes__isnull=True) | models.Q(max_kept_bytes__gte=0)),
                name="submitter_limits_are_not_negative",
            ),
        ]
        permissions = [
            ("submit_for_every_app", "Can submit work for every app"),
            (
                "exceed_submission_limits",
                "Can submit beyond quotas, and set priorities where shares are fair",
            ),
        ]

    def __str__(self) -> str:
        """Show whose it is."""
        return str(self.account)


class SubmitterApp(models.Model):
    """One app for which a person may submit; `may_manage` lets him publish versions of it too."""

    submitter = models.ForeignKey(Submitter, models.CASCADE, related_name="apps", db_index=False)
    app = models.ForeignKey("scheduler.App", models.CASCADE, related_name="+")
    may_manage = models.BooleanField(default=False, db_default=False)

    class Meta:
        """One row per pair."""

        db_table = "submitter_app"
        verbose_name = "app of a submitter"
        verbose_name_plural = "apps of submitters"
        constraints = [
            models.UniqueConstraint(
                fields=["submitter", "app"], name="submitter_app_is_one_per_pair"
            ),
        ]

    def __str__(self) -> str:
        """Show the pair."""
        return f"{self.submitter}: {self.app}"


class ApiToken(models.Model):
    """A secret by which a program speaks for a person, within scopes; only its hash is kept."""

    account = models.ForeignKey("scheduler.Account", models.CASCADE, related_name="api_tokens")
    name = models.CharField(max_length=100)
    token_hash = models.CharField(max_length=64, unique=True)
    #: The token that created this one; revoking it revokes this one, too.
    parent = models.ForeignKey("self", models.SET_NULL, null=True, related_name="children")
    may_submit = models.BooleanField(default=False)
    may_read = models.BooleanField(default=True)
    may_publish = models.BooleanField(default=False, db_default=False)
    may_manage = models.BooleanField(default=False, db_default=False)
    may_administer = models.BooleanField(default=False)
    created_at = models.DateTimeField()
    expire_at = models.DateTimeField(null=True, blank=True)
    # A day, not a moment: a row that every request wrote would be the bottleneck.
    last_used_on = models.DateField(null=True, blank=True)
    revoked_at = models.DateTimeField(null=True, blank=True)

    class Meta:
        """Known by its hash."""

        db_table = "api_token"
        verbose_name = "API token"

    def __str__(self) -> str:
        """Show the token's name, never the token."""
        return self.name


class IdempotencyKey(models.Model):
    """A request that was carried out, and what it was told: a repeat is told the same.

    Written by the transaction that carries the request out: either both are there, or neither.
    """

    account = models.ForeignKey(
        "scheduler.Account", models.CASCADE, related_name="+", db_index=False
    )
    key = models.CharField(max_length=200)
    request_hash = models.CharField(max_length=64)
    status = models.SmallIntegerField()
    answer = models.JSONField(default=dict)
    created_at = models.DateTimeField()

    class Meta:
        """A person says a key once."""

        db_table = "idempotency_key"
        constraints = [
            models.UniqueConstraint(fields=["account", "key"], name="idempotency_key_is_said_once"),
        ]
        indexes = [models.Index(fields=["created_at"], name="drop_old_idempotency_keys")]

    def __str__(self) -> str:
        """Show the key."""
        return self.key
