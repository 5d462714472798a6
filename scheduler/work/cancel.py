"""Stop workunits, hold them back, let them go.

Theory of operation.  A cancellation is a request: it is written down here, and the transitioner,
woken at once, acts on it (the law names it as the owner of that move).  Holding and releasing are
moves of the staff's own, with their entries in the ledger; the transitioner then puts the results
to sleep or wakes them.  Workunits are locked in ascending order, as everywhere.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from django.db import transaction

from scheduler import wakeups
from scheduler.lifecycle import Actor, Axis, Because, ReleaseState, sources
from scheduler.models import Account, Batch
from scheduler.sql import fetch

_SHOWN = 10
_MAX_REASON = 200
#: How many workunits one transaction touches.
_CHUNK = 5000

#: A batch in one of these has been given up or put away; cancelling leaves it as it is.
_ENDED = (Batch.State.ABORTED, Batch.State.RETIRED)


class WorkunitsNotFound(LookupError):
    """Workunits or a batch are named that do not exist; nothing was changed.

    Hint: check the names; finished workunits are dropped by the purger and stand in the archive.
    """

    def __init__(self, missing: Sequence[str]) -> None:
        """Keep what was not found."""
        self.missing = tuple(missing)
        shown = ", ".join(missing[:_SHOWN]) + ", ..." * (len(missing) > _SHOWN)
        super().__init__(
            f"Not found: {shown}. Hint: check the spelling; purged workunits are in the archive."
        )


class AmbiguousBatch(LookupError):
    """Several people have a batch of this name. Hint: say whose it is."""


class NothingNamed(ValueError):
    """No workunit and no batch is named. Hint: give names, ids or a batch."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of the workunits that were named; the four add up to all of them."""

    changed: int
    already: int
    finished: int
    impossible: int = 0

    def __add__(self, other: Outcome) -> Outcome:
        """Add up what became of two lots of workunits."""
        return Outcome(
            self.changed + other.changed,
            self.already + other.already,
            self.finished + other.finished,
            self.impossible + other.impossible,
        )

    @property
    def total(self) -> int:
        """How many workunits were named."""
        return self.changed + self.already + self.finished + self.impossible


def cancel(
    *,
    names: Sequence[str] = (),
    ids: Sequence[int] = (),
    batch: str | None = None,
    submitter: Account | None = None,
    reason: str = "",
    now: datetime,
) -> Outcome:
    """Ask for the workunits to be cancelled, or all of a batch; repeating it changes nothing.

    Finished ones stay as they are and are counted.  `submitter` says whose batch it is.  Refuses
    names and ids that do not exist (`WorkunitsNotFound`), a batch name that several people gave
    (`AmbiguousBatch`), and a call that names nothing (`NothingNamed`).
    """
    with transaction.atomic():
        batch_id = _batch(names, ids, batch, submitter)
        if batch_id is not None:
            open_batches = Batch.objects.filter(pk=batch_id).exclude(state__in=_ENDED)
            open_batches.update(state=Batch.State.ABORTED)
        params = {"reason": reason[:_MAX_REASON]}
        if batch_id is None or names or ids:
            return _change("work/request_cancellation", names, ids, batch_id, params, now)
    return cancel_all_of(batch_id, reason=reason, now=now)


def cancel_all_of(batch_id: int, *, reason: str, now: datetime) -> Outcome:
    """Ask for all workunits of a batch to be cancelled, chunk by chunk; repeating changes nothing.

    The batch takes no more by now: its state says so.
    """
    after, done = 0, Outcome(0, 0, 0)
    while True:
        chunk = {"batch_id": batch_id, "after_id": after, "limit": _CHUNK}
        with transaction.atomic():
            ids = [row["id"] for row in fetch("work/read_workunits_of_batch", chunk)]
            if ids:
                params = {"reason": reason[:_MAX_REASON]}
                done += _change("work/request_cancellation", (), ids, None, params, now)
        if len(ids) < _CHUNK:
            return done
        after = ids[-1]


def hold(
    *,
    names: Sequence[str] = (),
    ids: Sequence[int] = (),
    batch: str | None = None,
    submitter: Account | None = None,
    now: datetime,
) -> Outcome:
    """Hold released workunits back: no result of theirs is sent until they are released.

    Results in progress go on.  Workunits that wait for others are counted as impossible.  Refuses
    what `cancel` refuses.
    """
    return _move(ReleaseState.HELD, Because.HELD, names, ids, batch, submitter, now)


def release(
    *,
    names: Sequence[str] = (),
    ids: Sequence[int] = (),
    batch: str | None = None,
    submitter: Account | None = None,
    now: datetime,
) -> Outcome:
    """Let held workunits go.

    Workunits that wait for others are counted as impossible.  Refuses what `cancel` refuses.
    """
    return _move(ReleaseState.RELEASED, Because.RELEASED, names, ids, batch, submitter, now)


def _move(
    target: ReleaseState,
    because: Because,
    names: Sequence[str],
    ids: Sequence[int],
    batch: str | None,
    submitter: Account | None,
    now: datetime,
) -> Outcome:
    params = {
        "axis": Axis.RELEASE.value,
        "sources": list(sources(Axis.RELEASE, target, by=Actor.STAFF)),
        "target": target.value,
        "because": because.value,
        "staff": Actor.STAFF.value,
    }
    with transaction.atomic():
        batch_id = _batch(names, ids, batch, submitter)
        return _change("work/set_release_state", names, ids, batch_id, params, now)


def _batch(
    names: Sequence[str], ids: Sequence[int], batch: str | None, submitter: Account | None
) -> int | None:
    if batch is None:
        if not names and not ids:
            msg = "No workunit is named. Hint: give names, ids or a batch."
            raise NothingNamed(msg)
        return None
    found = Batch.objects.filter(name=batch)
    if submitter is not None:
        found = found.filter(submitter=submitter)
    match list(found.values_list("pk", flat=True)[:2]):
        case []:
            raise WorkunitsNotFound([f"batch {batch}"])
        case [batch_id]:
            return int(batch_id)
        case _:
            msg = f"Several people have a batch {batch!r}. Hint: say whose it is."
            raise AmbiguousBatch(msg)


def _change(
    statement: str,
    names: Sequence[str],
    ids: Sequence[int],
    batch_id: int | None,
    params: dict[str, Any],
    now: datetime,
) -> Outcome:
    """Run a statement that answers id, name and what became of each workunit it found."""
    rows = fetch(
        statement,
        {**params, "names": list(names), "ids": list(ids), "batch_id": batch_id, "now": now},
    )
    missing = sorted(set(names) - {row["name"] for row in rows})
    missing += [f"#{id_}" for id_ in sorted(set(ids) - {row["id"] for row in rows})]
    if missing:
        raise WorkunitsNotFound(missing)
    wakeups.after_commit("transitioner")
    said = [row["said"] for row in rows]
    return Outcome(
        changed=said.count("changed"),
        already=said.count("already"),
        finished=said.count("finished"),
        impossible=said.count("impossible"),
    )
