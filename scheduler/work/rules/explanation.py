"""Explains the state of a workunit in sentences [pure].

The sentences describe what the workunit waits for, and the transitioner's next decision.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime

from scheduler.dispatch.rules import sendability
from scheduler.lifecycle import (
    NO_RESULT,
    AssimilateState,
    ErrorMask,
    FileDeleteState,
    Outcome,
    ReleaseState,
    ServerState,
    ValidateState,
)
from scheduler.results.facts import ResultFacts, WorkunitFacts
from scheduler.results.rules.replication import effective_target, judge
from scheduler.results.rules.verdicts import Counts, Verdict
from scheduler.work.rules.error_texts import LastError

#: Maximum number of refused hosts that are named; further hosts are only counted.
MAX_NAMED_HOSTS = 20
#: Maximum number of parents that are named; further parents are only counted.
MAX_NAMED_PARENTS = 10
#: Maximum number of app versions in a staged roll-out that are named.
MAX_NAMED_VERSIONS = 5


@dataclass(frozen=True, slots=True)
class Refused:
    """A host that requested work and was refused the workunit, with the reason as a sentence."""

    host: str
    sentence: str
    at: datetime


@dataclass(frozen=True, slots=True)
class Parked:
    """A validation or assimilation of the workunit that failed too often and is not retried."""

    id: int
    stage: str
    failures: int
    since: datetime
    error: str


@dataclass(frozen=True, slots=True)
class AllTried:
    """The accounts (or hosts) that requested work lately and have all had a result of the workunit.

    `kind` is "account" or "host", and `count` is the number of these accounts or hosts.  `again_at`
    is the earliest time when one of them may get another result; None if none of them ever may.
    """

    kind: str
    count: int
    again_at: datetime | None


@dataclass(frozen=True, slots=True)
class Parent:
    """A workunit on which the workunit depends; it has no answer."""

    name: str
    has_failed: bool


@dataclass(frozen=True, slots=True)
class Surroundings:
    """Facts from other tables that affect a workunit: refusals, science failures, an outage.

    `refused` has all refusals, newest first.  `refused_hosts` is the number of active hosts with a
    refusal since the newest app version, `confirmed_hosts` the number of those whose refusal is
    confirmed, and `seen_hosts` the number of active hosts that the target allows.  `target` is a
    description of the host, account or team to which the workunit is restricted.  `away_since` is
    the time when the web server was last seen, during an outage.  `predecessor` is the name of the
    batch for which the workunit waits.  `parents` are the first `MAX_NAMED_PARENTS` workunits
    without an answer on which the workunit depends, failed ones first.  `queue` describes the
    workunit's queue and its state.  Texts are empty if they do not apply.
    """

    refused: tuple[Refused, ...] = ()
    refused_hosts: int = 0
    confirmed_hosts: int = 0
    seen_hosts: int = 0
    max_infeasible: int = 0
    target: str = ""
    parked: tuple[Parked, ...] = ()
    away_since: datetime | None = None
    predecessor: str = ""
    parents: tuple[Parent, ...] = ()
    last_error: LastError | None = None
    all_tried: AllTried | None = None
    #: The code with which the workunit is held; None if it has no code.
    hold_code: int | None = None
    #: The reason why no work of its app is sent, as a sentence; empty if work is sent.
    app_not_served: str = ""
    #: A sentence for each version that is sent to a share of the hosts, at most
    #: `MAX_NAMED_VERSIONS`.
    rollouts: tuple[str, ...] = ()
    queue: str = ""
    #: The task list with which the results of the workunit are sent, as a sentence.
    task_list: str = ""


NOTHING_ELSE = Surroundings()


def explain(
    workunit: WorkunitFacts, *, now: datetime, around: Surroundings = NOTHING_ELSE
) -> tuple[str, ...]:
    """Return sentences that describe a workunit's state and the transitioner's next decision."""
    verdict = judge(workunit, now=now)
    has_ended = workunit.canonical_result_id is not None or bool(workunit.error_mask)
    lines = (
        _of_ended(workunit, verdict, around)
        if has_ended
        else _of_open(workunit, verdict, now, around)
    )
    waits = explain_sending(around) if verdict.counts.unsent and not has_ended else ()
    return (
        *lines,
        *_of_last_error(workunit, around),
        *waits,
        *_of_science(around),
        *_of_outage(workunit, around),
        *_next_step(workunit, verdict, now),
    )


def explain_sending(around: Surroundings) -> tuple[str, ...]:
    """Return sentences that describe why a result is still unsent, and when it is given up."""
    lines = [around.app_not_served] if around.app_not_served else []
    lines += around.rollouts
    lines += [f"is sent only to {around.target}"] if around.target else []
    lines += [around.queue] if around.queue else []
    lines += [around.task_list] if around.task_list else []
    lines += [_of_turns(around.all_tried)] if around.all_tried else []
    lines += [
        f"{refused.host} requested work at {at(refused.at)} and was refused: {refused.sentence}"
        for refused in around.refused[:MAX_NAMED_HOSTS]
    ]
    if more := len(around.refused) - MAX_NAMED_HOSTS:
        lines += [f"{_number(more, 'other host')} were refused"] if more > 0 else []
    if around.refused:
        limit = sendability.limit(around.seen_hosts, around.max_infeasible)
        lines.append(
            f"is given up once it was refused to {_number(limit, 'host')}: "
            f"so far {around.refused_hosts} ({around.confirmed_hosts} confirmed)"
        )
    return tuple(lines)


def _of_turns(tried: AllTried) -> str:
    who = f"every {tried.kind}" if tried.kind == "host" else f"every {tried.kind} with a computer"
    until = (
        f", or until {at(tried.again_at)}, when it may be sent again to one of these"
        if tried.again_at
        else ""
    )
    return (
        f"{who} that requested work in the last {sendability.SEEN_WITHIN.days} days "
        f"({tried.count}) has had a result: waits for another {tried.kind}{until}"
    )


def _of_last_error(workunit: WorkunitFacts, around: Surroundings) -> Iterator[str]:
    if around.last_error is not None and workunit.canonical_result_id is None:
        yield f"its last error: {around.last_error.sentence}"


def _is_parked(around: Surroundings, stage: str) -> bool:
    return any(parked.stage == stage for parked in around.parked)


def _of_science(around: Surroundings) -> Iterator[str]:
    for parked in around.parked:
        yield (
            f"its {parked.stage} failed {_number(parked.failures, 'time')} and is parked since "
            f"{at(parked.since)}: {parked.error} (see `manage.py parked show {parked.id}`)"
        )


def _of_outage(workunit: WorkunitFacts, around: Surroundings) -> Iterator[str]:
    is_out = any(result.server_state == ServerState.IN_PROGRESS for result in workunit.results)
    if around.away_since is not None and is_out:
        yield (
            f"the web server was last seen at {at(around.away_since)}: until it is back, nothing "
            "times out"
        )


def _of_open(
    workunit: WorkunitFacts, verdict: Verdict, now: datetime, around: Surroundings
) -> Iterator[str]:
    if workunit.is_group:
        yield "is a group: it is complete when the workunits on which it depends have answers"
        yield from _of_requests(workunit, around)
        yield from _of_dependencies(workunit, around)
        return
    counts = verdict.counts
    yield f"has {_number(counts.successes, 'success')} of {workunit.min_quorum} needed to validate"
    if counts.inconclusive and counts.inconclusive == counts.successes:
        wanted = effective_target(workunit, counts)
        yield f"its successes disagree, so that {wanted} successes are needed"
    yield from _of_limits(workunit, counts)
    yield from _of_requests(workunit, around)
    yield from _of_dependencies(workunit, around)
    if workunit.start_after is not None and workunit.start_after > now:
        yield f"must not start before {at(workunit.start_after)}"
    yield from _waits_for_results(workunit)
    if workunit.need_validate and not _is_parked(around, "validator"):
        yield "waits for the validator"
    for limit, meaning in ((workunit.end_before, "end"), (workunit.start_before, "start")):
        if limit is not None and limit > now and (meaning == "end" or not counts.ever_sent):
            yield f"expires if it does not {meaning} before {at(limit)}"


def _of_dependencies(workunit: WorkunitFacts, around: Surroundings) -> Iterator[str]:
    if not workunit.pending_dependency_count:
        return
    if around.predecessor:
        yield f"waits for batch {around.predecessor} to end"
    if number := workunit.pending_dependency_count - bool(around.predecessor):
        names = ", ".join(parent.name for parent in around.parents)
        more = ", ..." * (number > len(around.parents))
        shown = f": {names}{more}" if names else ""
        yield f"waits for {_number(number, 'workunit')} on which it depends{shown}"


def _of_limits(workunit: WorkunitFacts, counts: Counts) -> Iterator[str]:
    if counts.errors or counts.given_up:
        yield (
            f"had {_number(counts.errors, 'error')}, and gives up at error "
            f"{workunit.max_error_results + 1}; {_number(counts.given_up, 'result')} given up"
        )
    if counts.timeouts and workunit.max_timeouts is not None:
        late = _number(counts.timeouts, "result")
        yield f"had {late} not reported in time, and gives up at number {workunit.max_timeouts + 1}"
    if workunit.broadcast:
        until = f" until {at(workunit.end_before)}" if workunit.end_before else ""
        yield f"is broadcast: every host that requests work gets its own result{until}"
    else:
        yield f"has had {_number(counts.total, 'result')} of at most {workunit.max_total_results}"


def _of_requests(workunit: WorkunitFacts, around: Surroundings) -> Iterator[str]:
    if workunit.unsendable_at is not None:
        yield f"is unsendable since {at(workunit.unsendable_at)}: no host qualifies"
    if workunit.revalidate_requested_at is not None:
        yield "is to be validated again"
    if workunit.release_state == ReleaseState.HELD:
        with_code = "" if around.hold_code is None else f" with code {around.hold_code}"
        by = "by staff " if around.hold_code is None else ""
        yield f"is held {by}until it is released{with_code}"


def _waits_for_results(workunit: WorkunitFacts) -> Iterator[str]:
    for result in workunit.results:
        if result.server_state == ServerState.UNSENT:
            yield f"{result.name} waits for a host that qualifies"
        elif result.server_state == ServerState.INACTIVE:
            yield f"{result.name} is held back"
        elif result.server_state == ServerState.IN_PROGRESS and result.report_deadline:
            yield f"{result.name} is in progress until {at(result.report_deadline)}"


def _of_ended(workunit: WorkunitFacts, verdict: Verdict, around: Surroundings) -> Iterator[str]:
    if workunit.error_mask:
        reasons = ", ".join((bit.name or "").lower() for bit in ErrorMask(workunit.error_mask))
        yield f"failed: {reasons.replace('_', ' ')}"
        for parent in around.parents:
            if parent.has_failed:
                yield f"depended on {parent.name}, which failed"
    elif workunit.canonical_result_id == NO_RESULT:
        yield "is a complete group: the workunits on which it depends have answers"
    else:
        names = {result.id: result.name for result in workunit.results}
        canonical = workunit.canonical_result_id or 0
        yield f"has its answer: {names.get(canonical, f'result {canonical}')} is canonical"
    if workunit.assimilate_state != AssimilateState.READY or not _is_parked(around, "assimilator"):
        yield {
            AssimilateState.INIT: "is not assimilated yet",
            AssimilateState.READY: "waits for the assimilator",
            AssimilateState.DONE: "is assimilated",
        }[AssimilateState(workunit.assimilate_state)]
    if workunit.need_validate and not _is_parked(around, "validator"):
        yield "late results wait for the validator"
    yield from _waits_for_results(workunit)
    if verdict.look_again_at is not None:
        yield f"overdue results still get credit until {at(verdict.look_again_at)}"
    yield from _waits_for_deletion(workunit)


def _waits_for_deletion(workunit: WorkunitFacts) -> Iterator[str]:
    if workunit.assimilate_state != AssimilateState.DONE:
        return
    if workunit.outputs_kept:
        what = "its outputs are" if workunit.canonical_result_id is not None else "its inputs are"
        yield f"{what} kept until its batch is retired"
    states = [result.file_delete_state for result in workunit.results]
    pending = sum(state in {FileDeleteState.READY, FileDeleteState.ERROR} for state in states)
    if pending or workunit.file_delete_state in {FileDeleteState.READY, FileDeleteState.ERROR}:
        yield "waits for the file deleter"
    elif workunit.file_delete_state == FileDeleteState.DONE and all(
        state == FileDeleteState.DONE for state in states
    ):
        yield "waits for the purger"


def _next_step(workunit: WorkunitFacts, verdict: Verdict, now: datetime) -> Iterator[str]:
    if verdict.changes_anything:
        steps = [str(move) for move in verdict.workunit_moves]
        steps += [f"{_number(verdict.replicas, 'new result')}"] if verdict.replicas else []
        steps += ["request validation"] if verdict.validate else []
        steps += [f"{_number(len(verdict.result_moves), 'move')} of results"] * bool(
            verdict.result_moves
        )
        steps += ["reset its host class"] if verdict.reset_class else []
        yield f"the transitioner will: {'; '.join(steps)}"
        if workunit.woken_at is None and not _is_past(workunit.transition_at, now):
            yield "but the transitioner was not woken: run fsck"
    elif workunit.woken_at is not None or _is_past(workunit.transition_at, now):
        yield "the transitioner will check it in its next pass"
    elif workunit.transition_at is None:
        yield "the transitioner has nothing to decide"
    else:
        yield f"the transitioner checks again at {at(workunit.transition_at)}"


def _is_past(time: datetime | None, now: datetime) -> bool:
    return time is not None and time <= now


def explain_result(result: ResultFacts) -> tuple[str, ...]:
    """Return sentences that describe the state of a result."""
    server_state = ServerState(result.server_state)
    if server_state is not ServerState.OVER:
        sentence = {
            ServerState.INACTIVE: "is held back until its workunit is released",
            ServerState.UNSENT: "waits for a host that qualifies",
            ServerState.IN_PROGRESS: "is being computed",
        }[server_state]
        until = f" until {at(result.report_deadline)}" if result.report_deadline else ""
        return (sentence + (until if server_state is ServerState.IN_PROGRESS else ""),)
    outcome, validity = Outcome(result.outcome), ValidateState(result.validate_state)
    lines = [f"is over: {outcome.name.lower().replace('_', ' ')}"]
    if outcome is Outcome.SUCCESS:
        lines.append(f"its validation is {validity.name.lower().replace('_', ' ')}")
    if outcome is Outcome.NO_REPLY and result.credit_deadline is not None:
        lines.append(f"still gets credit if it is reported before {at(result.credit_deadline)}")
    files = FileDeleteState(result.file_delete_state).name.lower()
    lines.append(f"deletion of its files: {files}")
    return tuple(lines)


def at(moment: datetime) -> str:
    """Return a time as text for users.

    >>> from datetime import UTC
    >>> at(datetime(2026, 1, 1, 12, tzinfo=UTC))
    '2026-01-01 12:00:00 UTC'
    """
    return f"{moment:%Y-%m-%d %H:%M:%S} UTC"


def _number(number: int, noun: str) -> str:
    plural = f"{noun}es" if noun.endswith("s") else f"{noun}s"
    return f"{number} {noun if number == 1 else plural}"
