"""How many results a host may hold and be given at once [pure]."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from scheduler.config import ProjectConfig
from scheduler.hosts.facts import AppFacts, HostFacts, VersionFacts

#: An app without a limit of its own has this much room: more than one RPC can fill.
BOUNDLESS = 1_000_000


@dataclass(slots=True)
class Rooms:
    """How many more results a host may hold: in total, and per app by kind of device and in all.

    `output_bytes` is how many bytes of outputs its further results may declare; None: no limit.
    """

    total: int
    output_bytes: int | None = None
    by_device: dict[tuple[int, bool], int] = field(default_factory=dict)
    by_app: dict[int, int] = field(default_factory=dict)

    def copy(self) -> Rooms:
        """The same room, to be filled once more."""
        return Rooms(self.total, self.output_bytes, dict(self.by_device), dict(self.by_app))

    def left(self, app_id: int, *, on_gpu: bool) -> int:
        """How many more results of an app the host may hold on this kind of device."""
        if not (self.by_device or self.by_app):
            return BOUNDLESS
        return min(
            self.by_device.get((app_id, on_gpu), BOUNDLESS), self.by_app.get(app_id, BOUNDLESS)
        )

    def take(self, app_id: int, *, on_gpu: bool) -> None:
        """Count one more."""
        self._count(app_id, on_gpu, -1)

    def give_back(self, app_id: int, *, on_gpu: bool) -> None:
        """Count one less."""
        self._count(app_id, on_gpu, 1)

    def _count(self, app_id: int, on_gpu: bool, change: int) -> None:  # noqa: FBT001  a key's part
        if not (self.by_device or self.by_app):
            return
        if (app_id, on_gpu) in self.by_device:
            self.by_device[app_id, on_gpu] += change
        if app_id in self.by_app:
            self.by_app[app_id] += change


def rooms_for(
    host: HostFacts,
    config: ProjectConfig,
    *,
    apps: Iterable[AppFacts],
    versions: Mapping[int, VersionFacts],
) -> Rooms:
    """What a host may still hold, counting all it was assigned, acknowledged or not (W26).

    `versions` says on which device a held result computes; one of an unknown version counts as
    computing on CPUs.
    """
    gpus = sum(gpu.count for gpu in host.machine.gpus)
    held_at_most = config.max_in_progress_per_cpu * (host.ncpus + gpus)
    if host.max_in_progress is not None:
        held_at_most = min(held_at_most, host.max_in_progress)
    if host.taste.max_held is not None:
        held_at_most = min(held_at_most, host.taste.max_held)
    held = sum(host.held.values())
    most = config.max_results_per_rpc * (host.ncpus + gpus)
    limit = config.max_promised_bytes
    rooms = Rooms(
        total=max(0, min(held_at_most - held, most)),
        output_bytes=limit - host.promised_bytes if limit else None,
    )
    for app in apps:
        on = _held_by_device(app.id, host, versions)
        if app.max_in_progress_per_cpu is not None:
            rooms.by_device[app.id, False] = app.max_in_progress_per_cpu * host.ncpus - on[False]
        if app.max_in_progress_per_gpu is not None:
            rooms.by_device[app.id, True] = app.max_in_progress_per_gpu * gpus - on[True]
        if app.max_in_progress_per_host is not None:
            rooms.by_app[app.id] = app.max_in_progress_per_host - sum(on.values())
        if app.non_cpu_intensive:
            # One sensor a host is enough; it is never queued for.
            rooms.by_app[app.id] = min(rooms.by_app.get(app.id, 1), 1 - sum(on.values()))
    return rooms


def _held_by_device(
    app_id: int, host: HostFacts, versions: Mapping[int, VersionFacts]
) -> dict[bool, int]:
    on = {False: 0, True: 0}
    for (held_app, version_id), count in host.held.items():
        if held_app == app_id:
            version = versions.get(version_id or 0)
            on[version is not None and bool(version.device)] += count
    return on
