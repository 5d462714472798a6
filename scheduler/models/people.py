"""The tables of accounts, account keys, pending changes of addresses, and teams."""

from __future__ import annotations

import hashlib
from collections.abc import Collection
from typing import Any, ClassVar

from asgiref.sync import sync_to_async
from django.contrib.auth import hashers
from django.contrib.auth.base_user import AbstractBaseUser, BaseUserManager
from django.contrib.auth.models import Permission, PermissionsMixin
from django.db import models
from django.db.models.functions import Collate, Lower
from django.utils.functional import cached_property
from django.utils.module_loading import import_string

from scheduler.rights import ALL_RIGHTS, Right, let_through


def password_digest(*, email: str, password: str) -> str:
    """Return BOINC's digest of a password: 32 hex digits, as computed by clients (PROTOCOL 1.3).

    >>> password_digest(email="Ada@Example.org", password="secret")
    'b8b0a22f0c0d0a881714ce1bca6b58c4'
    """
    return hashlib.md5((password + email.lower()).encode(), usedforsecurity=False).hexdigest()


class AccountManager(BaseUserManager["Account"]):
    """Finds accounts by e-mail address, without regard to case, and creates superusers."""

    def get_by_natural_key(self, username: str | None) -> Account:
        """Return the account with this e-mail address; raise `Account.DoesNotExist`."""
        return self.get(email=(username or "").lower())

    def create_superuser(self, email: str, password: str, **fields: Any) -> Account:
        """Create a staff account with all rights; called by Django's `createsuperuser`."""
        # Imported by name, because models must not import operations.
        create_staff = import_string("scheduler.people.accounts.create_staff")
        account: Account = create_staff(email=email, password=password, **fields)
        return account


class TeamManager(models.Manager["Team"]):
    """Reads the teams without those that were deleted."""

    def get_queryset(self) -> models.QuerySet[Team]:
        return super().get_queryset().filter(deleted_at__isnull=True)


class Team(models.Model):
    """A team that accounts can join.

    `requested_by` is a member who has requested the foundership, and `requested_at` the time of the
    last request, which remains after the founder has declined it.  `boinc_wide_id` is the id of a
    team that exists on all projects.  The row of a deleted team stays, because entries of credit
    name it; only statements that do not use `objects` see it.
    """

    class Kind(models.IntegerChoices):
        """BOINC's types of teams (PROTOCOL 8.1)."""

        NONE = 0
        CLUB = 1
        COMPANY = 2
        PRIMARY_SCHOOL = 3
        SECONDARY_SCHOOL = 4
        JUNIOR_COLLEGE = 5
        UNIVERSITY = 6
        GOVERNMENT = 7

    name = models.CharField(max_length=254, unique=True)
    kind = models.SmallIntegerField(choices=Kind.choices, default=Kind.NONE, db_default=0)
    founder = models.ForeignKey(
        "scheduler.Account", models.SET_NULL, null=True, blank=True, related_name="founded_teams"
    )
    requested_by = models.ForeignKey(
        "scheduler.Account", models.SET_NULL, null=True, blank=True, related_name="+"
    )
    requested_at = models.DateTimeField(null=True, blank=True)
    url = models.URLField(blank=True, default="")
    description = models.TextField(blank=True, default="")
    country = models.CharField(max_length=64, blank=True, default="")
    joinable = models.BooleanField(default=True)
    total_credit = models.DecimalField(max_digits=20, decimal_places=6, default=0)
    expavg_credit = models.FloatField(default=0)
    expavg_at = models.DateTimeField(null=True, blank=True)
    created_at = models.DateTimeField()
    boinc_wide_id = models.BigIntegerField(null=True, blank=True, unique=True)
    deleted_at = models.DateTimeField(null=True, blank=True)

    objects: ClassVar[TeamManager] = TeamManager()

    class Meta:
        db_table = "team"
        constraints = [
            models.CheckConstraint(
                condition=models.Q(kind__range=(0, 7)), name="team_kind_is_known"
            ),
        ]
        # The orders of the list of teams (`people.teams.team_lists`) and of their leaderboard.
        indexes = [
            models.Index(Collate(Lower("name"), "C"), "id", name="list_teams_by_name"),
            models.Index(fields=["expavg_credit", "id"], name="list_teams_by_recent_credit"),
            models.Index(fields=["total_credit", "id"], name="list_teams_by_total_credit"),
            # The leaderboards of one type.  Most teams have no type, and no entry here.
            models.Index(
                fields=["kind", "total_credit", "id"],
                condition=models.Q(kind__gt=0),
                name="read_team_board_total",
            ),
            models.Index(
                fields=["kind", "expavg_credit", "id"],
                condition=models.Q(kind__gt=0),
                name="read_team_board_recent",
            ),
        ]

    def __str__(self) -> str:
        return self.name


class Account(AbstractBaseUser, PermissionsMixin):
    """A person: volunteer, submitter or member of staff.

    The stored password is Django's hash of BOINC's ``md5(password + lower(e-mail))``, so that BOINC
    clients and the web form use the same secret (`people.accounts`).  `set_password` and
    `check_password` take the password itself, as everywhere in Django; `has_digest` takes the
    digest, which is all that a BOINC client sends.
    """

    email = models.EmailField(max_length=254, unique=True)
    name = models.CharField(max_length=254, blank=True, default="")
    country = models.CharField(max_length=64, blank=True, default="")
    url = models.URLField(blank=True, default="")
    team = models.ForeignKey(Team, models.SET_NULL, null=True, blank=True, related_name="members")
    cross_project_id = models.CharField(max_length=32)
    venue = models.CharField(max_length=254, blank=True, default="")
    global_prefs = models.TextField(blank=True, default="")
    global_prefs_mod_time = models.FloatField(default=0)
    project_prefs = models.TextField(blank=True, default="")
    total_credit = models.DecimalField(max_digits=20, decimal_places=6, default=0)
    expavg_credit = models.FloatField(default=0)
    expavg_at = models.DateTimeField(null=True, blank=True)
    # Whether the statistics export includes the account and its hosts.
    share_statistics = models.BooleanField(default=True, db_default=True)
    show_hosts = models.BooleanField(default=False, db_default=False)
    # Whether the owner consented to letters of the project (`messages.letters`).
    receive_letters = models.BooleanField(default=False, db_default=False)
    # When the terms of use were accepted; None if the project had none.
    terms_accepted_at = models.DateTimeField(null=True, blank=True)
    is_staff = models.BooleanField(default=False)
    is_active = models.BooleanField(default=True)
    created_at = models.DateTimeField()

    objects: ClassVar[AccountManager] = AccountManager()

    USERNAME_FIELD = "email"
    EMAIL_FIELD = "email"
    REQUIRED_FIELDS: ClassVar[list[str]] = []

    class Meta:
        db_table = "account"
        constraints = [
            models.CheckConstraint(
                condition=models.Q(email=Lower("email")), name="account_email_is_lower_case"
            ),
        ]
        indexes = [
            # The collation with which an index finds prefixes.
            models.Index(Collate(Lower("name"), "C"), name="search_accounts_by_name"),
            models.Index(
                fields=["team", "id"],
                condition=models.Q(team__isnull=False, is_active=True),
                name="list_members_of_teams",
            ),
            # The accounts of `sharing.shares` that have credit.
            models.Index(
                fields=["total_credit", "id"],
                condition=models.Q(is_active=True, share_statistics=True, total_credit__gt=0),
                name="read_account_board_total",
            ),
            models.Index(
                fields=["expavg_credit", "id"],
                condition=models.Q(is_active=True, share_statistics=True, expavg_credit__gt=0),
                name="read_account_board_recent",
            ),
            models.Index(
                fields=["id"],
                condition=models.Q(is_active=True, receive_letters=True),
                name="read_recipients_of_letters",
            ),
        ]
        permissions = [
            ("moderate_people", "Can change and deactivate accounts without rights, and teams"),
            ("view_everything", "Can view everybody's work over the API, and alerts"),
            ("administer_project", "Can change queues, submitters and reserved fields of apps"),
            ("view_logs", "Can view the log files of the server"),
        ]

    def __str__(self) -> str:
        return self.name or self.email

    def set_password(self, raw_password: str | None) -> None:
        """Set the hash of the password's digest without saving it; None makes it unusable.

        `people.accounts.change_password` also revokes what was created with the old password.
        """
        digest = raw_password and password_digest(email=self.email, password=raw_password)
        self.password = hashers.make_password(digest)

    def check_password(self, raw_password: str | None) -> bool:
        """Return whether this is the account's password.  Raises `HashQueueFull`."""
        if raw_password is None:
            return False
        return self.has_digest(password_digest(email=self.email, password=raw_password))

    async def acheck_password(self, raw_password: str | None) -> bool:
        return await sync_to_async(self.check_password)(raw_password)

    def has_digest(self, digest: str) -> bool:
        """Return whether this is the digest of the account's password.  Raises `HashQueueFull`.

        A hash made with outdated parameters is replaced, unless the password was changed since the
        account was read.
        """

        def rehash(digest: str) -> None:
            former, self.password = self.password, hashers.make_password(digest)
            same = Account.objects.filter(pk=self.pk, password=former)
            same.update(password=self.password)

        return hashers.check_password(digest, self.password, rehash)

    @cached_property
    def rights(self) -> frozenset[Right]:
        """The rights that the account has directly or through its groups.

        A superuser has all rights, and an inactive account has no rights.  The rights are read by
        one statement and cached on the object, like Django's permissions.  After `act_through`, the
        rights are limited to those that the token's scopes allow.
        """
        if not self.is_active:
            return frozenset()
        rights = ALL_RIGHTS if self.is_superuser else self._read_rights()
        return rights if self._scopes is None else let_through(rights, self._scopes)

    def refresh_from_db(self, *args: Any, **kwargs: Any) -> None:
        """Reload the columns, and clear the cached rights, which depend on them."""
        super().refresh_from_db(*args, **kwargs)
        self.__dict__.pop("rights", None)

    def has_right(self, right: Right) -> bool:
        """Return whether the account has the right, and the token's scopes (if any) allow it."""
        return right in self.rights

    def act_through(self, scopes: Collection[str]) -> None:
        """Limit `rights` of this object to the rights that a token with these scopes allows."""
        self._scopes = frozenset(scopes)
        self.__dict__.pop("rights", None)

    #: The scopes of the token that limits the rights; None without a token.
    _scopes: frozenset[str] | None = None

    def _read_rights(self) -> frozenset[Right]:
        groups = Account.groups.through.objects.filter(account=self).values("group_id")
        of_groups = Permission.group_set.through.objects.filter(group_id__in=groups)
        own = Account.user_permissions.through.objects.filter(account=self)
        permissions = Permission.objects.filter(
            models.Q(pk__in=of_groups.values("permission_id"))
            | models.Q(pk__in=own.values("permission_id")),
            content_type__app_label="scheduler",
            codename__in=[right.value for right in Right],
        )
        return frozenset(map(Right, permissions.values_list("codename", flat=True)))


class TeamAdministrator(models.Model):
    """A member whom the founder of a team named as an administrator (`people.teams`).

    The row is deleted when the account leaves the team or becomes its founder.
    """

    account = models.OneToOneField(Account, models.CASCADE, related_name="administratorship")
    team = models.ForeignKey(Team, models.CASCADE, related_name="administrators")
    named_at = models.DateTimeField()

    class Meta:
        db_table = "team_administrator"
        # Only the operations of `people.teams` write the rows.
        default_permissions = ("view",)
        verbose_name = "administrator of a team"
        verbose_name_plural = "administrators of teams"

    def __str__(self) -> str:
        return f"administrator {self.account_id} of team {self.team_id}"


class AccountKey(models.Model):
    """A secret that identifies an account, stored as a hash and in encrypted form (`sealed`).

    - STRONG: a random key with which clients attach.  Science programs can read it in
      `init_data.xml`.
    - WEAK: BOINC's weak authenticator, which permits fetching and reporting work, but not changing
      preferences.  It is renewed when the password changes.
    - SUBMISSION: permits only submission of work by BOINC's web RPCs.  Log-in never returns it, so
      clients do not have it.
    """

    class Kind(models.IntegerChoices):
        STRONG = 1
        WEAK = 2
        SUBMISSION = 3

    account = models.ForeignKey(Account, models.CASCADE, related_name="keys")
    kind = models.SmallIntegerField(choices=Kind.choices, default=Kind.STRONG)
    name = models.CharField(max_length=100, default="first key")
    key_hash = models.CharField(max_length=64, unique=True)
    sealed = models.BinaryField()
    is_current = models.BooleanField(default=True)
    created_at = models.DateTimeField()
    revoked_at = models.DateTimeField(null=True, blank=True)
    # Only of submission keys: for keys of clients, scheduler requests would have to write it.
    last_used_on = models.DateField(null=True, blank=True)

    class Meta:
        db_table = "account_key"
        constraints = [
            models.UniqueConstraint(
                fields=["account", "kind"],
                condition=models.Q(is_current=True),
                name="account_key_current_is_one_per_kind",
            ),
            models.CheckConstraint(
                condition=models.Q(is_current=False) | models.Q(revoked_at__isnull=True),
                name="account_key_current_is_not_revoked",
            ),
            # Log-in returns the current key, and must not return a submission key.
            models.CheckConstraint(
                condition=models.Q(is_current=False) | ~models.Q(kind=3),
                name="account_key_of_submission_is_never_current",
            ),
        ]

    def __str__(self) -> str:
        return f"{self.name} ({self.get_kind_display()})"


class StatisticsDeletion(models.Model):
    """An account or host that statistics sites must delete, listed in the statistics export.

    The housekeeper drops rows after `STATISTICS_DELETIONS_KEPT`.
    """

    class Kind(models.IntegerChoices):
        ACCOUNT = 1
        HOST = 2

    kind = models.SmallIntegerField(choices=Kind.choices)
    # The id of the account or host, which need not exist any more.
    number = models.BigIntegerField()
    # The id by which statistics sites know it: `cpid` of an account, `host_cpid` of a host.
    cpid = models.CharField(max_length=32)
    deleted_at = models.DateTimeField()

    class Meta:
        db_table = "statistics_deletion"
        constraints = [
            models.UniqueConstraint(
                fields=["kind", "number"], name="statistics_deletion_is_listed_once"
            ),
        ]

    def __str__(self) -> str:
        return f"{self.get_kind_display()} {self.number}"


class EmailChange(models.Model):
    """A change of an account's e-mail address that the new address has not confirmed yet.

    The digest of a password depends on the address, so the row holds the hash of the digest for the
    new address; both replace those of the account together (`people.email_changes`).
    """

    account = models.OneToOneField(Account, models.CASCADE, related_name="email_change")
    email = models.EmailField(max_length=254)
    password = models.CharField(max_length=128)
    #: SHA-256 of the text in the link that was sent to the new address.
    token_hash = models.CharField(max_length=64, unique=True)
    created_at = models.DateTimeField()
    expire_at = models.DateTimeField()

    class Meta:
        db_table = "email_change"
        constraints = [
            models.CheckConstraint(
                condition=models.Q(email=Lower("email")), name="email_change_is_lower_case"
            ),
        ]

    def __str__(self) -> str:
        return f"{self.account_id} to {self.email}"
