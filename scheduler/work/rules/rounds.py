"""Numbers the rounds of a workunit, and dates its states by round [pure].

Rounds are TDF's: a workunit is in round 0 until an attempt fails or times out, and then in the next
round.  A workunit with several replicas has a chain of attempts for each replica: a result that
replaces another result continues its chain, and any other result begins a chain.  An attempt that
ended in another way, such as that of a detached host, is replaced within its round.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from scheduler.lifecycle import AssimilateState, Axis, Outcome, ServerState, WorkunitState
from scheduler.results.rules.reports import own_stderr
from scheduler.work.rules.predecessor_states import ERRORS, TdfState, is_aborted, tdf_state
from scheduler.work.rules.statuses import AWAITED

if TYPE_CHECKING:
    from datetime import datetime

    from scheduler.results.facts import ResultFacts, WorkunitFacts
    from scheduler.work.facts import Attempt, MoveFacts, UsageFacts

_REPORTED: Final = (Outcome.SUCCESS, *ERRORS)


@dataclass(frozen=True, slots=True)
class Round:
    """An attempt with the index of its round and the number of its replica, both from 0."""

    attempt: Attempt
    replica: int
    index: int


def is_failure(attempt: Attempt | ResultFacts) -> bool:
    """Return whether an attempt counts toward `max_error_results`, which TDF calls `max_fails`."""
    is_abort = is_aborted(attempt.outcome, attempt.exit_status)
    return attempt.outcome in ERRORS and not is_abort


def is_timeout(attempt: Attempt) -> bool:
    """Return whether an attempt counts toward `max_timeouts`."""
    return attempt.outcome == Outcome.NO_REPLY


def number_rounds(attempts: Iterable[Attempt], *, replicas: int) -> tuple[Round, ...]:
    """Return the attempts in order, each with its replica and its round.

    `replicas` is the number of results that the workunit had at first.  An attempt continues the
    chain of the lowest number whose last attempt ended without an answer before it was created.
    """
    chains: list[Round] = []
    numbered: list[Round] = []
    for attempt in sorted(attempts, key=lambda attempt: attempt.attempt):
        replaced = (
            next((chain for chain in chains if _makes_room(chain.attempt, attempt)), None)
            if len(chains) >= replicas
            else None
        )
        if replaced is None:
            entry = Round(attempt, len(chains), 0)
            chains.append(entry)
        else:
            former = replaced.attempt
            step = int(is_failure(former) or is_timeout(former))
            entry = Round(attempt, replaced.replica, replaced.index + step)
            chains[replaced.replica] = entry
        numbered.append(entry)
    return tuple(numbered)


def _makes_room(former: Attempt, successor: Attempt) -> bool:
    """Return whether an attempt ended without an answer before its successor was created."""
    is_usable = former.outcome == Outcome.SUCCESS and former.validate_state in AWAITED
    if former.server_state != ServerState.OVER or is_usable:
        return False
    if former.outcome not in _REPORTED or former.received_at is None:
        return True
    return former.received_at <= successor.created_at


def timeline(
    rounds: Sequence[Round],
    workunit: WorkunitFacts,
    *,
    replica: int,
    created_at: datetime,
    moves: Iterable[MoveFacts] = (),
    outputs: Mapping[int, str] | None = None,
) -> dict[str, float | str]:
    """Return the times, outputs and errors of a replica by round, with keys as ``"3:running"``.

    Times are Unix times with milliseconds.  `outputs` maps result ids to the text of their output.
    The text of an error is what the program itself wrote to its standard error.
    An attempt that replaces another within a round replaces its entries.  The end of the workunit
    is in the last round of the first replica; its times are those of the ledger (`moves`).
    """
    entries: dict[str, float | str] = {}
    own = [entry for entry in rounds if entry.replica == replica]
    for number, entry in enumerate(own):
        attempt, index = entry.attempt, entry.index
        opened_at = attempt.created_at if number else created_at
        times = {TdfState.OPEN: opened_at, TdfState.RUNNING: attempt.sent_at}
        if attempt.outcome in _REPORTED:
            times[TdfState.EXECUTED] = attempt.received_at
        for key in (TdfState.OPEN, TdfState.RUNNING, TdfState.EXECUTED, "output", "error"):
            entries.pop(f"{index}:{key}", None)
        entries |= {f"{index}:{state}": unix(at) for state, at in times.items() if at is not None}
        if attempt.outcome in _REPORTED:
            entries[f"{index}:output"] = (outputs or {}).get(attempt.id, "")
            entries[f"{index}:error"] = own_stderr(attempt.stderr)
    if replica == 0:
        index = own[-1].index if own else 0
        entries.setdefault(f"{index}:open", unix(created_at))
        ends = _ends(workunit, moves)
        entries |= {f"{index}:{state}": unix(at) for state, at in ends.items()}
    return entries


def _ends(workunit: WorkunitFacts, moves: Iterable[MoveFacts]) -> dict[TdfState, datetime]:
    ends: dict[TdfState, datetime] = {}
    for move in moves:
        if move.axis == Axis.WORKUNIT and move.target != WorkunitState.OPEN:
            ends[_end_of(workunit)] = move.at
        elif move.axis == Axis.WORKUNIT:
            # Opened again by a revalidation.
            ends.clear()
        elif move.axis == Axis.ASSIMILATION and move.target == AssimilateState.DONE:
            ends[TdfState.ARCHIVED] = move.at
    return ends


def _end_of(workunit: WorkunitFacts) -> TdfState:
    """Return the state before `archived`: succeeded, failed, timed_out or expired."""
    return tdf_state(replace(workunit, assimilate_state=AssimilateState.READY))


def unix(at: datetime) -> float:
    """Return a Unix time in seconds, with milliseconds."""
    return round(at.timestamp(), 3)


def cpu_utilization(samples: Sequence[UsageFacts]) -> tuple[float | None, ...]:
    """Return the CPUs in use at each sample, as reported or else computed from the times.

    The computed value is the CPU time per second since the last sample with times; the first sample
    is compared with the start of the program.  None if a time is missing or did not grow.
    """
    shares: list[float | None] = []
    cpu = elapsed = 0.0
    for sample in samples:
        share = None
        if sample.cpu_time is not None and sample.elapsed_time is not None:
            seconds = sample.elapsed_time - elapsed
            if seconds > 0 and sample.cpu_time >= cpu:
                share = (sample.cpu_time - cpu) / seconds
            cpu, elapsed = sample.cpu_time, sample.elapsed_time
        shares.append(share if sample.cpu_utilization is None else sample.cpu_utilization)
    return tuple(shares)


def current_round(rounds: Collection[Round]) -> int:
    """Return the index of the current round: the highest of all replicas; 0 without attempts."""
    return max((entry.index for entry in rounds), default=0)
