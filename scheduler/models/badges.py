"""The tables of badges and of their awards to accounts and teams."""

from __future__ import annotations

from django.db import models


class Badge(models.Model):
    """A badge of the project, and the rule by which the housekeeper awards it.

    `threshold` is an amount of credit, a percentage or a number of years, as `rule` demands; None
    for a badge that is awarded by hand.  An unpublished badge is neither shown nor awarded by its
    rule.  The counts of holders are those of the last assignment or award (`credit.badge_awards`).
    """

    class Rule(models.TextChoices):
        BY_HAND = "by_hand", "by hand"
        TOTAL_CREDIT = "total_credit", "total credit"
        RECENT_PERCENTAGE = "recent_percentage", "top percentage by recent average credit"
        YEARS = "years", "years since joining"

    name = models.SlugField(max_length=64, unique=True, db_index=False)
    title = models.CharField(max_length=100)
    description = models.CharField(max_length=500, blank=True, default="")
    rule = models.CharField(max_length=20, choices=Rule.choices, default=Rule.BY_HAND)
    threshold = models.DecimalField(max_digits=20, decimal_places=6, null=True, blank=True)
    for_accounts = models.BooleanField(default=True)
    for_teams = models.BooleanField(default=False)
    #: Badges of a higher level are listed first.
    level = models.SmallIntegerField(default=0)
    #: The color of the image, such as #b08d57.
    color = models.CharField(max_length=7, default="#2b7a66")
    is_published = models.BooleanField(default=False)
    account_count = models.IntegerField(default=0)
    team_count = models.IntegerField(default=0)
    created_at = models.DateTimeField()

    class Meta:
        db_table = "badge"
        constraints = [
            models.CheckConstraint(
                condition=models.Q(for_accounts=True) | models.Q(for_teams=True),
                name="badge_has_holders",
            ),
            models.CheckConstraint(
                condition=models.Q(rule="by_hand", threshold__isnull=True)
                | models.Q(
                    # A comparison with NULL would satisfy the constraint.
                    models.Q(rule="total_credit", threshold__gt=0)
                    | models.Q(rule="recent_percentage", threshold__gt=0, threshold__lte=100)
                    | models.Q(rule="years", threshold__gte=1, threshold__lte=100),
                    threshold__isnull=False,
                ),
                name="badge_threshold_fits_its_rule",
            ),
            models.CheckConstraint(
                condition=models.Q(color__regex=r"^#[0-9a-f]{6}$"), name="badge_color_is_a_color"
            ),
        ]

    def __str__(self) -> str:
        return self.name

    @property
    def amount(self) -> str:
        """The threshold as text, without zeros at the end; empty without a threshold."""
        return "" if self.threshold is None else f"{self.threshold.normalize():,f}"


class AccountBadge(models.Model):
    """The award of a badge to an account."""

    badge = models.ForeignKey(Badge, models.CASCADE, related_name="+", db_index=False)
    account = models.ForeignKey("scheduler.Account", models.CASCADE, related_name="badges")
    created_at = models.DateTimeField()

    class Meta:
        db_table = "account_badge"
        verbose_name = "badge of an account"
        verbose_name_plural = "badges of accounts"
        constraints = [
            models.UniqueConstraint(
                fields=["badge", "account"], name="account_badge_is_awarded_once"
            ),
        ]

    def __str__(self) -> str:
        return f"badge {self.badge_id} of account {self.account_id}"


class TeamBadge(models.Model):
    """The award of a badge to a team."""

    badge = models.ForeignKey(Badge, models.CASCADE, related_name="+", db_index=False)
    team = models.ForeignKey("scheduler.Team", models.CASCADE, related_name="badges")
    created_at = models.DateTimeField()

    class Meta:
        db_table = "team_badge"
        verbose_name = "badge of a team"
        verbose_name_plural = "badges of teams"
        constraints = [
            models.UniqueConstraint(fields=["badge", "team"], name="team_badge_is_awarded_once"),
        ]

    def __str__(self) -> str:
        return f"badge {self.badge_id} of team {self.team_id}"
