"""Chooses results for a host, and collects refusals of other candidates.

Sources: PROTOCOL 10.2 to 10.5.  GPUs are served before CPUs.  A candidate that does not fit one
device may be assigned to another; it is refused only if it fits none of the requesting devices.

This module uses no database, files or clock.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from operator import attrgetter

from scheduler.dispatch.facts import (
    AppFacts,
    Assignment,
    Candidate,
    HostFacts,
    Taste,
    VersionFacts,
    WorkRequest,
)
from scheduler.dispatch.rules import estimates, scoring
from scheduler.dispatch.rules.fair_share import interleave
from scheduler.dispatch.rules.fit import LASTING, SENSOR, Judge, RefusalReason, Rules
from scheduler.queues.facts import QueueFacts

#: The number of spare results beyond the needed ones, because other hosts may claim some first.
SPARE = 12
#: After a request is met, at most `MAX_SPARE` more results are chosen, plus `RIVALS` per result
#: that meets it, because up to `RIVALS` other hosts may claim the same results at once.
MAX_SPARE, RIVALS = 2 * SPARE, 8
#: The number of spare results for each host of a batch.  It is lower because hosts of a batch do
#: not compete with each other, and a spare result of one host may be sent to another.
SPARE_TOGETHER = 4


@dataclass(slots=True)
class Choice:
    """The outcome of judging the candidates of one host.

    `feasible` holds assignments by device, in the candidates' order, more than requested because
    other hosts may claim some first.  `lasting` holds the refusals that do not pass with time, used
    to explain why a result is not sent.  `saturated` are the devices for which a result was refused
    because it would miss its deadline after the results chosen before it.
    """

    feasible: dict[str, list[Assignment]] = field(default_factory=dict)
    refused: Counter[RefusalReason] = field(default_factory=Counter)
    example: dict[RefusalReason, str] = field(default_factory=dict)
    lasting: list[tuple[Candidate, RefusalReason, str]] = field(default_factory=list)
    saturated: set[str] = field(default_factory=set)

    def refuse(self, candidate: Candidate, reason: RefusalReason, sentence: str) -> None:
        """Count a refusal; the first sentence of each reason is kept as an example."""
        self.refused[reason] += 1
        self.example.setdefault(reason, sentence)
        if reason in LASTING:
            self.lasting.append((candidate, reason, sentence))


def order(
    candidates: Iterable[Candidate], *, host: HostFacts, rules: Rules, draw: float
) -> tuple[list[Candidate], list[tuple[Candidate, str]]]:
    """Return the candidates in the order to judge them, and the excluded candidates.

    A candidate is excluded if the volunteer's preferences do not allow it; it is returned with a
    message for the volunteer.  Targeted results come first, and the other results follow by
    descending score for this volunteer and computer (PROTOCOL 10.4).  At equal scores, the apps
    alternate by weight, and the candidates of an app keep their order in `candidates`.  `draw` is
    the random number in [0, 1) that `fair_share.interleave` uses.

    Work of a queue of a higher priority group comes before all work of lower groups; work without a
    queue is in group 0.  A queue of the order fifo or lifo alternates like an app, at score 0.
    """
    if not rules.queues:
        return _by_score(candidates, host=host, rules=rules, draw=draw)
    groups: dict[int, list[Candidate]] = {}
    for candidate in candidates:
        groups.setdefault(_group(candidate, rules.queues), []).append(candidate)
    ordered: list[Candidate] = []
    unwanted: list[tuple[Candidate, str]] = []
    for group in sorted(groups, reverse=True):
        wanted, refused = _by_score(groups[group], host=host, rules=rules, draw=draw)
        ordered += wanted
        unwanted += refused
    return ordered, unwanted


def _group(candidate: Candidate, queues: Mapping[int, QueueFacts]) -> int:
    queue = queues.get(candidate.queue_id)
    return queue.priority_group if queue else 0


def _by_score(
    candidates: Iterable[Candidate], *, host: HostFacts, rules: Rules, draw: float
) -> tuple[list[Candidate], list[tuple[Candidate, str]]]:
    """Order the candidates of one priority group."""
    apps, taste = rules.apps, host.taste
    plain = {app.id for app in apps.values() if _is_plain(app, taste)}
    scored: dict[tuple[float, int], list[Candidate]] = {}
    unwanted: list[tuple[Candidate, str]] = []
    for candidate in candidates:
        points: float = candidate.priority
        if candidate.app_id not in plain:
            app = apps[candidate.app_id]
            if sentence := scoring.why_unwanted(candidate, app=app, taste=taste):
                unwanted.append((candidate, sentence))
                continue
            best = next(iter(rules.versions.get(app.id, ())), None)
            speed = estimates.flops(best, host.fpops) if best else 0.0
            points = scoring.score(candidate, app=app, host=host, speed=speed) or 0.0
        key = (points, candidate.app_id)
        if candidate.queue_id:
            if rules.queues[candidate.queue_id].order != "priority":
                key = (0.0, -candidate.queue_id)
        elif candidate.target_kind:
            key = (points + _TARGETED_BONUS, candidate.app_id)
        if key in scored:
            scored[key].append(candidate)
        else:
            scored[key] = [candidate]
    weights = {app.id: app.weight for app in apps.values()}
    if rules.queues:
        _put_in_order(scored, rules.queues)
        weights |= {-q.id: weights.get(q.app_id or 0, 1.0) for q in rules.queues.values()}
    return _in_turn(scored, weights, draw), unwanted


def _put_in_order(
    scored: Mapping[tuple[float, int], list[Candidate]], queues: Mapping[int, QueueFacts]
) -> None:
    """Sort the candidates of queues of the order fifo or lifo, which have keys of their own."""
    for (_, lane), candidates in scored.items():
        if lane < 0:
            is_lifo = queues[-lane].order == "lifo"
            candidates.sort(key=attrgetter("workunit_id"), reverse=is_lifo)


def _in_turn(
    scored: Mapping[tuple[float, int], list[Candidate]], weights: Mapping[int, float], draw: float
) -> list[Candidate]:
    """Return candidates by descending points; at equal points, the apps alternate by weight.

    The keys of `scored` are (points, app id), or (points, negative id of a queue).
    """
    by_points: dict[float, dict[int, list[Candidate]]] = {}
    for (points, app_id), app_candidates in scored.items():
        by_points.setdefault(points, {})[app_id] = app_candidates
    ordered: list[Candidate] = []
    for points in sorted(by_points, reverse=True):
        if len(by_points[points]) == 1:
            ordered += next(iter(by_points[points].values()))
        else:
            ordered += interleave(by_points[points], weights, draw)
    return ordered


def _is_plain(app: AppFacts, taste: Taste) -> bool:
    """Return True if this app's candidates are ordered by priority and age alone."""
    has_wishes = taste.selected_apps or taste.likes or taste.dislikes
    return not (has_wishes or app.beta or app.locality or app.n_size_classes > 1)


#: Added to the score of targeted results: more than any priority and score.
_TARGETED_BONUS = 1e12


def choose(
    candidates: Sequence[Candidate],
    *,
    host: HostFacts,
    work_requests: Sequence[WorkRequest],
    rules: Rules,
) -> Choice:
    """Judge candidates for a host, in order, for each requested device in turn.

    At most one result per workunit is chosen.
    """
    choice = Choice()
    judge = Judge(host, rules)
    taken: set[int] = set()
    for request in work_requests:
        assignments, is_saturated = _serve(request, candidates, judge, taken)
        choice.feasible[request.device] = assignments
        if is_saturated:
            choice.saturated.add(request.device)
        if request is not work_requests[-1]:
            # Spare assignments may also be chosen for the next device; a claim sends each once.
            for spare in assignments[
                needed(assignments, request, max_results=rules.headroom.total) :
            ]:
                judge.take(spare.candidate, spare.version, count=-1)
                taken.discard(spare.candidate.workunit_id)
    if not judge.why:
        return choice
    assigned = {
        assignment.candidate.workunit_id
        for assignments in choice.feasible.values()
        for assignment in assignments
    }
    for candidate in candidates:
        if candidate.workunit_id not in assigned and candidate.result_id in judge.why:
            choice.refuse(candidate, *judge.why[candidate.result_id])
    return choice


def _serve(
    request: WorkRequest, candidates: Iterable[Candidate], judge: Judge, taken: set[int]
) -> tuple[list[Assignment], bool]:
    """Return the assignments that meet one device's request, and spare assignments.

    The second value is whether a candidate was refused because it would miss its deadline after the
    results chosen before it.  Each chosen result adds to the queue, even if the queue was empty, as
    in BOINC's `update_estimated_delay`.
    """
    assignments: list[Assignment] = []
    is_saturated = False
    device, devices = request.device, _devices(judge.host, request.device)
    queued, spare_count = request.queued_seconds, 0
    seconds, instances = request.seconds, request.instances
    max_spare, rivals = (SPARE_TOGETHER, 0) if judge.rules.together else (MAX_SPARE, RIVALS)
    for candidate in candidates:
        if candidate.workunit_id in taken:
            continue
        verdict = judge.judge(candidate, device, queued)
        if isinstance(verdict, Assignment):
            taken.add(candidate.workunit_id)
            assignments.append(verdict)
            used = used_by(verdict, device)
            queued += verdict.seconds * used / devices
            if seconds <= 0 and instances <= 0 and device != SENSOR:
                spare_count += 1
                if spare_count >= max_spare + rivals * (len(assignments) - spare_count):
                    break
            seconds, instances = seconds - verdict.seconds * used, instances - used
        elif verdict is not None:
            is_saturated |= bool(assignments) and verdict[0] == RefusalReason.DEADLINE
            judge.why[candidate.result_id] = verdict
    return assignments, is_saturated


def queue_growth(seconds: float, version: VersionFacts, host: HostFacts) -> float:
    """Return the seconds by which a result delays the next result on the same kind of device."""
    return seconds * _used(version, version.device) / _devices(host, version.device)


def _devices(host: HostFacts, device: str) -> int:
    """Return the number of devices of a kind that share the queue, which is at least 1."""
    if not device or device == SENSOR:
        return max(1, host.ncpus)
    return max(1, sum(gpu.count for gpu in host.machine.gpus if gpu.kind == device))


def _used(version: VersionFacts, device: str) -> float:
    """Return the number of devices of a kind that a result of this version uses."""
    return version.device_count if device else version.avg_ncpus


def used_by(assignment: Assignment, device: str) -> float:
    """Return how many devices of a kind an assignment uses: as requested, else as its version."""
    candidate = assignment.candidate
    requested = candidate.requested_gpus if device else candidate.requested_cpus
    return requested or _used(assignment.version, device)


def needed(assignments: Sequence[Assignment], request: WorkRequest, *, max_results: int) -> int:
    """Return the number of assignments, in order, that meet the request, at most `max_results`.

    Assignments are counted while seconds or instances are still requested.  Source: BOINC's rule
    (PROTOCOL 10.4).
    """
    if request.device == SENSOR:
        return min(max_results, len(assignments))
    seconds, instances = request.seconds, request.instances
    for count, assignment in enumerate(assignments):
        if count >= max_results or (seconds <= 0 and instances <= 0):
            return count
        used = used_by(assignment, request.device)
        seconds -= assignment.seconds * used
        instances -= used
    return min(max_results, len(assignments))
