"""Which of the unsent results a host can be given, and why not the others [pure].

Sources: PROTOCOL 10.2 to 10.5.  GPUs are served before CPUs; a candidate that one device cannot
take may go to another, and is refused only when none of those that ask can take it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from scheduler.dispatch.rules import estimates, scoring
from scheduler.dispatch.rules.fair_share import interleave
from scheduler.dispatch.rules.fit import LASTING, SENSOR, Judge, Refusal, Rules
from scheduler.hosts.facts import (
    AppFacts,
    Assignment,
    Candidate,
    HostFacts,
    Taste,
    VersionFacts,
    Wish,
)

__all__ = [
    "LASTING",
    "SENSOR",
    "Choice",
    "Refusal",
    "Rules",
    "choose",
    "needed",
    "order",
    "queue_growth",
]

#: So many more are found than are needed, if there are: others may be faster with some of them.
SPARE = 12
#: Once a wish is met, so many more are judged at most, and so many times those that meet it: that
#: many hosts may be taking the same ones at the same moment.
MOST_TO_SPARE, RIVALS = 2 * SPARE, 8
#: Hosts that are served together are no rivals, and what is to spare is so for all of them.
SPARE_TOGETHER = 4


@dataclass(slots=True)
class Choice:
    """What a look through the candidates found.

    `feasible` holds, by device, assignments in the candidates' order, and more than the wish: some
    may be taken by others before they are claimed.  `lasting` keeps each refusal that will not
    pass, for those who ask why a result finds no host.  `saturated` are the devices for which
    a result was refused only because of those chosen before it: it would miss its deadline.
    """

    feasible: dict[str, list[Assignment]] = field(default_factory=dict)
    refused: Counter[Refusal] = field(default_factory=Counter)
    example: dict[Refusal, str] = field(default_factory=dict)
    lasting: list[tuple[Candidate, Refusal, str]] = field(default_factory=list)
    saturated: set[str] = field(default_factory=set)

    def refuse(self, candidate: Candidate, reason: Refusal, sentence: str) -> None:
        """Count a refusal; the first sentence of a reason is kept."""
        self.refused[reason] += 1
        self.example.setdefault(reason, sentence)
        if reason in LASTING:
            self.lasting.append((candidate, reason, sentence))

    @property
    def found(self) -> int:
        """How many assignments there are on all devices."""
        return sum(len(each) for each in self.feasible.values())


def order(
    candidates: Iterable[Candidate], *, host: HostFacts, rules: Rules, draw: float
) -> tuple[list[Candidate], list[tuple[Candidate, str]]]:
    """Put candidates into the order in which they are judged; those disliked apart, with why.

    What is for this host alone comes first, then what scores highest with this volunteer and
    computer (PROTOCOL 10.4); among equals the apps' weights decide, then age.
    """
    apps, taste = rules.apps, host.taste
    plain = {app.id for app in apps.values() if _is_plain(app, taste)}
    scored: dict[tuple[float, int], list[Candidate]] = {}
    disliked: list[tuple[Candidate, str]] = []
    for candidate in candidates:
        points: float = candidate.priority
        if candidate.app_id not in plain:
            app = apps[candidate.app_id]
            if why := scoring.why_unwanted(candidate, app=app, taste=taste):
                disliked.append((candidate, why))
                continue
            best = next(iter(rules.versions.get(app.id, ())), None)
            speed = estimates.flops(best, host.fpops) if best else 0.0
            points = scoring.score(candidate, app=app, host=host, speed=speed) or 0.0
        if candidate.target_kind:
            points += _FIRST
        key = (points, candidate.app_id)
        if key in scored:
            scored[key].append(candidate)
        else:
            scored[key] = [candidate]
    return _in_turn(scored, {app.id: app.weight for app in apps.values()}, draw), disliked


def _in_turn(
    scored: Mapping[tuple[float, int], list[Candidate]], weights: Mapping[int, float], draw: float
) -> list[Candidate]:
    """Those of most points first; of equal points, the apps take turns by their weights."""
    lanes: dict[float, dict[int, list[Candidate]]] = {}
    for (points, app_id), lane in scored.items():
        lanes.setdefault(points, {})[app_id] = lane
    ordered: list[Candidate] = []
    for points in sorted(lanes, reverse=True):
        if len(lanes[points]) == 1:
            ordered += next(iter(lanes[points].values()))
        else:
            ordered += interleave(lanes[points], weights, draw)
    return ordered


def _is_plain(app: AppFacts, taste: Taste) -> bool:
    """Whether nothing but priority and age tells this app's candidates apart."""
    has_wishes = taste.selected_apps or taste.likes or taste.dislikes
    return not (has_wishes or app.beta or app.locality or app.n_size_classes > 1)


#: More than any priority and score.
_FIRST = 1e12


def choose(
    candidates: Sequence[Candidate],
    *,
    host: HostFacts,
    wishes: Sequence[Wish],
    rules: Rules,
) -> Choice:
    """Judge candidates for a host, in their order, device after device.

    One result per workunit is taken: never two of one workunit on one host.
    """
    choice = Choice()
    judge = Judge(host, rules)
    taken: set[int] = set()
    for wish in wishes:
        found, is_saturated = _serve(wish, candidates, judge, taken)
        choice.feasible[wish.device] = found
        if is_saturated:
            choice.saturated.add(wish.device)
        if wish is not wishes[-1]:
            # What is only to spare may go to the next device; a claim gives none of them twice.
            for spare in found[needed(found, wish, room=rules.rooms.total) :]:
                judge.give_back(spare)
                taken.discard(spare.candidate.workunit_id)
    if not judge.why:
        return choice
    assigned = {one.candidate.workunit_id for found in choice.feasible.values() for one in found}
    for candidate in candidates:
        if candidate.workunit_id not in assigned and candidate.result_id in judge.why:
            choice.refuse(candidate, *judge.why[candidate.result_id])
    return choice


def _serve(
    wish: Wish, candidates: Iterable[Candidate], judge: Judge, taken: set[int]
) -> tuple[list[Assignment], bool]:
    """Return the assignments that meet one device's wish, with spare ones.

    The second value is whether a candidate was refused because of those chosen before it: each
    adds to the queue, as in BOINC's `update_estimated_delay`, also where the queue was empty.
    """
    found: list[Assignment] = []
    is_saturated = False
    device, devices = wish.device, _devices(judge.host, wish.device)
    queued, to_spare = wish.queued_seconds, 0
    seconds, instances = wish.seconds, wish.instances
    most, rivals = (SPARE_TOGETHER, 0) if judge.rules.together else (MOST_TO_SPARE, RIVALS)
    for candidate in candidates:
        if candidate.workunit_id in taken:
            continue
        verdict = judge.judge(candidate, device, queued)
        if isinstance(verdict, Assignment):
            taken.add(candidate.workunit_id)
            found.append(verdict)
            used = _used(verdict.version, device)
            queued += verdict.seconds * used / devices
            if seconds <= 0 and instances <= 0 and device != SENSOR:
                to_spare += 1
                if to_spare >= most + rivals * (len(found) - to_spare):
                    break
            seconds, instances = seconds - verdict.seconds * used, instances - used
        elif verdict is not None:
            is_saturated |= bool(found) and verdict[0] == Refusal.DEADLINE
            judge.why[candidate.result_id] = verdict
    return found, is_saturated


def queue_growth(seconds: float, version: VersionFacts, host: HostFacts) -> float:
    """Return by how many seconds a result delays the next one on the same kind of device."""
    return seconds * _used(version, version.device) / _devices(host, version.device)


def _devices(host: HostFacts, device: str) -> int:
    """How many devices of a kind share the queue; at least one."""
    if not device or device == SENSOR:
        return max(1, host.ncpus)
    return max(1, sum(gpu.count for gpu in host.machine.gpus if gpu.kind == device))


def _used(version: VersionFacts, device: str) -> float:
    """How many of the devices of a kind a result of this version keeps busy."""
    return version.device_count if device else version.avg_ncpus


def needed(assignments: Sequence[Assignment], wish: Wish, *, room: int) -> int:
    """How many of the assignments, taken in order, meet the wish; `room` at most.

    BOINC's rule: go on while seconds or instances are still asked for (PROTOCOL 10.4).
    """
    if wish.device == SENSOR:
        return min(room, len(assignments))
    seconds, instances = wish.seconds, wish.instances
    for count, assignment in enumerate(assignments):
        if count >= room or (seconds <= 0 and instances <= 0):
            return count
        used = _used(assignment.version, wish.device)
        seconds -= assignment.seconds * used
        instances -= used
    return min(room, len(assignments))
