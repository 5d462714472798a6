"""The table of samples of the project's figures, which charts show."""

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
