"""Says what validating anew would change: compares really, writes nothing.

All successes of a workunit, those that were judged invalid too, are compared with each other by the
app's validator as if none had been judged: so does the validator once the transitioner has taken
the verdicts back.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

from daemons.science import worker
from daemons.science.interfaces import BadOptions, TransientScienceError
from daemons.science.validators import AT_ONCE
from daemons.validator.asking import answer_of, stderrs_of
from daemons.validator.comparing import Asking, Comparison, Success, at_once, judge
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
    """What would become of a workunit: its canonical result and, by result id, its verdicts.

    `trouble` says why it could not be compared.
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
        """The results whose verdict would be another one: what it is, and what it would be."""
        before, after = self.before or {}, self.after or {}
        return {
            one: (before[one], after[one]) for one in sorted(after) if before[one] != after[one]
        }

    @property
    def is_other(self) -> bool:
        """Whether anything would change."""
        return bool(self.changed) or (
            not self.trouble and self.canonical_before != self.canonical_after
        )


def preview(ids: Sequence[int], limits: Mapping[int, timedelta], *, now: datetime) -> list[Preview]:
    """Compare the successes of workunits anew, two statements for all of them.

    `limits` are the time limits of the apps' science, by app id.
    """
    workunits = sql.fetch_into(Asking, "read_to_compare", {"ids": list(ids)}, PACKAGE)
    successes = successes_of(ids, usable=_JUDGED, now=now)
    return [_anew(one, successes.get(one.id, []), limits[one.app_id]) for one in workunits]


def _anew(workunit: Asking, successes: list[Success], limit: timedelta) -> Preview:
    known = Preview(workunit.id, workunit.name, workunit.canonical_result_id)
    asking = replace(workunit, canonical_result_id=None)
    unjudged = [replace(one, validate_state=int(ValidateState.INIT)) for one in successes]
    try:
        judged = judge(asking, unjudged, _comparison(asking, unjudged, limit))
    except (worker.ScienceFailed, TransientScienceError, BadOptions) as error:
        return replace(known, trouble=str(error))
    after = {one.id: ValidateState.INIT for one in successes}
    for success, step in judged.moves:
        for move in step:
            if move.axis is Axis.VALIDATION:
                after[success.id] = ValidateState(move.target)
    before = {one.id: ValidateState(one.validate_state) for one in successes}
    return replace(known, canonical_after=judged.canonical, before=before, after=after)


def _comparison(workunit: Asking, successes: list[Success], limit: timedelta) -> Comparison[Any]:
    """As the validator compares: by facts at once, or by its app's science in the worker."""
    if science := AT_ONCE.get(workunit.validator):
        return at_once(workunit, science)
    stderrs = stderrs_of(workunit.validator, successes)
    answer = answer_of(workunit, successes, stderrs, limit)
    if answer.unusable:
        raise BadOptions(answer.unusable)
    return Comparison(
        lambda one: None if one.id in answer.bad else one.id, answer.agree, answer.suspicious
    )
