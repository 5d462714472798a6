"""The tables of samples and counts that pages show."""

from __future__ import annotations

from django.db import models


class StatusSample(models.Model):
    """The project's figures at one time, by name; `scheduler.health.samples` lists the names.

    `is_hourly` marks the first sample of its hour, which is kept for longer than the others.
    """

    at = models.DateTimeField(unique=True)
    is_hourly = models.BooleanField(default=False)
    figures = models.JSONField()

    class Meta:
        db_table = "status_sample"
        indexes = [
            models.Index(
                fields=["at"], condition=models.Q(is_hourly=True), name="read_hourly_samples"
            ),
        ]

    def __str__(self) -> str:
        return f"figures at {self.at:%Y-%m-%d %H:%M}"


class HardwareCount(models.Model):
    """The computers with one operating system, processor or GPU, and the sums of their credit.

    The housekeeper replaces all rows once a day (`scheduler.credit.hardware_statistics`).  If no
    name may be listed, one row without a kind and a name has the time of the count.
    """

    class Kind(models.TextChoices):
        SYSTEM = "system", "operating system"
        VENDOR = "vendor", "processor vendor"
        PROCESSOR = "processor", "processor"
        GPU = "gpu", "GPU"

    kind = models.CharField(max_length=10, choices=Kind.choices)
    name = models.CharField(max_length=100)
    computers = models.IntegerField()
    total_credit = models.DecimalField(max_digits=24, decimal_places=6)
    recent_credit = models.FloatField()
    counted_at = models.DateTimeField()

    class Meta:
        db_table = "hardware_count"
        constraints = [
            models.UniqueConstraint(fields=["kind", "name"], name="hardware_count_is_one_per_name"),
        ]

    def __str__(self) -> str:
        return f"{self.computers} computers with {self.name}" if self.kind else "no names"


class VersionOutcomes(models.Model):
    """The results of an app version that were counted in one hour (`health.outcome_counts`).

    `errors` of the `reported` results failed; `invalid` results were reported as a success and
    found to be invalid, possibly in an earlier hour.
    """

    hour = models.DateTimeField()
    app_version = models.ForeignKey(
        "scheduler.AppVersion", models.CASCADE, related_name="+", db_index=False
    )
    reported = models.IntegerField()
    errors = models.IntegerField()
    invalid = models.IntegerField()

    class Meta:
        db_table = "version_outcomes"
        verbose_name_plural = "version outcomes"
        constraints = [
            models.UniqueConstraint(
                fields=["hour", "app_version"], name="version_outcomes_are_one_per_hour"
            ),
        ]

    def __str__(self) -> str:
        return f"app version {self.app_version_id} at {self.hour:%Y-%m-%d %H:%M}"


class HostOutcomes(models.Model):
    """The results of a host with errors that were counted in one hour (`health.outcome_counts`).

    The columns are those of `VersionOutcomes`.  The table has no foreign key, because its rows are
    dropped after a few days.
    """

    hour = models.DateTimeField()
    host_id = models.BigIntegerField()
    reported = models.IntegerField()
    errors = models.IntegerField()
    invalid = models.IntegerField()

    class Meta:
        db_table = "host_outcomes"
        verbose_name_plural = "host outcomes"
        constraints = [
            models.UniqueConstraint(
                fields=["hour", "host_id"], name="host_outcomes_are_one_per_hour"
            ),
        ]

    def __str__(self) -> str:
        return f"host {self.host_id} at {self.hour:%Y-%m-%d %H:%M}"


class CreditSample(models.Model):
    """The total credit of an account, a computer, a team or the project at the end of a day (UTC).

    `holder_id` is the id of the account, computer or team, and 0 for the project.  The row of the
    project exists for each day on which samples were kept; the other holders have rows only for
    days on which their credit changed (`scheduler.credit.credit_samples`).
    """

    class Kind(models.IntegerChoices):
        PROJECT = 0
        ACCOUNT = 1
        HOST = 2
        TEAM = 3

    kind = models.SmallIntegerField(choices=Kind.choices)
    holder_id = models.BigIntegerField()
    day = models.DateField()
    total_credit = models.DecimalField(max_digits=24, decimal_places=6)

    class Meta:
        db_table = "credit_sample"
        constraints = [
            models.UniqueConstraint(
                fields=["kind", "holder_id", "day"], name="credit_sample_is_one_per_day"
            ),
        ]

    def __str__(self) -> str:
        return f"{self.get_kind_display()} {self.holder_id}, {self.day}"
