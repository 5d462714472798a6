"""Converts rows to the fields of the API's responses."""

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

_BATCH_COLUMNS = (
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
_WORKUNIT_COLUMNS = (
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


def batch_state(batch: Batch) -> str:
    """Return the name of a batch's state, in lower case."""
    return type(batch).State(batch.state).name.lower()


def batch(row: Batch, progress: Progress, cost: Cost, *, now: datetime) -> dict[str, Any]:
    """Return the fields of `BatchShown`."""
    left = progress.seconds_left
    end = now + timedelta(seconds=min(left, 1e9)) if left else None
    return {name: getattr(row, name) for name in _BATCH_COLUMNS} | {
        "app": row.app.name if row.app else None,
        "submitter": str(row.submitter),
        "state": batch_state(row),
        "after": row.after_id,
        "progress": progress,
        "cost": cost,
        "est_completion_at": row.completed_at or end,
    }


def progress(row: Batch, figures: Progress) -> dict[str, Any]:
    """Return the fields of `ProgressNow`."""
    return {
        "state": batch_state(row),
        "total": figures.total,
        **{status.value: getattr(figures, status.value) for status in Status},
        "fraction_done": figures.fraction_done,
        "rate_per_second": figures.rate_per_second,
        "seconds_left": figures.seconds_left,
    }


def cancelled(outcome: Outcome) -> dict[str, int]:
    """Return the fields of `Cancelled`."""
    return {
        "cancelled": outcome.changed,
        "already": outcome.already,
        "finished": outcome.finished,
    }


def workunit(row: Workunit) -> dict[str, Any]:
    """Return the fields of `WorkunitBrief`; the row must be annotated with `status`."""
    return {
        "id": row.pk,
        "name": row.name,
        "app": row.app.name,
        "batch": row.batch_id,
        "status": row.status,  # type: ignore[attr-defined]  # annotated
        "errors": error_words(row.error_mask),
        "created_at": row.created_at,
        "finished_at": row.finished_at,
        "canonical_result": row.canonical_result_id,
        "credit": row.canonical_credit,
        "priority": row.priority,
        "command_line": row.command_line,
        "meta": row.meta,
    }


def whole_workunit(row: Workunit) -> dict[str, Any]:
    """Return the fields of `WorkunitShown`."""
    return (
        workunit(row)
        | {name: getattr(row, name) for name in _WORKUNIT_COLUMNS}
        | {
            "delay_bound_seconds": row.delay_bound.total_seconds(),
            "input_files": inputs(row),
            "outputs": [
                {
                    "open_name": output.get("open_name", ""),
                    "max_nbytes": output.get("max_nbytes", 0),
                    "optional": output.get("optional", False),
                }
                for output in row.outputs
            ],
            "results": [
                {
                    "id": result.pk,
                    "name": result.name,
                    "state": result_state(result),
                    "validate_state": ValidateState(result.validate_state).name,
                    "host": result.host_id,
                }
                for result in row.results.all()
            ],
        }
    )


def inputs(row: Workunit) -> list[dict[str, Any]]:
    """Return the input files of a workunit; deleted ones from the record in `past_inputs`."""
    if row.past_inputs is not None:
        return [
            {
                "open_name": past.get("open_name", ""),
                "name": past.get("name", ""),
                "nbytes": past.get("nbytes", 0),
                "sha256": past.get("sha256", ""),
            }
            for past in row.past_inputs
        ]
    return [
        {
            "open_name": each.open_name,
            "name": each.file.name,
            "nbytes": each.file.nbytes,
            "sha256": each.file.sha256,
        }
        for each in row.input_files.all()
    ]


def result_state(row: Result) -> str:
    """Return the state of a result, as `lifecycle` names it."""
    return state_label(Axis.RESULT, 10 * row.server_state + row.outcome)


def result(row: Result) -> dict[str, Any]:
    """Return the fields of `ResultShown`, with the output files."""
    specs = row.workunit.outputs
    return {
        "id": row.pk,
        "name": row.name,
        "workunit": row.workunit_id,
        "attempt": row.attempt,
        "state": result_state(row),
        "validate_state": ValidateState(row.validate_state).name,
        "host": row.host_id,
        "app_version": row.app_version_id,
        "created_at": row.created_at,
        "sent_at": row.sent_at,
        "report_deadline": row.report_deadline,
        "received_at": row.received_at,
        "fraction_done": row.fraction_done,
        "exit_status": row.exit_status,
        "cpu_seconds": row.cpu_time,
        "elapsed_seconds": row.elapsed_time,
        "credit": row.granted_credit,
        "outputs": [
            {
                "position": file.position,
                "open_name": open_name(specs, file.position),
                "name": file.name,
                "nbytes": file.nbytes,
                "sha256": file.sha256,
            }
            for file in row.output_files.all()
        ],
    }
