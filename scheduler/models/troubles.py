"""The tables of refusals, science failures, outages, heartbeats and alerts."""

from __future__ import annotations

from django.db import models
from django.db.models.functions import Now


class Refusal(models.Model):
    """The reason why a host that requested work cannot get a result of a workunit.

    Only permanent reasons such as too little memory are stored, not temporary reasons such as a
    quota.  The table has no foreign keys.  A row is deleted with its workunit, or when it is old.

    `first_at` and `at` are the times of the first and the last refusal.  If no version of the app
    can ever run on the host (`counts_at_once`), the first refusal is sufficient to count the host
    as unfit.  Otherwise a later refusal must confirm it (`dispatch.rules.sendability`).
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
    """The failures of science code on a subject, and the time when the subject was parked.

    `subject_id` is the id of a workunit (VALIDATE, ASSIMILATE), a trickle (TRICKLE) or an app
    (GENERATE).  `transients` counts the failures that the science code reported as transient.  The
    row is deleted when the science code succeeds.
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
    """A period when volunteers could not reach the server; deadlines are extended by its length."""

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
    """The time of the last heartbeat of the web server, or of the last run of a chore.

    The row ``daemon <name>`` counts the passes of all processes of a daemon since its installation:
    completed and failed passes, examined rows, and seconds in passes.
    """

    name = models.CharField(max_length=60, unique=True)
    seen_at = models.DateTimeField()
    passes = models.BigIntegerField(default=0, db_default=0)
    failed_passes = models.BigIntegerField(default=0, db_default=0)
    examined_rows = models.BigIntegerField(default=0, db_default=0)
    busy_seconds = models.FloatField(default=0.0, db_default=0.0)

    class Meta:
        db_table = "heartbeat"

    def __str__(self) -> str:
        return self.name


class AlertState(models.Model):
    """An alert that the housekeeper saw at its last look, so that changes are reported once.

    `kind` and `subject` identify the alert, because its sentence changes with the time.
    `reported_at` is the time when the message about its beginning was queued; NULL until the alert
    has lasted for some time.
    """

    kind = models.CharField(max_length=40)
    subject = models.CharField(max_length=254, blank=True, default="")
    sentence = models.TextField()
    hint = models.TextField(blank=True, default="")
    began_at = models.DateTimeField()
    reported_at = models.DateTimeField(null=True, blank=True)

    class Meta:
        db_table = "alert_state"
        constraints = [
            models.UniqueConstraint(fields=["kind", "subject"], name="alert_state_is_one_per_alert")
        ]

    def __str__(self) -> str:
        return f"{self.kind} {self.subject}".rstrip()
