"""The tables of refusals, failures, outages, heartbeats, alerts and checks."""

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
    completed and failed passes, examined rows, and seconds in passes.  The row ``chore <name>`` has
    the number of the chore's failures in a row as `failed_passes`.
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


class CheckRun(models.Model):
    """A run of a check, and its findings: violated invariants, or sums of credit that differ.

    A run from a shell is stored at its end, and has no `requested_at`.  A run that staff requested
    is carried out by the housekeeper: `remaining` has the names of the parts that are left, and
    `after_id` is the last row of the first of them that was compared.

    `checked_names` are the parts that were checked completely.  `findings`, `carried` and
    `not_checked` have the form that `health.rules.check_findings` describes, which limits their
    size.  `carried` are findings of earlier runs that this run did not check again; `unresolved`
    counts them and the violations that this run found and did not correct.
    """

    class Kind(models.TextChoices):
        """The check: of invariants, or of sums of credit."""

        FSCK = "fsck", "invariants"
        CREDIT = "credit", "sums of credit"

    kind = models.CharField(max_length=10, choices=Kind.choices)
    options = models.JSONField(default=dict, blank=True)
    requested_at = models.DateTimeField(null=True, blank=True)
    requested_by = models.ForeignKey(
        "scheduler.Account",
        models.SET_NULL,
        null=True,
        blank=True,
        related_name="+",
        db_index=False,
    )
    started_at = models.DateTimeField(null=True, blank=True)
    ended_at = models.DateTimeField(null=True, blank=True)
    remaining = models.JSONField(default=list, blank=True)
    after_id = models.BigIntegerField(default=0)
    checked_names = models.JSONField(default=list, blank=True)
    #: The number of invariants or sums to check; None if it was not counted.
    to_check = models.BigIntegerField(null=True, blank=True)
    checked = models.BigIntegerField(default=0)
    skipped = models.BigIntegerField(default=0)
    violations = models.BigIntegerField(default=0)
    unresolved = models.BigIntegerField(default=0)
    findings = models.JSONField(default=list, blank=True)
    carried = models.JSONField(default=list, blank=True)
    not_checked = models.JSONField(default=list, blank=True)

    class Meta:
        db_table = "check_run"
        verbose_name = "run of a check"
        verbose_name_plural = "runs of checks"
        default_permissions = ("view",)
        constraints = [
            # At most one requested run of each check is open.
            models.UniqueConstraint(
                fields=["kind"],
                condition=models.Q(ended_at__isnull=True),
                name="check_run_is_open_once",
            ),
            models.CheckConstraint(
                condition=models.Q(ended_at__isnull=True) | models.Q(started_at__isnull=False),
                name="check_run_ends_after_its_start",
            ),
            models.CheckConstraint(
                condition=models.Q(requested_at__isnull=False) | models.Q(ended_at__isnull=False),
                name="check_run_of_a_shell_has_ended",
            ),
        ]

    def __str__(self) -> str:
        return f"{self.get_kind_display()} {self.pk}"
