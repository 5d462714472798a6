"""Puts rows into the words of the API."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

from scheduler.lifecycle import Axis, ValidateState, state_label
from scheduler.work.answers import open_name
from scheduler.work.progress import Cost, Progress
from scheduler.work.rules.statuses import Status, error_words

if TYPE_CHECKING:
    from scheduler.models import Batch, Result, Workunit
    from scheduler.work.cancel import Outcome

_AS_IT_IS = (
    "id",
    "name",
    "created_at",
    "expire_at",
    "completed_at",
    "retired_at",
    "after_any",
    "accelerate",
    "accelerate_tail",
    "priority",
    "keep_outputs",
    "meta",
)
_NUMBERS = (
    "rsc_fpops_est",
    "rsc_fpops_bound",
    "rsc_memory_bound",
    "rsc_disk_bound",
    "rsc_bandwidth_bound",
    "min_quorum",
    "target_nresults",
    "max_error_results",
    "max_total_results",
    "max_success_results",
    "max_timeouts",
    "start_after",
    "start_before",
    "end_before",
    "cancel_reason",
)


def batch_words(batch: Batch) -> str:
    """The state of a batch in a word."""
    return type(batch).State(batch.state).name.lower()


def batch(one: Batch, found: Progress, cost: Cost, *, now: datetime) -> dict[str, Any]:
    """A batch with its figures."""
    left = found.seconds_left
    end = now + timedelta(seconds=min(left, 1e9)) if left else None
    return {name: getattr(one, name) for name in _AS_IT_IS} | {
        "app": one.app.name if one.app else None,
        "submitter": str(one.submitter),
        "state": batch_words(one),
        "after": one.after_id,
        "progress": found,
        "cost": cost,
        "est_completion_at": one.completed_at or end,
    }


def progress(one: Batch, found: Progress) -> dict[str, Any]:
    """How far a batch is, and how quickly it goes on."""
    return {
        "state": batch_words(one),
        "total": found.total,
        **{status.value: getattr(found, status.value) for status in Status},
        "fraction_done": found.fraction_done,
        "rate_per_second": found.rate_per_second,
        "seconds_left": found.seconds_left,
    }


def cancelled(done: Outcome) -> dict[str, int]:
    """What became of workunits that were to be cancelled."""
    return {"cancelled": done.changed, "already": done.already, "finished": done.finished}


def workunit(one: Workunit) -> dict[str, Any]:
    """A workunit for a list; it was read with its `status`."""
    return {
        "id": one.pk,
        "name": one.name,
        "app": one.app.name,
        "batch": one.batch_id,
        "status": one.status,  # type: ignore[attr-defined]  # annotated
        "errors": error_words(one.error_mask),
        "created_at": one.created_at,
        "finished_at": one.finished_at,
        "canonical_result": one.canonical_result_id,
        "credit": one.canonical_credit,
        "priority": one.priority,
        "command_line": one.command_line,
        "meta": one.meta,
    }


def whole_workunit(one: Workunit) -> dict[str, Any]:
    """A workunit with all that is in it."""
    return (
        workunit(one)
        | {name: getattr(one, name) for name in _NUMBERS}
        | {
            "delay_bound_seconds": one.delay_bound.total_seconds(),
            "input_files": inputs(one),
            "outputs": [
                {
                    "open_name": output.get("open_name", ""),
                    "max_nbytes": output.get("max_nbytes", 0),
                    "optional": output.get("optional", False),
                }
                for output in one.outputs
            ],
            "results": [
                {
                    "id": result.pk,
                    "name": result.name,
                    "state": result_words(result),
                    "validate_state": ValidateState(result.validate_state).name,
                    "host": result.host_id,
                }
                for result in one.results.all()
            ],
        }
    )


def inputs(one: Workunit) -> list[dict[str, Any]]:
    """Its input files; of those that were let go, what was written down."""
    if one.past_inputs is not None:
        return [
            {
                "open_name": past.get("open_name", ""),
                "name": past.get("name", ""),
                "nbytes": past.get("nbytes", 0),
                "sha256": past.get("sha256", ""),
            }
            for past in one.past_inputs
        ]
    return [
        {
            "open_name": each.open_name,
            "name": each.file.name,
            "nbytes": each.file.nbytes,
            "sha256": each.file.sha256,
        }
        for each in one.input_files.all()
    ]


def result_words(one: Result) -> str:
    """The state of a result in the law's words."""
    return state_label(Axis.RESULT, 10 * one.server_state + one.outcome)


def result(one: Result) -> dict[str, Any]:
    """A result, with its outputs."""
    asked = one.workunit.outputs
    return {
        "id": one.pk,
        "name": one.name,
        "workunit": one.workunit_id,
        "attempt": one.attempt,
        "state": result_words(one),
        "validate_state": ValidateState(one.validate_state).name,
        "host": one.host_id,
        "app_version": one.app_version_id,
        "created_at": one.created_at,
        "sent_at": one.sent_at,
        "report_deadline": one.report_deadline,
        "received_at": one.received_at,
        "fraction_done": one.fraction_done,
        "exit_status": one.exit_status,
        "cpu_seconds": one.cpu_time,
        "elapsed_seconds": one.elapsed_time,
        "credit": one.granted_credit,
        "outputs": [
            {
                "position": file.position,
                "open_name": open_name(asked, file.position),
                "name": file.name,
                "nbytes": file.nbytes,
                "sha256": file.sha256,
            }
            for file in one.output_files.all()
        ],
    }
