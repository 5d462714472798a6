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
