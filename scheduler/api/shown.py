"""What the API says of batches, workunits and results, field by field."""

from __future__ import annotations

from typing import Any

from rest_framework import serializers

from scheduler.api.http.body import JsonObject
from scheduler.health.rules.standstill_causes import MAX_EXAMINED, Cause
from scheduler.lifecycle import Axis, ResultState, ValidateState, state_label
from scheduler.models import Batch
from scheduler.work.rules.statuses import Status

#: The states of a batch in words.
BATCH_STATES = {state.name.lower(): state.value for state in Batch.State}
#: The states of a result in the law's words.
RESULT_STATES = {state_label(Axis.RESULT, state.value): state for state in ResultState}
_VALIDATE_STATES = [state.name for state in ValidateState]


class ProgressShown(serializers.Serializer[Any]):
    """How many workunits are where; purged ones are among the done and the failed."""

    total = serializers.IntegerField()
    waiting = serializers.IntegerField()
    unsent = serializers.IntegerField()
    in_progress = serializers.IntegerField()
    validating = serializers.IntegerField()
    done = serializers.IntegerField()
    failed = serializers.IntegerField()
    fraction_done = serializers.FloatField()


class ProgressNow(ProgressShown):
    """The same, with how quickly it goes on."""

    state = serializers.ChoiceField(choices=list(BATCH_STATES))
    rate_per_second = serializers.FloatField(help_text="Workunits over, in the last minutes.")
    seconds_left = serializers.FloatField(
        allow_null=True,
        help_text="If it goes on like this; null: unknown, see `waits` of the troubles.",
    )


class LastErrorShown(serializers.Serializer[Any]):
    """The result that failed last."""

    result = serializers.CharField()
    exit_status = serializers.IntegerField()
    host = serializers.CharField()
    at = serializers.DateTimeField(allow_null=True)
    stderr_tail = serializers.ListField(child=serializers.CharField(), source="tail")


class WaitShown(serializers.Serializer[Any]):
    """A cause why open work does not move."""

    cause = serializers.ChoiceField(choices=[cause.value for cause in Cause])
    workunits = serializers.IntegerField(
        help_text=f"How many it concerns; {MAX_EXAMINED}: that many or more."
    )
    sentence = serializers.CharField(help_text="Both for people.")


class TroublesShown(serializers.Serializer[Any]):
    """What went wrong in a batch, and what its open work waits for."""

    last_error = LastErrorShown(allow_null=True)
    parked = serializers.IntegerField(
        help_text="Workunits whose validation or assimilation stopped."
    )
    sentences = serializers.ListField(
        child=serializers.CharField(), help_text="The last error and what is parked, for people."
    )
    waits = WaitShown(many=True, help_text="Empty if work is about to move.")


class CostShown(serializers.Serializer[Any]):
    """What the results that were sent took, and were paid."""

    results = serializers.IntegerField()
    cpu_seconds = serializers.FloatField()
    elapsed_seconds = serializers.FloatField()
    credit = serializers.FloatField()


class BatchShown(serializers.Serializer[Any]):
    """A batch: workunits submitted together."""

    id = serializers.IntegerField()
    name = serializers.CharField()
    app = serializers.CharField(allow_null=True)
    submitter = serializers.CharField()
    state = serializers.ChoiceField(choices=list(BATCH_STATES))
    created_at = serializers.DateTimeField()
    expire_at = serializers.DateTimeField(allow_null=True)
    completed_at = serializers.DateTimeField(allow_null=True)
    retired_at = serializers.DateTimeField(allow_null=True)
    after = serializers.IntegerField(allow_null=True, help_text="The batch it waits for.")
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
    name = serializers.CharField(help_text="Its physical name, never given to another content.")
    nbytes = serializers.IntegerField()
    sha256 = serializers.CharField()


class OutputAsked(serializers.Serializer[Any]):
    """An output file that each result brings."""

    open_name = serializers.CharField()
    max_nbytes = serializers.IntegerField()
    optional = serializers.BooleanField()


class OutputShown(serializers.Serializer[Any]):
    """An output file that came."""

    position = serializers.IntegerField()
    open_name = serializers.CharField()
    name = serializers.CharField()
    nbytes = serializers.IntegerField()
    sha256 = serializers.CharField()


class ResultBrief(serializers.Serializer[Any]):
    """A result, as its workunit lists it."""

    id = serializers.IntegerField()
    name = serializers.CharField()
    state = serializers.ChoiceField(choices=list(RESULT_STATES))
    validate_state = serializers.ChoiceField(choices=_VALIDATE_STATES)
    host = serializers.IntegerField(allow_null=True)


class WorkunitBrief(serializers.Serializer[Any]):
    """A workunit, as lists show it."""

    id = serializers.IntegerField()
    name = serializers.CharField()
    app = serializers.CharField()
    batch = serializers.IntegerField(allow_null=True)
    status = serializers.ChoiceField(choices=[one.value for one in Status])
    errors = serializers.ListField(child=serializers.CharField())  # type: ignore[assignment]  # a field
    created_at = serializers.DateTimeField()
    finished_at = serializers.DateTimeField(allow_null=True)
    canonical_result = serializers.IntegerField(allow_null=True)
    credit = serializers.FloatField()
    priority = serializers.IntegerField()
    command_line = serializers.CharField()
    meta = JsonObject()


class WorkunitShown(WorkunitBrief):
    """A workunit with all that it was given, and its results."""

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
    """A result: one attempt at a workunit by one computer."""

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
    """A result with what its program wrote to stderr."""

    stderr = serializers.CharField()


class StepShown(serializers.Serializer[Any]):
    """One move."""

    at = serializers.DateTimeField()
    subject = serializers.CharField(help_text="The workunit or the result that moved.")
    axis = serializers.CharField()
    source = serializers.CharField()  # type: ignore[assignment]  # a field
    target = serializers.CharField()
    because = serializers.CharField()
    by = serializers.CharField()


class TimelineShown(serializers.Serializer[Any]):
    """How a workunit came where it is, and what it waits for."""

    name = serializers.CharField()
    timeline = StepShown(many=True)
    reasons = serializers.ListField(child=serializers.CharField())
    ledger_is_on = serializers.BooleanField(help_text="Off: moves are not written down.")
