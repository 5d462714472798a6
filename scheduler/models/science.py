"""The tables of apps, app versions, plan classes and platforms."""

from __future__ import annotations

from datetime import timedelta
from typing import Final

from django.core.validators import MaxLengthValidator
from django.db import models

from scheduler.config import MAX_TERMINATION_TIME

#: Maximum length of an app's description; the front page shows those of all apps.
MAX_APP_DESCRIPTION: Final = 4000


class OneResultPer(models.TextChoices):
    """The unit that gets at most one result of a workunit, so that results are independent."""

    ACCOUNT = "account"
    HOST = "host"
    NOTHING = "nothing"


class CreditRule(models.TextChoices):
    """The rule that computes the credit of a valid result."""

    FIXED = "fixed"
    RUNTIME = "runtime"
    ADAPTIVE = "adaptive"
    NONE = "none"


class AppKind(models.TextChoices):
    """The kind of an app's programs, which determines how hosts run them (docs/apps.md)."""

    NATIVE = "native"
    SCRIPT = "script"
    COMMAND = "command"
    CONTAINER = "container"


class SuccessRule(models.TextChoices):
    """The condition under which a report with all outputs is a success."""

    EXIT_CODE = "exit_code"
    EMPTY_STDERR = "empty_stderr"
    BOTH = "both"
    VALIDATOR = "validator"
    RUNNER = "runner"


class Platform(models.Model):
    """A platform with its BOINC name, such as ``x86_64-pc-linux-gnu``."""

    name = models.CharField(max_length=254, unique=True)
    user_friendly_name = models.CharField(max_length=254, blank=True, default="")

    class Meta:
        db_table = "platform"

    def __str__(self) -> str:
        return self.name


class App(models.Model):
    """A science application, with the rules for its workunits and results."""

    name = models.CharField(max_length=60, unique=True)
    user_friendly_name = models.CharField(max_length=254, blank=True, default="")
    # Plain text for volunteers, which the front page shows.
    description = models.TextField(
        blank=True,
        default="",
        db_default="",
        validators=[MaxLengthValidator(MAX_APP_DESCRIPTION)],
    )
    deprecated = models.BooleanField(default=False)
    beta = models.BooleanField(default=False)
    weight = models.FloatField(default=1)
    non_cpu_intensive = models.BooleanField(default=False)
    # Whether workunits of the app were ever submitted in task lists; dispatch reads task lists of
    # such apps only.
    has_bundles = models.BooleanField(default=False, db_default=False, editable=False)
    fraction_done_exact = models.BooleanField(default=False)

    # Kind of the programs, condition of success, and defaults for submissions.
    kind = models.CharField(max_length=10, choices=AppKind.choices, default=AppKind.NATIVE)
    success_rule = models.CharField(
        max_length=12, choices=SuccessRule.choices, default=SuccessRule.EXIT_CODE
    )
    workunit_defaults = models.JSONField(default=dict, blank=True)
    input_template = models.TextField(blank=True, default="")
    output_template = models.TextField(blank=True, default="")

    one_result_per = models.CharField(
        max_length=10, choices=OneResultPer.choices, default=OneResultPer.ACCOUNT
    )
    retry_same_account_after = models.DurationField(default=timedelta(days=1))
    # Whether a workunit fails once every active account (or host) has had a result of it.  If not,
    # its next result stays unsent until another account (or host) requests work.
    fail_when_all_tried = models.BooleanField(default=False, db_default=False)
    hr_type = models.SmallIntegerField(default=0)
    homogeneous_app_version = models.BooleanField(default=False)
    grace = models.DurationField(default=timedelta(0))
    credit_window = models.DurationField(null=True, blank=True)
    # Time between SIGTERM and SIGKILL for the program of a cancelled workunit.
    max_termination_time = models.DurationField(
        default=timedelta(seconds=10), db_default=timedelta(seconds=10)
    )
    delete_delay = models.DurationField(default=timedelta(0))
    ack_timeout = models.DurationField(null=True, blank=True)
    max_infeasible = models.IntegerField(null=True, blank=True)

    # Limits on the results that a host gets; with None, the project's limit applies, if any.
    daily_quota = models.IntegerField(null=True, blank=True)
    max_in_progress_per_cpu = models.IntegerField(null=True, blank=True)
    max_in_progress_per_gpu = models.IntegerField(null=True, blank=True)
    max_in_progress_per_host = models.IntegerField(null=True, blank=True)

    # Adaptive replication: a workunit with a target of one result gets `target_nresults` results
    # if the first one is sent to an untrusted host.  A value of 1 disables adaptive replication.
    target_nresults = models.IntegerField(default=1)
    trusted_after = models.IntegerField(default=10)

    # For `reliable_wait`, retries are sent only to fast, reliable hosts, with a reduced deadline.
    reliable_max_turnaround = models.DurationField(null=True, blank=True)
    reliable_wait = models.DurationField(default=timedelta(days=1))
    reduced_delay = models.FloatField(default=0.5)
    retry_priority = models.IntegerField(default=0)

    # Matching of work to hosts.
    locality = models.BooleanField(default=False)
    n_size_classes = models.SmallIntegerField(default=1)
    size_bounds = models.JSONField(default=list, blank=True)

    # Science code: plug-ins, their options, time limits and numbers of failures.
    validator = models.CharField(max_length=200, default="bitwise")
    validator_options = models.JSONField(default=dict, blank=True)
    assimilator = models.CharField(max_length=200, default="copy_files")
    assimilator_options = models.JSONField(default=dict, blank=True)
    science_time_limit = models.DurationField(default=timedelta(minutes=1))
    max_science_failures = models.SmallIntegerField(default=5)
    trickle_handlers = models.JSONField(default=dict, blank=True)
    generator = models.CharField(max_length=200, blank=True, default="")
    generator_options = models.JSONField(default=dict, blank=True)
    generator_state = models.JSONField(default=dict, blank=True)
    cushion = models.IntegerField(default=0)

    min_avg_pfc = models.FloatField(default=1)
    host_scale_check = models.BooleanField(default=False)
    total_credit = models.DecimalField(max_digits=20, decimal_places=6, default=0)
    credit_rule = models.CharField(
        max_length=10, choices=CreditRule.choices, default=CreditRule.RUNTIME
    )
    credit_per_workunit = models.DecimalField(max_digits=20, decimal_places=6, default=0)
    created_at = models.DateTimeField()

    class Meta:
        db_table = "app"
        permissions = [
            ("publish_versions", "Can publish, withdraw and offer versions of every app"),
            ("manage_apps", "Can create apps and change them"),
        ]
        constraints = [
            models.CheckConstraint(
                condition=models.Q(one_result_per__in=OneResultPer.values),
                name="app_one_result_per_is_known",
            ),
            models.CheckConstraint(
                condition=models.Q(credit_rule__in=CreditRule.values),
                name="app_credit_rule_is_known",
            ),
            models.CheckConstraint(
                condition=models.Q(kind__in=AppKind.values)
                & models.Q(success_rule__in=SuccessRule.values),
                name="app_kind_and_success_rule_are_known",
            ),
            models.CheckConstraint(
                condition=models.Q(
                    max_termination_time__gte=timedelta(0),
                    max_termination_time__lte=MAX_TERMINATION_TIME,
                ),
                name="app_max_termination_time_is_in_range",
            ),
            models.CheckConstraint(
                condition=models.Q(target_nresults__gte=1)
                & models.Q(trusted_after__gte=1)
                & models.Q(reduced_delay__gt=0)
                & models.Q(reduced_delay__lte=1)
                & models.Q(weight__gte=0)
                & models.Q(n_size_classes__gte=1)
                & models.Q(max_science_failures__gte=1)
                & models.Q(cushion__gte=0),
                name="app_numbers_make_sense",
            ),
        ]

    def __str__(self) -> str:
        return self.name


class PlanClass(models.Model):
    """The host requirements and the resource usage of app versions (BOINC's plan class).

    App versions refer to a plan class by its name.  `dispatch.rules.plan_classes` validates `spec`.
    """

    name = models.CharField(max_length=60, unique=True)
    spec = models.JSONField(default=dict, blank=True)
    created_at = models.DateTimeField()

    class Meta:
        db_table = "plan_class"
        verbose_name_plural = "plan classes"

    def __str__(self) -> str:
        return self.name


class AppVersion(models.Model):
    """A build of an app for a platform; immutable once clients may have it (PROTOCOL trap 5)."""

    app = models.ForeignKey(App, models.PROTECT, related_name="versions")
    platform = models.ForeignKey(Platform, models.PROTECT, related_name="versions")
    version_num = models.IntegerField()
    plan_class = models.CharField(max_length=60, blank=True, default="")
    api_version = models.CharField(max_length=15, blank=True, default="")
    avg_ncpus = models.FloatField(default=1)
    cmdline = models.CharField(max_length=255, blank=True, default="")
    file_prefix = models.CharField(max_length=255, blank=True, default="")
    min_core_version = models.IntegerField(default=0)
    max_core_version = models.IntegerField(default=0)
    deprecated = models.BooleanField(default=False)
    beta = models.BooleanField(default=False)
    # Flags sent to clients: CPU throttling does not apply; network access is needed; the main
    # program is a wrapper, which starts the computing program.
    dont_throttle = models.BooleanField(default=False)
    needs_network = models.BooleanField(default=False)
    is_wrapper = models.BooleanField(default=False)
    # OCI image with digest (for containers), and source URL of the program.
    image = models.CharField(max_length=400, blank=True, default="")
    source_url = models.CharField(max_length=1000, blank=True, default="")
    pfc_n = models.FloatField(default=0)
    pfc_avg = models.FloatField(default=0)
    pfc_scale = models.FloatField(default=0)
    # Staged roll-out: the share of the hosts that may get the version, and the automatic roll-back
    # above an error rate, in percent.  NULL means no automatic roll-back (`apps.rollouts`).
    rollout_percent = models.SmallIntegerField(default=100, db_default=100)
    rollout_at = models.DateTimeField(null=True, blank=True)
    max_error_percent = models.SmallIntegerField(null=True, blank=True)
    min_rollback_results = models.IntegerField(default=50, db_default=50)
    rolled_back_at = models.DateTimeField(null=True, blank=True)
    rollback_reason = models.CharField(max_length=200, blank=True, default="", db_default="")
    created_at = models.DateTimeField()

    class Meta:
        db_table = "app_version"
        constraints = [
            models.UniqueConstraint(
                fields=["app", "platform", "version_num", "plan_class"],
                name="app_version_is_known_by_four_facts",
            ),
            models.CheckConstraint(
                condition=models.Q(version_num__gt=0), name="app_version_num_is_positive"
            ),
            models.CheckConstraint(
                condition=models.Q(avg_ncpus__gt=0), name="app_version_avg_ncpus_is_positive"
            ),
            models.CheckConstraint(
                condition=models.Q(rollout_percent__gte=0, rollout_percent__lte=100)
                & models.Q(min_rollback_results__gte=1)
                & (
                    models.Q(max_error_percent__isnull=True)
                    | models.Q(max_error_percent__gte=0, max_error_percent__lte=99)
                ),
                name="app_version_rollout_is_in_range",
            ),
        ]

    def __str__(self) -> str:
        plan = f" ({self.plan_class})" if self.plan_class else ""
        return f"{self.app} {self.version_num / 100:.2f} {self.platform}{plan}"


class AppVersionFile(models.Model):
    """A signed file of an app version."""

    app_version = models.ForeignKey(AppVersion, models.CASCADE, related_name="files")
    file = models.ForeignKey("scheduler.File", models.PROTECT, related_name="+")
    position = models.SmallIntegerField()
    open_name = models.CharField(max_length=250, blank=True, default="")
    main_program = models.BooleanField(default=False)
    executable = models.BooleanField(default=False)
    copy_file = models.BooleanField(default=False)
    signature = models.TextField()

    class Meta:
        db_table = "app_version_file"
        constraints = [
            models.UniqueConstraint(
                fields=["app_version", "position"], name="app_version_file_has_its_place"
            ),
            models.UniqueConstraint(
                fields=["app_version"],
                condition=models.Q(main_program=True),
                name="app_version_file_main_program_is_one",
            ),
        ]

    def __str__(self) -> str:
        return self.open_name or str(self.file)
