"""Reads the failures of science code, with the names of their subjects."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from scheduler.models import ScienceFailure, TrickleUp, Workunit

Stage = ScienceFailure.Stage


class NotParked(LookupError):
    """No subject is parked with this id. Hint: `manage.py parked list` lists them."""

    def __init__(self, missing: Sequence[int]) -> None:
        shown = ", ".join(map(str, missing[:10])) + ", ..." * (len(missing) > 10)  # noqa: PLR2004
        super().__init__(f"Nothing is parked as {shown}. Hint: see `manage.py parked list`.")


@dataclass(frozen=True, slots=True)
class Failing:
    """One subject on which science code fails; `parked_at` is None while it is still tried.

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


def find(
    *, ids: Sequence[int] = (), app: str = "", troubled: bool = False, at_most: int | None = None
) -> list[Failing]:
    """Return parked subjects, oldest first, of all apps or of `app`.

    `ids` selects subjects whether or not they are parked, and raises `NotParked` for unknown ids.
    `troubled` includes subjects that failed but are still tried.
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
    """Return the number of parked subjects, of one app or of all."""
    parked = ScienceFailure.objects.filter(parked_at__isnull=False)
    return (parked.filter(app__name=app) if app else parked).count()


def _names(rows: Sequence[ScienceFailure]) -> dict[tuple[int, int], str]:
    """Return names by stage and subject id; subjects that no longer exist are omitted."""
    names: dict[tuple[int, int], str] = {}
    of_stage: dict[int, list[int]] = {}
    for row in rows:
        of_stage.setdefault(row.stage, []).append(row.subject_id)
        if row.stage == Stage.GENERATE:
            names[row.stage, row.subject_id] = row.app.name
    stages = (Stage.VALIDATE, Stage.ASSIMILATE)
    wanted = [workunit_id for stage in stages for workunit_id in of_stage.get(stage, ())]
    workunits = dict(Workunit.objects.filter(pk__in=wanted).values_list("pk", "name"))
    for stage in stages:
        for workunit_id in of_stage.get(stage, ()):
            if workunit_id in workunits:
                names[stage, workunit_id] = workunits[workunit_id]
    trickles = TrickleUp.objects.filter(pk__in=of_stage.get(Stage.TRICKLE, ()))
    for number in trickles.values_list("pk", flat=True):
        names[Stage.TRICKLE, number] = f"trickle {number}"
    return names
