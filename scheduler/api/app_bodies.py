"""What is told of an app over the API, and what can be said of one."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from rest_framework import serializers

from scheduler.api.http.body import INT4, JsonObject, Strict
from scheduler.models import App
from scheduler.models.science import AppKind, CreditRule, OneResultPer, SuccessRule

#: Ten years: longer than any project waits for anything.
_LONGEST_SECONDS = 10 * 366 * 86400


class Seconds(serializers.FloatField):
    """A duration, in seconds at this edge."""

    def __init__(self, column: str, **kwargs: Any) -> None:
        """Read from and write to a column that holds a duration."""
        bounds = {"min_value": 0, "max_value": _LONGEST_SECONDS}
        super().__init__(**{**bounds, **kwargs}, source=column)

    def to_internal_value(self, data: Any) -> Any:
        """Make a duration of seconds, once they are held to their bounds: it takes fewer."""
        seconds = super().to_internal_value(data)
        super().run_validators(seconds)
        return timedelta(seconds=seconds)

    def run_validators(self, value: Any) -> None:
        """Have nothing left to do."""

    def to_representation(self, value: Any) -> float:  # type: ignore[override]  # a number
        """Make seconds of a duration."""
        return float(value.total_seconds())


class AppOut(serializers.ModelSerializer[App]):
    """An app, with the rules its results live by."""

    retry_same_account_after_seconds = Seconds("retry_same_account_after")
    grace_seconds = Seconds("grace")
    credit_window_seconds = Seconds("credit_window", allow_null=True)
    delete_delay_seconds = Seconds("delete_delay")
    reliable_max_turnaround_seconds = Seconds("reliable_max_turnaround", allow_null=True)
    reliable_wait_seconds = Seconds("reliable_wait")
    versions = serializers.IntegerField(source="n_versions", help_text="How many there are.")
    workunit_defaults = JsonObject()
    validator_options = JsonObject(
        allow_null=True, help_text="Null for accounts that do not manage the app."
    )
    credit_per_workunit = serializers.FloatField()
    total_credit = serializers.FloatField()

    class Meta:
        """What is told of it."""

        model = App
        fields = (
            "id",
            "name",
            "user_friendly_name",
            "kind",
            "success_rule",
            "deprecated",
            "beta",
            "weight",
            "versions",
            "workunit_defaults",
            "input_template",
            "output_template",
            "validator",
            "validator_options",
            "assimilator",
            "one_result_per",
            "retry_same_account_after_seconds",
            "fail_when_all_tried",
            "target_nresults",
            "trusted_after",
            "hr_type",
            "homogeneous_app_version",
            "grace_seconds",
            "credit_window_seconds",
            "delete_delay_seconds",
            "reliable_max_turnaround_seconds",
            "reliable_wait_seconds",
            "daily_quota",
            "max_in_progress_per_cpu",
            "max_in_progress_per_gpu",
            "max_in_progress_per_host",
            "credit_rule",
            "credit_per_workunit",
            "total_credit",
            "created_at",
        )

    def to_representation(self, instance: Any) -> dict[str, Any]:
        """Leave out the validator's options, which could help to deceive it."""
        shown: dict[str, Any] = super().to_representation(instance)
        if not instance.is_managed:
            shown["validator_options"] = None
        return shown


def _whole(least: int = 0, **kwargs: Any) -> serializers.IntegerField:
    return serializers.IntegerField(required=False, min_value=least, max_value=INT4, **kwargs)


def _text(most: int, **kwargs: Any) -> serializers.CharField:
    return serializers.CharField(
        required=False, allow_blank=True, max_length=most, trim_whitespace=False, **kwargs
    )


class ChangedApp(Strict):
    """What can be changed of an app."""

    user_friendly_name = _text(254)
    kind = serializers.ChoiceField(
        AppKind.values, required=False, help_text="Stays what it is once there are versions."
    )
    success_rule = serializers.ChoiceField(SuccessRule.values, required=False)
    deprecated = serializers.BooleanField(required=False)
    beta = serializers.BooleanField(required=False)
    weight = serializers.FloatField(
        required=False, min_value=0, max_value=1e9, help_text="Needs scope `administer`."
    )
    workunit_defaults = JsonObject(required=False, help_text="What a submission need not say.")
    input_template = _text(100_000, help_text="BOINC's, as it is.")
    output_template = _text(100_000, help_text="BOINC's, as it is.")
    validator = serializers.CharField(
        required=False,
        max_length=200,
        help_text="bitwise, trivial, numeric, substring, or a name of the server's allow-list.",
    )
    validator_options = JsonObject(required=False)
    assimilator = serializers.CharField(
        required=False,
        max_length=200,
        help_text="copy_files, dataset, webhook, or a name of the server's allow-list.",
    )
    one_result_per = serializers.ChoiceField(OneResultPer.values, required=False)
    retry_same_account_after_seconds = Seconds("retry_same_account_after", required=False)
    fail_when_all_tried = serializers.BooleanField(
        required=False,
        help_text="End a workunit once every account that is about had its turn, or wait.",
    )
    target_nresults = _whole(1, help_text="Adaptive replication; 1 switches it off.")
    trusted_after = _whole(1)
    hr_type = serializers.IntegerField(required=False, min_value=0, max_value=2)
    homogeneous_app_version = serializers.BooleanField(required=False)
    grace_seconds = Seconds("grace", required=False)
    credit_window_seconds = Seconds("credit_window", required=False, allow_null=True)
    delete_delay_seconds = Seconds("delete_delay", required=False)
    reliable_max_turnaround_seconds = Seconds(
        "reliable_max_turnaround", required=False, allow_null=True
    )
    reliable_wait_seconds = Seconds("reliable_wait", required=False)
    daily_quota = _whole(allow_null=True, help_text="null: the project's.")
    max_in_progress_per_cpu = _whole(allow_null=True, help_text="null: the project's.")
    max_in_progress_per_gpu = _whole(allow_null=True, help_text="null: no limit.")
    max_in_progress_per_host = _whole(allow_null=True, help_text="null: no limit.")
    credit_rule = serializers.ChoiceField(
        CreditRule.values, required=False, help_text="Needs scope `administer`."
    )
    credit_per_workunit = serializers.FloatField(
        required=False, min_value=0, max_value=1e12, help_text="Needs scope `administer`."
    )


class NewApp(ChangedApp):
    """An app to be."""

    name = serializers.RegexField(
        r"^[A-Za-z0-9_][A-Za-z0-9_.-]*$",
        max_length=60,
        help_text="Letters, digits, - . and _; clients and folders are called by it.",
    )
