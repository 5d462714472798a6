"""The tables of accounts, account keys and teams."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any, ClassVar

from django.contrib.auth.base_user import AbstractBaseUser, BaseUserManager
from django.contrib.auth.models import Permission, PermissionsMixin
from django.db import models
from django.db.models.functions import Lower
from django.utils.functional import cached_property
from django.utils.module_loading import import_string

from scheduler.rights import ALL_RIGHTS, Right, let_through


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


class Team(models.Model):
    """A team that accounts can join."""

    name = models.CharField(max_length=254, unique=True)
    founder = models.ForeignKey(
        "scheduler.Account", models.SET_NULL, null=True, blank=True, related_name="founded_teams"
    )
    url = models.URLField(blank=True, default="")
    description = models.TextField(blank=True, default="")
    country = models.CharField(max_length=64, blank=True, default="")
    joinable = models.BooleanField(default=True)
    total_credit = models.DecimalField(max_digits=20, decimal_places=6, default=0)
    expavg_credit = models.FloatField(default=0)
    expavg_at = models.DateTimeField(null=True, blank=True)
    created_at = models.DateTimeField()

    class Meta:
        db_table = "team"

    def __str__(self) -> str:
        return self.name


class Account(AbstractBaseUser, PermissionsMixin):
    """A person: volunteer, submitter or member of staff.

    The stored password is Django's hash of BOINC's ``md5(password + lower(e-mail))``, so that BOINC
    clients and the web form use the same secret (`people.accounts`).
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
    show_hosts = models.BooleanField(default=True, db_default=True)
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
        permissions = [
            ("moderate_people", "Can change and deactivate accounts without rights, and teams"),
            ("view_everything", "Can view everybody's work over the API, and alerts"),
            ("administer_project", "Can change queues, submitters and reserved fields of apps"),
        ]

    def __str__(self) -> str:
        return self.name or self.email

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
