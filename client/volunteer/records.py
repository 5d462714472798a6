"""What the client holds: frozen records of projects, files and results [pure]."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from enum import StrEnum

from volunteer.wire.messages import (
    Account,
    AppVersion,
    FileInfo,
    FileRef,
    Result,
    Workunit,
    version_key,
)
from volunteer.wire.preferences import project_preferences


class Phase(StrEnum):
    """Where a held result is on its way."""

    FETCHING = "fetching"
    READY = "ready"
    RUNNING = "running"
    UPLOADING = "uploading"
    REPORTABLE = "reportable"


class Presence(StrEnum):
    """Whether a file is on this computer, or has gone up to the project."""

    ABSENT = "absent"
    PRESENT = "present"
    UPLOADED = "uploaded"
    FAILED = "failed"


class Role(StrEnum):
    """The use of a file. It never changes: no later reply turns an input into a program."""

    NONE = ""
    PROGRAM = "program"
    INPUT = "input"
    OUTPUT = "output"


class ClientState:
    """The numbers of `<state>` in a report (PROTOCOL 0.3)."""

    DOWNLOADING = 1
    COMPUTE_ERROR = 3
    UPLOADED = 5
    ABORTED = 6
    UPLOAD_FAILED = 7


@dataclass(frozen=True, slots=True)
class Verdict:
    """How a result ended, in the numbers and words that the project is told."""

    client_state: int
    exit_status: int
    message: str = ""


@dataclass(frozen=True, slots=True)
class HeldFile:
    """A file and how far its transfer is; `error` is BOINC's number and words.

    `signed_sha256` is the SHA-256 of the bytes whose signature verified at download; empty for a
    file that needs no signature.
    """

    info: FileInfo
    presence: Presence = Presence.ABSENT
    nbytes: int = 0
    md5: str = ""
    failures: int = 0
    first_failed_at: float = 0.0
    retry_at: float = 0.0
    error_code: str = ""
    error_message: str = ""
    role: Role = Role.NONE
    signed_sha256: str = ""


@dataclass(frozen=True, slots=True)
class TrickleDown:
    """A message of the project that its program has not been given yet."""

    time: int
    text: str


@dataclass(frozen=True, slots=True)
class TrickleUp:
    """A message of a program, kept until the project acknowledges it; `time` in unix seconds."""

    result_name: str
    time: int
    text: str
    is_sent: bool = False


@dataclass(frozen=True, slots=True)
class Progress:
    """What a running program last reported; it is lost when the client stops."""

    fraction_done: float | None = None
    cpu_time: float | None = None


@dataclass(frozen=True, slots=True)
class HeldResult:
    """A result from its arrival to the project's acknowledgement; times in unix seconds."""

    offer: Result
    phase: Phase = Phase.FETCHING
    received_at: float = 0.0
    slot: int = -1
    starts: int = 0
    restarts: int = 0
    pid: int = 0
    pid_started: int = 0
    running_since: float = 0.0
    elapsed: float = 0.0
    cpu_time: float = 0.0
    peak_memory: int = 0
    peak_disk: int = 0
    postponed_until: float = 0.0
    verdict: Verdict | None = None
    stderr: str = ""
    outputs: tuple[str, ...] = ()
    ready_at: float = 0.0
    is_suspended: bool = False
    trickles_down: tuple[TrickleDown, ...] = ()

    def elapsed_at(self, now: float) -> float:
        """Give the seconds that the program has run, over all its starts."""
        current = max(0.0, now - self.running_since) if self.running_since else 0.0
        return self.elapsed + current


@dataclass(frozen=True, slots=True)
class Project:
    """One project that we are attached to, and all that it gave us."""

    url: str
    key: str
    account: Account = field(default_factory=Account)
    scheduler_urls: tuple[str, ...] = ()
    next_scheduler: int = 0
    master_retry_at: float = 0.0
    master_failures: int = 0
    hostid: int = 0
    rpc_seqno: int = 0
    code_sign_key: str = ""
    preferences: str = ""
    venue: str = ""
    rpc_failures: int = 0
    rpc_retry_at: float = 0.0
    next_contact_at: float = 0.0
    contact_by: float = 0.0
    work_failures: int = 0
    errors: int = 0
    work_retry_at: float = 0.0
    asked_seconds: float = 0.0
    update_wanted: bool = True
    has_no_cpu_apps: bool = False
    ended: bool = False
    last_message: str = ""
    is_suspended: bool = False
    trickles_up: tuple[TrickleUp, ...] = ()
    trickle_up_urls: tuple[str, ...] = ()
    trickle_up_refused: tuple[str, ...] = ()
    files: dict[str, HeldFile] = field(default_factory=dict)
    app_versions: dict[str, AppVersion] = field(default_factory=dict)
    workunits: dict[str, Workunit] = field(default_factory=dict)
    results: dict[str, HeldResult] = field(default_factory=dict)

    def with_file(self, held: HeldFile) -> Project:
        """Give the project with this file in place of its former state."""
        return replace(self, files={**self.files, held.info.name: held})

    def with_result(self, held: HeldResult) -> Project:
        """Give the project with this result in place of its former state."""
        return replace(self, results={**self.results, held.offer.name: held})

    def version_of(self, held: HeldResult) -> AppVersion:
        """Give the app version that computes a result."""
        return self.app_versions[version_named(self.workunits[held.offer.wu_name], held.offer)]

    def inputs_of(self, held: HeldResult) -> tuple[FileRef, ...]:
        """Give the files that must be here before a result can run."""
        return self.version_of(held).file_refs + self.workunits[held.offer.wu_name].file_refs

    def input_refs(self, offer: Result) -> tuple[FileRef, ...]:
        """Give the inputs of a result as its app version wants them in the slot."""
        return self._prefixed(offer, self.workunits[offer.wu_name].file_refs)

    def output_refs(self, offer: Result) -> tuple[FileRef, ...]:
        """Give the outputs of a result as its app version wants them in the slot."""
        return self._prefixed(offer, offer.file_refs)

    def _prefixed(self, offer: Result, refs: tuple[FileRef, ...]) -> tuple[FileRef, ...]:
        """Put inputs or outputs below the `file_prefix` of the version, as copies (as BOINC)."""
        workunit = self.workunits.get(offer.wu_name)
        version = self.app_versions.get(version_named(workunit, offer)) if workunit else None
        # A refused result may have neither a workunit nor an app version here.
        if version is None or not version.file_prefix:
            return refs
        return tuple(
            replace(
                ref,
                open_name=f"{version.file_prefix}/{ref.open_name}" if ref.open_name else "",
                copy_file=True,
            )
            for ref in refs
        )

    def in_phase(self, *phases: Phase) -> list[HeldResult]:
        """Give the results in these phases, earliest deadline first."""
        found = [held for held in self.results.values() if held.phase in phases]
        return sorted(found, key=lambda held: (held.offer.report_deadline, held.offer.name))


def version_named(workunit: Workunit, offer: Result) -> str:
    """Name the app version that a result asks for."""
    return version_key(workunit.app_name, offer.platform, offer.version_num, offer.plan_class)


@dataclass(frozen=True, slots=True)
class ReceivedPreferences:
    """The newest computing preferences of a project, as it sent them; times in unix seconds."""

    source: str = ""
    mod_time: float = 0.0
    text: str = ""


@dataclass(frozen=True, slots=True)
class State:
    """Everything the client knows.

    `busy`, `contacted`, `progress` and `paused` die with the process. `paused` is the reason why no
    program may run.
    """

    host_cpid: str
    projects: dict[str, Project] = field(default_factory=dict)
    falsified: str = ""
    received_preferences: ReceivedPreferences = ReceivedPreferences()
    paused: str = ""
    busy: frozenset[str] = frozenset()
    contacted: frozenset[str] = frozenset()
    progress: dict[tuple[str, str], Progress] = field(default_factory=dict)

    def with_project(self, project: Project) -> State:
        """Give the state with this project in place of its former state."""
        return replace(self, projects={**self.projects, project.url: project})

    def share_of(self, project: Project) -> float:
        """Give the part of this computer that a project gets, by its resource share."""
        shares = {
            url: project_preferences(other.preferences, other.venue).resource_share
            for url, other in self.projects.items()
        }
        total = sum(shares.values())
        return shares.get(project.url, 0.0) / total if total > 0 else 1.0

    def starting(self, *work: str) -> State:
        """Give the state with this work under way."""
        return replace(self, busy=self.busy | set(work))

    def done_with(self, *work: str) -> State:
        """Give the state with this work no longer under way."""
        return replace(self, busy=self.busy - set(work))
