"""Decides whether an ended program has finished, has failed or must restart."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from volunteer.records import (
    ClientState,
    HeldFile,
    HeldResult,
    Presence,
    Project,
    Verdict,
    file_names,
)

if TYPE_CHECKING:
    from volunteer.events import Output, ProcessExited

# Signals that programs get when a computer shuts down, not because of their own faults:
# HUP, INT, QUIT, KILL, TERM.
_SHUTDOWN_SIGNALS = frozenset({1, 2, 3, 9, 15})

_SIGKILL = 9
_SIGNALED = 128

DOWNLOAD_FAILURE = -186
UPLOAD_FAILURE = -187
COULD_NOT_START = -185
TOO_MANY_EXITS = -226
DISK_LIMIT = 196
TIME_LIMIT = 197
NOT_STARTED_BY_DEADLINE = 200
ABORTED_BY_PROJECT = 202


@dataclass(frozen=True, slots=True)
class Restart:
    """The program must be started again in the same slot after `delay_seconds`."""

    delay_seconds: float = 0.0


def judge_exit(
    event: ProcessExited, held_result: HeldResult, project: Project, max_restarts: int
) -> Verdict | Restart:
    """Return the verdict on an ended program (PROTOCOL 5.2), or Restart if it must run again.

    Unlike in BOINC, exit 0 without the file `boinc_finish_called` counts as finished, so that any
    program runs unchanged. A program with BOINC's library is restarted in this case, because the
    library also exits with 0 when it loses the client. A verdict that is already stored is kept.
    """
    if held_result.verdict is not None:
        return held_result.verdict
    ended_early = event.is_unfinished and not event.code and not event.signal
    if event.temporary_exit is not None or event.signal in _SHUTDOWN_SIGNALS or ended_early:
        if held_result.restarts >= max_restarts:
            return Verdict(ClientState.COMPUTE_ERROR, TOO_MANY_EXITS, "too many exit(0)s")
        return Restart(event.temporary_exit or 0.0)
    if event.signal:
        message = f"process got signal {event.signal}"
        return Verdict(ClientState.COMPUTE_ERROR, event.signal, message)
    if code := event.code:
        message = f"process exited with code {code} (0x{code:x}, {code - 256})"
        return Verdict(ClientState.COMPUTE_ERROR, code, message)
    return _judge_outputs(event.outputs, held_result, project)


def with_terminated_status(verdict: Verdict, event: ProcessExited) -> Verdict:
    """Return the verdict with the exit status of a program that the project aborted.

    A program that ended by a signal has the status 128 + signal, as in a shell. A program that was
    killed, because it ignored SIGTERM, has none.
    """
    was_aborted = (verdict.client_state, verdict.exit_status) == (
        ClientState.ABORTED,
        ABORTED_BY_PROJECT,
    )
    if not was_aborted or event.signal == _SIGKILL:
        return verdict
    status = _SIGNALED + event.signal if event.signal else event.code
    return replace(verdict, terminated_status=status)


def _judge_outputs(
    outputs: tuple[Output, ...], held_result: HeldResult, project: Project
) -> Verdict:
    """Return the verdict on the outputs after exit 0.

    For a missing or too large output, the exit status is 0 and the state COMPUTE_ERROR, as in
    BOINC.
    """
    optional = {ref.file_name for ref in held_result.offer.file_refs if ref.optional}
    errors = ""
    for output in outputs:
        max_nbytes = project.files[output.name].info.max_nbytes
        if output.nbytes < 0 and output.name not in optional:
            errors += file_error(output.name, "-161 (not found)", output.fault)
        elif max_nbytes and output.nbytes > max_nbytes:
            errors += file_error(output.name, "-131 (file size too big)")
    if errors:
        return Verdict(ClientState.COMPUTE_ERROR, 0, f"upload failure: {errors}")
    return Verdict(ClientState.UPLOADED, 0)


def can_be_sent(output: Output, file: HeldFile) -> bool:
    """Return whether an output exists, is within its size limit and has an address."""
    max_nbytes = file.info.max_nbytes
    is_too_large = bool(max_nbytes) and output.nbytes > max_nbytes
    return output.nbytes >= 0 and not is_too_large and bool(file.info.upload_urls)


def ready_to_send(output: Output, file: HeldFile) -> HeldFile:
    """Return the stored file of an output in the state in which it can be uploaded."""
    return replace(
        file,
        presence=Presence.PRESENT,
        nbytes=output.nbytes,
        md5=output.md5,
        failures=0,
        retry_at=0.0,
    )


def download_verdict(held_result: HeldResult, project: Project) -> Verdict | None:
    """Return the verdict on a result with a failed download, or None if no download has failed."""
    failed = [
        file
        for ref in project.inputs_of(held_result)
        if (file := project.files.get(ref.file_name)) and file.error_code
    ]
    if not failed:
        return None
    program_names = set(file_names([project.version_of(held_result)]))
    kind = "app_version" if failed[0].info.name in program_names else "WU"
    errors = _file_errors(failed)
    message = f"{kind} download error: couldn't get input files:\n{errors}"
    return Verdict(ClientState.DOWNLOADING, DOWNLOAD_FAILURE, message)


def upload_verdict(failed: list[HeldFile], verdict: Verdict) -> Verdict:
    """Return the verdict on a result whose outputs the project refused permanently."""
    message = f"{verdict.message}upload failure: {_file_errors(failed)}"
    if verdict.client_state != ClientState.UPLOADED:
        return Verdict(verdict.client_state, verdict.exit_status, message)
    return Verdict(ClientState.UPLOAD_FAILED, UPLOAD_FAILURE, message)


def _file_errors(failed: list[HeldFile]) -> str:
    return "".join(
        file_error(file.info.name, file.error_code, file.error_message) for file in failed
    )


def file_error(name: str, code: str, message: str = "") -> str:
    """Return a file's error in the format of BOINC's client, which projects' tools parse."""
    message_xml = f"  <error_message>{message}</error_message>\n" if message else ""
    return (
        f"<file_xfer_error>\n  <file_name>{name}</file_name>\n"
        f"  <error_code>{code}</error_code>\n{message_xml}</file_xfer_error>\n"
    )
