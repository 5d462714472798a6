"""The tables of what went wrong: refusals, failures of science code, outages."""

from __future__ import annotations

from django.db import models
from django.db.models.functions import Now


class Refusal(models.Model):
    """A host that asked for work, was not given a workunit's result, and for which good reason.

    Only reasons that last count (memory, platform, ...), not those of the moment (a full queue, a
    quota).  No foreign keys: a row goes with its workunit, or when it is old.

    `first_at` is when the host was first refused it, `at` when last.  `counts_at_once` says that no
    version that the app offers could ever run on the host; others count once they are repeated
    after a while (`dispatch.rules.sendability`).
    """

    workunit_id = models.BigIntegerField()
    host_id = models.BigIntegerField()
    app_id = models.BigIntegerField()
    reason = models.CharField(max_length=40)
    sentence = models.TextField()
    counts_at_once = models.BooleanField(default=False, db_default=False)
    first_at = models.DateTimeField(db_default=Now())
    at = models.DateTimeField()

    class Meta:
        """One row per workunit and host: the last word."""

        db_table = "refusal"
        constraints = [
            models.UniqueConstraint(
                fields=["workunit_id", "host_id"], name="refusal_is_one_per_host"
            ),
        ]
        indexes = [models.Index(fields=["at"], name="count_refusals")]

    def __str__(self) -> str:
        """Show host and reason."""
        return f"host {self.host_id}: {self.reason}"


class ScienceFailure(models.Model):
    """How often science code failed on one subject, and since when it is parked, if it is.

    `subject_id` is a workunit's id (VALIDATE, ASSIMILATE), a trickle's (TRICKLE) or an app's
    (GENERATE).  `transients` counts the failures that the science itself called passing.  Dropped
    as soon as the subject succeeds.
    """

    class Stage(models.IntegerChoices):
        """Which science failed."""

        VALIDATE = 1
        ASSIMILATE = 2
        TRICKLE = 3
        GENERATE = 4

    stage = models.SmallIntegerField(choices=Stage.choices)
    subject_id = models.BigIntegerField()
    app = models.ForeignKey("scheduler.App", models.CASCADE, related_name="+")
    failures = models.IntegerField(default=0)
    transients = models.IntegerField(default=0)
    error = models.TextField()
    failed_at = models.DateTimeField()
    parked_at = models.DateTimeField(null=True, blank=True)

    class Meta:
        """One row per stage and subject."""

        db_table = "science_failure"
        constraints = [
            models.UniqueConstraint(
                fields=["stage", "subject_id"], name="science_failure_is_one_per_subject"
            ),
        ]

    def __str__(self) -> str:
        """Show stage and subject."""
        return f"{self.get_stage_display()} {self.subject_id}"


class Outage(models.Model):
    """A time in which volunteers could not reach the server; deadlines that overlap were moved."""

    began_at = models.DateTimeField()
    ended_at = models.DateTimeField()
    reason = models.CharField(max_length=200, blank=True, default="")
    applied_at = models.DateTimeField(null=True, blank=True)
    applied_up_to = models.BigIntegerField(default=0)

    class Meta:
        """It ends after it began."""

        db_table = "outage"
        constraints = [
            models.CheckConstraint(
                condition=models.Q(ended_at__gt=models.F("began_at")), name="outage_has_a_length"
            ),
        ]

    def __str__(self) -> str:
        """Show its beginning."""
        return f"since {self.began_at:%Y-%m-%d %H:%M}"


class Heartbeat(models.Model):
    """When a part of the server was last seen alive."""

    name = models.CharField(max_length=60, unique=True)
    seen_at = models.DateTimeField()

    class Meta:
        """One row per part."""

        db_table = "heartbeat"

    def __str__(self) -> str:
        """Show the part."""
        return self.name
