"""How a run ended: what the project is told of it, or that it runs again [pure]."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from volunteer.records import ClientState, HeldFile, HeldResult, Project, Verdict

if TYPE_CHECKING:
    from volunteer.events import Output, ProcessExited

# Signals that a computer sends when it shuts down, not ones that a faulty program earns:
# HUP, INT, QUIT, KILL, TERM.
_GENTLE_SIGNALS = frozenset({1, 2, 3, 9, 15})

DOWNLOAD_FAILURE = -186
UPLOAD_FAILURE = -187
COULD_NOT_START = -185
TOO_MANY_EXITS = -226
DISK_LIMIT = 196
TIME_LIMIT = 197
NOT_STARTED_BY_DEADLINE = 200
ABORTED_BY_PROJECT = 202


@dataclass(frozen=True, slots=True)
class Again:
    """The run shall be repeated in the same slot, not before so many seconds."""

    after: float = 0.0


def judge_exit(
    event: ProcessExited, held: HeldResult, project: Project, restarts_at_most: int
) -> Verdict | Again:
    """Judge the end of a program by PROTOCOL 5.2.

    One thing is milder than in BOINC: exit 0 without the file `boinc_finish_called` counts as
    finished, so that any program of a lab can run unchanged. A program with BOINC's library is
    started again, as in BOINC: the library also exits with 0 when it misses the client.
    """
    if held.verdict is not None:
        return held.verdict
    ended_early = event.is_unfinished and not event.code and not event.signal
    if event.temporary_exit is not None or event.signal in _GENTLE_SIGNALS or ended_early:
        if held.restarts >= restarts_at_most:
            return Verdict(ClientState.COMPUTE_ERROR, TOO_MANY_EXITS, "too many exit(0)s")
        return Again(event.temporary_exit or 0.0)
    if event.signal:
        message = f"process got signal {event.signal}"
        return Verdict(ClientState.COMPUTE_ERROR, event.signal, message)
    if event.code:
        code = event.code
        message = f"process exited with code {code} (0x{code:x}, {code - 256})"
        return Verdict(ClientState.COMPUTE_ERROR, code, message)
    return _judge_outputs(event.outputs, held, project)


def _judge_outputs(outputs: tuple[Output, ...], held: HeldResult, project: Project) -> Verdict:
    """Judge what a successful program left: exit status 0 with state 3 is BOINC's own way."""
    optional = {ref.file_name for ref in held.offer.file_refs if ref.optional}
    errors = ""
    for output in outputs:
        most = project.files[output.name].info.max_nbytes
        if output.nbytes < 0 and output.name not in optional:
            errors += file_error(output.name, "-161 (not found)", output.fault)
        elif most and output.nbytes > most:
            errors += file_error(output.name, "-131 (file size too big)")
    if errors:
        return Verdict(ClientState.COMPUTE_ERROR, 0, f"upload failure: {errors}")
    return Verdict(ClientState.UPLOADED, 0)


def download_verdict(held: HeldResult, project: Project) -> Verdict | None:
    """Judge a result whose files cannot be had; None while they still can."""
    failed = [
        file
        for ref in project.inputs_of(held)
        if (file := project.files.get(ref.file_name)) and file.error_code
    ]
    if not failed:
        return None
    version_names = {ref.file_name for ref in project.version_of(held).file_refs}
    kind = "app_version" if failed[0].info.name in version_names else "WU"
    errors = "".join(
        file_error(file.info.name, file.error_code, file.error_message) for file in failed
    )
    message = f"{kind} download error: couldn't get input files:\n{errors}"
    return Verdict(ClientState.DOWNLOADING, DOWNLOAD_FAILURE, message)


def upload_verdict(failed: list[HeldFile], verdict: Verdict) -> Verdict:
    """Judge a result whose outputs the project refused for good."""
    errors = "".join(
        file_error(file.info.name, file.error_code, file.error_message) for file in failed
    )
    message = f"{verdict.message}upload failure: {errors}"
    if verdict.client_state != ClientState.UPLOADED:
        return Verdict(verdict.client_state, verdict.exit_status, message)
    return Verdict(ClientState.UPLOAD_FAILED, UPLOAD_FAILURE, message)


def file_error(name: str, code: str, message: str = "") -> str:
    """Write a file's error as BOINC's client does; projects' tools search for it."""
    told = f"  <error_message>{message}</error_message>\n" if message else ""
    return (
        f"<file_xfer_error>\n  <file_name>{name}</file_name>\n"
        f"  <error_code>{code}</error_code>\n{told}</file_xfer_error>\n"
    )
