"""Reads, retries or drops subjects on which science code failed too often.

A subject is a workunit, a trickle or an app.  The daemons skip a parked subject until staff retries
or drops it (`ScienceFailure`).  Retrying deletes the failures.  The effect of dropping depends on
the stage:

    VALIDATE     the workunit is cancelled, or stays parked if it has a canonical result
    ASSIMILATE   the workunit counts as assimilated without science code: GIVEN_UP, by staff
    TRICKLE      the trickle counts as handled
    GENERATE     the app stays parked; switch off its generator instead
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from itertools import islice

from django.db import transaction

from scheduler import wakeups
from scheduler.lifecycle import Actor, AssimilateState, Axis, Because, sources
from scheduler.models import ScienceFailure, TrickleUp, Workunit
from scheduler.sql import execute, fetch
from scheduler.work import control

Stage = ScienceFailure.Stage
#: Number of subjects that one transaction changes.
_CHUNK = 1000
_OF_WORKUNITS = (Stage.VALIDATE, Stage.ASSIMILATE)


class NotParked(LookupError):
    """There is no parked subject with this id. Hint: `manage.py parked list` shows the ids."""

    def __init__(self, missing: Sequence[int]) -> None:
        shown = ", ".join(map(str, missing[:10])) + ", ..." * (len(missing) > 10)  # noqa: PLR2004
        super().__init__(
            f"No parked subject has the id {shown}. Hint: see `manage.py parked list`."
        )


class NothingNamed(ValueError):
    """No subject is selected. Hint: give ids, --app NAME, or --all."""


@dataclass(frozen=True, slots=True)
class Failing:
    """A subject on which science code failed; `parked_at` is None while it is still retried.

    `subject` is the name of a workunit or app, or a trickle as ``trickle 7``.
    """

    id: int
    stage: ScienceFailure.Stage
    subject_id: int
    subject: str
    app: str
    failures: int
    transients: int
    error: str
    failed_at: datetime
    parked_at: datetime | None

    @property
    def reason(self) -> str:
        """The last non-empty line of the traceback."""
        lines = [line.strip() for line in self.error.splitlines() if line.strip()]
        return lines[-1] if lines else ""


@dataclass(slots=True)
class Dropped:
    """The subjects of one call of `drop`, by the effect of the call.

    `answered` (workunits with a canonical result) and `generators` stay parked.
    """

    cancelled: list[Failing] = field(default_factory=list)
    given_up: list[Failing] = field(default_factory=list)
    trickles: list[Failing] = field(default_factory=list)
    answered: list[Failing] = field(default_factory=list)
    generators: list[Failing] = field(default_factory=list)

    @property
    def changed(self) -> list[Failing]:
        """All subjects except those that stay parked."""
        return [*self.cancelled, *self.given_up, *self.trickles]


def find(*, ids: Sequence[int] = (), app: str = "", troubled: bool = False) -> list[Failing]:
    """Return parked subjects, oldest first, of all apps or of `app`.

    If `ids` is not empty, the subjects with these ids are returned, parked or not.  If `troubled`
    is True, subjects that failed but are not parked are also returned.  Raises `NotParked` for
    unknown ids.
    """
    failures = ScienceFailure.objects.select_related("app").order_by("parked_at", "id")
    if ids:
        failures = failures.filter(pk__in=ids)
    elif not troubled:
        failures = failures.filter(parked_at__isnull=False)
    if app:
        failures = failures.filter(app__name=app)
    rows = list(failures)
    if missing := sorted(set(ids) - {row.pk for row in rows}):
        raise NotParked(missing)
    names = _names(rows)
    return [
        Failing(
            id=row.pk,
            stage=Stage(row.stage),
            subject_id=row.subject_id,
            subject=names.get((row.stage, row.subject_id), f"{row.subject_id} (gone)"),
            app=row.app.name,
            failures=row.failures,
            transients=row.transients,
            error=row.error,
            failed_at=row.failed_at,
            parked_at=row.parked_at,
        )
        for row in rows
    ]


def _names(rows: Sequence[ScienceFailure]) -> dict[tuple[int, int], str]:
    """Return names by stage and subject id; subjects that no longer exist are omitted."""
    ids = {stage: [row.subject_id for row in rows if row.stage == stage] for stage in Stage}
    workunits = Workunit.objects.filter(pk__in=ids[Stage.VALIDATE] + ids[Stage.ASSIMILATE])
    trickles = TrickleUp.objects.filter(pk__in=ids[Stage.TRICKLE]).values_list("pk", flat=True)
    names = {
        (row.stage, row.subject_id): row.app.name for row in rows if row.stage == Stage.GENERATE
    }
    for workunit_id, name in workunits.values_list("pk", "name"):
        names |= {(stage, workunit_id): name for stage in _OF_WORKUNITS}
    return names | {(Stage.TRICKLE, number): f"trickle {number}" for number in trickles}


def retry(
    *, ids: Sequence[int] = (), app: str = "", everything: bool = False, now: datetime
) -> list[Failing]:
    """Delete failures, so that the daemons retry the subjects immediately; return the subjects.

    The subjects are those with `ids`, parked or not, or else all parked subjects of `app`.  If
    `everything` is True, and `ids` and `app` are empty, they are all parked subjects.  A
    transaction changes at most a thousand subjects.  Raises `NotParked` for unknown ids, and
    `NothingNamed` if nothing is selected.
    """
    del now  # for the uniform signature of operations
    if not ids and not app and not everything:
        raise NothingNamed("Nothing is selected. Hint: give ids, --app NAME, or --all.")
    subjects = find(ids=ids, app=app)
    for chunk in _chunks(subjects):
        with transaction.atomic():
            _lock(chunk)
            execute("health/retry_science", {"ids": [subject.id for subject in chunk]})
    return subjects


def drop(*, ids: Sequence[int], reason: str = "", dry_run: bool = False, now: datetime) -> Dropped:
    """Drop parked subjects, and return the subjects by effect.

    The effect depends on the stage of a subject, as this module's docstring describes.  If
    `dry_run` is True, the effects are returned, but nothing is changed.  Raises `NotParked` for ids
    that are not parked, and `NothingNamed` without ids.
    """
    if not ids:
        raise NothingNamed("Nothing is selected. Hint: give the ids that `parked list` shows.")
    subjects = find(ids=ids)
    if unparked_ids := [subject.id for subject in subjects if subject.parked_at is None]:
        raise NotParked(unparked_ids)
    total = Dropped()
    for chunk in _chunks(subjects):
        with transaction.atomic():
            _lock(chunk)
            plan = _plan(chunk)
            if not dry_run:
                _carry_out(plan, reason or "dropped by staff: the results cannot be validated", now)
        for name in Dropped.__slots__:
            getattr(total, name).extend(getattr(plan, name))
    return total


def _plan(subjects: Sequence[Failing]) -> Dropped:
    """Return the subjects by the effect of dropping them; the workunits must be locked."""
    unvalidated = [subject.subject_id for subject in subjects if subject.stage == Stage.VALIDATE]
    answered = set(
        Workunit.objects.filter(pk__in=unvalidated)
        .exclude(canonical_result_id=None)
        .values_list("pk", flat=True)
    )
    plan = Dropped()
    for subject in subjects:
        if subject.stage == Stage.VALIDATE:
            (plan.answered if subject.subject_id in answered else plan.cancelled).append(subject)
        elif subject.stage == Stage.ASSIMILATE:
            plan.given_up.append(subject)
        elif subject.stage == Stage.TRICKLE:
            plan.trickles.append(subject)
        else:
            plan.generators.append(subject)
    return plan


def _carry_out(plan: Dropped, reason: str, now: datetime) -> None:
    cancelled_ids = [subject.subject_id for subject in plan.cancelled]
    existing = set(Workunit.objects.filter(pk__in=cancelled_ids).values_list("pk", flat=True))
    if existing:
        control.cancel(ids=sorted(existing), reason=reason, now=now)
    if plan.given_up:
        fetch(
            "health/give_up_assimilation",
            {
                "now": now,
                "workunit_ids": sorted(subject.subject_id for subject in plan.given_up),
                "sources": list(sources(Axis.ASSIMILATION, AssimilateState.DONE, by=Actor.STAFF)),
                "axis": Axis.ASSIMILATION.value,
                "source": int(AssimilateState.READY),
                "target": int(AssimilateState.DONE),
                "because": Because.GIVEN_UP.value,
                "by": Actor.STAFF.value,
            },
        )
        wakeups.after_commit("transitioner")
    trickles = [subject.subject_id for subject in plan.trickles]
    TrickleUp.objects.filter(pk__in=trickles, handled_at=None).update(handled_at=now)
    ScienceFailure.objects.filter(pk__in=[subject.id for subject in plan.changed]).delete()


def _lock(subjects: Sequence[Failing]) -> None:
    """Lock the workunits before other rows, which is the lock order of all transactions."""
    workunits = {subject.subject_id for subject in subjects if subject.stage in _OF_WORKUNITS}
    fetch("results/lock_workunits", {"workunit_ids": sorted(workunits)})


def _chunks(subjects: Iterable[Failing]) -> Iterable[list[Failing]]:
    remaining = iter(subjects)
    while chunk := list(islice(remaining, _CHUNK)):
        yield chunk
