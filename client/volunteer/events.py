"""Defines the events and commands of the client as frozen dataclasses.

Times are in unix seconds. `chance` is a random number from 0 to 1. The agent draws it, because the
state machine must be deterministic. `project` is always the canonical address of the project.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from volunteer.wire.messages import TERMINATION_SECONDS

if TYPE_CHECKING:
    from volunteer.records import TrickleDown, TrickleUp
    from volunteer.wire.messages import Reply


@dataclass(frozen=True, slots=True)
class Event:
    """Base class of events. `now` is the time of the event."""

    now: float
    chance: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class ProjectEvent(Event):
    """Base class of events of one project."""

    project: str


@dataclass(frozen=True, slots=True, kw_only=True)
class FileEvent(ProjectEvent):
    """Base class of events of one file of a project."""

    name: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ResultEvent(ProjectEvent):
    """Base class of events of one result of a project."""

    result: str


@dataclass(frozen=True, slots=True)
class Tick(Event):
    """The end of a turn, at which the state machine plans the next commands.

    `weekday` (0 is Sunday) and `hour` are local time.
    """

    weekday: int = 0
    hour: float = 12.0
    on_batteries: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Attached(ProjectEvent):
    """The volunteer attached the client to a project.

    `replaces` permits another account for a project that is already attached.
    """

    key: str
    name: str = ""
    scheduler_urls: tuple[str, ...] = ()
    replaces: bool = False


class Detached(ProjectEvent):
    """The volunteer detached the client from a project, whose data must be deleted."""


class UpdateWanted(ProjectEvent):
    """The volunteer requested an immediate contact with the project."""


class SuspendWanted(ProjectEvent):
    """The volunteer suspended a project."""


class ResumeWanted(ProjectEvent):
    """The volunteer resumed a project."""


class RunBegan(ProjectEvent):
    """The client has started and must contact the project as soon as the project allows it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MasterPageRead(ProjectEvent):
    """The master page was read, or could not be read.

    If the page could not be read, `scheduler_urls` is empty and `reason` is the error.
    """

    scheduler_urls: tuple[str, ...] = ()
    reason: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplyReceived(ProjectEvent):
    """A scheduler sent a reply."""

    reply: Reply


@dataclass(frozen=True, slots=True, kw_only=True)
class AbortsReceived(ProjectEvent):
    """The pool cancelled results of this client."""

    names: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkClaimed(ProjectEvent):
    """A result was claimed from the pool; `name` is empty if none could be claimed.

    `reason` is the error if the pool refused.
    """

    name: str = ""
    reason: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestFailed(ProjectEvent):
    """No scheduler sent a valid reply."""

    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class DownloadFinished(FileEvent):
    """A file has been downloaded completely and checked.

    `signed_sha256` is the SHA-256 of a file whose signature was verified. It is empty for a file
    that needs no signature.
    """

    signed_sha256: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class TransferFailed(FileEvent):
    """A download or upload failed. `permanent` is True if a retry cannot succeed."""

    reason: str
    permanent: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class DownloadFailed(TransferFailed):
    """A download failed. `code` is BOINC's error number and text, or empty for other errors."""

    code: str


class FileLost(FileEvent):
    """A downloaded file is missing or has changed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ProcessStarted(ResultEvent):
    """The program of a result was started. `pid_started` is its start time in clock ticks."""

    pid: int
    pid_started: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ProcessNotStarted(ResultEvent):
    """The program of a result could not be started."""

    reason: str


@dataclass(frozen=True, slots=True)
class Output:
    """An output file of a result. `nbytes` is -1 if there is no file that can be sent.

    `fault` is the reason why an existing file cannot be sent, for example that it is a symbolic
    link.
    """

    name: str
    nbytes: int = -1
    md5: str = ""
    fault: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class ProcessExited(ResultEvent):
    """The program of a result ended, with an exit code or by a signal.

    `signal` is 0 for a program that exited with `code`. `temporary_exit` is the delay in seconds
    after which the program must run again, or None. `falsified` is the name of the result if the
    client changed its output, else empty. `is_unfinished` is True if the program uses BOINC's
    library and did not call `boinc_finish`. `cpu_time` is in seconds and `peak_memory` in bytes.
    """

    code: int = 0
    signal: int = 0
    temporary_exit: float | None = None
    outputs: tuple[Output, ...] = ()
    stderr: str = ""
    cpu_time: float = 0.0
    peak_memory: int = 0
    falsified: str = ""
    is_unfinished: bool = False


class ProcessInterrupted(ResultEvent):
    """The program of a result was stopped with the client, or an input for its start is missing.

    The program will run again unless the result has a verdict.
    """


@dataclass(frozen=True, slots=True, kw_only=True)
class SlotMeasured(ResultEvent):
    """The slot of a running result contains `nbytes` bytes."""

    nbytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ProgressReported(ResultEvent):
    """A running program reported its progress. A value that it did not report is None."""

    fraction_done: float | None = None
    cpu_time: float | None = None
    gpu_usage: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class TrickleWritten(ResultEvent):
    """A program wrote a message to its project.

    `fault` is the reason why the message cannot be sent, or empty.
    """

    text: str = ""
    fault: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class UploadRequested(ResultEvent):
    """A program requested the upload of some of its outputs before its end."""

    outputs: tuple[Output, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class TricklesReplicated(ProjectEvent):
    """Copies of trickles were sent to `url`. `reason` is the error if a copy was lost, or empty."""

    url: str
    reason: str = ""


class UploadFinished(FileEvent):
    """An output file was uploaded completely."""


class UploadFailed(TransferFailed):
    """An upload failed."""


@dataclass(frozen=True, slots=True)
class Command:
    """An action that the agent executes."""


@dataclass(frozen=True, slots=True)
class ProjectCommand(Command):
    """An action for a project."""

    project: str


@dataclass(frozen=True, slots=True)
class FileCommand(ProjectCommand):
    """An action for a file of a project."""

    name: str


@dataclass(frozen=True, slots=True)
class ResultCommand(ProjectCommand):
    """An action for a result of a project."""

    result: str


@dataclass(frozen=True, slots=True)
class Print(Command):
    """Print a line for the volunteer."""

    text: str


class ReadMasterPage(ProjectCommand):
    """Fetch the master page of a project."""


@dataclass(frozen=True, slots=True)
class Ask(ProjectCommand):
    """Send a scheduler request to the addresses in order, until a valid reply arrives.

    `work_seconds` is the requested amount of work in seconds. `work_instances` is the number of
    idle processors. `estimated_delay` is the estimated time until a slot becomes free, in seconds.
    """

    urls: tuple[str, ...]
    seqno: int
    work_seconds: float
    work_instances: float
    estimated_delay: float


@dataclass(frozen=True, slots=True)
class ClaimWork(ProjectCommand):
    """Claim a result from the pool that needs at most this many processors and bytes of memory."""

    cpus: float
    memory_bytes: float


@dataclass(frozen=True, slots=True)
class Replicate(ProjectCommand):
    """Send copies of trickles to `url`, an entry of `trickle_up_urls`, without retries."""

    url: str
    seqno: int
    trickles: tuple[TrickleUp, ...]


@dataclass(frozen=True, slots=True)
class Fetch(FileCommand):
    """Download a file and verify it. If `signed` is set, the code-sign key must have signed it."""

    signed: bool


@dataclass(frozen=True, slots=True)
class Run(ResultCommand):
    """Start the program of a result in its slot. If `fresh` is set, the slot is emptied first."""

    slot: int
    fresh: bool


@dataclass(frozen=True, slots=True)
class Kill(ResultCommand):
    """Abort the program of a result.

    If the program still runs `grace_seconds` after SIGTERM, it gets SIGKILL.
    """

    grace_seconds: float = TERMINATION_SECONDS


class Suspend(ResultCommand):
    """Suspend the program of a result."""


class Resume(ResultCommand):
    """Resume a suspended program."""


@dataclass(frozen=True, slots=True)
class Deliver(ResultCommand):
    """Deliver a message of the project to the running program of a result."""

    slot: int
    trickle: TrickleDown


@dataclass(frozen=True, slots=True)
class NotifyUpload(ResultCommand):
    """Notify a running program that an output was uploaded (`status` 0) or refused (negative)."""

    slot: int
    slot_name: str
    status: int


@dataclass(frozen=True, slots=True)
class Upload(FileCommand):
    """Upload an output file.

    If `resume` is set, the size that the server already has is queried first, whatever the size of
    the file.
    """

    resume: bool


class Discard(FileCommand):
    """Delete a file of a project from this computer."""


@dataclass(frozen=True, slots=True)
class ClearSlot(Command):
    """Delete the folder of a slot that is no longer needed."""

    slot: int


class Forget(ProjectCommand):
    """Delete the folder of a detached project."""
