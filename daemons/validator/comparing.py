"""Judges a workunit's successful results, and computes their credit."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any, Generic, NamedTuple, TypeVar

from daemons.science.interfaces import ReportedOutput
from scheduler.credit.rules import credit
from scheduler.lifecycle import Actor, Axis, Because, Move, ResultState, ValidateState
from scheduler.results.rules import quorum

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence
    from decimal import Decimal

    from daemons.science.interfaces import Validator

E = TypeVar("E")

#: The validation states of a successful result that has no verdict yet.
UNJUDGED = (int(ValidateState.INIT), int(ValidateState.INCONCLUSIVE))


class PendingWorkunit(NamedTuple):
    """A workunit that needs validation, with the rules of its app."""

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


class Success(NamedTuple):
    """A result with outcome SUCCESS that may be compared.

    Times are in seconds.  `turnaround` is the time from sending to reporting, and `age` the time
    from sending to now.  The times of a `runtime_outlier` are not used for averages.  `positions`,
    `names` and `digests` describe the uploaded files of the result, in the same order.
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


class Judged(NamedTuple):
    """The outcome of the validation of a workunit.

    `moves` contains the moves of each judged result.  `pay` is the credit for each valid result.
    `canonical` is the id of the canonical result if it was chosen now, else None.  `unfinished` is
    True if some results were not judged, because they were reported or changed while the validator
    was running.
    """

    workunit: PendingWorkunit
    canonical: int | None = None
    pay: Decimal | None = None
    valid: tuple[Success, ...] = ()
    refused: tuple[Success, ...] = ()
    moves: tuple[tuple[Success, tuple[Move, ...]], ...] = ()
    unfinished: bool = False


@dataclass(frozen=True, slots=True)
class Comparison(Generic[E]):
    """The functions that compare results.

    `evidence` returns the evidence of a result, or None if a required output is missing.  `agree`
    compares the evidence of two results.  A result whose id is in `suspicious` cannot become
    canonical unless another result agrees.
    """

    evidence: Callable[[Success], E | None]
    agree: Callable[[E, E], bool]
    suspicious: frozenset[int] = frozenset()


def judge(
    workunit: PendingWorkunit, successes: Sequence[Success], comparison: Comparison[Any]
) -> Judged:
    """Compare unjudged successes with each other, or with the canonical result if it exists.

    The outcome is empty if the workunit has an error, or if no success is unjudged.
    """
    by_id = {success.id: success for success in successes}
    new = [success for success in successes if success.validate_state in UNJUDGED]
    if workunit.error_mask or not new:
        return Judged(workunit)
    candidates = [quorum.Candidate(success.id, comparison.evidence(success)) for success in new]
    canonical = by_id.get(workunit.canonical_result_id or 0)
    if workunit.canonical_result_id is None:
        consensus = quorum.check_set(
            candidates, min_quorum=workunit.min_quorum, agree=comparison.agree
        )
        consensus = quorum.doubt_suspicious(consensus, comparison.suspicious)
    elif canonical is not None:
        truth = quorum.Candidate(canonical.id, comparison.evidence(canonical))
        consensus = quorum.check_late(candidates, truth, agree=comparison.agree)
    else:
        return Judged(workunit)
    valid = tuple(by_id[result_id] for result_id in consensus.valid)
    refused = tuple(by_id[result_id] for result_id in (*consensus.invalid, *consensus.missing))
    is_new = workunit.canonical_result_id is None and consensus.canonical is not None
    pay = _pay(workunit, valid) if is_new else workunit.canonical_credit
    return Judged(
        workunit,
        canonical=consensus.canonical if is_new else None,
        pay=pay if valid else None,
        valid=valid,
        refused=refused,
        moves=tuple(_moves(consensus, by_id)),
    )


def fact_comparison(workunit: PendingWorkunit, science: Validator[Any]) -> Comparison[Any]:
    """Return a comparison by the validator `science`, which uses only data in the database."""
    options = workunit.validator_options
    prepared: dict[tuple[object, ...], Any] = {}

    def evidence(success: Success) -> Any:  # noqa: ANN401  the validator's own
        # Most results of a workunit have equal digests, for which evidence is prepared only once.
        files = (*success.positions, *success.digests)
        if files not in prepared:
            prepared[files] = science.prepare(reported_outputs(workunit, success), options)
        return prepared[files]

    return Comparison(evidence, science.agree)


def reported_outputs(
    workunit: PendingWorkunit, success: Success, path: Callable[[str], str] | None = None
) -> list[ReportedOutput]:
    """Return the outputs of a success; an output that was not uploaded has no digest.

    `path` returns the path of a file name.  If it is None, the paths of all outputs are empty.
    """
    arrived = {
        position: (name, digest)
        for position, name, digest in zip(
            success.positions, success.names, success.digests, strict=True
        )
    }
    return [
        ReportedOutput(
            position,
            output.get("open_name", ""),
            path(arrived[position][0]) if path and position in arrived else "",
            arrived[position][1] if position in arrived else None,
            optional=bool(output.get("optional")),
            no_validate=bool(output.get("no_validate")),
        )
        for position, output in enumerate(workunit.outputs)
    ]


def _pay(workunit: PendingWorkunit, valid: Iterable[Success]) -> Decimal:
    return credit.amount(
        workunit.credit_rule,
        [
            credit.Effort(success.elapsed_time, success.cpu_time, success.flops_estimate)
            for success in valid
        ],
        fixed=workunit.credit_per_workunit,
        rsc_fpops_bound=workunit.rsc_fpops_bound,
    )


def _moves(
    consensus: quorum.Consensus, by_id: dict[int, Success]
) -> Iterable[tuple[Success, tuple[Move, ...]]]:
    judged = (
        (consensus.valid, ValidateState.VALID, Because.AGREES),
        (consensus.invalid, ValidateState.INVALID, Because.DISAGREES),
        (consensus.missing, ValidateState.INVALID, Because.OUTPUT_MISSING),
        (consensus.inconclusive, ValidateState.INCONCLUSIVE, Because.NO_QUORUM_YET),
    )
    for ids, target, because in judged:
        for result_id in ids:
            success = by_id[result_id]
            if step := _step(success.validate_state, target, because):
                yield success, step


@cache
def _step(source: int, target: ValidateState, because: Because) -> tuple[Move, ...]:
    """Return the moves of a success from the validation state `source` to `target`.

    If a required output is missing, the result also moves to VALIDATE_ERROR.
    """
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
