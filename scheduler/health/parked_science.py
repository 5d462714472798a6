"""Reads what science code failed on, with the names of the subjects."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from scheduler.models import ScienceFailure, TrickleUp, Workunit

Stage = ScienceFailure.Stage


class NotParked(LookupError):
    """Nothing of this number is parked. Hint: `manage.py parked list` names what is."""

    def __init__(self, missing: Sequence[int]) -> None:
        """Name what was not found."""
        shown = ", ".join(map(str, missing[:10])) + ", ..." * (len(missing) > 10)  # noqa: PLR2004
        super().__init__(f"Nothing is parked as {shown}. Hint: see `manage.py parked list`.")


@dataclass(frozen=True, slots=True)
class Failing:
    """One subject that science code fails on; `parked_at` None while it is still tried.

    `subject` is a workunit's name, a trickle as ``trickle 7`` or an app's name.
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
        """The last line of the traceback that is not empty."""
        lines = [line.strip() for line in self.error.splitlines() if line.strip()]
        return lines[-1] if lines else ""


def find(
    *, ids: Sequence[int] = (), app: str = "", troubled: bool = False, at_most: int | None = None
) -> list[Failing]:
    """What is parked, the oldest first; of an app, or of these numbers, whatever their state.

    With `troubled` also what failed and is still tried.  Raises `NotParked` for unknown numbers.
    """
    failures = ScienceFailure.objects.select_related("app").order_by("parked_at", "id")
    if ids:
        failures = failures.filter(pk__in=ids)
    elif not troubled:
        failures = failures.filter(parked_at__isnull=False)
    if app:
        failures = failures.filter(app__name=app)
    rows = list(failures[:at_most])
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


def count(app: str = "") -> int:
    """How much is parked, of one app or of all."""
    parked = ScienceFailure.objects.filter(parked_at__isnull=False)
    return (parked.filter(app__name=app) if app else parked).count()


def _names(rows: Sequence[ScienceFailure]) -> dict[tuple[int, int], str]:
    """What the subjects are called; those that are gone are left out."""
    names: dict[tuple[int, int], str] = {}
    of_stage: dict[int, list[int]] = {}
    for row in rows:
        of_stage.setdefault(row.stage, []).append(row.subject_id)
        if row.stage == Stage.GENERATE:
            names[row.stage, row.subject_id] = row.app.name
    works = (Stage.VALIDATE, Stage.ASSIMILATE)
    wanted = [one for stage in works for one in of_stage.get(stage, ())]
    workunits = dict(Workunit.objects.filter(pk__in=wanted).values_list("pk", "name"))
    for stage in works:
        for one in of_stage.get(stage, ()):
            if one in workunits:
                names[stage, one] = workunits[one]
    trickles = TrickleUp.objects.filter(pk__in=of_stage.get(Stage.TRICKLE, ()))
    for number in trickles.values_list("pk", flat=True):
        names[Stage.TRICKLE, number] = f"trickle {number}"
    return names
