"""Hosts of the pool, and the work that they can claim [pure]."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import NamedTuple


@dataclass(frozen=True, slots=True)
class PoolHost:
    """A host that is enrolled in the pool, recognized by its token."""

    token_id: int
    host_id: int
    account_id: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Filter:
    """Limits on the work that a host browses or acquires; None means no limit.

    `queue`, `app` and `batch` are names, and `after` is the id of a result.  The other limits are
    bytes, floating-point operations, CPUs and GPUs.
    """

    queue: str | None = None
    app: str | None = None
    batch: str | None = None
    max_memory_bytes: float | None = None
    max_disk_bytes: float | None = None
    max_fpops: float | None = None
    max_cpus: float | None = None
    max_gpus: float | None = None
    after: int = 0


class AvailableResult(NamedTuple):
    """An unsent result that a host of the pool may claim."""

    id: int
    name: str
    workunit_id: int
    workunit_name: str
    app: str
    queue: str
    batch: str | None
    priority: int
    max_termination_time: timedelta
    delay_bound: timedelta
    rsc_memory_bound: float
    rsc_disk_bound: float
    rsc_fpops_est: float
    requested_cpus: float
    requested_gpus: float

    @property
    def requested_resources(self) -> dict[str, float]:
        """The resources of a result; 0 CPUs or GPUs means those of its app version."""
        return {
            "cpus": self.requested_cpus,
            "gpus": self.requested_gpus,
            "memory_bytes": self.rsc_memory_bound,
            "disk_bytes": self.rsc_disk_bound,
            "fpops": self.rsc_fpops_est,
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class Usage:
    """The progress and usage of a running result; None is unknown.

    Times are in seconds; `fraction_done` and `gpu_usage` are fractions of 1.  `cpu_utilization` is
    the number of CPUs in use.
    """

    fraction_done: float | None = None
    cpu_time: float | None = None
    elapsed_time: float | None = None
    memory_bytes: float | None = None
    gpu_usage: float | None = None
    cpu_utilization: float | None = None


@dataclass(frozen=True, slots=True)
class ClaimedResult:
    """A result that was claimed for a host; its client gets the files by the next RPC."""

    id: int
    name: str
    report_deadline: datetime


class Extent(NamedTuple):
    """How many unsent results a request for work has read.

    `all_read` is False if there are others, or may be, of the queues, apps and limits requested.
    """

    results_read: int
    all_read: bool


class Acquired(NamedTuple):
    """The results that a request for work has claimed, and how many the server has read for it."""

    results: Sequence[ClaimedResult]
    results_read: int
    all_read: bool
