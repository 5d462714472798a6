"""Serializers of a workunit's history: rounds, attempts and statistics."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING

from rest_framework import serializers

from scheduler.api.http.body import JsonObject, Shown
from scheduler.api.shown import RESULT_STATES
from scheduler.lifecycle import Axis, Outcome, state_label
from scheduler.work.rules.predecessor_states import (
    DisbatchStatus,
    EveState,
    Tdf2State,
    TdfState,
)

if TYPE_CHECKING:
    from scheduler.work.attempt_history import Execution

_STATUS_CODES = ", ".join(f"{code.value} {code.name.lower()}" for code in DisbatchStatus)
_TIMELINE_HELP = (
    "Unix times of states, and texts of outputs, by round: `3:running` is the time when the fourth "
    "round was sent, `3:output` the text of its first output file, `3:error` its standard error."
)


class ReplicaShown(Shown):
    """The rounds of a replica other than the first."""

    replica = serializers.IntegerField()
    round = serializers.IntegerField()
    timeline = JsonObject(help_text=_TIMELINE_HELP)


class RoundsShown(Shown):
    """A workunit with its rounds. A new round begins after each failure and each time-out."""

    name = serializers.CharField()
    state = serializers.ChoiceField(choices=[state.value for state in TdfState])
    round = serializers.IntegerField(help_text="The index of the current round, from 0.")
    fails = serializers.IntegerField(help_text="Results that count toward `max_error_results`.")
    timeouts = serializers.IntegerField(help_text="Results that count toward `max_timeouts`.")
    timeline = JsonObject(help_text=_TIMELINE_HELP)
    other_replicas = ReplicaShown(many=True)
    log = serializers.CharField(help_text="The state changes, a line each, oldest first.")


class SampleShown(Shown):
    """Progress and resource usage of a running result at one time."""

    at = serializers.DateTimeField()
    fraction_done = serializers.FloatField(allow_null=True)
    cpu_seconds = serializers.FloatField(source="cpu_time", allow_null=True)
    elapsed_seconds = serializers.FloatField(source="elapsed_time", allow_null=True)
    memory_bytes = serializers.FloatField(allow_null=True)
    gpu_usage = serializers.FloatField(allow_null=True)
    cpu_utilization = serializers.FloatField(
        allow_null=True, help_text="CPUs in use, if the host reported it by a pool."
    )


class ExecutionShown(Shown):
    """One attempt at a workunit by a host. Hosts may report any time and any usage."""

    result = serializers.IntegerField(source="attempt.id")
    name = serializers.CharField(source="attempt.name")
    replica = serializers.IntegerField(source="round.replica")
    round = serializers.IntegerField(source="round.index")
    worker = serializers.IntegerField(
        source="attempt.host_id", allow_null=True, help_text="The id of the host."
    )
    state = serializers.ChoiceField(choices=list(RESULT_STATES))
    tdf2_state = serializers.ChoiceField(
        source="tdf2", choices=[state.value for state in Tdf2State]
    )
    disbatch_status = serializers.IntegerField(help_text=f"One of {_STATUS_CODES}.")
    exit_status = serializers.IntegerField(
        allow_null=True, help_text="Null until the host has reported."
    )
    time_started = serializers.DateTimeField(
        help_text="When the host confirmed the result, or else when the server sent it."
    )
    time_terminated = serializers.DateTimeField(
        source="attempt.received_at", allow_null=True, help_text="When the server got the report."
    )
    memory_usage = serializers.ListField(
        child=serializers.FloatField(allow_null=True),
        help_text="Bytes in use at each sample; without samples the peak that the host reported.",
    )
    cpu_utilization = serializers.ListField(
        child=serializers.FloatField(allow_null=True),
        help_text="CPUs in use at each sample, as reported or computed from the times; without "
        "samples the mean of the whole attempt.",
    )
    gpu_usage = serializers.ListField(
        child=serializers.FloatField(allow_null=True),
        help_text="Share of the GPU at each sample, from 0 to 1.",
    )
    samples = SampleShown(many=True, source="attempt.samples")

    def read_state(self, execution: Execution) -> str:
        attempt = execution.attempt
        return state_label(Axis.RESULT, 10 * attempt.server_state + attempt.outcome)

    def read_exit_status(self, execution: Execution) -> int | None:
        is_reported = execution.attempt.outcome in {
            Outcome.SUCCESS,
            Outcome.CLIENT_ERROR,
            Outcome.VALIDATE_ERROR,
        }
        return execution.attempt.exit_status if is_reported else None

    def read_time_started(self, execution: Execution) -> datetime | None:
        return execution.attempt.acknowledged_at or execution.attempt.sent_at

    def read_memory_usage(self, execution: Execution) -> list[float | None]:
        peak, samples = execution.attempt.peak_working_set_bytes, execution.attempt.samples
        return [sample.memory_bytes for sample in samples] if samples else [peak] * (peak > 0)

    def read_gpu_usage(self, execution: Execution) -> list[float | None]:
        return [sample.gpu_usage for sample in execution.attempt.samples]


class StatesShown(Shown):
    """The state of a workunit in TDF, TDF2, Eve and Disbatch."""

    tdf = serializers.ChoiceField(choices=[state.value for state in TdfState])
    tdf2 = serializers.ChoiceField(choices=[state.value for state in Tdf2State])
    eve = serializers.ChoiceField(choices=[state.value for state in EveState])
    disbatch_status = serializers.IntegerField(help_text=f"One of {_STATUS_CODES}.")


class HistoryShown(Shown):
    """All attempts at a workunit that were sent to hosts, oldest first."""

    name = serializers.CharField()
    states = StatesShown()
    retry_count = serializers.IntegerField(help_text="Number of attempts, the first one included.")
    history = ExecutionShown(many=True)


class ResourcesShown(Shown):
    """The resources that results used, by the names of `ResultStatisticsShown`."""

    cpu_seconds = serializers.FloatField(
        source="resources.cpu_seconds",
        help_text="Processor time of all results that were not purged.",
    )
    elapsed_seconds = serializers.FloatField(
        source="resources.elapsed_seconds",
        help_text="Run time of all results that were not purged.",
    )
    mean_elapsed_seconds = serializers.FloatField(
        source="resources.mean_elapsed_seconds",
        allow_null=True,
        help_text="Mean run time of the successes that were not purged.",
    )
    max_elapsed_seconds = serializers.FloatField(
        source="resources.max_elapsed_seconds",
        allow_null=True,
        help_text="Longest run time of a success that was not purged.",
    )
    peak_memory_bytes = serializers.FloatField(
        source="resources.peak_memory_bytes",
        allow_null=True,
        help_text="The largest memory that a host reported for a result that was not purged.",
    )


class ResultStatisticsShown(Shown):
    """Figures of results; means and maxima are null if no result has the value."""

    results = serializers.IntegerField()
    sent = serializers.IntegerField()
    in_progress = serializers.IntegerField()
    successes = serializers.IntegerField()
    errors = serializers.IntegerField()  # type: ignore[assignment]  # a field
    timeouts = serializers.IntegerField()
    cpu_seconds = serializers.FloatField()
    elapsed_seconds = serializers.FloatField()
    mean_elapsed_seconds = serializers.FloatField(
        allow_null=True, help_text="Mean run time of the successes."
    )
    max_elapsed_seconds = serializers.FloatField(
        allow_null=True, help_text="Longest run time of a success."
    )
    mean_wait_seconds = serializers.FloatField(
        allow_null=True, help_text="Mean time from the creation of a result until it was sent."
    )
    mean_turnaround_seconds = serializers.FloatField(
        allow_null=True, help_text="Mean time from sending a result until its report."
    )
    peak_memory_bytes = serializers.FloatField(
        allow_null=True, help_text="The largest memory that a host reported."
    )
