"""The transitioner's verdict about a workunit, and the resulting moves [pure]."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from scheduler.lifecycle import (
    ERROR_BITS,
    NOTHING,
    Actor,
    AssimilateState,
    Axis,
    Because,
    FileDeleteState,
    Move,
    ReleaseState,
    ResultState,
    WorkunitState,
)

if TYPE_CHECKING:
    from datetime import datetime

    from scheduler.results.facts import WorkunitFacts


@dataclass(frozen=True, slots=True)
class Counts:
    """The numbers of a workunit's results by state.

    `successes` are valid or not validated yet.  `fresh` successes were never compared.  `given_up`
    results timed out, were aborted by the volunteer, or belong to a detached host.
    """

    total: int = 0
    unsent: int = 0
    in_progress: int = 0
    successes: int = 0
    fresh: int = 0
    inconclusive: int = 0
    errors: int = 0
    timeouts: int = 0
    given_up: int = 0
    unsendable: int = 0
    ever_sent: int = 0

    @property
    def unjudged(self) -> int:
        """The number of successes that are neither VALID nor INVALID yet."""
        return self.fresh + self.inconclusive

    @property
    def alive(self) -> int:
        """The number of results that are usable or may become usable."""
        return self.unsent + self.in_progress + self.successes


@dataclass(frozen=True, slots=True)
class ResultMove:
    """One move of one result by the transitioner."""

    result_id: int
    axis: Axis
    source: int
    target: int
    because: Because


@dataclass(frozen=True, slots=True)
class Verdict:
    """The changes to make to a workunit now; the caller makes them.

    `replicas` is the number of results to create.  `validate` sets ``need_validate``.  `failures`
    are added to the error mask.  `release` allows results of the workunit to be sent, because all
    its dependencies are met.  `complete` gives a group its answer, which is no result.
    `reset_class` allows another host class or app version.  `reopen` withdraws the canonical
    result, as staff requested.  `look_again_at` is the time of the next check, or None if only an
    event can change this verdict.
    """

    workunit: WorkunitFacts
    counts: Counts
    replicas: int = 0
    validate: bool = False
    release: bool = False
    complete: bool = False
    reset_class: bool = False
    reopen: bool = False
    failures: tuple[Because, ...] = ()
    assimilate: Because | None = None
    delete_inputs: bool = False
    result_moves: tuple[ResultMove, ...] = ()
    look_again_at: datetime | None = None

    @property
    def error_mask(self) -> int:
        """The workunit's error mask after this verdict."""
        mask = self.workunit.error_mask
        for because in self.failures:
            mask |= int(ERROR_BITS[because])
        return mask

    @property
    def workunit_moves(self) -> tuple[Move, ...]:
        """The moves of the workunit, without the moves of its results."""
        moves = []
        if self.reopen:
            moves += self._reopenings()
        if self.release:
            moves.append(_RELEASED)
        if self.complete:
            moves.append(_COMPLETED)
        if self.failures:
            moves.append(_FAILED[self.failures[0]])
        if self.ends_group:
            moves.append(_NOT_ASSIMILATED[self.complete])
        elif self.assimilate is not None:
            moves.append(_ASSIMILATE[self.assimilate])
        if self.delete_inputs:
            moves.append(_DELETE_INPUTS)
        return tuple(moves)

    @property
    def ends_group(self) -> bool:
        """Whether the workunit is a group that ends now; no assimilator is called for it."""
        return self.complete or (self.workunit.is_group and self.assimilate is not None)

    @property
    def changes_dependents(self) -> bool:
        """Whether the workunits that wait for this one must be looked at again."""
        has_changed = self.assimilate is not None or self.reopen or self.complete
        return self.workunit.has_children and has_changed

    def _reopenings(self) -> list[Move]:
        """Return the moves that withdraw the canonical result and the request to assimilate it."""
        had_answer = self.workunit.canonical_result_id is not None
        was_ready = self.workunit.assimilate_state == AssimilateState.READY
        return [_REOPENED] * had_answer + [_NOT_HANDED_ON] * was_ready

    @property
    def changes_workunit(self) -> bool:
        """Whether a column of the workunit changes, apart from the time of its next check."""
        workunit = self.workunit
        return bool(
            self.workunit_moves
            or self.validate
            or self.reopen
            or self.reset_class
            or self.error_mask != workunit.error_mask
            or workunit.unsendable_at
            or workunit.revalidate_requested_at
        )

    @property
    def changes_anything(self) -> bool:
        """Whether any state changes; a different `look_again_at` alone does not count."""
        return bool(
            self.replicas
            or self.validate
            or self.reset_class
            or self.reopen
            or self.result_moves
            or self.workunit_moves
        )


def _move(axis: Axis, source: int, target: int, because: Because) -> Move:
    return Move(axis, source, target, because, Actor.TRANSITIONER)


#: The moves of new results and of workunits, built once.
CREATION = _move(Axis.RESULT, NOTHING, ResultState.UNSENT, Because.REPLICA_NEEDED)
_RELEASED = _move(
    Axis.RELEASE, ReleaseState.INACTIVE, ReleaseState.RELEASED, Because.DEPENDENCIES_MET
)
_REOPENED = _move(Axis.WORKUNIT, WorkunitState.CANONICAL, WorkunitState.OPEN, Because.REVALIDATION)
_NOT_HANDED_ON = _move(
    Axis.ASSIMILATION, AssimilateState.READY, AssimilateState.INIT, Because.REVALIDATION
)
_COMPLETED = _move(
    Axis.WORKUNIT, WorkunitState.OPEN, WorkunitState.COMPLETE, Because.DEPENDENCIES_MET
)
#: By whether the group is complete.
_NOT_ASSIMILATED = {
    is_complete: _move(Axis.ASSIMILATION, AssimilateState.INIT, AssimilateState.DONE, because)
    for is_complete, because in (
        (True, Because.DEPENDENCIES_MET),
        (False, Because.WORKUNIT_FAILED),
    )
}
_FAILED = {
    because: _move(Axis.WORKUNIT, WorkunitState.OPEN, WorkunitState.FAILED, because)
    for because in ERROR_BITS
}
_ASSIMILATE = {
    because: _move(Axis.ASSIMILATION, AssimilateState.INIT, AssimilateState.READY, because)
    for because in (Because.CANONICAL_FOUND, Because.WORKUNIT_FAILED)
}
_DELETE_INPUTS = _move(
    Axis.WORKUNIT_FILES, FileDeleteState.INIT, FileDeleteState.READY, Because.NO_LONGER_NEEDED
)
