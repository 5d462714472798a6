"""Computes what a revalidation would change, without writing to the database.

The app's validator compares all successes of a workunit, including invalid ones, as if none had
been judged.  The validator daemon does the same after the transitioner has reset the verdicts.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

from daemons.science import worker
from daemons.science.interfaces import BadOptions, TransientScienceError
from daemons.science.validators import FAST_VALIDATORS
from daemons.validator.asking import answer_of, comparison_of, stderrs_of
from daemons.validator.comparing import Comparison, PendingWorkunit, Success, fact_comparison, judge
from daemons.validator.settling import PACKAGE, successes_of
from scheduler import sql
from scheduler.lifecycle import Axis, ValidateState

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

_JUDGED = [
    int(state)
    for state in (
        ValidateState.INIT,
        ValidateState.VALID,
        ValidateState.INVALID,
        ValidateState.INCONCLUSIVE,
    )
]


@dataclass(frozen=True, slots=True)
class Preview:
    """The expected outcome of the revalidation of a workunit.

    `canonical_before` and `canonical_after` are ids of results.  `before` and `after` map the ids
    of results to verdicts.  `trouble` is the error text if the results could not be compared.
    """

    workunit_id: int
    workunit: str
    canonical_before: int | None
    canonical_after: int | None = None
    before: Mapping[int, ValidateState] | None = None
    after: Mapping[int, ValidateState] | None = None
    trouble: str = ""

    @property
    def changed(self) -> dict[int, tuple[ValidateState, ValidateState]]:
        """Return the old and the new verdict of each result that would change, by result id."""
        before, after = self.before or {}, self.after or {}
        return {
            result_id: (before[result_id], after[result_id])
            for result_id in sorted(after)
            if before[result_id] != after[result_id]
        }

    @property
    def is_other(self) -> bool:
        """Return whether any verdict or the canonical result would change."""
        return bool(self.changed) or (
            not self.trouble and self.canonical_before != self.canonical_after
        )


def preview(ids: Sequence[int], limits: Mapping[int, timedelta], *, now: datetime) -> list[Preview]:
    """Return the expected outcome of a revalidation for each of these workunits.

    `limits` maps app ids to the time limits of their science code.
    """
    workunits = sql.fetch_into(PendingWorkunit, "read_to_compare", {"ids": list(ids)}, PACKAGE)
    successes = successes_of(ids, usable=_JUDGED, now=now)
    return [
        _preview(workunit, successes.get(workunit.id, []), limits[workunit.app_id])
        for workunit in workunits
    ]


def _preview(workunit: PendingWorkunit, successes: list[Success], limit: timedelta) -> Preview:
    unchanged = Preview(workunit.id, workunit.name, workunit.canonical_result_id)
    pending = workunit._replace(canonical_result_id=None)
    unjudged = [success._replace(validate_state=int(ValidateState.INIT)) for success in successes]
    try:
        judged = judge(pending, unjudged, _comparison(pending, unjudged, limit))
    except (worker.ScienceFailed, TransientScienceError, BadOptions) as error:
        return replace(unchanged, trouble=str(error))
    after = {success.id: ValidateState.INIT for success in successes}
    for success, step in judged.moves:
        for move in step:
            if move.axis is Axis.VALIDATION:
                after[success.id] = ValidateState(move.target)
    before = {success.id: ValidateState(success.validate_state) for success in successes}
    return replace(unchanged, canonical_after=judged.canonical, before=before, after=after)


def _comparison(
    workunit: PendingWorkunit, successes: list[Success], limit: timedelta
) -> Comparison[Any]:
    """Return the comparison that the validator daemon would use; raises `BadOptions`."""
    if science := FAST_VALIDATORS.get(workunit.validator):
        return fact_comparison(workunit, science)
    stderrs = stderrs_of(workunit.validator, successes)
    answer = answer_of(workunit, successes, stderrs, limit)
    if answer.unusable:
        raise BadOptions(answer.unusable)
    return comparison_of(answer)
