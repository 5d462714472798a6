"""Judges a workunit's successes: who agrees, who is canonical, what each is worth."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from daemons.science.interfaces import Brought
from scheduler.credit.rules import credit
from scheduler.lifecycle import (
    Actor,
    Axis,
    Because,
    Move,
    ResultState,
    ValidateState,
)
from scheduler.results.rules import quorum

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence
    from decimal import Decimal

    from daemons.science.interfaces import Validator

E = TypeVar("E")

#: The states of a success that waits to be judged.
UNJUDGED = (int(ValidateState.INIT), int(ValidateState.INCONCLUSIVE))


@dataclass(frozen=True, slots=True)
class Asking:
    """A workunit that asks for validation, with its app's rules."""

    id: int
    name: str
    app_id: int
    min_quorum: int
    target_nresults: int
    canonical_result_id: int | None
    canonical_credit: Decimal
    error_mask: int
    outputs: list[dict[str, Any]]
    rsc_fpops_est: float
    rsc_fpops_bound: float
    validator: str
    validator_options: dict[str, Any]
    app_target_nresults: int
    daily_quota: int | None
    min_avg_pfc: float
    host_scale_check: bool
    credit_rule: str
    credit_per_workunit: Decimal


@dataclass(frozen=True, slots=True)
class Success:
    """A success that may be compared; times in seconds.

    `turnaround` lies between sending and reporting, `age` between sending and now.  A
    `runtime_outlier` is valid, but its times teach nothing.  `names`, `positions` and `digests`
    are of the files that it brought, in the same order.
    """

    id: int
    workunit_id: int
    validate_state: int
    host_id: int | None
    account_id: int | None
    app_version_id: int | None
    elapsed_time: float
    cpu_time: float
    flops_estimate: float
    runtime_outlier: bool
    granted_credit: Decimal
    turnaround: float
    age: float
    positions: list[int]
    names: list[str]
    digests: list[str]


@dataclass(frozen=True, slots=True)
class Judged:
    """What became of a workunit: the moves of its results and the pay of the valid ones.

    `canonical` is set only if it was found now.  With `unfinished` there are successes that were
    not judged: they came while the science was comparing.
    """

    workunit: Asking
    canonical: int | None = None
    pay: Decimal | None = None
    valid: tuple[Success, ...] = ()
    refused: tuple[Success, ...] = ()
    moves: tuple[tuple[Success, tuple[Move, ...]], ...] = ()
    unfinished: bool = False


@dataclass(frozen=True, slots=True)
class Comparison(Generic[E]):
    """How results are compared: what is compared of each (None: nothing can be), and how.

    Those that are `suspicious` are not believed alone.
    """

    evidence: Callable[[Success], E | None]
    agree: Callable[[E, E], bool]
    suspicious: frozenset[int] = frozenset()


def judge(workunit: Asking, successes: Sequence[Success], comparison: Comparison[Any]) -> Judged:
    """Compare what nobody has judged yet, among itself or with the canonical result."""
    by_id = {success.id: success for success in successes}
    new = [success for success in successes if success.validate_state in UNJUDGED]
    if workunit.error_mask or not new:
        return Judged(workunit)
    candidates = [quorum.Candidate(success.id, comparison.evidence(success)) for success in new]
    known = by_id.get(workunit.canonical_result_id or 0)
    if workunit.canonical_result_id is None:
        found = quorum.check_set(candidates, min_quorum=workunit.min_quorum, agree=comparison.agree)
        found = quorum.doubt(found, comparison.suspicious)
    elif known is not None:
        truth = quorum.Candidate(known.id, comparison.evidence(known))
        found = quorum.check_late(candidates, truth, agree=comparison.agree)
    else:
        return Judged(workunit)
    valid = tuple(by_id[one] for one in found.valid)
    refused = tuple(by_id[one] for one in (*found.invalid, *found.missing))
    is_new = workunit.canonical_result_id is None and found.canonical is not None
    pay = _pay(workunit, valid) if is_new else workunit.canonical_credit
    return Judged(
        workunit,
        canonical=found.canonical if is_new else None,
        pay=pay if valid else None,
        valid=valid,
        refused=refused,
        moves=tuple(_moves(found, by_id)),
    )


def at_once(workunit: Asking, science: Validator[Any]) -> Comparison[Any]:
    """A comparison by facts of the database alone: no path is made, no file is opened."""
    options = workunit.validator_options
    known: dict[tuple[object, ...], Any] = {}

    def evidence(success: Success) -> Any:  # noqa: ANN401  the validator's own
        # Most results of a workunit brought the same: it is prepared once.
        files = (*success.positions, *success.digests)
        if files not in known:
            known[files] = science.prepare(brought(workunit, success), options)
        return known[files]

    return Comparison(evidence, science.agree)


def brought(
    workunit: Asking, success: Success, path: Callable[[str], str] | None = None
) -> list[Brought]:
    """What a success was to bring, and what arrived; `path` says where a file of a name lies."""
    arrived = {
        position: (name, digest)
        for position, name, digest in zip(
            success.positions, success.names, success.digests, strict=True
        )
    }
    return [
        Brought(
            position,
            output.get("open_name", ""),
            path(arrived[position][0]) if path and position in arrived else "",
            arrived[position][1] if position in arrived else None,
            optional=bool(output.get("optional")),
            no_validate=bool(output.get("no_validate")),
        )
        for position, output in enumerate(workunit.outputs)
    ]


def _pay(workunit: Asking, valid: Iterable[Success]) -> Decimal:
    return credit.amount(
        workunit.credit_rule,
        [credit.Effort(one.elapsed_time, one.cpu_time, one.flops_estimate) for one in valid],
        fixed=workunit.credit_per_workunit,
        rsc_fpops_bound=workunit.rsc_fpops_bound,
    )


def _moves(
    found: quorum.Consensus, by_id: dict[int, Success]
) -> Iterable[tuple[Success, tuple[Move, ...]]]:
    judged = (
        (found.valid, ValidateState.VALID, Because.AGREES),
        (found.invalid, ValidateState.INVALID, Because.DISAGREES),
        (found.missing, ValidateState.INVALID, Because.OUTPUT_MISSING),
        (found.inconclusive, ValidateState.INCONCLUSIVE, Because.NO_QUORUM_YET),
    )
    for ids, target, because in judged:
        for one in ids:
            success = by_id[one]
            if step := _step(success.validate_state, target, because):
                yield success, step


@cache
def _step(source: int, target: ValidateState, because: Because) -> tuple[Move, ...]:
    """What is said of a success: nothing if it was said before."""
    unreadable = (_UNREADABLE,) if because is Because.OUTPUT_MISSING else ()
    if source == target:
        return unreadable
    return (Move(Axis.VALIDATION, source, target, because, Actor.VALIDATOR), *unreadable)


_UNREADABLE = Move(
    Axis.RESULT,
    ResultState.SUCCESS,
    ResultState.VALIDATE_ERROR,
    Because.OUTPUT_MISSING,
    Actor.VALIDATOR,
)
