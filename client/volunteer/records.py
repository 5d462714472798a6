"""Defines the state of the client as frozen dataclasses."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from enum import StrEnum
from operator import attrgetter
from typing import TYPE_CHECKING

from volunteer.wire.messages import (
    Account,
    AppVersion,
    FileInfo,
    FileRef,
    Result,
    TrickleMessage,
    Workunit,
    version_key,
)
from volunteer.wire.preferences import project_preferences

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator


class Phase(StrEnum):
    """The phase of a result on this client."""

    FETCHING = "fetching"
    READY = "ready"
    RUNNING = "running"
    UPLOADING = "uploading"
    REPORTABLE = "reportable"


class Presence(StrEnum):
    """The state of the download or upload of a file."""

    ABSENT = "absent"
    PRESENT = "present"
    UPLOADED = "uploaded"
    FAILED = "failed"


class Role(StrEnum):
    """The use of a file.

    An assigned role never changes, so that a later reply cannot make a program of an input.
    """

    NONE = ""
    PROGRAM = "program"
    INPUT = "input"
    OUTPUT = "output"


class ClientState:
    """The values of `<state>` in a report (PROTOCOL 0.3)."""

    DOWNLOADING = 1
    COMPUTE_ERROR = 3
    UPLOADED = 5
    ABORTED = 6
    UPLOAD_FAILED = 7


@dataclass(frozen=True, slots=True)
class Verdict:
    """The outcome of a result in the report to the project.

    `terminated_status` is the exit status of a program that the project aborted, if the program
    ended after SIGTERM and before SIGKILL.
    """

    client_state: int
    exit_status: int
    message: str = ""
    terminated_status: int | None = None


@dataclass(frozen=True, slots=True)
class HeldFile:
    """A file and the state of its transfer.

    `error_code` is BOINC's error number and text. `signed_sha256` is the SHA-256 of a file whose
    signature was verified at download. It is empty for a file that needs no signature.
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

    def is_stalled(self, now: float) -> bool:
        """Return whether a failed download waits for its retry, which blocks work requests."""
        return self.presence == Presence.ABSENT and self.failures > 0 and self.retry_at > now


@dataclass(frozen=True, slots=True)
class TrickleDown:
    """A message from the project to a program, stored until it is delivered."""

    time: int
    text: str


@dataclass(frozen=True, slots=True)
class TrickleUp(TrickleMessage):
    """A message from a program to the project, stored until the project acknowledges it."""

    is_sent: bool = False


@dataclass(frozen=True, slots=True)
class Progress:
    """The last progress report of a running program. It is not saved on the disk."""

    fraction_done: float | None = None
    cpu_time: float | None = None
    gpu_usage: float | None = None


@dataclass(frozen=True, slots=True)
class HeldResult:
    """A received result that the project has not acknowledged yet.

    `slot` is -1 if the result has no slot. `elapsed` and `cpu_time` are in seconds, `peak_memory`
    and `peak_disk` are in bytes, and times are in unix seconds.
    """

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

    @property
    def name(self) -> str:
        return self.offer.name

    def elapsed_at(self, now: float) -> float:
        """Return the seconds that the program has run, over all its starts."""
        current = max(0.0, now - self.running_since) if self.running_since else 0.0
        return self.elapsed + current

    def as_reportable(self, verdict: Verdict | None, now: float) -> HeldResult:
        """Return the result with its verdict, ready to be reported."""
        return replace(self, phase=Phase.REPORTABLE, verdict=verdict, ready_at=now)


@dataclass(frozen=True, slots=True)
class Project:
    """An attached project with its files, app versions, workunits and results."""

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
    #: The name of the result that was claimed from the pool and not received yet.
    claimed: str = ""
    #: The names of cancelled results that were not received yet, oldest first. They are not saved,
    #: because the first answer of the pool after a start has all cancellations.
    early_aborts: tuple[str, ...] = ()
    update_wanted: bool = True
    has_no_cpu_apps: bool = False
    ended: bool = False
    last_message: str = ""
    #: The different address that the project last reported as its own. It is printed once.
    reported_url: str = ""
    is_suspended: bool = False
    trickles_up: tuple[TrickleUp, ...] = ()
    trickle_up_urls: tuple[str, ...] = ()
    trickle_up_refused: tuple[str, ...] = ()
    files: dict[str, HeldFile] = field(default_factory=dict)
    app_versions: dict[str, AppVersion] = field(default_factory=dict)
    workunits: dict[str, Workunit] = field(default_factory=dict)
    results: dict[str, HeldResult] = field(default_factory=dict)

    def with_file(self, held_file: HeldFile) -> Project:
        """Return the project with this file added or replaced."""
        return replace(self, files={**self.files, held_file.info.name: held_file})

    def with_result(self, held_result: HeldResult) -> Project:
        """Return the project with this result added or replaced."""
        return replace(self, results={**self.results, held_result.name: held_result})

    def workunit_of(self, held_result: HeldResult) -> Workunit:
        return self.workunits[held_result.offer.wu_name]

    def version_of(self, held_result: HeldResult) -> AppVersion:
        """Return the app version that computes a result."""
        return self.app_versions[version_named(self.workunit_of(held_result), held_result.offer)]

    def processors_of(self, held_result: HeldResult) -> float:
        """Return the number of processors that a result uses.

        The number of its workunit has precedence over the number of its app version.
        """
        requested = self.workunit_of(held_result).avg_ncpus
        return requested or self.version_of(held_result).avg_ncpus

    def inputs_of(self, held_result: HeldResult) -> tuple[FileRef, ...]:
        """Return references to the files that must be present before a result can run."""
        return self.version_of(held_result).file_refs + self.workunit_of(held_result).file_refs

    def input_refs(self, offer: Result) -> tuple[FileRef, ...]:
        """Return references to the inputs of a result, with the prefix of its app version."""
        return self._prefixed(offer, self.workunits[offer.wu_name].file_refs)

    def output_refs(self, offer: Result) -> tuple[FileRef, ...]:
        """Return references to the outputs of a result, with the prefix of its app version."""
        return self._prefixed(offer, offer.file_refs)

    def _prefixed(self, offer: Result, refs: tuple[FileRef, ...]) -> tuple[FileRef, ...]:
        """Return references to copies of the files below the `file_prefix`, as in BOINC.

        If the app version is not stored or has no prefix, `refs` is returned unchanged.
        """
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
        """Return the results in these phases, sorted by report deadline and name."""
        return sorted(
            (held_result for held_result in self.results.values() if held_result.phase in phases),
            key=attrgetter("offer.report_deadline", "name"),
        )


def file_names(owners: Iterable[AppVersion | Workunit | Result]) -> Iterator[str]:
    """Yield the physical names of the files of app versions, workunits or results."""
    return (ref.file_name for owner in owners for ref in owner.file_refs)


def version_named(workunit: Workunit, offer: Result) -> str:
    """Return the key of the app version that a result requires."""
    return version_key(workunit.app_name, offer.platform, offer.version_num, offer.plan_class)


@dataclass(frozen=True, slots=True)
class ReceivedPreferences:
    """The newest computing preferences that a project has sent.

    `source` is the address of the project. `mod_time` is the time of the last change in unix
    seconds.
    """

    source: str = ""
    mod_time: float = 0.0
    text: str = ""


@dataclass(frozen=True, slots=True)
class State:
    """The state of the client.

    `busy`, `contacted`, `progress` and `paused` are not saved. `paused` is the reason why no
    program may run, or empty.
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
        """Return the state with this project added or replaced."""
        return replace(self, projects={**self.projects, project.url: project})

    def all_results(self) -> Iterator[tuple[Project, HeldResult]]:
        """Yield the results of all projects, each with its project."""
        for project in self.projects.values():
            for held_result in project.results.values():
                yield project, held_result

    def share_of(self, project: Project) -> float:
        """Return the part of this computer that a project gets, from 0 to 1.

        Returns 1 if the resource shares of all projects are 0.
        """
        shares = {
            url: project_preferences(other.preferences, other.venue).resource_share
            for url, other in self.projects.items()
        }
        total = sum(shares.values())
        return shares.get(project.url, 0.0) / total if total > 0 else 1.0

    def starting(self, work: str) -> State:
        """Return the state with `work` added to the work in progress."""
        return replace(self, busy=self.busy | {work})

    def done_with(self, work: str) -> State:
        """Return the state with `work` removed from the work in progress."""
        return replace(self, busy=self.busy - {work})
