"""Ask for workunits to be validated anew.

Theory of operation.  The wish is a column (`revalidate_requested_at`), and the transitioner, woken
at once, acts on it: it takes back the answer and what was said of its successes, after which the
validator judges them as if they had just come.  That is possible while the science has not taken
the answer and the outputs are there.  Credit that was granted stays granted: a result is paid once
by each rule, whatever is said of it later; one that becomes valid is paid then.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from django.db import transaction

from scheduler import wakeups
from scheduler.models import App, Workunit
from scheduler.sql import fetch

#: So many are asked for in one transaction.
CHUNK = 1000

#: Why a workunit cannot be validated anew.
REASONS = {
    "assimilated": "the science has taken its answer already",
    "failed": "it failed, and stays so",
    "asked": "it is asked for already",
    "unjudged": "none of its results has been judged yet",
    "deleted": "outputs of its results are deleted",
}


class NothingNamed(ValueError):
    """Not exactly one of an app, a workunit and a batch is named. Hint: name one."""


class UnknownSubject(LookupError):
    """There is no such app or workunit. Hint: check the spelling; the archive has purged ones."""


@dataclass(frozen=True, slots=True)
class Chosen:
    """The workunits that can be validated anew, and how many cannot, by reason (`REASONS`)."""

    ids: list[int] = field(default_factory=list)
    refused: dict[str, int] = field(default_factory=dict)


def choose(
    *,
    app: str = "",
    workunit: str = "",
    batch_id: int | None = None,
    only_invalid: bool = False,
) -> Chosen:
    """Look which workunits of an app or a batch, or the one named, can be validated anew.

    With `only_invalid` only those with a success that was judged invalid.  Raises `NothingNamed`
    and `UnknownSubject`.  One look, without locks: `request` looks again.
    """
    if sum((bool(app), bool(workunit), batch_id is not None)) != 1:
        raise NothingNamed("Name an app, or --workunit NAME, or --batch NAME. Hint: one of them.")
    app_id = App.objects.filter(name=app).values_list("pk", flat=True).first() if app else None
    is_known = Workunit.objects.filter(name=workunit).exists() if workunit else True
    if (app and app_id is None) or not is_known:
        raise UnknownSubject(
            f"There is no {'app' if app else 'workunit'} {app or workunit!r}. "
            "Hint: check the spelling; purged workunits are in the archive."
        )
    rows = fetch(
        "results/choose_revalidation",
        {
            "workunit": workunit or None,
            "batch_id": batch_id,
            "app_id": app_id,
            "only_invalid": only_invalid,
        },
    )
    chosen = Chosen()
    for row in rows:
        if row["said"] == "ready":
            chosen.ids.extend(row["ids"])
        else:
            chosen.refused[row["said"]] = row["number"]
    return chosen


def request(ids: Sequence[int], *, now: datetime) -> list[int]:
    """Ask for workunits to be validated anew; those for which it could be asked.

    Left out are those that meanwhile failed or were assimilated.  Each thousand is one transaction.
    """
    asked: list[int] = []
    for start in range(0, len(ids), CHUNK):
        with transaction.atomic():
            rows = fetch(
                "results/request_revalidation",
                {"workunit_ids": list(ids[start : start + CHUNK]), "now": now},
            )
            wakeups.after_commit("transitioner")
        asked += [row["id"] for row in rows]
    return sorted(asked)


def time_limits() -> dict[int, timedelta]:
    """How long each app's science may take, by app id."""
    return dict(App.objects.values_list("pk", "science_time_limit"))
