"""Try again what science code failed on, or give it up knowingly.

What is parked waits for ever: its science failed too often (`ScienceFailure`), and the daemons pass
it over.  Retrying forgets the failures.  Dropping ends the waiting in the way the stage allows:

    VALIDATE     the workunit is cancelled; one that has its answer stays parked
    ASSIMILATE   the workunit counts as assimilated, though no science took it: GIVEN_UP, by staff
    TRICKLE      the trickle counts as handled
    GENERATE     stays parked: an app is no piece of work; switch its generator off instead
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from itertools import islice

from django.db import transaction

from scheduler import wakeups
from scheduler.health import parked_science
from scheduler.health.parked_science import Failing, NotParked
from scheduler.lifecycle import Actor, AssimilateState, Axis, Because, sources
from scheduler.models import ScienceFailure, TrickleUp, Workunit
from scheduler.sql import execute, fetch
from scheduler.work import cancel

__all__ = ["Dropped", "NotParked", "NothingNamed", "drop", "retry"]

Stage = ScienceFailure.Stage
#: So many are changed in one transaction.
_CHUNK = 1000
_OF_WORKUNITS = (Stage.VALIDATE, Stage.ASSIMILATE)


class NothingNamed(ValueError):
    """Neither numbers nor an app nor all are named. Hint: name numbers, --app NAME, or --all."""


@dataclass(slots=True)
class Dropped:
    """What was given up, or would be; the refused ones stay parked."""

    cancelled: list[Failing] = field(default_factory=list)
    given_up: list[Failing] = field(default_factory=list)
    trickles: list[Failing] = field(default_factory=list)
    answered: list[Failing] = field(default_factory=list)
    generators: list[Failing] = field(default_factory=list)

    @property
    def changed(self) -> list[Failing]:
        """All that were given up."""
        return [*self.cancelled, *self.given_up, *self.trickles]


def retry(
    *, ids: Sequence[int] = (), app: str = "", everything: bool = False, now: datetime
) -> list[Failing]:
    """Forget failures, so that the daemons try again at once; those that were forgotten.

    By number (parked or not yet), or all that is parked, of one app or of all.  Raises `NotParked`
    for unknown numbers and `NothingNamed`.  Each thousand is one transaction.
    """
    del now  # as every operation takes it; what is tried at once needs no moment
    if not ids and not app and not everything:
        raise NothingNamed("Nothing is named. Hint: name numbers, --app NAME, or --all.")
    chosen = parked_science.find(ids=ids, app=app)
    for chunk in _chunks(chosen):
        with transaction.atomic():
            _lock(chunk)
            execute("health/retry_science", {"ids": [one.id for one in chunk]})
    return chosen


def drop(*, ids: Sequence[int], reason: str = "", dry_run: bool = False, now: datetime) -> Dropped:
    """Give subjects up, each in the way that its stage allows; with `dry_run` only say how.

    Raises `NotParked` for numbers of nothing that is parked, and `NothingNamed`.
    """
    if not ids:
        raise NothingNamed("Nothing is named. Hint: name the numbers that `parked list` shows.")
    chosen = parked_science.find(ids=ids)
    if tried := [one.id for one in chosen if one.parked_at is None]:
        raise NotParked(tried)
    total = Dropped()
    for chunk in _chunks(chosen):
        with transaction.atomic():
            _lock(chunk)
            plan = _plan(chunk)
            if not dry_run:
                _carry_out(plan, reason or "given up: its results cannot be validated", now)
        for name in Dropped.__slots__:
            getattr(total, name).extend(getattr(plan, name))
    return total


def _plan(chosen: Sequence[Failing]) -> Dropped:
    """What becomes of each; the workunits are locked, so that it stays true."""
    asking = [one.subject_id for one in chosen if one.stage == Stage.VALIDATE]
    answered = set(
        Workunit.objects.filter(pk__in=asking)
        .exclude(canonical_result_id=None)
        .values_list("pk", flat=True)
    )
    plan = Dropped()
    for one in chosen:
        if one.stage == Stage.VALIDATE:
            (plan.answered if one.subject_id in answered else plan.cancelled).append(one)
        elif one.stage == Stage.ASSIMILATE:
            plan.given_up.append(one)
        elif one.stage == Stage.TRICKLE:
            plan.trickles.append(one)
        else:
            plan.generators.append(one)
    return plan


def _carry_out(plan: Dropped, reason: str, now: datetime) -> None:
    here = set(
        Workunit.objects.filter(pk__in=[one.subject_id for one in plan.cancelled]).values_list(
            "pk", flat=True
        )
    )
    if here:
        cancel.cancel(ids=sorted(here), reason=reason, now=now)
    if plan.given_up:
        fetch(
            "health/give_up_assimilation",
            {
                "now": now,
                "workunit_ids": sorted(one.subject_id for one in plan.given_up),
                "sources": list(sources(Axis.ASSIMILATION, AssimilateState.DONE, by=Actor.STAFF)),
                "axis": Axis.ASSIMILATION.value,
                "source": int(AssimilateState.READY),
                "target": int(AssimilateState.DONE),
                "because": Because.GIVEN_UP.value,
                "by": Actor.STAFF.value,
            },
        )
        wakeups.after_commit("transitioner")
    trickles = [one.subject_id for one in plan.trickles]
    TrickleUp.objects.filter(pk__in=trickles, handled_at=None).update(handled_at=now)
    ScienceFailure.objects.filter(pk__in=[one.id for one in plan.changed]).delete()


def _lock(chosen: Sequence[Failing]) -> None:
    """Lock the workunits, as everybody does before anything else."""
    workunits = {one.subject_id for one in chosen if one.stage in _OF_WORKUNITS}
    fetch("results/lock_workunits", {"workunit_ids": sorted(workunits)})


def _chunks(chosen: Iterable[Failing]) -> Iterable[list[Failing]]:
    left = iter(chosen)
    while chunk := list(islice(left, _CHUNK)):
        yield chunk
