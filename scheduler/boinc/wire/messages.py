"""The messages that volunteers' clients and the scheduler exchange.

Field names are BOINC's element names, so that a message can be compared with a capture.  Elements
that the server neither reads nor sends have no field.  Times ending in `_time`, `report_deadline`
and `now` are unix seconds; other times and delays are seconds; sizes are bytes; rates are per
second.  In a request, the field of an absent element has its default value.  In a reply, a field
with the value None, () or False is not sent.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

# ------------------------------------------------------------------------------------------
# Parts of a scheduler request
# ------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class Preferences:
    """The numbers of `<working_global_preferences>` that scheduling uses.

    Percentages are 0..100 and sizes are gigabytes; BOINC reads 0 as "no limit" in
    `max_ncpus_pct` and `disk_max_used_gb`. An absent number is 0.
    """

    mod_time: float = 0.0
    work_buf_min_days: float = 0.0
    work_buf_additional_days: float = 0.0
    max_ncpus_pct: float = 0.0
    disk_max_used_gb: float = 0.0
    disk_max_used_pct: float = 0.0
    disk_min_free_gb: float = 0.0
    ram_max_used_busy_pct: float = 0.0
    ram_max_used_idle_pct: float = 0.0
    cpu_usage_limit: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class TimeStats:
    """The shares of the time in which the host is on, connected and computing (0 to 1)."""

    on_frac: float = 1.0
    connected_frac: float = -1.0
    """-1: unknown."""
    active_frac: float = 1.0
    gpu_active_frac: float = 1.0
    now: float = 0.0
    """The time on the host's clock."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NetStats:
    """Measured bandwidths in bytes per second; 0 means "not measured"."""

    bwup: float = 0.0
    avg_up: float = 0.0
    bwdown: float = 0.0
    avg_time_down: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class HostInfo:
    """The computer's processor, memory, disk, operating system and virtual machines."""

    timezone: int = 0
    """Seconds east of UTC."""
    domain_name: str = ""
    ip_addr: str = ""
    host_cpid: str = ""
    p_ncpus: int = 0
    p_vendor: str = ""
    p_model: str = ""
    p_features: str = ""
    p_fpops: float = 0.0
    p_iops: float = 0.0
    p_membw: float = 0.0
    p_vm_extensions_disabled: bool = False
    m_nbytes: float = 0.0
    m_cache: float = 0.0
    m_swap: float = 0.0
    d_total: float = 0.0
    d_free: float = 0.0
    os_name: str = ""
    os_version: str = ""
    n_usable_coprocs: int = 0
    wsl_available: bool = False
    docker_version: str = ""
    virtualbox_version: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class DiskUsage:
    """Disk usage of BOINC and of this project, and this project's share of the disk, in bytes."""

    d_boinc_used_total: float = 0.0
    d_boinc_used_project: float = 0.0
    d_project_share: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenclDevice:
    """The `<coproc_opencl>` of a coprocessor, or an `<opencl_cpu_prop>`."""

    vendor_id: int = 0
    global_mem_size: float = 0.0
    opencl_device_version: str = ""
    opencl_driver_version: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Coproc:
    """One kind of coprocessor and the work requested for it.

    `type` is the name used in replies: `NVIDIA`, `ATI`, `intel_gpu`, `apple_gpu`, or the type of a
    generic `<coproc>`.
    """

    type: str = ""
    count: int = 0
    name: str = ""
    available_ram: float = 0.0
    peak_flops: float = 0.0
    req_secs: float = 0.0
    req_instances: float = 0.0
    estimated_delay: float = 0.0
    have_cuda: bool = False
    driver_version: int = 0
    """NVIDIA `drvVersion`, as 100 * major + minor."""
    cuda_version: int = 0
    """NVIDIA `cudaVersion`, as 1000 * major + 10 * minor."""
    compute_capability_major: int = 0
    compute_capability_minor: int = 0
    total_memory: float = 0.0
    """NVIDIA `totalGlobalMem`, bytes."""
    local_ram: int = 0
    """ATI `localRAM`, megabytes."""
    opencl: OpenclDevice | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ReportedFile:
    """An output file of a reported result, as described by the client."""

    name: str
    nbytes: int = 0
    md5_cksum: str = ""
    error_msg: str = ""
    """May contain `permanent upload error` although the result has `state 5` (PROTOCOL 2.3)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReportedResult:
    """A finished result in a report; a success has `state` 5 and `exit_status` 0."""

    name: str
    final_cpu_time: float = 0.0
    final_elapsed_time: float = 0.0
    exit_status: int = 0
    terminated_status: int | None = None
    """The exit status of an aborted program that ended after SIGTERM; an extension."""
    state: int = 0
    """PROTOCOL 0.3: 5 is FILES_UPLOADED."""
    platform: str = ""
    version_num: int = 0
    plan_class: str = ""
    final_peak_working_set_size: float = 0.0
    final_peak_swap_size: float = 0.0
    final_peak_disk_usage: float = 0.0
    app_version_num: int = 0
    core_client_version: str = ""
    """From the element inside `<stderr_out>`."""
    stderr_out: str = ""
    """The text of the CDATA part: `<message>` if any, then `<stderr_txt>`; at most 64 KiB."""
    file_infos: tuple[ReportedFile, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class TrickleUp:
    """A message of a running result; it is stored before it is acknowledged."""

    result_name: str = ""
    time: int = 0
    variety: str = ""
    text: str = ""
    """The raw text after `<time>`, including `<variety>`, stripped at both ends."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StickyFile:
    """A sticky file on the host."""

    name: str
    nbytes: int = 0
    status: int = 0
    """0 absent, 1 present, 2 to be verified, negative: an error."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CoprocUsage:
    """A kind of coprocessor, and the number of them that an app version uses."""

    type: str
    count: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientAppVersion:
    """An app version on the client; `OtherResult.app_version` is its index."""

    app_name: str = ""
    version_num: int = 0
    platform: str = ""
    plan_class: str = ""
    avg_ncpus: float = 1.0
    flops: float = 0.0
    coprocs: tuple[CoprocUsage, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class OtherResult:
    """A result on the host that this request does not report."""

    name: str
    app_version: int = -1
    """Index into `SchedulerRequest.app_versions`; -1 if the client sent none."""
    plan_class: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class InProgressResult:
    """A queued or running result, sent after a reply with `send_full_workload`."""

    name: str
    time_remaining: float = 0.0
    """Seconds; also read from `cpu_time_remaining`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class UserKeywords:
    """Ids of the keywords (fields of science, places) that the volunteer prefers or rejects."""

    yes: tuple[int, ...] = ()
    no: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class SchedulerRequest:
    """One `<scheduler_request>` (PROTOCOL 2.1)."""

    authenticator: str = ""
    hostid: int = 0
    rpc_seqno: int = 0
    core_client_major_version: int = 0
    core_client_minor_version: int = 0
    core_client_release: int = 0
    resource_share_fraction: float = 1.0
    rrs_fraction: float = 1.0
    prrs_fraction: float = 1.0
    allow_multiple_clients: bool = False
    sandbox: bool = False
    dont_send_work: bool = False
    dont_use_docker: bool = False
    work_req_seconds: float = 0.0
    cpu_req_secs: float = 0.0
    cpu_req_instances: float = 0.0
    estimated_delay: float = 0.0
    platform_name: str = ""
    """Primary platform, or `anonymous`."""
    alt_platforms: tuple[str, ...] = ()
    code_sign_key: str = ""
    """Stripped; empty if the client has none yet."""
    preferences: Preferences = Preferences()
    working_global_preferences: str = ""
    """Raw, stripped; `preferences` contains the numbers."""
    global_preferences: str = ""
    """Raw content of the master preferences file (7.x), stripped."""
    global_preferences_mod_time: float = 0.0
    global_prefs_source_email_hash: str = ""
    cross_project_id: str = ""
    time_stats: TimeStats = TimeStats()
    net_stats: NetStats = NetStats()
    host_info: HostInfo = HostInfo()
    disk_usage: DiskUsage = DiskUsage()
    coprocs: tuple[Coproc, ...] = ()
    results: tuple[ReportedResult, ...] = ()
    """Not deduplicated: a name may occur twice."""
    further_results: int = 0
    """The number of reported results that were not read, because the limit was reached."""
    trickles: tuple[TrickleUp, ...] = ()
    sticky_files: tuple[StickyFile, ...] = ()
    time_stats_log: str = ""
    job_log: str = ""
    app_versions: tuple[ClientAppVersion, ...] = ()
    other_results: tuple[OtherResult, ...] = ()
    in_progress_results: tuple[InProgressResult, ...] = ()
    client_opaque: str = ""
    client_brand: str = ""
    user_keywords: UserKeywords = UserKeywords()
    active_queues: tuple[str, ...] = ()
    """Names of the only queues of which the client accepts work; empty means all."""
    ignored_queues: tuple[str, ...] = ()
    """Names of queues of which the client accepts no work; no effect beside `active_queues`."""

    @property
    def client_version(self) -> int:
        """Return the client's version as one number: 72005 for 7.20.5."""
        return (
            10000 * self.core_client_major_version
            + 100 * self.core_client_minor_version
            + self.core_client_release
        )

    @property
    def is_anonymous(self) -> bool:
        """Whether the client uses its own app versions (`app_info.xml`)."""
        return self.platform_name == "anonymous"


# ------------------------------------------------------------------------------------------
# Parts of a scheduler reply
# ------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class Message:
    """A line for the volunteer: `low` goes to the event log, `notice` is shown as a notice."""

    text: str
    priority: Literal["low", "notice"] = "low"


@dataclass(frozen=True, slots=True, kw_only=True)
class GuiUrl:
    """A link that BOINC's Manager shows."""

    name: str
    description: str
    url: str


@dataclass(frozen=True, slots=True)
class RssFeed:
    """A feed that the client fetches every `poll_interval` seconds and shows as notices."""

    url: str
    poll_interval: float


@dataclass(frozen=True, slots=True, kw_only=True)
class TrickleDown:
    """A message to a running result; every line of `text` must be at most 255 bytes."""

    result_name: str
    time: int
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplyApp:
    """An app, included in every reply that contains work for it."""

    name: str
    user_friendly_name: str | None = None
    non_cpu_intensive: bool = False
    fraction_done_exact: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class DownloadFile:
    """A file that the client is to download; its content never changes under a name (trap 4)."""

    name: str
    urls: tuple[str, ...] = ()
    """The client tries the URLs in this order."""
    nbytes: int | None = None
    md5_cksum: str | None = None
    file_signature: str | None = None
    """Hexadecimal signature, for files of app versions."""
    executable: bool = False
    sticky: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class UploadFile:
    """A file that the client is to upload."""

    name: str
    urls: tuple[str, ...] = ()
    max_nbytes: int
    xml_signature: str | None = None
    """The upload grant: opaque text of at most 4095 bytes."""
    gzip_when_done: bool = False
    sticky: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class FileRef:
    """A file of an app version, workunit or result, with the name under which it is opened."""

    file_name: str
    open_name: str | None = None
    main_program: bool = False
    copy_file: bool = False
    optional: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplyAppVersion:
    """An app version; (app, platform, version_num, plan_class) identifies it (trap 5)."""

    app_name: str
    version_num: int
    platform: str | None = None
    plan_class: str = ""
    api_version: str | None = None
    avg_ncpus: float | None = None
    flops: float | None = None
    coprocs: tuple[CoprocUsage, ...] = ()
    gpu_ram: float | None = None
    cmdline: str | None = None
    file_prefix: str | None = None
    dont_throttle: bool = False
    is_wrapper: bool = False
    needs_network: bool = False
    file_refs: tuple[FileRef, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplyWorkunit:
    """A workunit; it is sent once, even if the reply contains several of its results.

    `avg_ncpus`, `flops`, `coprocs` and `cmdline` are set for a workunit that requests CPUs or GPUs.
    Clients from 8.2 on use these values instead of the app version's.
    """

    name: str
    app_name: str
    version_num: int | None = None
    rsc_fpops_est: float | None = None
    rsc_fpops_bound: float | None = None
    rsc_memory_bound: float | None = None
    rsc_disk_bound: float | None = None
    max_termination_time: float | None = None
    """Seconds between SIGTERM and SIGKILL; an extension, which BOINC's clients skip."""
    avg_ncpus: float | None = None
    flops: float | None = None
    coprocs: tuple[CoprocUsage, ...] = ()
    cmdline: str | None = None
    command_line: str | None = None
    file_refs: tuple[FileRef, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplyResult:
    """A result to compute.

    `platform`, `version_num` and `plan_class` must name an app version (traps 12 and 13).
    `bundle` and `bundle_place` are ours, for the members of task lists; BOINC's clients skip them.
    """

    name: str
    wu_name: str
    report_deadline: float | None = None
    platform: str | None = None
    version_num: int | None = None
    plan_class: str = ""
    report_immediately: bool = False
    bundle: int = 0
    bundle_place: int = 0
    file_refs: tuple[FileRef, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class SchedulerReply:
    """One `<scheduler_reply>` (PROTOCOL 2.4); its fields have the order of the elements."""

    scheduler_version: int | None = None
    dont_use_dcf: bool = False
    master_url: str | None = None
    """Exactly the URL to which the client attached (trap 24)."""
    request_delay: float | None = None
    next_rpc_delay: float | None = None
    messages: tuple[Message, ...] = ()
    project_is_down: bool = False
    ended: bool = False
    project_name: str | None = None
    userid: int | None = None
    user_name: str | None = None
    user_total_credit: float | None = None
    user_expavg_credit: float | None = None
    user_create_time: int | None = None
    email_hash: str | None = None
    cross_project_id: str | None = None
    external_cpid: str | None = None
    project_preferences: str | None = None
    """Raw content, without the tags; kept verbatim by the client (trap 25)."""
    global_preferences: str | None = None
    """Raw content, without the tags."""
    hostid: int | None = None
    """Sent only if an id is assigned (trap 9)."""
    host_total_credit: float | None = None
    host_expavg_credit: float | None = None
    host_venue: str | None = None
    """An empty text clears the client's venue (trap 23)."""
    host_create_time: int | None = None
    teamid: int | None = None
    team_name: str | None = None
    result_acks: tuple[str, ...] = ()
    result_aborts: tuple[str, ...] = ()
    result_aborts_if_not_started: tuple[str, ...] = ()
    code_sign_key: str | None = None
    """Sent only if the request contains no key, or with a signature (trap 14)."""
    code_sign_key_signature: str | None = None
    message_ack: bool = False
    trickles: tuple[TrickleDown, ...] = ()
    apps: tuple[ReplyApp, ...] = ()
    files: tuple[DownloadFile, ...] = ()
    app_versions: tuple[ReplyAppVersion, ...] = ()
    workunits: tuple[ReplyWorkunit, ...] = ()
    uploads: tuple[UploadFile, ...] = ()
    results: tuple[ReplyResult, ...] = ()
    delete_file_infos: tuple[str, ...] = ()
    no_rsc_apps: tuple[str, ...] = ()
    """Devices (`CPU`, `NVIDIA`, ...) for which the project has no app; never all devices."""
    send_full_workload: bool = False
    send_time_stats_log: int | None = None
    send_job_log: int | None = None
    gui_urls: tuple[GuiUrl, ...] = ()
    rss_feeds: tuple[RssFeed, ...] | None = None
    """None leaves the client's feeds unchanged."""
