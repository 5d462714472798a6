"""Requests the revalidation of workunits.

Theory of operation.  The request is a column (`revalidate_requested_at`), and the transitioner,
woken at once, acts on it: it withdraws the answer and the validation of its successes, after which
the validator judges them as if they had just arrived.  That is possible while the answer is not
assimilated and the outputs exist.  Granted credit is not withdrawn, and each credit rule grants
credit for a result only once.  A result that becomes valid gets its credit then.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from django.db import transaction

from scheduler import wakeups
from scheduler.models import App, Workunit
from scheduler.sql import fetch

#: The number of workunits per transaction.
CHUNK = 1000

#: Why a workunit cannot be revalidated.
REASONS = {
    "assimilated": "its answer is already assimilated",
    "failed": "it failed, which is final",
    "asked": "revalidation is already requested",
    "unjudged": "none of its results has been validated yet",
    "deleted": "outputs of its results are deleted",
}


class NothingNamed(ValueError):
    """Not exactly one of an app, a workunit and a batch was given.  Hint: name one."""


class UnknownSubject(LookupError):
    """No such app or workunit.  Hint: check the spelling; purged ones are in the archive."""


@dataclass(frozen=True, slots=True)
class Chosen:
    """The workunits that can be revalidated, and the number of the others by key of `REASONS`."""

    ids: list[int] = field(default_factory=list)
    refused: dict[str, int] = field(default_factory=dict)


def choose(
    *,
    app: str = "",
    workunit: str = "",
    batch_id: int | None = None,
    only_invalid: bool = False,
) -> Chosen:
    """Return which workunits of an app or a batch, or the named one, can be revalidated.

    With `only_invalid`, only workunits with an invalid success.  Raises `NothingNamed`
    and `UnknownSubject`.  Takes no locks: `request` checks again.
    """
    if sum((bool(app), bool(workunit), batch_id is not None)) != 1:
        raise NothingNamed(
            "Name an app, or --workunit NAME, or --batch NAME. Hint: give exactly one."
        )
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
    """Request revalidation of workunits; return the ids of the workunits that were changed.

    Workunits that failed or were assimilated in the meantime are not changed.  Each transaction
    changes up to `CHUNK` workunits.
    """
    requested_ids: list[int] = []
    for start in range(0, len(ids), CHUNK):
        with transaction.atomic():
            rows = fetch(
                "results/request_revalidation",
                {"workunit_ids": list(ids[start : start + CHUNK]), "now": now},
            )
            wakeups.after_commit("transitioner")
        requested_ids += [row["id"] for row in rows]
    return sorted(requested_ids)


def time_limits() -> dict[int, timedelta]:
    """Return the time limit of each app's validator, by app id."""
    return dict(App.objects.values_list("pk", "science_time_limit"))
