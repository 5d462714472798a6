"""How many results a host may hold and be given at once [pure]."""

from __future__ import annotations

from scheduler.config import ProjectConfig
from scheduler.facts.hosts import HostFacts


def room_for(host: HostFacts, config: ProjectConfig) -> int:
    """How many more results the host may be given in this RPC; 0 if it holds all it may."""
    held_at_most = config.max_in_progress_per_cpu * host.ncpus
    if host.max_in_progress is not None:
        held_at_most = min(held_at_most, host.max_in_progress)
    return max(0, min(held_at_most - host.held, config.max_results_per_rpc * host.ncpus))
