"""Cancels, holds, releases, wakes and unbinds workunits.

Theory of operation.  A cancellation is a request: this module records it and wakes the
transitioner, which makes the move.  Holding and releasing are moves by staff, with ledger entries;
the transitioner then makes the unsent results inactive or active again.  Workunits are locked in
ascending id.

A hold can have a code: a negative number with a meaning for the submitter (seed D-18).  Workunits
without a code are held by staff: a submitter can neither release them nor give them a code
(`only_coded`).
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import astuple, dataclass, fields
from datetime import datetime
from functools import partial
from operator import add
from typing import Any

from django.db import transaction

from scheduler import wakeups
from scheduler.lifecycle import Actor, Axis, Because, ReleaseState, sources
from scheduler.models import Account, Batch, Workunit
from scheduler.sql import fetch
from scheduler.work.rules.statuses import hold_code_fault

_MAX_SHOWN_NAMES = 10
_MAX_REASON = 200
#: Number of workunits that one transaction changes.
_CHUNK = 5000

#: States of a batch that a cancellation does not change.
_ENDED = (Batch.State.ABORTED, Batch.State.RETIRED)


class WorkunitsNotFound(LookupError):
    """Workunits or a batch do not exist; nothing was changed.

    Hint: check the names; the purger moves finished workunits to the archive.
    """

    def __init__(self, missing: Sequence[str]) -> None:
        self.missing = tuple(missing)
        shown = ", ".join(missing[:_MAX_SHOWN_NAMES]) + ", ..." * (len(missing) > _MAX_SHOWN_NAMES)
        super().__init__(
            f"Not found: {shown}. Hint: check the spelling; purged workunits are in the archive."
        )


class AmbiguousBatch(LookupError):
    """Several accounts have a batch of this name. Hint: name its submitter."""


class BadHoldCode(ValueError):
    """The code of a hold is not a free negative number.  Hint: use -3, -4, -5, or -7 and lower."""


class NothingNamed(ValueError):
    """The call names neither workunits nor a batch. Hint: give names, ids or a batch."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """The numbers of selected workunits by the effect of the call.

    `already` counts workunits that were canceled, held or released before, and `finished` counts
    workunits that have ended.  `impossible` counts workunits whose state does not allow the move.
    """

    changed: int
    already: int
    finished: int
    impossible: int = 0

    def __add__(self, other: Outcome) -> Outcome:
        return Outcome(*map(add, astuple(self), astuple(other)))

    @property
    def total(self) -> int:
        """The number of selected workunits."""
        return sum(astuple(self))


def cancel(
    *,
    names: Sequence[str] = (),
    ids: Sequence[int] = (),
    batch: str | None = None,
    submitter: Account | None = None,
    reason: str = "",
    now: datetime,
) -> Outcome:
    """Request the cancellation of the named workunits and of all workunits of the batch.

    The batch, unless it is retired, is aborted, so that it accepts no more workunits.  Idempotent.
    Finished workunits are counted, but not changed.  `submitter` selects among batches of the same
    name.  Raises `WorkunitsNotFound` for a workunit or batch that does not exist, `AmbiguousBatch`
    if several submitters have a batch of this name, and `NothingNamed` if no names, ids or batch
    are given.
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
    """Request the cancellation of all workunits of a batch, chunk by chunk; idempotent.

    The caller must have closed the batch for new workunits.
    """
    after, total = 0, Outcome(0, 0, 0)
    while True:
        chunk = {"batch_id": batch_id, "after_id": after, "limit": _CHUNK}
        with transaction.atomic():
            ids = [row["id"] for row in fetch("work/read_workunits_of_batch", chunk)]
            total += _cancel_existing(ids, reason=reason, now=now)
        if len(ids) < _CHUNK:
            return total
        after = ids[-1]


def cancel_in_chunks(ids: Collection[int], *, reason: str, now: datetime) -> Outcome:
    """Request the cancellation of workunits in ascending id, chunk by chunk; idempotent.

    Each chunk is a transaction: after an interruption, a new call continues with the remaining
    workunits.  Workunits that do not exist are left out, because the purger may drop finished ones
    meanwhile.
    """
    ordered, total = sorted(ids), Outcome(0, 0, 0)
    for start in range(0, len(ordered), _CHUNK):
        with transaction.atomic():
            total += _cancel_existing(ordered[start : start + _CHUNK], reason=reason, now=now)
    return total


def _cancel_existing(ids: Sequence[int], *, reason: str, now: datetime) -> Outcome:
    """Request the cancellation of those workunits with these ids that exist."""
    if not ids:
        return Outcome(0, 0, 0)
    params = {"names": [], "ids": list(ids), "batch_id": None, "reason": reason[:_MAX_REASON]}
    return _outcome(fetch("work/request_cancellation", {**params, "now": now}))


def _move(  # noqa: PLR0913  the workunits, the code, and the time
    target: ReleaseState,
    because: Because,
    *,
    names: Sequence[str] = (),
    ids: Sequence[int] = (),
    batch: str | None = None,
    submitter: Account | None = None,
    hold_code: int | None = None,
    only_coded: bool = False,
    now: datetime,
) -> Outcome:
    params = {
        "hold_code": hold_code,
        "only_coded": only_coded,
        "axis": Axis.RELEASE.value,
        "sources": list(sources(Axis.RELEASE, target, by=Actor.STAFF)),
        "target": target.value,
        "because": because.value,
        "staff": Actor.STAFF.value,
    }
    with transaction.atomic():
        batch_id = _batch(names, ids, batch, submitter)
        return _change("work/set_release_state", names, ids, batch_id, params, now)


#: Releases held workunits.  Takes, returns and raises the same as `hold`, except for `hold_code`.
release = partial(_move, ReleaseState.RELEASED, Because.RELEASED)


def hold(*, hold_code: int | None = None, **named: Any) -> Outcome:
    """Hold released workunits: their results are not sent until they are released again.

    Results in progress continue.  Workunits that wait for others count as impossible, and so do,
    with `only_coded`, workunits that are held without a code.  `hold_code` is stored; it replaces
    the code of a workunit that is held already, also if it is None.  Raises `BadHoldCode` and the
    same exceptions as `cancel`.
    """
    if hold_code is not None and (fault := hold_code_fault(hold_code)):
        raise BadHoldCode(fault)
    return _move(ReleaseState.HELD, Because.HELD, hold_code=hold_code, **named)


def look_again(*, ids: Sequence[int], now: datetime) -> Outcome:
    """Make workunits due for the transitioner, which decides again what each of them needs.

    All workunits count as changed.  Raises `WorkunitsNotFound`.
    """
    with transaction.atomic():
        return _change("work/wake_workunits", (), ids, None, {}, now)


def reset_class(*, ids: Sequence[int], now: datetime) -> Outcome:
    """Remove the class of computers and the app version to which workunits are bound.

    The first computer that gets a result then binds the workunit again.  A workunit with results
    that are in progress, will be compared, or timed out and may be reported late counts as
    impossible, because results of several classes must not be compared.  Raises
    `WorkunitsNotFound`.
    """
    with transaction.atomic():
        bound = Workunit.objects.filter(pk__in=ids).order_by("pk").select_for_update(no_key=True)
        # The next statement sees the results of all claims that were committed before the locks.
        list(bound.values_list("pk"))
        return _change("work/reset_class", (), ids, None, {}, now)


def _batch(
    names: Sequence[str], ids: Sequence[int], batch: str | None, submitter: Account | None
) -> int | None:
    if batch is None:
        if not names and not ids:
            raise NothingNamed("No workunit is named. Hint: give names, ids or a batch.")
        return None
    named = Batch.objects.filter(name=batch)
    if submitter is not None:
        named = named.filter(submitter=submitter)
    match list(named.values_list("pk", flat=True)[:2]):
        case []:
            raise WorkunitsNotFound([f"batch {batch}"])
        case [batch_id]:
            return int(batch_id)
        case _:
            msg = f"Several accounts have a batch {batch!r}. Hint: name its submitter."
            raise AmbiguousBatch(msg)


def _change(
    statement: str,
    names: Sequence[str],
    ids: Sequence[int],
    batch_id: int | None,
    params: dict[str, Any],
    now: datetime,
) -> Outcome:
    """Run a statement that returns id, name and outcome of workunits, and count the outcomes."""
    rows = fetch(
        statement,
        {**params, "names": list(names), "ids": list(ids), "batch_id": batch_id, "now": now},
    )
    missing = sorted(set(names) - {row["name"] for row in rows})
    missing += [f"#{id_}" for id_ in sorted(set(ids) - {row["id"] for row in rows})]
    if missing:
        raise WorkunitsNotFound(missing)
    return _outcome(rows)


def _outcome(rows: Sequence[Mapping[str, Any]]) -> Outcome:
    """Count the outcomes of a statement's rows, and wake the transitioner."""
    wakeups.after_commit("transitioner")
    outcomes = [row["said"] for row in rows]
    return Outcome(*(outcomes.count(field.name) for field in fields(Outcome)))
