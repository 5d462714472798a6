"""The tables of submitters: their permissions, API tokens and idempotency keys."""

from __future__ import annotations

from django.db import models


class Submitter(models.Model):
    """An account's permission to submit work, and its quotas.

    A quota of None means no limit.  An account with the right `submit_for_every_app` needs no row.
    With fair share, a row is created for it to store `logical_start_at`.
    """

    account = models.OneToOneField(
        "scheduler.Account", models.CASCADE, primary_key=True, related_name="submitter"
    )
    # Whether the account may submit for every app, or only for the apps in `SubmitterApp`.
    all_apps = models.BooleanField(default=False, db_default=False)
    max_unfinished_workunits = models.BigIntegerField(null=True, blank=True)
    max_kept_bytes = models.BigIntegerField(null=True, blank=True)
    # BOINC's linear-bounded model: the submitter's share, and the logical start time of the next
    # work.  They are not columns of the account, which the validator updates, because a submission
    # locks this row for seconds.
    share = models.FloatField(default=1, db_default=1)
    logical_start_at = models.DateTimeField(null=True, blank=True)
    created_at = models.DateTimeField()

    class Meta:
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
        return str(self.account)


class SubmitterApp(models.Model):
    """Permission to submit for an app; `may_manage` also permits managing and publishing it."""

    submitter = models.ForeignKey(Submitter, models.CASCADE, related_name="apps", db_index=False)
    app = models.ForeignKey("scheduler.App", models.CASCADE, related_name="+")
    may_manage = models.BooleanField(default=False, db_default=False)

    class Meta:
        db_table = "submitter_app"
        verbose_name = "app of a submitter"
        verbose_name_plural = "apps of submitters"
        constraints = [
            models.UniqueConstraint(
                fields=["submitter", "app"], name="submitter_app_is_one_per_pair"
            ),
        ]

    def __str__(self) -> str:
        return f"{self.submitter}: {self.app}"


class ApiToken(models.Model):
    """A secret with which a program uses the API for an account, within the token's scopes.

    Only a hash of the secret is stored.
    """

    account = models.ForeignKey("scheduler.Account", models.CASCADE, related_name="api_tokens")
    name = models.CharField(max_length=100)
    token_hash = models.CharField(max_length=64, unique=True)
    #: The token that created this token; revoking the parent also revokes this token.
    parent = models.ForeignKey("self", models.SET_NULL, null=True, related_name="children")
    may_submit = models.BooleanField(default=False)
    may_read = models.BooleanField(default=True)
    may_publish = models.BooleanField(default=False, db_default=False)
    may_manage = models.BooleanField(default=False, db_default=False)
    may_administer = models.BooleanField(default=False)
    created_at = models.DateTimeField()
    expire_at = models.DateTimeField(null=True, blank=True)
    # A date instead of a time, so that at most one request a day updates the row.
    last_used_on = models.DateField(null=True, blank=True)
    revoked_at = models.DateTimeField(null=True, blank=True)

    class Meta:
        db_table = "api_token"
        verbose_name = "API token"

    def __str__(self) -> str:
        return self.name


class IdempotencyKey(models.Model):
    """The idempotency key of a request, and the response to return if the request is repeated.

    The transaction that processes the request inserts the row.
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
        db_table = "idempotency_key"
        constraints = [
            models.UniqueConstraint(fields=["account", "key"], name="idempotency_key_is_said_once"),
        ]
        indexes = [models.Index(fields=["created_at"], name="drop_old_idempotency_keys")]

    def __str__(self) -> str:
        return self.key
