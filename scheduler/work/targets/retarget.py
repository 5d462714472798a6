"""Sets or clears the target of workunits of which no result was sent.

Theory of operation.  The target is a column of the workunit, and a copy of it is in each unsent
result, by which the scheduler looks for work.  Workunits are locked in ascending id, as by a claim.
The next statement sees the results of all claims that were committed before, and leaves workunits
alone of which a result was sent: their results must not depend on two rules.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

from django.db import transaction

from scheduler import wakeups
from scheduler.lifecycle import Target
from scheduler.models import Workunit
from scheduler.people import audit
from scheduler.people.audit import Event
from scheduler.sql import fetch
from scheduler.work.control import WorkunitsNotFound
from scheduler.work.submission import submission_checks
from scheduler.work.submission.facts import Addressees, NewWorkunit
from scheduler.work.submission.rules import aiming

#: The kinds of targets, with their names in messages.
KINDS: Final = {Target.HOST: "host", Target.ACCOUNT: "account", Target.TEAM: "team"}
_MAX_NAMES: Final = 10
#: The maximum number of ids in an audit entry.
_MAX_IDS: Final = 100


class BadTarget(ValueError):
    """The host, account or team does not exist.  Hint: look up its id in the administration."""


@dataclass(frozen=True, slots=True)
class WorkTarget:
    """A host, an account or a team by its id, or every host."""

    kind: Target = Target.EVERYBODY
    id: int = 0

    def __str__(self) -> str:
        return f"{KINDS[self.kind]} {self.id}" if self.kind in KINDS else "every host"


@dataclass(frozen=True, slots=True)
class Retargeting:
    """The numbers of workunits by the effect of a change, and the first names that change.

    `already` have this target.  The others do not change: they are finished or cancelled, a result
    of them was sent, they need results of several hosts, or they are bound by a broadcast, a group,
    a queue or a task list.  `warnings` are sentences about the target.
    """

    changed: int
    already: int
    finished: int
    sent: int
    replicated: int
    bound: int
    names: tuple[str, ...]
    warnings: tuple[str, ...]


def preview(ids: Sequence[int], target: WorkTarget, *, now: datetime) -> Retargeting:
    """Return what `retarget` would change now, without locks; raises the same exceptions."""
    addressees = _existing(target)
    return _counted(_run(ids, target, is_applied=False, now=now), target, addressees)


def retarget(ids: Sequence[int], target: WorkTarget, *, now: datetime) -> Retargeting:
    """Set the target of workunits of which no result was sent, and write an audit entry.

    Raises `BadTarget`, and `WorkunitsNotFound` for a workunit that does not exist.
    """
    with transaction.atomic():
        workunits = Workunit.objects.filter(pk__in=ids).order_by("pk")
        # The next statement sees the results of all claims that were committed before the locks.
        list(workunits.select_for_update(no_key=True).values_list("pk"))
        addressees = _existing(target)
        rows = _run(ids, target, is_applied=True, now=now)
        changed = [row["id"] for row in rows if row["effect"] == "changed"]
        audit.record(
            Event.ACTION_TAKEN,
            now=now,
            subject="workunits",
            details={
                "action": "retarget",
                "target": str(target),
                "changed": len(changed),
                "ids": changed[:_MAX_IDS],
                "more": len(changed) > _MAX_IDS,
            },
        )
        wakeups.after_commit("transitioner")
    return _counted(rows, target, addressees)


def _run(
    ids: Sequence[int], target: WorkTarget, *, is_applied: bool, now: datetime
) -> list[dict[str, Any]]:
    targets = {
        f"{name}_id": target.id if kind is target.kind else None for kind, name in KINDS.items()
    }
    rows = fetch(
        "work/targets/retarget_workunits",
        {
            **targets,
            "ids": list(ids),
            "target_kind": target.kind.value,
            "target_id": target.id,
            "is_applied": is_applied,
            "now": now,
        },
    )
    if missing := set(ids) - {row["id"] for row in rows}:
        raise WorkunitsNotFound([f"#{id_}" for id_ in sorted(missing)])
    return rows


def _existing(target: WorkTarget) -> Addressees:
    """Read the target; raises `BadTarget` if it does not exist or cannot get work."""
    if target.kind not in KINDS:
        return Addressees()
    kind = KINDS[target.kind]
    aimed = NewWorkunit(
        target_host=target.id if target.kind is Target.HOST else None,
        target_account=target.id if target.kind is Target.ACCOUNT else None,
        target_team=target.id if target.kind is Target.TEAM else None,
    )
    addressees = submission_checks.addressees_of([aimed])
    if fault := aiming.missing(kind, target.id, addressees):
        raise BadTarget(str(fault))
    return addressees


def _counted(
    rows: Collection[dict[str, Any]], target: WorkTarget, addressees: Addressees
) -> Retargeting:
    counts = Counter(row["effect"] for row in rows)
    changed = [row for row in rows if row["effect"] == "changed"]
    return Retargeting(
        changed=counts["changed"],
        already=counts["already"],
        finished=counts["finished"],
        sent=counts["sent"],
        replicated=counts["replicated"],
        bound=counts["bound"],
        names=tuple(row["name"] for row in changed[:_MAX_NAMES]),
        warnings=tuple(_warnings(changed, target, addressees)),
    )


def _warnings(
    changed: Collection[dict[str, Any]], target: WorkTarget, addressees: Addressees
) -> Iterator[str]:
    if target.kind != Target.HOST:
        return
    if target.id in addressees.denied_hosts:
        yield aiming.denied_warning(target.id)
    for app in sorted({row["app"] for row in changed if row["is_adaptive"]}):
        yield (
            f"App {app} creates several results if a host is not trusted, but a host gets only one "
            "of them: its workunits finish only if the host is trusted."
        )
