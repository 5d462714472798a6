"""Serializers of apps: the response, and the bodies that create or change an app."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from rest_framework import serializers

from scheduler.api.http.body import INT4, Column, Duration, JsonObject, NameField, RowShown, Strict
from scheduler.config import MAX_TERMINATION_TIME
from scheduler.models import App
from scheduler.models.science import (
    MAX_APP_DESCRIPTION,
    AppKind,
    CreditRule,
    OneResultPer,
    SuccessRule,
)

#: Maximum of every duration: ten years.
_MAX_SECONDS = 10 * 366 * 86400


class Seconds(Duration):
    """A field that is a number of seconds in the API and a `timedelta` in the model."""

    def __init__(self, column: str, **kwargs: Any) -> None:
        bounds = {"min_value": 0, "max_value": _MAX_SECONDS}
        super().__init__(**{**bounds, **kwargs}, source=column)

    def to_internal_value(self, data: Any) -> Any:
        """Return a `timedelta`; the bounds are checked first, because large values overflow."""
        seconds = super().to_internal_value(data)
        super().run_validators(seconds)
        return timedelta(seconds=seconds)

    def run_validators(self, value: Any) -> None:
        """Do nothing, because `to_internal_value` checks the bounds, in seconds."""


class AppOut(RowShown):
    """An app, with the rules for its results."""

    id = Column()
    name = Column()
    user_friendly_name = Column()
    description = Column()
    kind = Column()
    success_rule = Column()
    deprecated = Column()
    beta = Column()
    weight = Column()
    versions = serializers.IntegerField(
        source="n_versions", help_text="Number of published versions."
    )
    workunit_defaults = JsonObject()
    input_template = Column()
    output_template = Column()
    validator = Column()
    validator_options = JsonObject(
        allow_null=True, help_text="Null for accounts that do not manage the app."
    )
    assimilator = Column()
    one_result_per = Column()
    retry_same_account_after_seconds = Seconds("retry_same_account_after")
    fail_when_all_tried = Column()
    target_nresults = Column()
    trusted_after = Column()
    hr_type = Column()
    homogeneous_app_version = Column()
    ack_timeout_seconds = Seconds("ack_timeout", allow_null=True)
    grace_seconds = Seconds("grace")
    credit_window_seconds = Seconds("credit_window", allow_null=True)
    max_termination_seconds = Seconds("max_termination_time")
    delete_delay_seconds = Seconds("delete_delay")
    reliable_max_turnaround_seconds = Seconds("reliable_max_turnaround", allow_null=True)
    reliable_wait_seconds = Seconds("reliable_wait")
    daily_quota = Column()
    max_in_progress_per_cpu = Column()
    max_in_progress_per_gpu = Column()
    max_in_progress_per_host = Column()
    credit_rule = Column()
    credit_per_workunit = serializers.FloatField()
    total_credit = serializers.FloatField()
    created_at = Column()

    class Meta:
        model = App

    def to_representation(self, instance: Any) -> dict[str, Any]:
        """Return the fields; `validator_options` is None unless the account manages the app.

        The options could help a volunteer to forge results.
        """
        fields: dict[str, Any] = super().to_representation(instance)
        if not instance.is_managed:
            fields["validator_options"] = None
        return fields


def _whole(min_value: int = 0, **kwargs: Any) -> serializers.IntegerField:
    return serializers.IntegerField(required=False, min_value=min_value, max_value=INT4, **kwargs)


def _text(max_length: int, **kwargs: Any) -> serializers.CharField:
    return serializers.CharField(
        required=False, allow_blank=True, max_length=max_length, trim_whitespace=False, **kwargs
    )


class ChangedApp(Strict):
    """The fields of an app that can be changed."""

    user_friendly_name = _text(254)
    description = _text(
        MAX_APP_DESCRIPTION,
        help_text="Plain text about the computation and its purpose, for the front page.",
    )
    kind = serializers.ChoiceField(
        AppKind.values, required=False, help_text="Cannot be changed once the app has versions."
    )
    success_rule = serializers.ChoiceField(SuccessRule.values, required=False)
    deprecated = serializers.BooleanField(required=False)
    beta = serializers.BooleanField(required=False)
    weight = serializers.FloatField(
        required=False, min_value=0, max_value=1e9, help_text="Needs scope `administer`."
    )
    workunit_defaults = JsonObject(
        required=False, help_text="Default values for fields of submitted workunits."
    )
    input_template = _text(100_000, help_text="BOINC input template, in XML.")
    output_template = _text(100_000, help_text="BOINC output template, in XML.")
    validator = serializers.CharField(
        required=False,
        max_length=200,
        help_text="bitwise, trivial, numeric, substring, or a name from the server's allow-list.",
    )
    validator_options = JsonObject(required=False)
    assimilator = serializers.CharField(
        required=False,
        max_length=200,
        help_text="copy_files, dataset, webhook, or a name from the server's allow-list.",
    )
    one_result_per = serializers.ChoiceField(OneResultPer.values, required=False)
    retry_same_account_after_seconds = Seconds("retry_same_account_after", required=False)
    fail_when_all_tried = serializers.BooleanField(
        required=False,
        help_text="If true, a workunit fails once every account (or host) that requested work in "
        "the last 30 days has tried it. If false, it waits for another account or host.",
    )
    target_nresults = _whole(
        1,
        help_text="Adaptive replication: number of results if the first host is not trusted. "
        "1 disables adaptive replication.",
    )
    trusted_after = _whole(1)
    hr_type = serializers.IntegerField(required=False, min_value=0, max_value=2)
    homogeneous_app_version = serializers.BooleanField(required=False)
    ack_timeout_seconds = Seconds(
        "ack_timeout",
        required=False,
        allow_null=True,
        help_text="A result times out if its client does not list it within this time after it was "
        "sent. If null, 300 seconds apply to results of trusted queues on hosts of a pool, and "
        "only the deadline to others.",
    )
    grace_seconds = Seconds("grace", required=False)
    credit_window_seconds = Seconds("credit_window", required=False, allow_null=True)
    max_termination_seconds = Seconds(
        "max_termination_time",
        required=False,
        max_value=int(MAX_TERMINATION_TIME.total_seconds()),
        help_text="Seconds that a cancelled program gets to end after SIGTERM, before SIGKILL.",
    )
    delete_delay_seconds = Seconds("delete_delay", required=False)
    reliable_max_turnaround_seconds = Seconds(
        "reliable_max_turnaround", required=False, allow_null=True
    )
    reliable_wait_seconds = Seconds("reliable_wait", required=False)
    daily_quota = _whole(allow_null=True, help_text="If null, the project's limit applies.")
    max_in_progress_per_cpu = _whole(
        allow_null=True, help_text="If null, the project's limit applies."
    )
    max_in_progress_per_gpu = _whole(allow_null=True, help_text="If null, there is no limit.")
    max_in_progress_per_host = _whole(allow_null=True, help_text="If null, there is no limit.")
    credit_rule = serializers.ChoiceField(
        CreditRule.values, required=False, help_text="Needs scope `administer`."
    )
    credit_per_workunit = serializers.FloatField(
        required=False, min_value=0, max_value=1e12, help_text="Needs scope `administer`."
    )


class NewApp(ChangedApp):
    """The fields of a new app."""

    name = NameField(
        max_length=60,
        help_text="Letters, digits, - . and _. Clients and result folders use this name.",
    )
