"""Response serializers of batches, workunits and results."""

from __future__ import annotations

from typing import Any

from rest_framework import serializers

from scheduler.api.http.body import JsonObject
from scheduler.health.rules.standstill_causes import MAX_EXAMINED, Cause
from scheduler.lifecycle import Axis, ResultState, ValidateState, state_label
from scheduler.models import Batch
from scheduler.work.rules.statuses import Status

#: The states of a batch, by their names in the API.
BATCH_STATES = {state.name.lower(): state.value for state in Batch.State}
#: The states of a result, by their names in the API.
RESULT_STATES = {state_label(Axis.RESULT, state.value): state for state in ResultState}
_VALIDATE_STATES = [state.name for state in ValidateState]


class ProgressShown(serializers.Serializer[Any]):
    """Numbers of workunits by status; purged workunits count as done or failed."""

    total = serializers.IntegerField()
    waiting = serializers.IntegerField()
    unsent = serializers.IntegerField()
    in_progress = serializers.IntegerField()
    validating = serializers.IntegerField()
    done = serializers.IntegerField()
    failed = serializers.IntegerField()
    fraction_done = serializers.FloatField()


class ProgressNow(ProgressShown):
    """Progress of a batch: numbers of workunits by status, rate and remaining time."""

    state = serializers.ChoiceField(choices=list(BATCH_STATES))
    rate_per_second = serializers.FloatField(
        help_text="Workunits finished per second, averaged over the last minutes."
    )
    seconds_left = serializers.FloatField(
        allow_null=True,
        help_text="Estimate from the current rate; null if unknown (`waits` gives the reasons).",
    )


class LastErrorShown(serializers.Serializer[Any]):
    """The most recent failed result."""

    result = serializers.CharField()
    exit_status = serializers.IntegerField()
    host = serializers.CharField()
    at = serializers.DateTimeField(allow_null=True)
    stderr_tail = serializers.ListField(child=serializers.CharField(), source="tail")


class WaitShown(serializers.Serializer[Any]):
    """A reason why unfinished workunits make no progress."""

    cause = serializers.ChoiceField(choices=[cause.value for cause in Cause])
    workunits = serializers.IntegerField(
        help_text=f"Number of affected workunits; {MAX_EXAMINED} means {MAX_EXAMINED} or more."
    )
    sentence = serializers.CharField(help_text="The reason and the number, for people.")


class TroublesShown(serializers.Serializer[Any]):
    """Errors of a batch, and the reasons why its unfinished workunits make no progress."""

    last_error = LastErrorShown(allow_null=True)
    parked = serializers.IntegerField(
        help_text="Workunits whose validation or assimilation stopped after repeated failures."
    )
    sentences = serializers.ListField(
        child=serializers.CharField(),
        help_text="The last error and the number of parked workunits, for people.",
    )
    waits = WaitShown(many=True, help_text="Empty if nothing blocks the work.")


class CostShown(serializers.Serializer[Any]):
    """Computing time and credit of the results that were sent."""

    results = serializers.IntegerField()
    cpu_seconds = serializers.FloatField()
    elapsed_seconds = serializers.FloatField()
    credit = serializers.FloatField()


class BatchShown(serializers.Serializer[Any]):
    """A batch: a group of workunits."""

    id = serializers.IntegerField()
    name = serializers.CharField()
    app = serializers.CharField(allow_null=True)
    submitter = serializers.CharField()
    state = serializers.ChoiceField(choices=list(BATCH_STATES))
    created_at = serializers.DateTimeField()
    expire_at = serializers.DateTimeField(allow_null=True)
    completed_at = serializers.DateTimeField(allow_null=True)
    retired_at = serializers.DateTimeField(allow_null=True)
    after = serializers.IntegerField(
        allow_null=True, help_text="Id of the batch that must finish first."
    )
    after_any = serializers.BooleanField()
    accelerate = serializers.BooleanField()
    accelerate_tail = serializers.BooleanField()
    priority = serializers.IntegerField(allow_null=True)
    keep_outputs = serializers.BooleanField()
    meta = JsonObject()
    progress = ProgressShown()
    cost = CostShown()
    est_completion_at = serializers.DateTimeField(allow_null=True)


class InputShown(serializers.Serializer[Any]):
    """An input file."""

    open_name = serializers.CharField()
    name = serializers.CharField(help_text="The physical name, which always has the same content.")
    nbytes = serializers.IntegerField()
    sha256 = serializers.CharField()


class OutputAsked(serializers.Serializer[Any]):
    """An output file that each result must have."""

    open_name = serializers.CharField()
    max_nbytes = serializers.IntegerField()
    optional = serializers.BooleanField()


class OutputShown(serializers.Serializer[Any]):
    """An uploaded output file."""

    position = serializers.IntegerField()
    open_name = serializers.CharField()
    name = serializers.CharField()
    nbytes = serializers.IntegerField()
    sha256 = serializers.CharField()


class ResultBrief(serializers.Serializer[Any]):
    """A result in the list of its workunit."""

    id = serializers.IntegerField()
    name = serializers.CharField()
    state = serializers.ChoiceField(choices=list(RESULT_STATES))
    validate_state = serializers.ChoiceField(choices=_VALIDATE_STATES)
    host = serializers.IntegerField(allow_null=True)


class WorkunitBrief(serializers.Serializer[Any]):
    """A workunit in a list."""

    id = serializers.IntegerField()
    name = serializers.CharField()
    app = serializers.CharField()
    batch = serializers.IntegerField(allow_null=True)
    status = serializers.ChoiceField(choices=[status.value for status in Status])
    errors = serializers.ListField(child=serializers.CharField())  # type: ignore[assignment]  # a field
    created_at = serializers.DateTimeField()
    finished_at = serializers.DateTimeField(allow_null=True)
    canonical_result = serializers.IntegerField(allow_null=True)
    credit = serializers.FloatField()
    priority = serializers.IntegerField()
    command_line = serializers.CharField()
    meta = JsonObject()


class WorkunitShown(WorkunitBrief):
    """A workunit with its parameters, input files, output files and results."""

    cancel_reason = serializers.CharField()
    input_files = InputShown(many=True)
    outputs = OutputAsked(many=True)
    results = ResultBrief(many=True)
    rsc_fpops_est = serializers.FloatField()
    rsc_fpops_bound = serializers.FloatField()
    rsc_memory_bound = serializers.FloatField()
    rsc_disk_bound = serializers.FloatField()
    rsc_bandwidth_bound = serializers.FloatField()
    delay_bound_seconds = serializers.FloatField()
    min_quorum = serializers.IntegerField()
    target_nresults = serializers.IntegerField()
    max_error_results = serializers.IntegerField(
        help_text="The workunit fails when it has more errors than this."
    )
    max_total_results = serializers.IntegerField()
    max_success_results = serializers.IntegerField()
    max_timeouts = serializers.IntegerField(allow_null=True)
    start_after = serializers.DateTimeField(allow_null=True)
    start_before = serializers.DateTimeField(allow_null=True)
    end_before = serializers.DateTimeField(allow_null=True)


class ResultShown(serializers.Serializer[Any]):
    """A result: one computer's attempt at a workunit."""

    id = serializers.IntegerField()
    name = serializers.CharField()
    workunit = serializers.IntegerField()
    attempt = serializers.IntegerField()
    state = serializers.ChoiceField(choices=list(RESULT_STATES))
    validate_state = serializers.ChoiceField(choices=_VALIDATE_STATES)
    host = serializers.IntegerField(allow_null=True)
    app_version = serializers.IntegerField(allow_null=True)
    created_at = serializers.DateTimeField()
    sent_at = serializers.DateTimeField(allow_null=True)
    report_deadline = serializers.DateTimeField(allow_null=True)
    received_at = serializers.DateTimeField(allow_null=True)
    fraction_done = serializers.FloatField()
    exit_status = serializers.IntegerField()
    cpu_seconds = serializers.FloatField()
    elapsed_seconds = serializers.FloatField()
    credit = serializers.FloatField()
    outputs = OutputShown(many=True)


class ResultWithStderr(ResultShown):
    """A result with the standard error output of its program."""

    stderr = serializers.CharField()


class StepShown(serializers.Serializer[Any]):
    """One state change."""

    at = serializers.DateTimeField()
    subject = serializers.CharField(help_text="The workunit or result whose state changed.")
    axis = serializers.CharField()
    source = serializers.CharField()  # type: ignore[assignment]  # a field
    target = serializers.CharField()
    because = serializers.CharField()
    by = serializers.CharField()


class TimelineShown(serializers.Serializer[Any]):
    """The state changes of a workunit and its results, and what it waits for."""

    name = serializers.CharField()
    timeline = StepShown(many=True)
    reasons = serializers.ListField(child=serializers.CharField())
    ledger_is_on = serializers.BooleanField(help_text="False: state changes are not recorded.")
