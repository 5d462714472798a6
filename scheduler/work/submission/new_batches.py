"""Creates batches, and reopens existing batches to add workunits.

Theory of operation.  A submission locks its batch, and the predecessor that this batch follows,
until the submission commits.  If the predecessor is over before the submission reads its row, the
new workunits do not wait.  If the predecessor ends after the commit, `work.followers` releases the
new workunits.
"""

from __future__ import annotations

import json
import secrets
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from django.db import IntegrityError, transaction

from scheduler.models import Account, App, Batch
from scheduler.rights import Right
from scheduler.sql import fetch_one
from scheduler.work.submission.facts import NewBatch
from scheduler.work.submission.rules import bundling, new_workunits
from scheduler.work.submission.submission_checks import SubmissionRefused, may_set_priority
from scheduler.work.submission.workunit_rows import SubmissionContext

State = Batch.State
_OPEN = [State.INIT.value, State.IN_PROGRESS.value, State.COMPLETE.value]
#: Settings of an existing batch that a submission may repeat but not change.
_SETTINGS = (
    "after",
    "after_any",
    "priority",
    "accelerate_tail",
    "meta",
    "bundle_size",
    "bundle_duration",
)


class BatchRefused(SubmissionRefused):
    """A batch cannot be created, or accepts no workunits. Hint: see the message."""


@dataclass(frozen=True, slots=True)
class Opened:
    """The context of new workunits, and the name of their batch, which is locked.

    Without a batch, the name is an empty string.  `workunits_before` is the number of workunits
    that were submitted to the batch before.  `is_by_id` is True if the caller named the batch by
    its id.
    """

    context: SubmissionContext
    name: str = ""
    workunits_before: int = 0
    is_by_id: bool = False

    def shown(self) -> dict[str, Any] | None:
        """Return the dict that describes the batch in a reply, or None without a batch."""
        if self.context.batch_id is None:
            return None
        return {
            "id": self.context.batch_id,
            "name": self.name,
            "workunits_before": self.workunits_before,
        }

    def warnings(self) -> list[str]:
        """Return a warning if a batch of this name already had workunits, perhaps by mistake.

        There is no warning for a batch opened by its id: clients add further workunits that way.
        """
        if self.is_by_id or not self.workunits_before:
            return []
        earlier = f"{self.workunits_before:,} workunit{'s' * (self.workunits_before > 1)}"
        warning = (
            f"Batch {self.name!r} existed already, with {earlier.replace(',', ' ')}; these were "
            "added to it. Hint: name another batch if this was not intended."
        )
        return [warning]


def make(wanted: NewBatch, *, app: App | None, submitter: Account, now: datetime) -> Batch:
    """Create an empty batch.

    Raises `BatchRefused` if the description is invalid, the submitter has a batch of this name, or
    the batch cannot follow its predecessor.
    """
    _check(wanted, now)
    name = wanted.name or _made_name(app.name if app else "batch", now)
    with transaction.atomic():
        if wanted.after is not None:
            waits(wanted.after, submitter, after_any=wanted.after_any)
        try:
            with transaction.atomic():
                return Batch.objects.create(
                    name=name,
                    submitter=submitter,
                    app=app,
                    state=State.INIT,
                    created_at=now,
                    **_columns(wanted),
                )
        except IntegrityError:
            msg = f"{submitter} has a batch {name!r} already. Hint: choose another name, or none."
            raise BatchRefused(msg) from None


def open_batch(
    wanted: NewBatch | int | None,
    *,
    app_id: int,
    app: str,
    submitter: Account | None,
    now: datetime,
) -> Opened:
    """Reopen a batch by its id, or reopen or create a batch by its name, for new workunits.

    With None, the workunits get no batch.  Locks the batch until the caller's transaction ends.
    Raises `BatchRefused` if there is no submitter, no open batch of this app with this id, or
    another conflict with an existing batch or with the predecessor.
    """
    if wanted is None:
        return Opened(SubmissionContext(app_id=app_id))
    if submitter is None:
        name = wanted if isinstance(wanted, int) else repr(wanted.name)
        raise BatchRefused(f"Batch {name} has no submitter. Hint: name the account that owns it.")
    params = {
        "submitter_id": submitter.pk,
        "app_id": app_id,
        "in_progress": State.IN_PROGRESS.value,
        "open": _OPEN,
    }
    if isinstance(wanted, int):
        row = fetch_one("work/submission/reopen_batch", {**params, "id": wanted})
    else:
        _check(wanted, now)
        if wanted.after is not None:
            waits(wanted.after, submitter, after_any=wanted.after_any)
        columns = _columns(wanted)
        columns |= {
            "name": wanted.name or _made_name(app, now),
            "meta": json.dumps(columns["meta"]),
        }
        row = fetch_one("work/submission/open_batch", {**params, **columns, "now": now})
    if row is None:
        raise BatchRefused(_why_not(wanted, app_id, app, submitter))
    if isinstance(wanted, NewBatch):
        _agrees(wanted, row)
    after = row["after_id"]
    return Opened(
        SubmissionContext(
            app_id=app_id,
            batch_id=row["id"],
            priority=row["priority"] if may_set_priority(submitter) else None,
            waits=after is not None and waits(after, submitter, after_any=row["after_any"]),
            outputs_kept=row["keep_outputs"],
            in_lists=row["bundle_size"] is not None or row["bundle_duration"] is not None,
        ),
        row["name"],
        row["workunits_before"],
        is_by_id=isinstance(wanted, int),
    )


def _check(wanted: NewBatch, now: datetime) -> None:
    faults = (*new_workunits.batch_faults(wanted, now=now), *bundling.batch_faults(wanted))
    if faults:
        raise BatchRefused(" ".join(str(fault) for fault in faults))


def _made_name(app: str, now: datetime) -> str:
    return f"{app}-{now.astimezone(UTC):%Y%m%dT%H%M%SZ}-{secrets.token_hex(2)}"


def _columns(wanted: NewBatch) -> dict[str, Any]:
    return {
        "after_id": wanted.after,
        "after_any": wanted.after_any,
        "expire_at": wanted.expire_at,
        "priority": wanted.priority,
        "accelerate_tail": wanted.accelerate_tail,
        "keep_outputs": wanted.keep_outputs,
        "bundle_size": wanted.bundle_size,
        "bundle_duration": wanted.bundle_duration,
        "meta": dict(wanted.meta),
    }


def _why_not(wanted: NewBatch | int, app_id: int, app: str, submitter: Account) -> str:
    own = Batch.objects.select_related("app").filter(submitter=submitter)
    batch = (
        own.filter(pk=wanted) if isinstance(wanted, int) else own.filter(name=wanted.name)
    ).first()
    if batch is None:
        batch_name = wanted if isinstance(wanted, int) else wanted.name
        return f"There is no batch {batch_name}. Hint: name one of your batches, or a new one."
    if batch.app_id is not None and batch.app_id != app_id:
        return (
            f"Batch {batch.name!r} has workunits of app {batch.app}, not {app}. "
            "Hint: name another batch."
        )
    state = str(batch.get_state_display()).lower()
    return f"Batch {batch.name!r} is {state}. Hint: name another batch."


def _agrees(wanted: NewBatch, row: dict[str, Any]) -> None:
    """Raise `BatchRefused` if a submission would change one of `_SETTINGS` of its batch.

    `row` is the row of the batch.  Settings that the submission leaves at their defaults are not
    compared.
    """
    default, existing = NewBatch(), {**row, "after": row["after_id"]}
    for name in _SETTINGS:
        value = getattr(wanted, name)
        if value not in (getattr(default, name), existing[name]):
            raise BatchRefused(
                f"Batch {row['name']!r} already exists, and its {name} is {existing[name]!r}, not "
                f"{value!r}. Hint: leave {name} out, or name another batch."
            )


def is_running(state: int, completed_at: datetime | None) -> bool:
    """Return whether a batch may have open workunits.

    This is so if the batch is open, or if it was aborted and has no `completed_at` yet.
    """
    return state in (State.INIT, State.IN_PROGRESS) or (
        state == State.ABORTED and completed_at is None
    )


def waits(batch_id: int, submitter: Account, *, after_any: bool) -> bool:
    """Return whether a new batch must wait for its predecessor `batch_id`.

    Locks the predecessor until the caller's transaction ends.  Raises `BatchRefused` if the
    predecessor does not exist, if the submitter may not follow it, or if it was aborted or has
    failed workunits and `after_any` is false.
    """
    row = fetch_one("work/lock_predecessor", {"id": batch_id})
    if row is None or not (
        row["submitter_id"] == submitter.pk or submitter.has_right(Right.MANAGE_OTHERS_BATCHES)
    ):
        msg = f"There is no batch {batch_id} to follow. Hint: give the id of one of your batches."
        raise BatchRefused(msg)
    if is_running(row["state"], row["completed_at"]) and (
        row["state"] != State.ABORTED or after_any
    ):
        return True
    if not after_any and (row["state"] == State.ABORTED or row["failed"]):
        how = "was aborted" if row["state"] == State.ABORTED else "has failed workunits"
        raise BatchRefused(
            f"Batch {row['name']!r}, which the new batch would follow, {how}. "
            "Hint: retry the failed workunits, or set after_any to follow a failed batch."
        )
    return False
