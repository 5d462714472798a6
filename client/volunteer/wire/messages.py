"""Defines the messages between client and project as frozen dataclasses."""

from __future__ import annotations

from dataclasses import dataclass

from volunteer.wire.computing import DEFAULT_PREFERENCES, GlobalPreferences


@dataclass(frozen=True, slots=True)
class FileInfo:
    """A file to download (`urls`) or to upload (`upload_urls`).

    Sizes are in bytes. A size of 0 is unknown.
    """

    name: str
    urls: tuple[str, ...] = ()
    upload_urls: tuple[str, ...] = ()
    gzipped_urls: tuple[str, ...] = ()
    nbytes: int = 0
    md5: str = ""
    signature: str = ""
    executable: bool = False
    sticky: bool = False
    max_nbytes: int = 0
    grant: str = ""
    gzip_when_done: bool = False


@dataclass(frozen=True, slots=True)
class FileRef:
    """A reference to a file. `open_name` is its name in the slot, or empty for the same name."""

    file_name: str
    open_name: str = ""
    main_program: bool = False
    copy_file: bool = False
    optional: bool = False

    @property
    def slot_name(self) -> str:
        """The name by which the application opens the file."""
        return self.open_name or self.file_name


@dataclass(frozen=True, slots=True)
class AppVersion:
    """A program for one platform and plan class. `flops` is its speed in operations/s."""

    app_name: str
    version_num: int
    platform: str = ""
    plan_class: str = ""
    api_version: str = ""
    avg_ncpus: float = 1.0
    flops: float = 0.0
    cmdline: str = ""
    file_refs: tuple[FileRef, ...] = ()
    needs_network: bool = False
    file_prefix: str = ""

    @property
    def key(self) -> str:
        """The string that identifies the app version within a project."""
        return version_key(self.app_name, self.platform, self.version_num, self.plan_class)


def version_key(app_name: str, platform: str, version_num: int, plan_class: str) -> str:
    """Return the string that identifies an app version within a project."""
    return f"{app_name} {platform} {version_num} {plan_class}"


#: Seconds between SIGTERM and SIGKILL for a program that is stopped: the default and the maximum.
TERMINATION_SECONDS = 10.0
MAX_TERMINATION_SECONDS = 3600.0


@dataclass(frozen=True, slots=True)
class Workunit:
    """The input of a computation, with its estimated cost and its limits.

    `rsc_fpops_est` and `rsc_fpops_bound` are numbers of floating-point operations.
    `max_termination_time` is in seconds. The other limits are in bytes. `avg_ncpus` is the number
    of processors that the workunit uses; 0 means the number of its app version.
    """

    name: str
    app_name: str
    rsc_fpops_est: float = 6.05e14
    rsc_fpops_bound: float = 2.4e15
    rsc_memory_bound: float = 1e8
    rsc_disk_bound: float = 1e9
    max_termination_time: float = TERMINATION_SECONDS
    avg_ncpus: float = 0.0
    command_line: str = ""
    file_refs: tuple[FileRef, ...] = ()


@dataclass(frozen=True, slots=True)
class Result:
    """A task of this client to compute a workunit. `report_deadline` is in unix seconds.

    `bundle` is the number of the task list that the project sent, or 0. The results of a list run
    one after the other, in the order of `bundle_place`.
    """

    name: str
    wu_name: str
    platform: str = ""
    version_num: int = 0
    plan_class: str = ""
    report_deadline: float = 0.0
    report_immediately: bool = False
    bundle: int = 0
    bundle_place: int = 0
    file_refs: tuple[FileRef, ...] = ()


@dataclass(frozen=True, slots=True)
class Message:
    """A message of the project to the volunteer. `priority` is usually `low` or `notice`."""

    text: str
    priority: str = "low"


@dataclass(frozen=True, slots=True)
class Account:
    """The name of the project, and its data on the user, the team and the host."""

    project_name: str = ""
    userid: int = 0
    teamid: int = 0
    user_name: str = ""
    team_name: str = ""
    user_total_credit: float = 0.0
    user_expavg_credit: float = 0.0
    host_total_credit: float = 0.0
    host_expavg_credit: float = 0.0
    cross_project_id: str = ""
    email_hash: str = ""


@dataclass(frozen=True, slots=True)
class Reply:
    """A scheduler reply. Delays are in seconds, and `hostid` is 0 if the reply assigns none."""

    account: Account = Account()
    master_url: str = ""
    hostid: int = 0
    request_delay: float = 0.0
    next_rpc_delay: float = 0.0
    is_down: bool = False
    ended: bool = False
    no_cpu_apps: bool = False
    message_ack: bool = False
    code_sign_key: str = ""
    code_sign_key_signature: str = ""
    global_preferences: str | None = None
    project_preferences: str | None = None
    host_venue: str | None = None
    messages: tuple[Message, ...] = ()
    acks: tuple[str, ...] = ()
    aborts: tuple[str, ...] = ()
    aborts_if_not_started: tuple[str, ...] = ()
    deleted_files: tuple[str, ...] = ()
    files: tuple[FileInfo, ...] = ()
    app_versions: tuple[AppVersion, ...] = ()
    workunits: tuple[Workunit, ...] = ()
    results: tuple[Result, ...] = ()
    trickles: tuple[TrickleMessage, ...] = ()
    trickle_up_urls: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class OutputReport:
    """An output file in a report. `error` is a message if the upload failed, else empty."""

    name: str
    nbytes: int
    max_nbytes: int
    md5: str
    upload_url: str
    error: str = ""


@dataclass(frozen=True, slots=True)
class ResultReport:
    """The report of a finished result. Times are in seconds, and sizes are in bytes.

    `terminated_status` is the exit status of an aborted program that ended after SIGTERM.
    """

    name: str
    exit_status: int
    state: int
    platform: str
    version_num: int
    plan_class: str = ""
    terminated_status: int | None = None
    cpu_time: float = 0.0
    elapsed_time: float = 0.0
    peak_memory: int = 0
    peak_disk: int = 0
    message: str = ""
    stderr: str = ""
    outputs: tuple[OutputReport, ...] = ()


@dataclass(frozen=True, slots=True)
class HeldName:
    """A result that a request lists but does not report.

    `app_version` is the index of its app version in `SchedulerRequest.app_versions`, from zero.
    """

    name: str
    app_version: int
    plan_class: str = ""


@dataclass(frozen=True, slots=True)
class StickyFile:
    """A sticky file of this client. `status` is 1 if the file is present, else 0."""

    name: str
    nbytes: int
    status: int


@dataclass(frozen=True, slots=True)
class TrickleMessage:
    """A message between a project and the program of a result.

    `time` identifies the message among the messages of one result. In a message from a program, it
    is in unix seconds.
    """

    result_name: str
    time: int
    text: str


@dataclass(frozen=True, slots=True)
class HostFacts:
    """The description of this computer. Speeds are in operations/s, and sizes are in bytes."""

    host_cpid: str
    platform: str
    alt_platforms: tuple[str, ...] = ()
    timezone: int = 0
    domain_name: str = ""
    ip_addr: str = ""
    ncpus: int = 1
    vendor: str = ""
    model: str = ""
    features: str = ""
    fpops: float = 1e9
    iops: float = 1e9
    membw: float = 1e9
    benchmarked_at: float = 0.0
    memory: float = 0.0
    cache: float = 0.0
    swap: float = 0.0
    disk_total: float = 0.0
    disk_free: float = 0.0
    os_name: str = ""
    os_version: str = ""
    container_engine: str = ""


@dataclass(frozen=True, slots=True)
class SchedulerRequest:
    """A scheduler request.

    `now` and `started_at` are in unix seconds. `disk_used` is in bytes. `work_seconds` is the
    requested amount of work in seconds. `work_instances` is the number of idle processors.
    `estimated_delay` is the estimated time until a slot becomes free, in seconds. `share` is the
    part of this computer that the project gets, from 0 to 1. `preferences` are the preferences in
    force. `master_preferences` is the text of the received preferences, or empty if it is not sent.
    `active_queues` are the only queues of which work is accepted, if there are any; of
    `ignored_queues` no work is accepted.
    """

    authenticator: str
    host: HostFacts
    hostid: int = 0
    rpc_seqno: int = 0
    allow_multiple_clients: bool = False
    active_queues: tuple[str, ...] = ()
    ignored_queues: tuple[str, ...] = ()
    work_seconds: float = 0.0
    work_instances: float = 0.0
    estimated_delay: float = 0.0
    preferences: GlobalPreferences = DEFAULT_PREFERENCES
    master_preferences: str = ""
    preferences_email_hash: str = ""
    code_sign_key: str = ""
    cross_project_id: str = ""
    now: float = 0.0
    started_at: float = 0.0
    disk_used: float = 0.0
    app_versions: tuple[AppVersion, ...] = ()
    results: tuple[ResultReport, ...] = ()
    other_results: tuple[HeldName, ...] = ()
    sticky_files: tuple[StickyFile, ...] = ()
    trickles: tuple[TrickleMessage, ...] = ()
    share: float = 1.0
