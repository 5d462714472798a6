"""Requests the revalidation of workunits.

Theory of operation.  This module sets the column `revalidate_requested_at` and wakes the
transitioner, which withdraws the canonical result and the verdicts on all successes.  The validator
then validates these successes again.  Revalidation is possible while the workunit is not
assimilated and the outputs exist.  Granted credit is not withdrawn, and each credit rule grants
credit for a result only once.  A result that becomes valid by the revalidation gets its credit.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from django.db import transaction

from scheduler import wakeups
from scheduler.models import App, Workunit
from scheduler.sql import fetch

#: Maximum number of workunits that one transaction changes.
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
    """Not exactly one of app, workunit and batch is given.  Hint: give exactly one."""


class UnknownSubject(LookupError):
    """The app or workunit does not exist.

    Hint: check the spelling.  Purged workunits are in the archive.
    """


@dataclass(frozen=True, slots=True)
class Chosen:
    """The ids of the workunits that can be revalidated, and the numbers of other workunits.

    `refused` maps keys of `REASONS` to numbers of workunits.
    """

    ids: list[int] = field(default_factory=list)
    refused: dict[str, int] = field(default_factory=dict)


def choose(
    *,
    app: str = "",
    workunit: str = "",
    batch_id: int | None = None,
    only_invalid: bool = False,
) -> Chosen:
    """Return which of the selected workunits can be revalidated.

    Selects the workunits of an app or of a batch, or the workunit with the name `workunit`.  If
    `only_invalid` is True, workunits without an invalid success are ignored.  The workunits are not
    locked, so `request` checks them again.  Raises `NothingNamed` and `UnknownSubject`.
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

    Workunits that failed, were assimilated, or already have a request are not changed.  The
    recorded failures of the validator and the assimilator on changed workunits are deleted.  Each
    transaction changes at most `CHUNK` workunits.
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
