"""The tables of the ledger, of credit grants, and of sums of credit by app."""

from __future__ import annotations

from django.db import models

from scheduler.lifecycle import Actor, Axis, Because
from scheduler.models._choices import choices


class LedgerEntry(models.Model):
    """A move of a workunit or a result, with its time, reason and actor.

    The statement that makes the move inserts the entry.  The table is append-only and partitioned
    by day (`at`); partitions of old days are dropped.  It has no foreign keys, so that entries of
    purged workunits and results remain.  `result_id` is NULL for a move of a workunit.  `source` is
    0 if the move created the workunit or result.
    """

    id = models.BigAutoField(primary_key=True)
    at = models.DateTimeField()
    workunit_id = models.BigIntegerField()
    result_id = models.BigIntegerField(null=True, blank=True)
    axis = models.SmallIntegerField(choices=choices(Axis))
    source = models.SmallIntegerField()
    target = models.SmallIntegerField()
    because = models.SmallIntegerField(choices=choices(Because))
    by = models.SmallIntegerField(choices=choices(Actor))

    class Meta:
        # Created by SQL in the first migration, because Django cannot create partitioned tables.
        db_table = "ledger_entry"
        managed = False
        verbose_name_plural = "ledger entries"

    def __str__(self) -> str:
        return f"workunit {self.workunit_id} result {self.result_id} axis {self.axis}"


class CreditEntry(models.Model):
    """A grant of credit; `total_credit` of a host, account, team or app is the sum of its entries.

    Entries are only inserted, except that a merge of hosts changes their host.  The pair (result,
    rule) is unique, so that a retry does not grant credit twice.  `result_id` is not a foreign key,
    because the entries remain when results are purged.  An entry that an operator made by hand has
    no result, has a row in `ManualGrant`, and may have no host and no app; its amount may be
    negative.
    """

    #: The rule of the entry that a valid result gets once; the app's `credit_rule` has computed it.
    VALIDATED = "validated"

    result_id = models.BigIntegerField(null=True, blank=True)
    rule = models.CharField(max_length=20)
    account = models.ForeignKey("scheduler.Account", models.PROTECT, related_name="+")
    host = models.ForeignKey(
        "scheduler.Host", models.PROTECT, null=True, blank=True, related_name="+"
    )
    team = models.ForeignKey(
        "scheduler.Team", models.SET_NULL, null=True, blank=True, related_name="+", db_index=False
    )
    # No constraint, because the column is a copy of the workunit's; fsck checks it (decision 12).
    app = models.ForeignKey(
        "scheduler.App",
        models.PROTECT,
        null=True,
        blank=True,
        related_name="+",
        db_constraint=False,
        db_index=False,
    )
    amount = models.DecimalField(max_digits=20, decimal_places=6)
    granted_at = models.DateTimeField()

    class Meta:
        db_table = "credit_entry"
        constraints = [
            models.UniqueConstraint(
                fields=["result_id", "rule"], name="credit_entry_is_granted_once"
            ),
        ]
        verbose_name_plural = "credit entries"

    def __str__(self) -> str:
        source = "by hand" if self.result_id is None else f"result {self.result_id}"
        return f"{source}: {self.amount}"


class ManualGrant(models.Model):
    """The reason and the person of a credit entry that an operator made by hand.

    `granted_by` is NULL for a grant from the shell; `actor` is then the name of its user.
    `request_id` is unique, so that a form that is sent twice grants credit once.
    """

    entry = models.OneToOneField(CreditEntry, models.PROTECT, related_name="manual_grant")
    account = models.ForeignKey("scheduler.Account", models.PROTECT, related_name="manual_grants")
    reason = models.CharField(max_length=200)
    granted_by = models.ForeignKey(
        "scheduler.Account",
        models.SET_NULL,
        null=True,
        blank=True,
        related_name="+",
        db_index=False,
    )
    actor = models.CharField(max_length=254, blank=True, default="")
    request_id = models.UUIDField(unique=True)

    class Meta:
        db_table = "manual_grant"
        # Grants cannot be added, changed or deleted on pages of their own.
        default_permissions = ("view",)

    def __str__(self) -> str:
        return self.reason


class _AppCredit(models.Model):
    """The sum and the recent average of credit for one app."""

    app = models.ForeignKey("scheduler.App", models.CASCADE, related_name="+", db_index=False)
    total = models.DecimalField(max_digits=20, decimal_places=6, default=0)
    expavg = models.FloatField(default=0)
    expavg_at = models.DateTimeField(null=True, blank=True)

    class Meta:
        abstract = True


class HostAppCredit(_AppCredit):
    """The sum and the recent average of a computer's credit for one app.

    The sum has the entries up to `AppCreditCursor.counted_to` (`scheduler.credit.app_credits`).
    """

    host = models.ForeignKey("scheduler.Host", models.CASCADE, related_name="+", db_index=False)

    class Meta:
        db_table = "host_app_credit"
        constraints = [
            models.UniqueConstraint(fields=["host", "app"], name="host_app_credit_is_one_per_pair"),
        ]
        indexes = [
            models.Index(
                fields=["app", "total", "host"],
                condition=models.Q(total__gt=0),
                name="read_host_app_board_total",
            ),
            models.Index(
                fields=["app", "expavg", "host"],
                condition=models.Q(expavg__gt=0),
                name="read_host_app_board_recent",
            ),
        ]

    def __str__(self) -> str:
        return f"computer {self.host_id}, app {self.app_id}: {self.total}"


class TeamAppCredit(_AppCredit):
    """The sum and the recent average of a team's credit for one app.

    The sum has the entries up to `AppCreditCursor.counted_to` (`scheduler.credit.app_credits`).
    """

    team = models.ForeignKey("scheduler.Team", models.CASCADE, related_name="+", db_index=False)

    class Meta:
        db_table = "team_app_credit"
        constraints = [
            models.UniqueConstraint(fields=["team", "app"], name="team_app_credit_is_one_per_pair"),
        ]
        indexes = [
            models.Index(
                fields=["app", "total", "team"],
                condition=models.Q(total__gt=0),
                name="read_team_app_board_total",
            ),
            models.Index(
                fields=["app", "expavg", "team"],
                condition=models.Q(expavg__gt=0),
                name="read_team_app_board_recent",
            ),
        ]

    def __str__(self) -> str:
        return f"team {self.team_id}, app {self.app_id}: {self.total}"


class AppCreditCursor(models.Model):
    """The id of the last credit entry that `HostAppCredit` and `TeamAppCredit` count; one row."""

    id = models.SmallIntegerField(primary_key=True, default=1)
    counted_to = models.BigIntegerField(default=0)

    class Meta:
        db_table = "app_credit_cursor"
        constraints = [
            models.CheckConstraint(condition=models.Q(id=1), name="app_credit_cursor_is_one_row"),
        ]

    def __str__(self) -> str:
        return f"counted to entry {self.counted_to}"


class AccountAppCredit(_AppCredit):
    """The sum and the recent average of an account's credit for one app."""

    account = models.ForeignKey(
        "scheduler.Account", models.CASCADE, related_name="app_credits", db_index=False
    )

    class Meta:
        db_table = "account_app_credit"
        constraints = [
            models.UniqueConstraint(
                fields=["account", "app"], name="account_app_credit_is_one_per_pair"
            ),
        ]
        indexes = [
            models.Index(
                fields=["app", "total", "account"],
                condition=models.Q(total__gt=0),
                name="read_app_board_total",
            ),
            models.Index(
                fields=["app", "expavg", "account"],
                condition=models.Q(expavg__gt=0),
                name="read_app_board_recent",
            ),
        ]

    def __str__(self) -> str:
        return f"account {self.account_id}, app {self.app_id}: {self.total}"
