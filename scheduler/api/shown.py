"""Serializers of batches, workunits and results in responses."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime, timedelta
from types import SimpleNamespace
from typing import TYPE_CHECKING

from rest_framework import serializers

from scheduler.api.http.body import Duration, JsonObject, Shown
from scheduler.health.rules.standstill_causes import MAX_EXAMINED, Cause
from scheduler.lifecycle import Axis, ResultState, ValidateState, state_label
from scheduler.models import Batch
from scheduler.work import answers
from scheduler.work.rules.statuses import Status, error_words

if TYPE_CHECKING:
    from scheduler.models import Result, ResultFile, Workunit
    from scheduler.work.progress import Cost, Progress

#: The states of a batch, by their names in the API.
BATCH_STATES = {state.name.lower(): state.value for state in Batch.State}
#: The states of a result, by their names in the API.
RESULT_STATES = {state_label(Axis.RESULT, state.value): state for state in ResultState}
_VALIDATE_STATES = [state.name for state in ValidateState]


class ProgressShown(Shown):
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
        help_text="Estimate from the current rate. Null if the rate is unknown; the batch's "
        "`troubles` contain the reasons.",
    )

    def read_state(self, _progress: Progress) -> str:
        return batch_state(self.context["batch"])


class LastErrorShown(Shown):
    """The most recent failed result."""

    result = serializers.CharField()
    exit_status = serializers.IntegerField()
    host = serializers.CharField()
    at = serializers.DateTimeField(allow_null=True)
    stderr_tail = serializers.ListField(child=serializers.CharField(), source="tail")


class WaitShown(Shown):
    """A reason why unfinished workunits make no progress."""

    cause = serializers.ChoiceField(choices=[cause.value for cause in Cause])
    workunits = serializers.IntegerField(
        help_text=f"Number of affected workunits. {MAX_EXAMINED} means {MAX_EXAMINED} or more."
    )
    sentence = serializers.CharField(
        help_text="A sentence with the cause and the number of workunits."
    )


class TroublesShown(Shown):
    """Errors of a batch, and the reasons why its unfinished workunits make no progress."""

    last_error = LastErrorShown(allow_null=True)
    parked = serializers.IntegerField(
        help_text="Number of workunits whose validation or assimilation stopped after repeated "
        "failures."
    )
    sentences = serializers.ListField(
        child=serializers.CharField(),
        help_text="Sentences with the last error and the number of parked workunits.",
    )
    waits = WaitShown(
        many=True, help_text="The reasons. The list is empty if nothing blocks the work."
    )

    def read_waits(self, _troubles: object) -> object:
        return self.context["waits"]


class CostShown(Shown):
    """Computing time and credit of the results that were sent."""

    results = serializers.IntegerField()
    cpu_seconds = serializers.FloatField()
    elapsed_seconds = serializers.FloatField()
    credit = serializers.FloatField()


class BatchShown(Shown):
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
        source="after_id", allow_null=True, help_text="Id of the batch that must finish first."
    )
    after_any = serializers.BooleanField()
    accelerate = serializers.BooleanField()
    accelerate_tail = serializers.BooleanField()
    priority = serializers.IntegerField(allow_null=True)
    keep_outputs = serializers.BooleanField()
    bundle_size = serializers.IntegerField(
        allow_null=True, help_text="Maximum number of workunits of each task list."
    )
    bundle_duration_seconds = Duration(source="bundle_duration", allow_null=True)
    meta = JsonObject()
    progress = ProgressShown()
    cost = CostShown()
    est_completion_at = serializers.DateTimeField(allow_null=True)

    def read_app(self, batch: Batch) -> str | None:
        return batch.app.name if batch.app else None

    def read_state(self, batch: Batch) -> str:
        return batch_state(batch)

    def read_progress(self, batch: Batch) -> Progress:
        progress: Progress = self.context["progress"][batch.pk]
        return progress

    def read_cost(self, batch: Batch) -> Cost:
        cost: Cost = self.context["costs"][batch.pk]
        return cost

    def read_est_completion_at(self, batch: Batch) -> datetime | None:
        if batch.completed_at is not None:
            return batch.completed_at
        left = self.read_progress(batch).seconds_left
        now: datetime = self.context["now"]
        return now + timedelta(seconds=min(left, 1e9)) if left else None


class InputShown(Shown):
    """An input file."""

    open_name = serializers.CharField()
    name = serializers.CharField(
        source="file.name", help_text="The physical name. The content of the file never changes."
    )
    nbytes = serializers.IntegerField(source="file.nbytes")
    sha256 = serializers.CharField(source="file.sha256")


class OutputAsked(Shown):
    """An output file that each result must have, unless `optional` is true."""

    open_name = serializers.CharField()
    max_nbytes = serializers.IntegerField()
    optional = serializers.BooleanField()


class OutputShown(Shown):
    """An uploaded output file."""

    position = serializers.IntegerField()
    open_name = serializers.CharField()
    name = serializers.CharField()
    nbytes = serializers.IntegerField()
    sha256 = serializers.CharField()

    def read_open_name(self, file: ResultFile) -> str:
        return answers.open_name(file.result.workunit.outputs, file.position)


class _StatesShown(Shown):
    def read_state(self, result: Result) -> str:
        return state_label(Axis.RESULT, 10 * result.server_state + result.outcome)

    def read_validate_state(self, result: Result) -> str:
        return ValidateState(result.validate_state).name


class ResultBrief(_StatesShown):
    """A result in the list of its workunit."""

    id = serializers.IntegerField()
    name = serializers.CharField()
    state = serializers.ChoiceField(choices=list(RESULT_STATES))
    validate_state = serializers.ChoiceField(choices=_VALIDATE_STATES)
    host = serializers.IntegerField(source="host_id", allow_null=True)


class WorkunitBrief(Shown):
    """A workunit in a list."""

    id = serializers.IntegerField()
    name = serializers.CharField()
    app = serializers.CharField(source="app.name")
    batch = serializers.IntegerField(source="batch_id", allow_null=True)
    status = serializers.ChoiceField(choices=[status.value for status in Status])
    errors = serializers.ListField(child=serializers.CharField())  # type: ignore[assignment]  # a field
    created_at = serializers.DateTimeField()
    finished_at = serializers.DateTimeField(allow_null=True)
    canonical_result = serializers.IntegerField(source="canonical_result_id", allow_null=True)
    credit = serializers.FloatField(source="canonical_credit")
    priority = serializers.IntegerField()
    hold_code = serializers.IntegerField(
        allow_null=True, help_text="The code of a held workunit; null if it has none."
    )
    command_line = serializers.CharField()
    meta = JsonObject()

    def read_errors(self, workunit: Workunit) -> list[str]:
        return error_words(workunit.error_mask)

    def read_canonical_result(self, workunit: Workunit) -> int | None:
        return workunit.canonical_result_id or None


class WorkunitShown(WorkunitBrief):
    """A workunit with its parameters, input files, output files and results."""

    modified_at = serializers.DateTimeField(
        allow_null=True,
        help_text="When a state of the workunit or of one of its results changed last; null if the "
        "ledger has no state changes of it.",
    )
    cancel_reason = serializers.CharField()
    input_files = InputShown(many=True)
    outputs = OutputAsked(many=True)
    results = ResultBrief(many=True)
    rsc_fpops_est = serializers.FloatField()
    rsc_fpops_bound = serializers.FloatField()
    rsc_memory_bound = serializers.FloatField()
    rsc_disk_bound = serializers.FloatField()
    rsc_bandwidth_bound = serializers.FloatField()
    requested_cpus = serializers.FloatField(
        help_text="CPUs that each result uses; 0: those of its app version."
    )
    requested_gpus = serializers.FloatField(
        help_text="GPUs that each result uses; 0: those of its app version."
    )
    delay_bound_seconds = Duration(source="delay_bound")
    expected_duration_seconds = Duration(source="expected_duration", allow_null=True)
    bundle = serializers.IntegerField(
        source="bundle_id",
        allow_null=True,
        help_text="Id of the task list. 0 while the workunit waits for one; null if its results "
        "are sent singly.",
    )
    max_termination_time = Duration(
        allow_null=True,
        help_text="Seconds that a cancelled program gets to end after SIGTERM; null: the app's.",
    )
    min_quorum = serializers.IntegerField()
    target_nresults = serializers.IntegerField()
    max_error_results = serializers.IntegerField(
        help_text="The workunit fails when it has more errors than this."
    )
    max_total_results = serializers.IntegerField()
    max_success_results = serializers.IntegerField()
    max_timeouts = serializers.IntegerField(allow_null=True)
    group = serializers.BooleanField(
        source="is_group",
        help_text="Whether the workunit has no command, and is done when the workunits in `after` "
        "are done.",
    )
    after = serializers.ListField(
        child=serializers.IntegerField(),
        source="parent_ids",
        help_text="Ids of the workunits that must have an answer before this one is sent.",
    )
    continuations = serializers.ListField(
        child=serializers.IntegerField(),
        source="child_ids",
        help_text="Ids of the workunits that wait for this one.",
    )
    pending_dependency_count = serializers.IntegerField(
        help_text="Number of workunits and batches for which this workunit still waits."
    )
    start_after = serializers.DateTimeField(allow_null=True)
    start_before = serializers.DateTimeField(allow_null=True)
    end_before = serializers.DateTimeField(allow_null=True)
    queue = serializers.CharField(
        allow_null=True, help_text="The name of the queue that sends its results, or null."
    )

    def read_queue(self, workunit: Workunit) -> str | None:
        return None if workunit.queue is None else workunit.queue.name

    def read_input_files(self, workunit: Workunit) -> Iterable[object]:
        """Return the input files, or their descriptions in `past_inputs` once they are deleted."""
        if workunit.past_inputs is None:
            return workunit.input_files.all()
        return [
            {"open_name": past["open_name"], "file": SimpleNamespace(**past)}
            for past in workunit.past_inputs
        ]

    def read_outputs(self, workunit: Workunit) -> Iterable[object]:
        missing = {"open_name": "", "max_nbytes": 0, "optional": False}
        return [missing | output for output in workunit.outputs]


class ResultShown(_StatesShown):
    """A result: one computer's attempt at a workunit."""

    id = serializers.IntegerField()
    name = serializers.CharField()
    workunit = serializers.IntegerField(source="workunit_id")
    attempt = serializers.IntegerField()
    state = serializers.ChoiceField(choices=list(RESULT_STATES))
    validate_state = serializers.ChoiceField(choices=_VALIDATE_STATES)
    host = serializers.IntegerField(source="host_id", allow_null=True)
    app_version = serializers.IntegerField(source="app_version_id", allow_null=True)
    created_at = serializers.DateTimeField()
    sent_at = serializers.DateTimeField(allow_null=True)
    report_deadline = serializers.DateTimeField(allow_null=True)
    received_at = serializers.DateTimeField(allow_null=True)
    fraction_done = serializers.FloatField()
    exit_status = serializers.IntegerField()
    app_status = serializers.IntegerField(
        allow_null=True,
        help_text="The positive status that the program reported, for apps with the success rule "
        "`runner`: 1 is success, 2 is failure, the others are the app's own.",
    )
    cpu_seconds = serializers.FloatField(source="cpu_time")
    elapsed_seconds = serializers.FloatField(source="elapsed_time")
    credit = serializers.FloatField(source="granted_credit")
    outputs = OutputShown(many=True, source="output_files")


class ResultWithStderr(ResultShown):
    """A result with the standard output and standard error output of its program."""

    stderr = serializers.CharField()
    stdout = serializers.CharField(
        allow_null=True,
        help_text="The standard output that the program reported, for apps with the success rule "
        "`runner`; null if it is stored in a file.",
    )
    stdio = serializers.ChoiceField(
        choices=["inline", "file"],
        allow_null=True,
        help_text="Where the reported standard output is: in `stdout`, or in the first output "
        "file. Null for other apps.",
    )

    def read_stdio(self, result: Result) -> str | None:
        if result.app_status is None:
            return None
        return "file" if result.stdout is None else "inline"


class StepShown(Shown):
    """A state change of a workunit or a result."""

    at = serializers.DateTimeField()
    subject = serializers.CharField(help_text="The workunit or result whose state changed.")
    axis = serializers.CharField()
    source = serializers.CharField()  # type: ignore[assignment]  # a field
    target = serializers.CharField()
    because = serializers.CharField()
    by = serializers.CharField()


class TimelineShown(Shown):
    """The state changes of a workunit and its results, and reasons for the current state."""

    name = serializers.CharField()
    timeline = StepShown(many=True)
    reasons = serializers.ListField(child=serializers.CharField())
    ledger_is_on = serializers.BooleanField(
        help_text="False if the project does not record state changes."
    )


def batch_state(batch: Batch) -> str:
    """Return the name of a batch's state, in lower case."""
    return Batch.State(batch.state).name.lower()
