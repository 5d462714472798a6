"""Requests the revalidation of workunits.

Theory of operation.  This module sets the column `revalidate_requested_at` and wakes the
transitioner, which withdraws the canonical result and the verdicts on all successes.  The validator
then validates these successes again.  Revalidation is possible while the workunit is not
assimilated and the outputs exist.  Granted credit is not withdrawn, and each credit rule grants
credit for a result only once.  A result that becomes valid by the revalidation gets its credit.

`choose` reads all workunits of an app, for the command.  The administration reads at most
`MAX_READ` rows of each index with `find_candidates`, and chooses among them with `choose_among`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any, Final

from django.db import transaction

from scheduler import wakeups
from scheduler.models import App, Workunit
from scheduler.people import audit
from scheduler.people.audit import Event
from scheduler.sql import fetch, fetch_one

#: Maximum number of workunits that one transaction changes.
CHUNK = 1000
#: Number of workunits that one statement of `choose` reads.
_READ_AT_ONCE: Final = 10_000
#: Maximum number of rows that `find_candidates` reads of each of its four indexes.
MAX_READ: Final = 10_000
#: Maximum number of ids in one audit entry, so that it stays readable.
_MAX_IDS: Final = 100

#: Why a workunit cannot be revalidated.
REASONS = {
    "assimilated": "the answer is already assimilated",
    "failed": "a failure is final",
    "asked": "revalidation is already requested",
    "unjudged": "no result has been validated yet",
    "deleted": "outputs of the results are deleted",
}


class NothingNamed(ValueError):
    """Not exactly one of app, workunit and batch is given.  Hint: give exactly one."""


class UnknownSubject(LookupError):
    """The app or workunit does not exist.

    Hint: check the spelling.  Purged workunits are in the archive.
    """


class BadPeriod(ValueError):
    """The period ends before it begins.  Hint: give an end after the beginning."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ResultFilter:
    """Which workunits are considered, by their successes.

    With `only_invalid`, those with an invalid success; with `since` or `until`, those with a
    success that was reported at `since` or later and before `until`.
    """

    only_invalid: bool = False
    since: datetime | None = None
    until: datetime | None = None

    def check(self) -> None:
        """Raise `BadPeriod` if the period is empty."""
        if self.since is not None and self.until is not None and self.until <= self.since:
            raise BadPeriod(
                f"The period from {self.since:%Y-%m-%d %H:%M} to {self.until:%Y-%m-%d %H:%M} UTC "
                "is empty. Hint: give an end after the beginning."
            )


_EVERY: Final = ResultFilter()


@dataclass(frozen=True, slots=True)
class Chosen:
    """The ids of the workunits that can be revalidated, and the numbers of other workunits.

    `refused` maps keys of `REASONS` to numbers of workunits.
    """

    ids: list[int] = field(default_factory=list)
    refused: dict[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Candidates:
    """The ids of an app's workunits that `find_candidates` read.

    `rows_read` has the number of rows that were read of each index, for all apps except `unsent`.
    """

    ids: list[int]
    rows_read: dict[str, int]

    @property
    def is_complete(self) -> bool:
        """Whether all rows of each index were read."""
        return all(number < MAX_READ for number in self.rows_read.values())


@dataclass(frozen=True, slots=True, kw_only=True)
class Effects:
    """The answers and verdicts that a revalidation withdraws, and the credited results."""

    canonical: int
    valid: int
    invalid: int
    inconclusive: int
    credited: int

    @property
    def verdicts(self) -> int:
        return self.valid + self.invalid + self.inconclusive


def choose(
    *,
    app: str = "",
    workunit: str = "",
    batch_id: int | None = None,
    results: ResultFilter = _EVERY,
) -> Chosen:
    """Return which of the selected workunits can be revalidated.

    Selects the workunits of an app or of a batch, or the workunit with the name `workunit`; ignores
    those that `results` leaves out.  The workunits are not locked, so `request` checks them again.
    Raises `NothingNamed`, `UnknownSubject` and `BadPeriod`.
    """
    results.check()
    named = _named(app, workunit, batch_id)
    chosen, after = Chosen(), 0
    while True:
        rows = Workunit.objects.filter(pk__gt=after, **named).order_by("pk")
        ids = list(rows.values_list("pk", flat=True)[:_READ_AT_ONCE])
        if workunit and not ids:
            raise _unknown("workunit", workunit)
        _add_chosen(chosen, ids, results)
        if len(ids) < _READ_AT_ONCE:
            return chosen
        after = ids[-1]


def choose_among(ids: Sequence[int], results: ResultFilter = _EVERY) -> Chosen:
    """Return which of these workunits can be revalidated; ids of no workunit are ignored.

    Raises `BadPeriod`.
    """
    results.check()
    chosen = Chosen()
    _add_chosen(chosen, ids, results)
    return chosen


def find_candidates(app_id: int) -> Candidates:
    """Return workunits of an app that may be revalidated, by one statement along four indexes.

    These are workunits that wait for assimilation or validation, and those with unsent results or
    results in progress; at most `MAX_READ` rows of each index are read.  Held workunits without an
    answer have no such results, and are not read.
    """
    params = {"app_id": app_id, "limit": MAX_READ}
    rows = fetch("results/find_revalidation_candidates", params)
    return Candidates(
        sorted({id_ for row in rows for id_ in row["ids"] or ()}),
        {row["source"]: row["number"] for row in rows},
    )


def effects(ids: Sequence[int]) -> Effects:
    """Return what a revalidation of these workunits withdraws."""
    return Effects(**(fetch_one("results/count_revalidation", {"ids": list(ids)}) or {}))


def request(
    ids: Sequence[int], *, now: datetime, details: Mapping[str, Any] | None = None
) -> list[int]:
    """Request revalidation of workunits; return the ids of the workunits that were changed.

    Workunits that failed, were assimilated, or already have a request are not changed.  The
    recorded failures of the validator and the assimilator on changed workunits are deleted.  Each
    transaction changes at most `CHUNK` workunits, and writes an audit entry with `details` if it
    changes any.
    """
    requested_ids: list[int] = []
    for start in range(0, len(ids), CHUNK):
        with transaction.atomic():
            rows = fetch(
                "results/request_revalidation",
                {"workunit_ids": list(ids[start : start + CHUNK]), "now": now},
            )
            wakeups.after_commit("transitioner")
            changed = sorted(row["id"] for row in rows)
            if changed:
                _record(changed, details or {}, now)
        requested_ids += changed
    return sorted(requested_ids)


def time_limits() -> dict[int, timedelta]:
    """Return the time limit of each app's validator, by app id."""
    return dict(App.objects.values_list("pk", "science_time_limit"))


def _named(app: str, workunit: str, batch_id: int | None) -> dict[str, Any]:
    """Return the columns by which the workunits are selected."""
    if sum((bool(app), bool(workunit), batch_id is not None)) != 1:
        raise NothingNamed(
            "Name an app, or --workunit NAME, or --batch NAME. Hint: give exactly one."
        )
    if app:
        app_id = App.objects.filter(name=app).values_list("pk", flat=True).first()
        if app_id is None:
            raise _unknown("app", app)
        return {"app_id": app_id}
    return {"name": workunit} if workunit else {"batch_id": batch_id}


def _unknown(noun: str, name: str) -> UnknownSubject:
    return UnknownSubject(
        f"There is no {noun} {name!r}. "
        "Hint: check the spelling; purged workunits are in the archive."
    )


def _add_chosen(chosen: Chosen, ids: Sequence[int], results: ResultFilter) -> None:
    """Add the workunits with these ids to `chosen`, by one statement."""
    params = {
        "ids": list(ids),
        "only_invalid": results.only_invalid,
        "since": results.since,
        "until": results.until,
    }
    for row in fetch("results/choose_revalidation", params):
        if row["said"] == "ready":
            chosen.ids.extend(row["ids"])
        else:
            reason = row["said"]
            chosen.refused[reason] = chosen.refused.get(reason, 0) + row["number"]


def _record(ids: Sequence[int], details: Mapping[str, Any], now: datetime) -> None:
    shown = {"action": "validate_again", "workunits": len(ids), "ids": ids[:_MAX_IDS]}
    audit.record(
        Event.ACTION_TAKEN,
        now=now,
        subject="workunits",
        details={**shown, "more": len(ids) > _MAX_IDS, **details},
    )
