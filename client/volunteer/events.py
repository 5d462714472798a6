"""Events and commands of the client, as frozen dataclasses [pure].

Times are unix seconds; `chance` is a random number from 0 to 1, drawn by the agent, because the
state machine is deterministic. `project` is always the canonical address of the project.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from volunteer.records import TrickleDown, TrickleUp
    from volunteer.wire.messages import Reply


@dataclass(frozen=True, slots=True)
class Event:
    """Base class of events; `now` is the time of the event."""

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
    """The volunteer attached a project; `replaces` permits the change of the account."""

    key: str
    name: str = ""
    scheduler_urls: tuple[str, ...] = ()
    replaces: bool = False


class Detached(ProjectEvent):
    """The volunteer detached a project: all its data is deleted."""


class UpdateWanted(ProjectEvent):
    """The volunteer requested an immediate contact with the project."""


class SuspendWanted(ProjectEvent):
    """The volunteer suspended a project."""


class ResumeWanted(ProjectEvent):
    """The volunteer resumed a project."""


class RunBegan(ProjectEvent):
    """The client starts and must contact the project as soon as the project allows it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MasterPageRead(ProjectEvent):
    """The master page was read, or could not be read.

    Without scheduler addresses, `reason` is the error.
    """

    scheduler_urls: tuple[str, ...] = ()
    reason: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplyReceived(ProjectEvent):
    """A scheduler sent a reply."""

    reply: Reply


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestFailed(ProjectEvent):
    """No scheduler sent a valid reply."""

    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class DownloadFinished(FileEvent):
    """A file has been downloaded completely and checked.

    `signed_sha256` is the SHA-256 of the bytes whose signature verified; empty for other files.
    """

    signed_sha256: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class TransferFailed(FileEvent):
    """A download or upload failed; `permanent` if a retry cannot succeed."""

    reason: str
    permanent: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class DownloadFailed(TransferFailed):
    """A download failed; `code` is BOINC's number and text."""

    code: str


class FileLost(FileEvent):
    """A downloaded file is missing or has changed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ProcessStarted(ResultEvent):
    """The program of a result runs; `pid_started` is its start time in clock ticks."""

    pid: int
    pid_started: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ProcessNotStarted(ResultEvent):
    """The program of a result could not be started."""

    reason: str


@dataclass(frozen=True, slots=True)
class Output:
    """An output file after a run; `nbytes` is -1 if no file can be sent.

    `fault` is the reason why the file is not sent, for example that it is a symbolic link.
    """

    name: str
    nbytes: int = -1
    md5: str = ""
    fault: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class ProcessExited(ResultEvent):
    """The program of a result ended by itself or by a signal of the client.

    `is_unfinished` is true if the program uses BOINC's library and did not call `boinc_finish`.
    `cpu_time` is in seconds, `peak_memory` in bytes.
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
    """The program was stopped because the client stops or was killed. It will run again."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SlotMeasured(ResultEvent):
    """The slot of a running result contains `nbytes` bytes."""

    nbytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ProgressReported(ResultEvent):
    """A running program reported its progress; None for values that it did not report."""

    fraction_done: float | None = None
    cpu_time: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class TrickleWritten(ResultEvent):
    """A program wrote a message to its project; `fault` is why the message cannot be sent."""

    text: str = ""
    fault: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class UploadRequested(ResultEvent):
    """A program requests the upload of outputs before its end."""

    outputs: tuple[Output, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class TricklesReplicated(ProjectEvent):
    """Copies of trickles were sent to `url`; `reason` is set if a copy was lost."""

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
    """Send a scheduler request to the addresses in order, until a valid reply arrives."""

    urls: tuple[str, ...]
    seqno: int
    work_seconds: float
    work_instances: float
    estimated_delay: float


@dataclass(frozen=True, slots=True)
class Replicate(ProjectCommand):
    """Send copies of trickles to `url`, an entry of `trickle_up_urls`, without retries."""

    url: str
    seqno: int
    trickles: tuple[TrickleUp, ...]


@dataclass(frozen=True, slots=True)
class Fetch(FileCommand):
    """Download a file and verify it; `signed` requires a signature by the code-sign key."""

    signed: bool


@dataclass(frozen=True, slots=True)
class Run(ResultCommand):
    """Start the program of a result in its slot; `fresh` empties the slot first."""

    slot: int
    fresh: bool


class Kill(ResultCommand):
    """Stop the program of a result that is no longer needed."""


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
    """Upload an output file; `resume` first queries the size that the project already has."""

    resume: bool


class Discard(FileCommand):
    """Delete a file of a project from this computer."""


@dataclass(frozen=True, slots=True)
class ClearSlot(Command):
    """Delete the folder of a slot that is no longer needed."""

    slot: int


class Forget(ProjectCommand):
    """Delete the folder of a detached project."""
