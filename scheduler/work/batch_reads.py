"""Reads batches by name or id, with the counts of their workunits."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any

from scheduler import sql
from scheduler.lifecycle import ServerState
from scheduler.models import Account, Batch

#: Maximum number of batches that `lines` returns.
_MAX_LISTED = 100


class UnknownBatch(LookupError):
    """No batch has this name or id. Hint: see `manage.py batch list`."""


class AmbiguousBatch(LookupError):
    """Several accounts have a batch of this name. Hint: name its submitter."""


@dataclass(frozen=True, slots=True)
class BatchLine:
    """A batch with the counts of its workunits.

    `answered` workunits have a canonical result.  `open` workunits are neither answered nor failed.
    Purged workunits count as answered or failed.  A failed workunit that was retried is not
    counted, except in `unassimilated` and `unpurged`.
    """

    id: int
    name: str
    submitter: str
    app: str | None
    state: int
    created_at: datetime
    expire_at: datetime | None
    accelerate: bool
    workunits: int
    open: int
    answered: int
    failed: int
    unassimilated: int
    unpurged: int

    @property
    def state_label(self) -> str:
        """The label of the batch's state, in lower case."""
        return str(Batch.State(self.state).label).lower()

    @property
    def done(self) -> int:
        """The percentage of finished workunits, rounded down; 100 for an empty batch."""
        if not self.workunits:
            return 100
        return 100 * (self.workunits - self.open) // self.workunits

    def as_json(self) -> dict[str, Any]:
        """Return all fields by name, with the state's label in place of its number."""
        facts = {name: getattr(self, name) for name in self.__dataclass_fields__}
        return facts | {"state": self.state_label}


def find(name: str, submitter: Account | None) -> Batch:
    """Return the batch of this name; raises `UnknownBatch` or `AmbiguousBatch`.

    If `submitter` is None, the batches of all submitters are searched.
    """
    named = Batch.objects.filter(name=name)
    if submitter is not None:
        named = named.filter(submitter=submitter)
    match list(named.order_by("id")[:2]):
        case []:
            msg = f"There is no batch {name!r}. Hint: see `manage.py batch list`."
            raise UnknownBatch(msg)
        case [batch]:
            return batch
        case _:
            msg = f"Several accounts have a batch {name!r}. Hint: name one with --submitter."
            raise AmbiguousBatch(msg)


def lines(submitter: Account | None) -> list[BatchLine]:
    """Return the newest 100 batches of `submitter`, or of all submitters if it is None."""
    params = {"batch_id": None, "submitter_id": submitter and submitter.pk, "limit": _MAX_LISTED}
    return sql.fetch_into(BatchLine, "work/read_batches", params)


def line(batch_id: int) -> BatchLine:
    """Return the batch with this id; raises `UnknownBatch`."""
    params = {"batch_id": batch_id, "submitter_id": None, "limit": 1}
    rows = sql.fetch_into(BatchLine, "work/read_batches", params)
    if not rows:
        msg = f"There is no batch #{batch_id}. Hint: see `manage.py batch list`."
        raise UnknownBatch(msg)
    return rows[0]


def results_of(batch_id: int) -> dict[str, int]:
    """Return the number of a batch's results in each server state, by the state's name."""
    rows = sql.fetch("work/batch_results", {"batch_id": batch_id})
    by_state = {row["server_state"]: row["results"] for row in rows}
    return {state.name.lower(): by_state.get(state, 0) for state in ServerState}
