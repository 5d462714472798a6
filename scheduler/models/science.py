"""The tables of science apps: what is computed, and for which computers."""

from __future__ import annotations

from datetime import timedelta

from django.db import models


class OneResultPer(models.TextChoices):
    """How apart the results of one workunit are kept, so that nobody agrees with himself."""

    ACCOUNT = "account"
    HOST = "host"
    NOTHING = "nothing"


class CreditRule(models.TextChoices):
    """How a valid result is paid."""

    FIXED = "fixed"
    RUNTIME = "runtime"
    NONE = "none"


class Platform(models.Model):
    """A kind of computer, by BOINC's name for it (``x86_64-pc-linux-gnu``)."""

    name = models.CharField(max_length=254, unique=True)
    user_friendly_name = models.CharField(max_length=254, blank=True, default="")

    class Meta:
        """Named as BOINC's table is."""

        db_table = "platform"

    def __str__(self) -> str:
        """Show BOINC's name."""
        return self.name


class App(models.Model):
    """One science application, with the rules its results live by."""

    name = models.CharField(max_length=60, unique=True)
    user_friendly_name = models.CharField(max_length=254, blank=True, default="")
    deprecated = models.BooleanField(default=False)
    beta = models.BooleanField(default=False)
    weight = models.FloatField(default=1)
    non_cpu_intensive = models.BooleanField(default=False)
    fraction_done_exact = models.BooleanField(default=False)

    one_result_per = models.CharField(
        max_length=10, choices=OneResultPer.choices, default=OneResultPer.ACCOUNT
    )
    retry_same_account_after = models.DurationField(default=timedelta(days=1))
    hr_type = models.SmallIntegerField(default=0)
    homogeneous_app_version = models.BooleanField(default=False)
    grace = models.DurationField(default=timedelta(0))
    credit_window = models.DurationField(null=True, blank=True)
    max_in_progress_per_cpu = models.IntegerField(null=True, blank=True)

    validator = models.CharField(max_length=200, default="bitwise")
    assimilator = models.CharField(max_length=200, default="copy_files")
    credit_rule = models.CharField(
        max_length=10, choices=CreditRule.choices, default=CreditRule.RUNTIME
    )
    credit_per_workunit = models.DecimalField(max_digits=20, decimal_places=6, default=0)
    created_at = models.DateTimeField()

    class Meta:
        """Named as BOINC's table is."""

        db_table = "app"
        constraints = [
            models.CheckConstraint(
                condition=models.Q(one_result_per__in=OneResultPer.values),
                name="app_one_result_per_is_known",
            ),
            models.CheckConstraint(
                condition=models.Q(credit_rule__in=CreditRule.values),
                name="app_credit_rule_is_known",
            ),
        ]

    def __str__(self) -> str:
        """Show the name."""
        return self.name


class AppVersion(models.Model):
    """One build of an app for one platform; immutable once clients know it (PROTOCOL trap 5)."""

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
    created_at = models.DateTimeField()

    class Meta:
        """The four facts by which a client knows a version."""

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
        ]

    def __str__(self) -> str:
        """Show app, version and platform."""
        plan = f" ({self.plan_class})" if self.plan_class else ""
        return f"{self.app} {self.version_num / 100:.2f} {self.platform}{plan}"


class AppVersionFile(models.Model):
    """One signed file of an app version."""

    app_version = models.ForeignKey(AppVersion, models.CASCADE, related_name="files")
    file = models.ForeignKey("scheduler.File", models.PROTECT, related_name="+")
    position = models.SmallIntegerField()
    open_name = models.CharField(max_length=250, blank=True, default="")
    main_program = models.BooleanField(default=False)
    executable = models.BooleanField(default=False)
    copy_file = models.BooleanField(default=False)
    signature = models.TextField()

    class Meta:
        """A version's files have an order, and one of them is started."""

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
        """Show the name by which the program opens it."""
        return self.open_name or str(self.file)
