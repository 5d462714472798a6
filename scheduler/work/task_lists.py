"""Makes task lists of workunits, and moves lists when their members change.

Lists are locked after workunits and results.  A claim never waits for a list, so a transaction that
holds workunits may wait for one.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime

from django.db import transaction
from django.db.models import Max

from scheduler import sql
from scheduler.dispatch.rules import bundle_states
from scheduler.dispatch.rules.bundle_states import MemberFacts, Phase
from scheduler.lifecycle import BundleState, ServerState
from scheduler.models import App, Batch, Bundle, Result, Workunit
from scheduler.work.rules import grouping, tdf2_files
from scheduler.work.rules.grouping import ListedWorkunit, NewResult

#: The number of members that a sentence names.
_MAX_NAMED = 3
_TARGETS = ("target_host_id", "target_account_id", "target_team_id", "queue_id")


class ListRefused(Exception):
    """A task list cannot be made of these workunits. Hint: see the message."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Settled:
    """The numbers of task lists that a step opened again and closed."""

    reopened: int = 0
    closed: int = 0


def settle(workunit_ids: Collection[int], bundle_ids: Collection[int], *, now: datetime) -> Settled:
    """Write the states of task lists after changes of their members, which the caller has locked.

    A workunit with a new result that waits for another list leaves its list.  The number of
    statements does not depend on the number of lists.
    """
    sql.execute("work/leave_bundles", {"workunit_ids": sql.array(workunit_ids)})
    if not bundle_ids:
        return Settled()
    before = {
        row["id"]: row
        for row in sql.fetch("work/lock_bundles", {"ids": sql.array(sorted(bundle_ids))})
    }
    states = {
        bundle_id: bundle_states.state_of(members)
        for bundle_id, members in _members(before).items()
    }
    changed = {
        bundle_id: state
        for bundle_id, state in states.items()
        if (before[bundle_id]["state"], before[bundle_id]["is_ready"]) != tuple(state)
    }
    if not changed:
        return Settled()
    sql.execute(
        "work/settle_bundles",
        {
            "ids": list(changed),
            "states": [int(state.state) for state in changed.values()],
            "readys": [state.is_ready for state in changed.values()],
            "now": now,
        },
    )
    return Settled(
        reopened=sum(
            before[id_]["state"] == BundleState.RUNNING and state.state == BundleState.OPEN
            for id_, state in changed.items()
        ),
        closed=sum(state.state == BundleState.CLOSED for state in changed.values()),
    )


def _members(bundle_ids: Iterable[int]) -> dict[int, list[MemberFacts]]:
    """Return the members of locked lists; a list whose members were all purged has none."""
    ids = list(bundle_ids)
    members: dict[int, list[MemberFacts]] = {id_: [] for id_ in ids}
    if ids:
        for member in sql.fetch_into(
            MemberFacts, "dispatch/read_bundle_members", {"bundle_ids": ids}
        ):
            members[member.bundle_id].append(member)
    return members


def make_lists(*, now: datetime, limit: int) -> int:
    """Make task lists of unsent results that wait for one (the bundler); return their number.

    At most `limit` results of each app are examined.  Workunits that other transactions hold are
    left for the next call.
    """
    workunit_ids = [row[0] for row in sql.fetch_rows("work/find_new_members", {"limit": limit})]
    if not workunit_ids:
        return 0
    with transaction.atomic():
        locked = [
            row[0]
            for row in sql.fetch_rows("work/lock_new_members", {"ids": sql.array(workunit_ids)})
        ]
        results = sql.fetch_into(NewResult, "work/read_new_members", {"ids": sql.array(locked)})
        lists = grouping.group(results, now=now)
        if lists:
            _create(lists)
    return len(lists)


def _oldest(members: Iterable[NewResult | Workunit]) -> datetime:
    """Return the time that orders and names a list: the creation of its oldest member."""
    return min(member.created_at for member in members)


def _create(lists: Sequence[Sequence[NewResult]]) -> None:
    bundles = Bundle.objects.bulk_create(
        Bundle(
            batch_id=members[0].batch_id,
            app_id=members[0].app_id,
            is_ready=True,
            priority=max(member.priority for member in members),
            created_at=_oldest(members),
        )
        for members in lists
    )
    pairs = [
        (bundle.pk, member.workunit_id)
        for bundle, members in zip(bundles, lists, strict=True)
        for member in members
    ]
    fill(pairs)


def fill(pairs: Sequence[tuple[int, int]]) -> None:
    """Put locked workunits into task lists; the pairs are of a bundle's and a workunit's id."""
    params = {
        "bundle_ids": [bundle_id for bundle_id, _ in pairs],
        "workunit_ids": [workunit_id for _, workunit_id in pairs],
    }
    sql.execute("work/fill_bundles", params)
    sql.execute("work/insert_bundle_members", params)


def make_from(batch: Batch, names: Sequence[str], *, now: datetime) -> Bundle:
    """Make a task list of workunits of a batch that no host computes.

    Raises `ListRefused` with every reason: a workunit does not exist, has ended, is in a list, was
    sent, waits for others, has several results, or has a target.
    """
    with transaction.atomic():
        rows = list(
            Workunit.objects.filter(batch=batch, name__in=names)
            .select_related("app")
            .select_for_update(no_key=True, of=("self",))
            .order_by("id")
        )
        ids = [row.pk for row in rows]
        sent = set(
            Result.objects.filter(
                workunit_id__in=ids, server_state=ServerState.IN_PROGRESS
            ).values_list("workunit_id", flat=True)
        )
        faults = grouping.list_faults(
            names,
            [
                ListedWorkunit(
                    name=row.name,
                    app=row.app.name,
                    is_adaptive=row.app.target_nresults > 1,
                    has_ended=bool(row.error_mask) or row.canonical_result_id is not None,
                    is_cancelled=row.cancel_requested_at is not None,
                    bundle_id=row.bundle_id,
                    is_sent=row.pk in sent,
                    waits=row.pending_dependency_count > 0,
                    is_single=row.target_nresults == 1 and not (row.broadcast or row.is_group),
                    has_target=any(getattr(row, column) is not None for column in _TARGETS),
                )
                for row in rows
            ],
        )
        if faults:
            raise ListRefused(" ".join(faults))
        bundle = Bundle.objects.create(
            batch=batch,
            app=rows[0].app,
            priority=max(row.priority for row in rows),
            created_at=_oldest(rows),
        )
        fill([(bundle.pk, row.pk) for row in rows])
        App.objects.filter(pk=rows[0].app_id, has_bundles=False).update(has_bundles=True)
        settle([], [bundle.pk], now=now)
    bundle.refresh_from_db()
    return bundle


def describe(bundle_id: int | None) -> str:
    """Return a sentence about a workunit's task list; empty if it is sent singly."""
    if bundle_id is None:
        return ""
    if not bundle_id:
        return "waits for a task list, which the server makes of new results every few seconds"
    bundle = Bundle.objects.filter(pk=bundle_id).first()
    if bundle is None:
        return ""
    members = _members([bundle_id])[bundle_id]
    waiting = [m.workunit_id for m in members if bundle_states.phase_of(m) is Phase.WAITING]
    if bundle.state == BundleState.OPEN and waiting:
        names = Workunit.objects.filter(pk__in=waiting[:_MAX_NAMED]).values_list("name", flat=True)
        more = ", ..." if len(waiting) > _MAX_NAMED else ""
        what = f"waits, because these members have no unsent result: {', '.join(names)}{more}"
    elif bundle.state == BundleState.OPEN:
        what = "can be claimed by a host that can compute all of them"
    else:
        what = f"is {bundle.get_state_display().lower()}"
    count = f"{len(members)} workunit{'s' * (len(members) != 1)}"
    return f"is sent with task list {bundle_id} of {count}, which {what}"


#: The words for the phases of members.
PHASES = {
    "waiting": Phase.WAITING,
    "ready": Phase.READY,
    "running": Phase.RUNNING,
    "over": Phase.OVER,
}


@dataclass(frozen=True, slots=True)
class MemberNow:
    """A member of a task list with its current phase, one of `PHASES`."""

    workunit_id: int
    name: str
    phase: str


def members_now(bundle: Bundle) -> list[MemberNow]:
    """Return the members of a list in the order of computation."""
    members = _members([bundle.pk])[bundle.pk]
    ids = [member.workunit_id for member in members]
    names = dict(Workunit.objects.filter(pk__in=ids).values_list("pk", "name"))
    words = {phase: word for word, phase in PHASES.items()}
    return [
        MemberNow(m.workunit_id, names[m.workunit_id], words[bundle_states.phase_of(m)])
        for m in members
        if m.workunit_id in names
    ]


def lease_until(bundle: Bundle) -> datetime | None:
    """Return when the lease of a running list ends: the last deadline of its members."""
    if bundle.state != BundleState.RUNNING:
        return None
    members = _members([bundle.pk])[bundle.pk]
    ids = [member.result_id for member in members if member.result_id is not None]
    deadlines = Result.objects.filter(pk__in=ids, server_state=ServerState.IN_PROGRESS)
    latest: datetime | None = deadlines.aggregate(at=Max("report_deadline"))["at"]
    return latest


def label_of(bundle: Bundle) -> str:
    """Return the name that TDF2 gives a list in its state."""
    host = bundle.host
    return tdf2_files.list_label(
        bundle.state,
        created=bundle.created_at,
        worker=None if host is None else host.domain_name or f"host{host.pk}",
        started=bundle.started_at,
        finished=bundle.finished_at,
    )
