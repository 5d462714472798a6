"""What a judgement may know of a host, its wish and the work there is [pure]."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta


@dataclass(frozen=True, slots=True, kw_only=True)
class HostFacts:
    """One host at the moment it asks; sizes in bytes, speeds in operations per second and CPU.

    `held` counts the results it has in progress, by app.
    """

    id: int
    account_id: int
    ncpus: int = 1
    fpops: float = 1e9
    memory_bytes: float = 64e6
    disk_bytes: float = 0
    active_fraction: float = 1.0
    max_in_progress: int | None = None
    held: Mapping[int, int] = field(default_factory=dict)
    hr_class: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Wish:
    """How much CPU work a host asks for: device-seconds to fill its queue, idle instances."""

    seconds: float = 0.0
    instances: float = 0.0
    queued_seconds: float = 0.0

    @property
    def anything(self) -> bool:
        """Whether work is asked for at all."""
        return self.seconds > 0 or self.instances > 0


@dataclass(frozen=True, slots=True, kw_only=True)
class AppFacts:
    """The rules of an app that concern who may be given its results."""

    id: int
    name: str
    one_result_per: str
    retry_same_account_after: timedelta
    hr_type: int = 0
    homogeneous_app_version: bool = False
    max_in_progress_per_cpu: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class VersionFacts:
    """An app version that runs on the host, with what is known of its speed there."""

    id: int
    app_id: int
    version_num: int
    platform: str
    plan_class: str = ""
    avg_ncpus: float = 1.0
    deprecated: bool = False
    et_n: float = 0.0
    et_avg: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Candidate:
    """One unsent result and what must be known of its workunit to judge it."""

    result_id: int
    workunit_id: int
    app_id: int
    priority: int
    rsc_fpops_est: float
    rsc_memory_bound: float
    rsc_disk_bound: float
    delay_bound: timedelta
    hr_class: int = 0
    app_version_id: int | None = None
    app_version_num: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Assignment:
    """A candidate that the host may have: in which version, how fast, how long, how much disk."""

    candidate: Candidate
    version: VersionFacts
    flops: float
    seconds: float


@dataclass(frozen=True, slots=True, kw_only=True)
class HeldResult:
    """What the server knows of a result that a client holds, or that this host should hold.

    `seconds` is how long it was estimated to take there.
    """

    id: int
    name: str
    workunit_id: int
    app_id: int
    host_id: int | None
    app_version_id: int | None
    state: int
    attempt: int
    resent_count: int
    sent_at: datetime | None
    report_deadline: datetime | None
    delay_bound: timedelta
    seconds: float
    error_mask: int
    cancelled: bool
    has_canonical: bool
    assimilated: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """What a client says of one result that it finished; times in seconds, sizes in bytes."""

    name: str
    client_state: int
    exit_status: int
    cpu_time: float = 0.0
    elapsed_time: float = 0.0
    peak_working_set_bytes: float = 0.0
    peak_swap_bytes: float = 0.0
    peak_disk_bytes: float = 0.0
    stderr: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class HostDescription:
    """What a client says of its computer (PROTOCOL 2.1), trimmed to what is stored."""

    host_cpid: str = ""
    domain_name: str = ""
    ip_addr: str = ""
    timezone: int = 0
    platform_name: str = ""
    client_version: int = 0
    p_ncpus: int = 1
    p_vendor: str = ""
    p_model: str = ""
    p_fpops: float = 1e9
    p_iops: float = 1e9
    p_membw: float = 1e9
    m_nbytes: float = 0.0
    m_cache: float = 0.0
    m_swap: float = 0.0
    d_total: float = 0.0
    d_free: float = 0.0
    os_name: str = ""
    os_version: str = ""
    n_bwup: float = 0.0
    n_bwdown: float = 0.0
    on_frac: float = 1.0
    active_frac: float = 1.0
    gpu_active_frac: float = 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Preferences:
    """The volunteer's limits, as the client obeys them; 0 means no limit."""

    max_ncpus_pct: float = 0.0
    ram_max_used_busy_pct: float = 0.0
    ram_max_used_idle_pct: float = 0.0
    disk_max_used_gb: float = 0.0
    disk_max_used_pct: float = 0.0
    disk_min_free_gb: float = 0.0
    boinc_disk_used_bytes: float = 0.0
