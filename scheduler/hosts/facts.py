"""Data of a client: its reports, computer, preferences and records [pure]."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """A client's report of one finished result; the times are in seconds.

    `terminated_status` is the exit status of an aborted program that ended after SIGTERM.
    """

    name: str
    client_state: int
    exit_status: int
    terminated_status: int | None = None
    cpu_time: float = 0.0
    elapsed_time: float = 0.0
    peak_working_set_bytes: float = 0.0
    peak_swap_bytes: float = 0.0
    peak_disk_bytes: float = 0.0
    stderr: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordUpdate:
    """The change that one RPC makes to a host's record of an app version.

    `sent` is the number of results that the RPC sent.  The daily quota changes from `quota_before`
    to `quota_after`; 0 means that the quota was never changed.  `errors` of the `reported` results
    failed by the host's or the version's fault; with any, the number of consecutive valid results
    is set to 0.
    """

    app_version_id: int
    sent: int = 0
    reported: int = 0
    errors: int = 0
    quota_before: int = 0
    quota_after: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class HostDescription:
    """The stored part of a client's description of its computer (PROTOCOL 2.1)."""

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
    p_features: str = ""
    capabilities: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Preferences:
    """The volunteer's limits, as the client applies them; 0 means no limit.

    `boinc_disk_used_bytes` is the disk space that the client uses now.
    """

    max_ncpus_pct: float = 0.0
    ram_max_used_busy_pct: float = 0.0
    ram_max_used_idle_pct: float = 0.0
    disk_max_used_gb: float = 0.0
    disk_max_used_pct: float = 0.0
    disk_min_free_gb: float = 0.0
    boinc_disk_used_bytes: float = 0.0
