"""Facts about hosts, their work requests, and the work for them.

This module uses no database, files or clock.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date, datetime, timedelta
from typing import Any, Final, NamedTuple

from scheduler.hosts.machines import Machine


@dataclass(frozen=True, slots=True, kw_only=True)
class Record:
    """Statistics of an app version on a host: quota, reliability, turnaround in seconds.

    The defaults apply to a host and app version without a row in `host_app_version`.
    """

    consecutive_valid: int = 0
    max_results_per_day: int = 0
    results_today: int = 0
    quota_day: date | None = None
    turnaround_n: float = 0.0
    turnaround_avg: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Taste:
    """A volunteer's project preferences and keywords.

    `likes` and `dislikes` are keyword ids, `selected_apps` app ids.  If `selected_apps` is empty,
    all apps are allowed.  `max_held` is the volunteer's limit on the number of results on this
    computer; `devices_off` are the kinds of devices (empty: CPUs) that must not be used.
    `active_queues` are the names of the only queues of which the client accepts work, if there are
    any; else it accepts no work of `ignored_queues`.
    """

    likes: frozenset[int] = frozenset()
    dislikes: frozenset[int] = frozenset()
    selected_apps: frozenset[int] = frozenset()
    allow_other_apps: bool = True
    allow_beta: bool = False
    max_held: int | None = None
    devices_off: frozenset[str] = frozenset()
    active_queues: frozenset[str] = frozenset()
    ignored_queues: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True, kw_only=True)
class HostFacts:
    """A host at the time of its request.

    Sizes are in bytes; `fpops` is the speed of one CPU in operations per second.  `held_counts` is
    the number of results in progress by (app id, app version id); `promised_bytes` is the sum of
    the maximum sizes of their outputs.  `hr_classes` maps a type of homogeneous redundancy (1 fine,
    2 coarse) to the host's class (0: unknown).  `near_files` are the names of the sticky input
    files on the host.  `is_anonymous` is set if the client runs only the volunteer's own programs
    (`OwnVersion`).
    """

    id: int
    account_id: int
    team_id: int | None = None
    ncpus: int = 1
    fpops: float = 1e9
    memory_bytes: float = 64e6
    disk_bytes: float = 0
    bandwidth: float = 0
    active_fraction: float = 1.0
    gpu_active_fraction: float = 1.0
    max_in_progress: int | None = None
    held_counts: Mapping[tuple[int, int | None], int] = field(default_factory=dict)
    promised_bytes: int = 0
    hr_classes: Mapping[int, int] = field(default_factory=dict)
    machine: Machine = field(default_factory=Machine)
    taste: Taste = field(default_factory=Taste)
    near_files: frozenset[str] = frozenset()
    is_anonymous: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class OwnVersion:
    """An app version of a volunteer's `app_info.xml` (the anonymous platform).

    `device` is empty for CPUs, else a kind of GPU; `flops` is the client's estimate of speed, or 0
    without an estimate.  Replies name this `platform`, `version_num` and `plan_class` in results
    sent for the version.
    """

    app_name: str
    version_num: int
    platform: str
    plan_class: str = ""
    avg_ncpus: float = 1.0
    flops: float = 0.0
    device: str = ""
    device_count: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkRequest:
    """The work that a host requests for one kind of device.

    `seconds` is the work needed to fill the queue, `instances` the number of idle devices,
    `queued_seconds` the work already queued.  `device` is empty for CPUs, else a kind of GPU
    (`hosts.machines.Gpu`).
    """

    seconds: float = 0.0
    instances: float = 0.0
    queued_seconds: float = 0.0
    device: str = ""

    @property
    def anything(self) -> bool:
        return self.seconds > 0 or self.instances > 0


@dataclass(frozen=True, slots=True, kw_only=True)
class AppFacts:
    """The properties of an app that dispatch uses."""

    id: int
    name: str
    one_result_per: str
    retry_same_account_after: timedelta
    user_friendly_name: str = ""
    kind: str = "native"
    success_rule: str = "exit_code"
    hr_type: int = 0
    homogeneous_app_version: bool = False
    max_in_progress_per_cpu: int | None = None
    max_in_progress_per_gpu: int | None = None
    max_in_progress_per_host: int | None = None
    daily_quota: int | None = None
    target_nresults: int = 1
    trusted_after: int = 10
    reliable_max_turnaround: timedelta | None = None
    reduced_delay: float = 0.5
    weight: float = 1.0
    beta: bool = False
    locality: bool = False
    non_cpu_intensive: bool = False
    has_bundles: bool = False
    fraction_done_exact: bool = False
    n_size_classes: int = 1
    size_bounds: Sequence[float] = ()

    @property
    def is_launched(self) -> bool:
        """Whether the server's launcher runs the app's programs (`dispatch.rules.launching`)."""
        return self.kind != "native"

    @property
    def takes_own_versions(self) -> bool:
        """Whether volunteers may run their own programs for the app.

        This is not possible if the app needs the server's launcher, or if all replicas must use
        the same app version.
        """
        return not self.is_launched and not self.homogeneous_app_version

    @property
    def title(self) -> str:
        """The name shown to volunteers."""
        return self.user_friendly_name or self.name


@dataclass(frozen=True, slots=True, kw_only=True)
class VersionFacts:
    """An app version for a host, with its speed and `Record` on that host.

    `device` is empty for a version that uses CPUs only.  `et_*` are seconds per estimated
    operation, `pfc_*` peak operations per estimated operation.  `unfit` is the reason why the plan
    class excludes this host, or an empty string.  `is_staged_out` is set if the host is outside the
    share of a staged roll-out; a deprecated version has no share.
    """

    id: int
    app_id: int
    version_num: int
    platform: str
    plan_class: str = ""
    avg_ncpus: float = 1.0
    deprecated: bool = False
    beta: bool = False
    is_staged_out: bool = False
    device: str = ""
    device_count: float = 0.0
    gpu_ram: float = 0.0
    peak_flops: float = 0.0
    projected_flops: float = 0.0
    cmdline: str = ""
    unfit: str = ""
    et_n: float = 0.0
    et_avg: float = 0.0
    pfc_n: float = 0.0
    pfc_avg: float = 0.0
    record: Record = field(default_factory=Record)


class Candidate(NamedTuple):
    """One unsent result, with the fields of its workunit that are needed to judge it.

    It is a tuple for speed, because an RPC creates many candidates and discards most of them.

    `target_kind` is a `lifecycle.Target`.  `is_near` is set if the host has some of the input
    files; `reserved` is set if only reliable hosts may receive the result now.
    """

    result_id: int
    workunit_id: int
    priority: int
    # The fields from here to `reserved` form the kind (see `KIND`).
    app_id: int
    rsc_fpops_est: float
    rsc_memory_bound: float
    rsc_disk_bound: float
    delay_bound: timedelta
    rsc_bandwidth_bound: float = 0.0
    hr_class: int = 0
    app_version_id: int | None = None
    app_version_num: int = 0
    target_nresults: int = 1
    output_bytes: int = 0
    requested_cpus: float = 0.0
    requested_gpus: float = 0.0
    reserved: bool = False
    # These fields affect only the order of candidates.
    target_kind: int = 0
    size_class: int = -1
    keywords: str = ""
    is_near: bool = False
    # The workunit's queue; 0 for none.
    queue_id: int = 0


#: The fields that decide whether a candidate fits; candidates of one kind are equal in all of them.
KIND: Final = slice(Candidate._fields.index("app_id"), Candidate._fields.index("reserved") + 1)


class Assignment(NamedTuple):
    """A candidate that a host may receive, with the app version, speed, duration and deadline.

    `seconds` is the estimated time from start to end on this host, including the time in which the
    host does not compute (`HostFacts.active_fraction`).  `delay` is the time from sending to the
    report deadline.  `replicate` is set if other hosts must compute the workunit too (adaptive
    replication).
    """

    candidate: Candidate
    version: VersionFacts
    flops: float
    seconds: float
    delay: timedelta
    replicate: bool = False


class LockedWorkunit(NamedTuple):
    """A workunit locked for sending, with the host class and app version to which it is bound.

    Class 0 and version None mean that the workunit is not bound.
    """

    id: int
    hr_class: int = 0
    app_version_id: int | None = None


class SiblingResult(NamedTuple):
    """A result of a locked workunit.

    `target_kind` is a `lifecycle.Target`; `ended_at` is the time of the report, else the report
    deadline.
    """

    id: int
    workunit_id: int
    server_state: int
    outcome: int = 0
    target_kind: int = 0
    target_id: int = 0
    host_id: int | None = None
    account_id: int | None = None
    ended_at: datetime | None = None


class HeldResult(NamedTuple):
    """A result that a client reports or lists, or that is assigned to a host.

    `seconds` is its estimated duration on that host.
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
    acknowledged: bool
    sent_at: datetime | None
    report_deadline: datetime | None
    delay_bound: timedelta
    seconds: float
    error_mask: int
    cancelled: bool
    has_canonical: bool
    assimilated: bool
    account_id: int | None = None
    output_bytes: int = 0


class InputFile(NamedTuple):
    """An input file of an assigned workunit.

    `urls` has one URL per line if the file is stored elsewhere, else it is empty.
    """

    workunit_id: int
    name: str
    nbytes: int
    md5: str
    open_name: str
    copy_file: bool
    sticky: bool
    urls: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class VersionFile:
    """A signed file of an assigned app version."""

    app_version_id: int
    name: str
    nbytes: int
    md5: str
    open_name: str
    main_program: bool
    executable: bool
    copy_file: bool
    signature: str


class AssignedResult(NamedTuple):
    """One result assigned to the host, with the workunit fields that its client needs.

    `outputs` is the workunit's list of output files (see `models.Workunit`).  `bundle_id` is the
    id of the task list with which the result was sent, or 0.
    """

    result_id: int
    result_name: str
    workunit_id: int
    workunit_name: str
    app_id: int
    app_version_id: int
    flops: float
    report_deadline: datetime
    command_line: str
    outputs: list[dict[str, Any]]
    rsc_fpops_est: float
    rsc_fpops_bound: float
    rsc_memory_bound: float
    rsc_disk_bound: float
    bundle_id: int = 0
    max_termination_time: timedelta = timedelta(seconds=10)
    requested_cpus: float = 0.0
    requested_gpus: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Version:
    """An app version with its app, and further fields that replies contain.

    `is_own` is set for the volunteer's own version (`OwnVersion`), whose files are never sent.
    """

    facts: VersionFacts
    app: AppFacts
    api_version: str
    cmdline: str
    file_prefix: str
    dont_throttle: bool = False
    needs_network: bool = False
    is_wrapper: bool = False
    is_own: bool = False


@dataclass(slots=True, kw_only=True)
class Work:
    """The results that a host receives in one RPC, and why it receives no more.

    `given_up` holds the names of lost results that are not resent.  `refused` counts candidates by
    reason (`dispatch.rules.fit.RefusalReason`), `sentences` holds one sentence per reason,
    `lasting` the refusals that do not pass with time.  `retry_soon` is set if the host may receive
    work soon: other transactions have locked candidates, or one RPC could not judge all candidates.
    """

    assigned: list[AssignedResult] = field(default_factory=list)
    resent: list[AssignedResult] = field(default_factory=list)
    given_up: list[str] = field(default_factory=list)
    inputs: list[InputFile] = field(default_factory=list)
    versions: dict[int, Version] = field(default_factory=dict)
    version_files: list[VersionFile] = field(default_factory=list)
    refused: Counter[str] = field(default_factory=Counter)
    sentences: dict[str, str] = field(default_factory=dict)
    retry_soon: bool = False
    asked_for_work: bool = False
    apps: Mapping[int, AppFacts] = field(default_factory=dict)
    lasting: list[tuple[Candidate, str, str]] = field(default_factory=list)

    @property
    def sent(self) -> list[AssignedResult]:
        """All results in the reply; resent results come first."""
        return [*self.resent, *self.assigned]

    def primary_reason(self) -> str:
        """Return the sentence of the most frequent refusal, or "" if there was no refusal."""
        if not self.refused:
            return ""
        reason, _count = self.refused.most_common(1)[0]
        return self.sentences[reason]
