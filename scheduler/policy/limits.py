"""How many results a host may hold and be given at once [pure]."""

from __future__ import annotations

from collections.abc import Iterable

from scheduler.config import ProjectConfig
from scheduler.facts.hosts import AppFacts, HostFacts


def room_for(host: HostFacts, config: ProjectConfig) -> int:
    """How many more results the host may be given in this RPC; 0 if it holds all it may."""
    held_at_most = config.max_in_progress_per_cpu * host.ncpus
    if host.max_in_progress is not None:
        held_at_most = min(held_at_most, host.max_in_progress)
    held = sum(host.held.values())
    return max(0, min(held_at_most - held, config.max_results_per_rpc * host.ncpus))


def room_by_app(host: HostFacts, apps: Iterable[AppFacts]) -> dict[int, int]:
    """How many more results the host may hold of each app that has a limit of its own."""
    return {
        app.id: max(0, app.max_in_progress_per_cpu * host.ncpus - host.held.get(app.id, 0))
        for app in apps
        if app.max_in_progress_per_cpu is not None
    }
