"""Checks of the state after a walk; each returns the violations as sentences."""

from __future__ import annotations

import json
from collections import Counter
from math import inf

from django.conf import settings
from django.db import connection
from django.db.models import Q

from scheduler import storage
from scheduler.credit import recompute_credit
from scheduler.health.invariants import invariants
from scheduler.lifecycle import BundleState
from scheduler.models import (
    Batch,
    Bundle,
    BundleMember,
    File,
    LedgerEntry,
    Queue,
    QueueSlot,
    Result,
    Workunit,
    WorkunitWakeup,
)
from scheduler.queues import named_queues
from tests.long import counted
from tests.long.ground import APPS, is_app_file

#: The invariants of queues and task lists, which are checked after each step of a walk.
QUEUE_INVARIANTS = (
    "queue_slots_match_results",
    "queue_slots_within_limit",
    "queues_accept_their_work",
    "bundles_follow_their_members",
    "running_bundles_have_one_host",
    "bundle_members_exist",
)

_QUEUE_ROWS = """
SELECT
    (SELECT count(*) FROM queue_slot WHERE result_id IS NOT NULL),
    count(*) FILTER (WHERE b.state = %s),
    count(*) FILTER (WHERE b.state = %s)
FROM bundle_member AS m INNER JOIN bundle AS b ON b.id = m.bundle_id
"""


def broken(now):
    """Return the violations that fsck finds, and credit totals that differ from the entries."""
    violations = [
        f"{one.name}: {violation.name} {violation.detail}"
        for one in invariants()
        for violation in one.find(now)
    ]
    differences = recompute_credit.compare(recompute_credit.Scope(), progress=lambda _n: None)
    return violations + [f"credit: {difference}" for difference in differences]


def broken_queues(now):
    """Return the violations of `QUEUE_INVARIANTS`."""
    return [
        f"{one.name}: {violation.name} {violation.detail}"
        for one in invariants()
        if one.name in QUEUE_INVARIANTS
        for violation in one.find(now)
    ]


def queue_rows():
    """Count the rows that `QUEUE_INVARIANTS` examine."""
    with connection.cursor() as cursor:
        cursor.execute(_QUEUE_ROWS, [BundleState.RUNNING, BundleState.OPEN])
        slots, running, waiting = cursor.fetchone()
    return Counter(
        {
            "checked slots in use": slots,
            "checked members of running lists": running,
            "checked members of open lists": waiting,
        }
    )


def queue_numbers():
    """Return the limit of each queue, infinity without one, and its results in progress."""
    queues = list(Queue.objects.order_by("pk"))
    counts = named_queues.counts(queues)
    return {
        queue.name: (
            inf if queue.max_in_progress is None else queue.max_in_progress,
            counts[queue.pk][1],
        )
        for queue in queues
    }


def over_limit(before, after):
    """Return queues that exceed their limits; the arguments are `queue_numbers` at two times.

    A limit may be lowered below the number of results in progress, and may have changed between.
    """
    return [
        f"queue {name} has {running} results in progress: before {before[name]}, now {after[name]}"
        for name, (limit, running) in after.items()
        if running > max(limit, *before[name])
    ]


def unfinished():
    """Return workunits and results in an unfinished state; call it when no daemon has work."""
    violations = [
        f"workunit {name} is not assimilated: canonical {canonical}, errors {errors}"
        for name, canonical, errors in Workunit.objects.exclude(assimilate_state=2).values_list(
            "name", "canonical_result_id", "error_mask"
        )
    ]
    violations += [
        f"workunit {name} is still due for the transitioner, at {at}"
        for name, at in Workunit.objects.exclude(transition_at=None).values_list(
            "name", "transition_at"
        )
    ]
    violations += [
        f"workunit {workunit_id} is still in the transitioner's queue"
        for workunit_id in WorkunitWakeup.objects.values_list("workunit_id", flat=True)
    ]
    violations += [
        f"result {name} is not over: {state}"
        for name, state in Result.objects.exclude(server_state=5).values_list(
            "name", "server_state"
        )
    ]
    violations += [
        f"result {name} keeps its files: {state}"
        for name, state in Result.objects.exclude(file_delete_state=2).values_list(
            "name", "file_delete_state"
        )
    ]
    violations += [
        f"task list {pk} is not closed: {state}, ready: {is_ready}"
        for pk, state, is_ready in Bundle.objects.exclude(state=BundleState.CLOSED).values_list(
            "pk", "state", "is_ready"
        )
    ]
    violations += [
        f"slot {number} of queue {queue} is in use"
        for number, queue in QueueSlot.objects.exclude(result=None).values_list(
            "number", "queue__name"
        )
    ]
    return violations


def stranded():
    """Return workunits that still wait for a batch that is over; call after the housekeeper."""
    over = Q(batch__after__state__in=(Batch.State.COMPLETE, Batch.State.RETIRED))
    over |= Q(batch__after__state=Batch.State.ABORTED, batch__after__completed_at__isnull=False)
    waiting = Workunit.objects.filter(
        over, pending_dependency_count__gt=0, dependency_failed_at=None
    ).exclude(
        # The batch released it, and a workunit on which it depends has failed.
        error_mask__gt=0,
        waits_for_batch=False,
    )
    return [
        f"{name} waits for a batch that is over" for name in waiting.values_list("name", flat=True)
    ]


def sink_faults(submitted, deaths):
    """Return workunits that were not assimilated as often as promised.

    Transactional assimilators must be called once, others at least once and at most `1 + deaths`
    times with the same key; `copy_files` must leave a file.
    """
    rows, violations = counted.rows(), []
    for name, app in submitted.items():
        sink = APPS[app].get("assimilator", "copy_files")
        if sink.endswith("write_a_row"):
            if rows.pop(name, 0) != 1:
                violations.append(f"{name} is not exactly once in the table of answers")
        elif sink.endswith("remember"):
            keys = counted.said.get(name, set())
            times = sum(counted.handed_over[key] for key in keys)
            if len(keys) != 1 or times > 1 + deaths:
                violations.append(f"{name} was handed over {times} times as {sorted(keys)}")
        elif not any((settings.VAR_DIR / "results" / app / name).glob("*")):
            violations.append(f"{name} left no file among the results")
    return violations + [f"{name} was never submitted but answered" for name in rows]


def twice(submitted):
    """Return workunits that an assimilator received more than once; for walks without deaths."""
    rows = counted.rows()
    return [
        f"{name} was handed over twice"
        for name in submitted
        if rows.get(name, 0) > 1
        or sum(counted.handed_over[key] for key in counted.said.get(name, ())) > 1
    ]


def stray_files(excused, *, orphans):
    """Return files that no row names; with `orphans`, downloads without a row are allowed."""
    violations = [
        f"upload {path.name} is unneeded" for path in _files("upload") if path.name not in excused
    ]
    names = set(File.objects.values_list("name", flat=True))
    return violations + [
        f"download {path.name} is unneeded"
        for path in _files("download")
        if path.name not in names and not orphans
    ]


def left_over():
    """Return workunits and downloads that remain after the purger has finished."""
    violations = [
        f"{name} was not purged" for name in Workunit.objects.values_list("name", flat=True)
    ]
    violations += [
        f"workunit {workunit_id} is still a member of task list {bundle_id}"
        for workunit_id, bundle_id in BundleMember.objects.values_list("workunit_id", "bundle_id")
    ]
    return violations + [
        f"download {path.name} remains without a workunit"
        for path in _files("download")
        if not is_app_file(path)
    ]


def not_archived(submitted):
    told = set()
    for path in storage.archive_days().values():
        told |= {json.loads(line)["workunit"]["name"] for line in storage.read_archive(path)}
    return [f"{name} is not in the archive" for name in sorted(set(submitted) - told)]


def archived_too_early():
    """Return workunits with moves in the ledger that are missing in their last archive entry."""
    archived_counts = {}
    for _day, path in sorted(storage.archive_days().items()):
        entries = [json.loads(line) for line in storage.read_archive(path)]
        archived_counts |= {one["workunit"]["id"]: len(one["timeline"]) for one in entries}
    gone = set(archived_counts) - set(Workunit.objects.values_list("pk", flat=True))
    moves = Counter(
        LedgerEntry.objects.filter(workunit_id__in=gone).values_list("workunit_id", flat=True)
    )
    return [
        f"the archive has {archived_counts[id_]} of {moves[id_]} moves of workunit {id_}"
        for id_ in sorted(gone)
        if moves[id_] > archived_counts[id_]
    ]


def _files(hierarchy):
    top = settings.VAR_DIR / hierarchy
    return [path for path in top.rglob("*") if path.is_file() and not path.name.startswith(".")]


def hold(faults):
    """Raise AssertionError with the first 20 faults, if there are any."""
    if faults:
        raise AssertionError("\n".join(faults[:20]))
