"""The tables of problems: refusals, failures of science code, outages."""

from __future__ import annotations

from django.db import models
from django.db.models.functions import Now


class Refusal(models.Model):
    """A host that requested work and was refused a workunit's result, with the reason.

    Only lasting reasons are stored (memory, platform, ...), not temporary ones (a full queue, a
    quota).  No foreign keys: a row is deleted with its workunit, or when it is old.

    `first_at` is the time of the first refusal, `at` that of the last.  `counts_at_once` means that
    no version of the app can ever run on the host; other refusals count once they are repeated
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
        db_table = "refusal"
        constraints = [
            models.UniqueConstraint(
                fields=["workunit_id", "host_id"], name="refusal_is_one_per_host"
            ),
        ]
        indexes = [models.Index(fields=["at"], name="count_refusals")]

    def __str__(self) -> str:
        return f"host {self.host_id}: {self.reason}"


class ScienceFailure(models.Model):
    """The failures of science code on one subject, and since when the subject is parked.

    `subject_id` is the id of a workunit (VALIDATE, ASSIMILATE), a trickle (TRICKLE) or an app
    (GENERATE).  `transients` counts the failures that the science code reported as transient.  The
    row is deleted as soon as the subject succeeds.
    """

    class Stage(models.IntegerChoices):
        """The kind of science code that failed."""

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
        db_table = "science_failure"
        constraints = [
            models.UniqueConstraint(
                fields=["stage", "subject_id"], name="science_failure_is_one_per_subject"
            ),
        ]

    def __str__(self) -> str:
        return f"{self.get_stage_display()} {self.subject_id}"


class Outage(models.Model):
    """A time in which volunteers could not reach the server; affected deadlines were extended."""

    began_at = models.DateTimeField()
    ended_at = models.DateTimeField()
    reason = models.CharField(max_length=200, blank=True, default="")
    applied_at = models.DateTimeField(null=True, blank=True)
    applied_up_to = models.BigIntegerField(default=0)

    class Meta:
        db_table = "outage"
        constraints = [
            models.CheckConstraint(
                condition=models.Q(ended_at__gt=models.F("began_at")), name="outage_has_a_length"
            ),
        ]

    def __str__(self) -> str:
        return f"since {self.began_at:%Y-%m-%d %H:%M}"


class Heartbeat(models.Model):
    """The last sign of life of a part of the server."""

    name = models.CharField(max_length=60, unique=True)
    seen_at = models.DateTimeField()

    class Meta:
        db_table = "heartbeat"

    def __str__(self) -> str:
        return self.name
