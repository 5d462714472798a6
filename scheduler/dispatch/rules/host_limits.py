"""Limits on the number of results that a host may hold or be assigned.

This module uses no database, files or clock.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from scheduler.config import ProjectConfig
from scheduler.dispatch.facts import AppFacts, HostFacts, VersionFacts

#: The headroom of an app without a limit, larger than the number of results of any RPC.
UNLIMITED = 1_000_000


@dataclass(slots=True)
class Headroom:
    """The number of further results that a host may hold, in total and by app and device.

    `by_app` has the number for all devices, by app id.  The keys of `by_device` are (app id,
    whether on a GPU).  `output_bytes` is the number of output bytes that further results may
    declare; None means no limit.  `by_queue` has the number of results that the claim may send to
    the host, by id of each queue with limits.
    """

    total: int
    output_bytes: int | None = None
    by_device: dict[tuple[int, bool], int] = field(default_factory=dict)
    by_app: dict[int, int] = field(default_factory=dict)
    by_queue: dict[int, int] = field(default_factory=dict)

    def copy(self) -> Headroom:
        return Headroom(
            self.total,
            self.output_bytes,
            dict(self.by_device),
            dict(self.by_app),
            dict(self.by_queue),
        )

    def left(self, app_id: int, *, on_gpu: bool) -> int:
        """Return how many more results of an app the host may hold on this kind of device."""
        if not (self.by_device or self.by_app):
            return UNLIMITED
        return min(
            self.by_device.get((app_id, on_gpu), UNLIMITED), self.by_app.get(app_id, UNLIMITED)
        )

    def take(self, app_id: int, *, on_gpu: bool, count: int = 1) -> None:
        """Subtract results from the headroom; a negative `count` adds them again."""
        if (app_id, on_gpu) in self.by_device:
            self.by_device[app_id, on_gpu] -= count
        if app_id in self.by_app:
            self.by_app[app_id] -= count


def headroom_for(
    host: HostFacts,
    config: ProjectConfig,
    *,
    apps: Iterable[AppFacts],
    versions: Mapping[int, VersionFacts],
) -> Headroom:
    """Return the number of further results that a host may be assigned in one RPC.

    All results in progress on the host count, acknowledged or not.  `versions` holds app versions
    by id, to look up the device of a held result; a result of an unknown version counts as running
    on CPUs.
    """
    gpus = sum(gpu.count for gpu in host.machine.gpus)
    max_held = config.max_in_progress_per_cpu * (host.ncpus + gpus)
    if host.max_in_progress is not None:
        max_held = min(max_held, host.max_in_progress)
    if host.taste.max_held is not None:
        max_held = min(max_held, host.taste.max_held)
    held_count = sum(host.held_counts.values())
    max_new = config.max_results_per_rpc * (host.ncpus + gpus)
    limit = config.max_promised_bytes
    headroom = Headroom(
        total=max(0, min(max_held - held_count, max_new)),
        output_bytes=limit - host.promised_bytes if limit else None,
    )
    for app in apps:
        held_on = _held_by_device(app.id, host, versions)
        if app.max_in_progress_per_cpu is not None:
            headroom.by_device[app.id, False] = (
                app.max_in_progress_per_cpu * host.ncpus - held_on[False]
            )
        if app.max_in_progress_per_gpu is not None:
            headroom.by_device[app.id, True] = app.max_in_progress_per_gpu * gpus - held_on[True]
        if app.max_in_progress_per_host is not None:
            headroom.by_app[app.id] = app.max_in_progress_per_host - sum(held_on.values())
        if app.non_cpu_intensive:
            # A host needs only one result of a non-CPU-intensive app; it is never queued.
            headroom.by_app[app.id] = min(headroom.by_app.get(app.id, 1), 1 - sum(held_on.values()))
    return headroom


def _held_by_device(
    app_id: int, host: HostFacts, versions: Mapping[int, VersionFacts]
) -> dict[bool, int]:
    counts = {False: 0, True: 0}
    for (held_app, version_id), count in host.held_counts.items():
        if held_app == app_id:
            version = versions.get(version_id or 0)
            counts[version is not None and bool(version.device)] += count
    return counts
