"""Builds the replies about batches, workunits and results for BOINC's submitters."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime
from typing import Final

from scheduler.boinc_submission.submission_reads import RemoteBatch, RemoteWorkunit
from scheduler.boinc_submission.wire import replies as wire
from scheduler.boinc_submission.wire.replies import Field
from scheduler.lifecycle import ErrorMask, Outcome, ServerState, ValidateState
from scheduler.models import Result, Workunit

_ERRORS: Final = {
    ErrorMask.COULDNT_SEND: "couldnt_send_result",
    ErrorMask.TOO_MANY_ERROR_RESULTS: "too_many_error_results",
    ErrorMask.TOO_MANY_SUCCESS_RESULTS: "too_many_success_results",
    ErrorMask.TOO_MANY_TOTAL_RESULTS: "too_many_total_results",
    ErrorMask.CANCELLED: "cancelled",
    ErrorMask.NO_CANONICAL_RESULT: "no_canonical_result",
}
_VALIDATED: Final = {
    ValidateState.INIT: "Completed, waiting for validation",
    ValidateState.VALID: "Completed and validated",
    ValidateState.INVALID: "Completed, marked as invalid",
    ValidateState.NO_CHECK: "Completed, can't validate",
    ValidateState.INCONCLUSIVE: "Completed, validation inconclusive",
    ValidateState.TOO_LATE: "Completed, too late to validate",
}
_SERVER: Final = {
    ServerState.INACTIVE: "Inactive",
    ServerState.UNSENT: "Unsent",
    ServerState.IN_PROGRESS: "In progress",
}
_OVER: Final = {
    Outcome.COULDNT_SEND: "Couldn't send",
    Outcome.NO_REPLY: "Timed out - no response",
    Outcome.DIDNT_NEED: "Didn't need",
    Outcome.VALIDATE_ERROR: "Validate error",
    Outcome.CLIENT_DETACHED: "Abandoned",
}
#: The texts for client errors, by the client's state of the result (PROTOCOL 0.3).
_FAILED: Final = {
    1: "Error while downloading",
    2: "Error while computing",
    3: "Error while computing",
    4: "Error while uploading",
    6: "Aborted",
    7: "Upload failed",
}
_CANCELLED: Final = (-221, 202)
_NOT_STARTED: Final = (-233, 200)


def batch_fields(batch: RemoteBatch, *, with_cpu_time: bool, now: datetime) -> list[Field]:
    """Return the fields of a batch in BOINC's order; times are Unix times, or 0 if unknown."""
    fields: list[Field] = [
        ("id", batch.id),
        ("create_time", _unix(batch.created_at)),
        ("expire_time", _unix(batch.expire_at)),
        ("est_completion_time", _unix(batch.expected_at(now))),
        ("njobs", batch.total),
        ("fraction_done", batch.fraction_done),
        ("nerror_jobs", batch.failed),
        ("state", batch.visible_state),
        ("completion_time", _unix(batch.ended_at(now))),
        ("credit_estimate", batch.credit_estimate),
        ("credit_canonical", batch.credit),
        ("name", batch.name),
        ("app_name", batch.app_name or "none"),
    ]
    return fields + ([("total_cpu_time", batch.cpu_time)] if with_cpu_time else [])


def job(workunit: RemoteWorkunit, *, details: bool) -> str:
    """Return the `<job>` element of a workunit; `details` adds errors, CPU time and status."""
    fields: list[Field] = [
        ("id", workunit.id),
        ("name", workunit.name),
        ("canonical_instance_id", workunit.canonical_result_id or 0),
    ]
    return wire.element("job", fields + (list(_details(workunit)) if details else []), "    ")


def _details(workunit: RemoteWorkunit) -> Iterable[Field]:
    for bit, word in _ERRORS.items():
        if workunit.error_mask & bit:
            yield "error", word
    if workunit.error_mask:
        for exit_status in workunit.exit_statuses:
            yield "exit_status", exit_status
    if workunit.canonical_result_id is not None:
        yield "cpu_time", workunit.cpu_time or 0.0
    yield "status", _status(workunit)


def _status(workunit: RemoteWorkunit) -> str:
    if workunit.error_mask:
        return "error"
    if workunit.canonical_result_id is not None:
        return "done"
    return "in_progress" if workunit.in_progress else "queued"


def condor_job(workunit: RemoteWorkunit) -> str:
    """Return the `<job>` element of a workunit in the format of HTCondor's bridge to BOINC."""
    if workunit.canonical_result_id is not None:
        status = "DONE"
    elif workunit.error_mask:
        status = "ERROR"
    else:
        status = "IN_PROGRESS" if workunit.sent else "UNSENT"
    return wire.element("job", [("job_name", workunit.name), ("status", status)], "    ")


def instance(result: Result) -> str:
    """Return the `<instance>` element of a result, with the output files if it is over."""
    files = "".join(
        wire.element("outfile", [("size", file.nbytes)], "        ")
        for file in sorted(result.output_files.all(), key=lambda file: file.position)
        if result.server_state == ServerState.OVER
    )
    fields: list[Field] = [("name", result.name), ("id", result.pk), ("state", state_words(result))]
    return wire.element("instance", fields, "    ", files)


def completed_job(workunit: Workunit, result: Result | None) -> str:
    """Return the `<completed_job>` element of a workunit, with the fields of `result`."""
    fields: list[Field] = [("error_mask", workunit.error_mask)]
    if result is None:
        return wire.element("completed_job", fields)
    is_answer = result.pk == workunit.canonical_result_id
    fields += [
        ("canonical_resultid" if is_answer else "error_resultid", result.pk),
        ("exit_status", result.exit_status),
        ("elapsed_time", float(result.elapsed_time)),
        ("cpu_time", float(result.cpu_time)),
    ]
    return wire.element(
        "completed_job", fields, inside=wire.cdata("stderr_out", result.stderr, "    ")
    )


def state_words(result: Result) -> str:
    """Return the state of a result, worded as on BOINC's pages."""
    state = ServerState(result.server_state)
    if state is not ServerState.OVER:
        return _SERVER[state]
    outcome = Outcome(result.outcome)
    if outcome is Outcome.SUCCESS:
        return _VALIDATED[ValidateState(result.validate_state)]
    if outcome is not Outcome.CLIENT_ERROR:
        return _OVER.get(outcome, "Unknown")
    if result.exit_status in _CANCELLED:
        return "Cancelled by server"
    if result.exit_status in _NOT_STARTED:
        return "Not started by deadline - canceled"
    return _FAILED.get(result.client_state, "Error")


def _unix(moment: datetime | None) -> int:
    return 0 if moment is None else int(moment.timestamp())
