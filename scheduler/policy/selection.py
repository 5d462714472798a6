"""Which of the unsent results a host can be given, and why not the others [pure]."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum

from scheduler.facts.hosts import Assignment, Candidate, HostFacts, VersionFacts, Wish
from scheduler.policy import estimates


class Refusal(StrEnum):
    """Why a candidate is not for this host."""

    NO_VERSION = "no_version"
    MEMORY = "memory"
    DISK = "disk"
    DEADLINE = "deadline"
    IN_PROGRESS_LIMIT = "in_progress_limit"


@dataclass(slots=True)
class Choice:
    """What a look through the candidates found.

    `feasible` keeps the candidates' order and is longer than the wish: some of them may be taken by
    others before they are claimed.
    """

    feasible: list[Assignment] = field(default_factory=list)
    refused: Counter[Refusal] = field(default_factory=Counter)
    example: dict[Refusal, str] = field(default_factory=dict)

    def refuse(self, reason: Refusal, sentence: str) -> None:
        """Count a refusal; the first sentence of a reason is kept."""
        self.refused[reason] += 1
        self.example.setdefault(reason, sentence)


def choose(
    candidates: Iterable[Candidate],
    *,
    host: HostFacts,
    wish: Wish,
    versions: Mapping[int, Sequence[VersionFacts]],
    names: Mapping[int, str],
    rooms: Mapping[int, int] | None = None,
) -> Choice:
    """Judge candidates for a host, in their order.

    `versions` are the host's app versions by app, best first; `names` are the apps' names for the
    sentences; `rooms` says how many more results of an app the host may hold, where that is
    limited.  One result per workunit is taken: never two of one workunit on one host.
    """
    choice = Choice()
    seen: set[int] = set()
    disk_left = host.disk_bytes
    queued = wish.queued_seconds
    rooms = dict(rooms or {})
    for candidate in candidates:
        if candidate.workunit_id in seen:
            continue
        version = version_for(candidate, versions.get(candidate.app_id, ()), host)
        name = names.get(candidate.app_id, "this application")
        if version is None:
            choice.refuse(Refusal.NO_VERSION, f"{name} is not available for your type of computer.")
            continue
        speed = estimates.flops(version, host.fpops)
        seconds = candidate.rsc_fpops_est / speed
        if refusal := _misfit(candidate, host, seconds, disk_left, queued, name):
            choice.refuse(*refusal)
            continue
        if rooms.get(candidate.app_id, 1) <= 0:
            choice.refuse(
                Refusal.IN_PROGRESS_LIMIT,
                f"This computer has reached a limit on tasks in progress for {name}",
            )
            continue
        if candidate.app_id in rooms:
            rooms[candidate.app_id] -= 1
        seen.add(candidate.workunit_id)
        disk_left -= candidate.rsc_disk_bound
        queued += seconds / host.ncpus if queued else 0.0
        choice.feasible.append(
            Assignment(candidate=candidate, version=version, flops=speed, seconds=seconds)
        )
    return choice


def version_for(
    candidate: Candidate, versions: Sequence[VersionFacts], host: HostFacts
) -> VersionFacts | None:
    """The version a candidate would run in on this host: a pinned one, or the best current one."""
    if candidate.hr_class and candidate.hr_class != host.hr_class:
        return None
    for version in versions:
        if candidate.app_version_id is not None:
            if version.id == candidate.app_version_id:
                return version
        elif candidate.app_version_num:
            if version.version_num == candidate.app_version_num:
                return version
        elif not version.deprecated:
            return version
    return None


def needed(assignments: Sequence[Assignment], wish: Wish, *, room: int) -> int:
    """How many of the assignments, taken in order, meet the wish; `room` at most.

    BOINC's rule: go on while seconds or instances are still asked for (PROTOCOL 10.4).
    """
    seconds, instances = wish.seconds, wish.instances
    for count, assignment in enumerate(assignments):
        if count >= room or (seconds <= 0 and instances <= 0):
            return count
        seconds -= assignment.seconds * assignment.version.avg_ncpus
        instances -= assignment.version.avg_ncpus
    return min(room, len(assignments))


def _misfit(
    candidate: Candidate, host: HostFacts, seconds: float, disk: float, queued: float, name: str
) -> tuple[Refusal, str] | None:
    """The first reason why a candidate does not fit, in BOINC's order and wording."""
    if candidate.rsc_memory_bound > host.memory_bytes:
        wants, has = candidate.rsc_memory_bound / 2**20, host.memory_bytes / 2**20
        return Refusal.MEMORY, (
            f"{name} needs {wants:.2f} MB RAM but only {has:.2f} MB is available for use."
        )
    if candidate.rsc_disk_bound > disk:
        missing = (candidate.rsc_disk_bound - disk) / 2**20
        return Refusal.DISK, (
            f"{name} needs {missing:.2f}MB more disk space.  You currently have "
            f"{disk / 2**20:.2f} MB available and it needs "
            f"{candidate.rsc_disk_bound / 2**20:.2f} MB."
        )
    # An empty queue may always try: BOINC skips the check then (PROTOCOL 10.3).
    if queued > 0:
        takes = queued + seconds / host.active_fraction
        if takes > candidate.delay_bound.total_seconds():
            return Refusal.DEADLINE, (
                "Tasks won't finish in time: BOINC computes "
                f"{host.active_fraction:.1%} of the time and {queued:.0f} seconds are queued."
            )
    return None
