"""Reads: batches, by name, and how far they are."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any

from scheduler import sql
from scheduler.lifecycle import ServerState
from scheduler.models import Account, Batch


class UnknownBatch(LookupError):
    """There is no batch of this name. Hint: `manage.py batch list` names them."""


class AmbiguousBatch(LookupError):
    """Several people have a batch of this name. Hint: say whose it is."""


@dataclass(frozen=True, slots=True)
class BatchLine:
    """A batch and its workunits: `open` have neither an answer nor a reason why not.

    Purged workunits are among the answered and the failed; those submitted again are not counted.
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
        """The state in words."""
        return str(Batch.State(self.state).label).lower()

    @property
    def done(self) -> int:
        """How many of a hundred workunits are finished; 100 if none is left."""
        if not self.workunits:
            return 100
        return 100 * (self.workunits - self.open) // self.workunits

    def as_json(self) -> dict[str, Any]:
        """Every fact, by name."""
        facts = {name: getattr(self, name) for name in self.__dataclass_fields__}
        return facts | {"state": self.state_label}


def find(name: str, submitter: Account | None) -> Batch:
    """The batch of this name; raises `UnknownBatch`, or `AmbiguousBatch` if several have it."""
    found = Batch.objects.filter(name=name)
    if submitter is not None:
        found = found.filter(submitter=submitter)
    match list(found.order_by("id")[:2]):
        case []:
            msg = f"There is no batch {name!r}. Hint: `manage.py batch list` names them."
            raise UnknownBatch(msg)
        case [batch]:
            return batch
        case _:
            msg = f"Several people have a batch {name!r}. Hint: say whose with --submitter."
            raise AmbiguousBatch(msg)


def lines(*, submitter: Account | None = None, limit: int = 100) -> list[BatchLine]:
    """The newest batches, of one submitter's or all."""
    params = {"batch_id": None, "submitter_id": submitter and submitter.pk, "limit": limit}
    return sql.fetch_into(BatchLine, "work/read_batches", params)


def line(batch_id: int) -> BatchLine:
    """One batch; raises `UnknownBatch`."""
    params = {"batch_id": batch_id, "submitter_id": None, "limit": 1}
    found = sql.fetch_into(BatchLine, "work/read_batches", params)
    if not found:
        msg = f"There is no batch #{batch_id}. Hint: `manage.py batch list` names them."
        raise UnknownBatch(msg)
    return found[0]


def results_of(batch_id: int) -> dict[str, int]:
    """How many of its results are in each server state."""
    rows = sql.fetch("work/batch_results", {"batch_id": batch_id})
    found = {row["server_state"]: row["results"] for row in rows}
    return {state.name.lower(): found.get(state, 0) for state in ServerState}
