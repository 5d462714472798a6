"""The tables of the log-in throttle and of invitations to create accounts."""

from __future__ import annotations

from django.db import models


class ThrottleBucket(models.Model):
    """The state of one limit on log-in attempts, shared by all processes (`people.throttle`).

    The table is UNLOGGED (set by its migration), so a crash of PostgreSQL empties it and resets the
    limits.  The housekeeper deletes rows whose `empty_at` has passed, because they have no effect.
    """

    #: Name of the limit, and a keyed hash of the network or account.
    key = models.CharField(max_length=64, unique=True)
    #: Time when the bucket will be empty; each attempt adds one interval.
    empty_at = models.DateTimeField()
    #: Whether the last attempt was allowed.
    was_allowed = models.BooleanField(default=True)
    #: Time of the last audit entry about a refused attempt.
    recorded_at = models.DateTimeField(null=True)

    class Meta:
        db_table = "throttle_bucket"
        indexes = [models.Index(fields=["empty_at"], name="drop_empty_throttle_buckets")]

    def __str__(self) -> str:
        return self.key


class LoginNetwork(models.Model):
    """A network from which an account has logged in.

    The limit on attempts to log in to the account from new networks does not apply to this network.
    """

    account = models.ForeignKey(
        "scheduler.Account", models.CASCADE, related_name="+", db_index=False
    )
    #: A /24 or /64 in the format of `people.rules.throttle_limits.network_of`.
    network = models.CharField(max_length=50)
    last_login_at = models.DateTimeField()

    class Meta:
        db_table = "login_network"
        constraints = [
            models.UniqueConstraint(
                fields=["account", "network"], name="login_network_is_one_per_account"
            ),
        ]
        indexes = [models.Index(fields=["last_login_at"], name="drop_old_login_networks")]

    def __str__(self) -> str:
        return self.network


class Invitation(models.Model):
    """A code with which people create accounts while `ACCOUNT_CREATION` is `invitation`."""

    code_hash = models.CharField(max_length=64, unique=True)
    name = models.CharField(max_length=100, blank=True, default="")
    max_uses = models.IntegerField(default=1)
    uses = models.IntegerField(default=0)
    created_at = models.DateTimeField()
    expire_at = models.DateTimeField(null=True, blank=True)
    revoked_at = models.DateTimeField(null=True, blank=True)

    class Meta:
        db_table = "invitation"
        constraints = [
            models.CheckConstraint(
                condition=models.Q(uses__gte=0) & models.Q(uses__lte=models.F("max_uses")),
                name="invitation_is_not_overused",
            ),
        ]

    def __str__(self) -> str:
        return self.name or f"invitation {self.pk}"
