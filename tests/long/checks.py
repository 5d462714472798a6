"""Checks of the state after a walk; each returns its faults as sentences."""

from __future__ import annotations

import json

from django.conf import settings
from django.db.models import Q

from scheduler import storage
from scheduler.credit import recompute_credit
from scheduler.health.invariants import invariants
from scheduler.models import Batch, File, Result, Workunit
from tests.long import counted
from tests.long.ground import APPS, is_app_file


def broken(now):
    """The violations that fsck finds, and sums of credit that differ from their entries."""
    found = [
        f"{one.name}: {violation.name} {violation.detail}"
        for one in invariants()
        for violation in one.find(now)
    ]
    differences = recompute_credit.compare(recompute_credit.Scope(), progress=lambda _n: None)
    return found + [f"credit: {difference}" for difference in differences]


def unfinished():
    """Workunits that are not finished, although no daemon has anything left to do."""
    found = [
        f"workunit {name} is not assimilated: canonical {canonical}, errors {errors}"
        for name, canonical, errors in Workunit.objects.exclude(assimilate_state=2).values_list(
            "name", "canonical_result_id", "error_mask"
        )
    ]
    found += [
        f"workunit {name} is still to be looked at, at {at}"
        for name, at in Workunit.objects.exclude(transition_at=None).values_list(
            "name", "transition_at"
        )
    ]
    found += [
        f"result {name} is not over: {state}"
        for name, state in Result.objects.exclude(server_state=5).values_list(
            "name", "server_state"
        )
    ]
    found += [
        f"result {name} keeps its files: {state}"
        for name, state in Result.objects.exclude(file_delete_state=2).values_list(
            "name", "file_delete_state"
        )
    ]
    return found


def stranded():
    """Workunits that wait for a batch that is over, once the housekeeper was there."""
    over = Q(batch__after__state__in=(Batch.State.COMPLETE, Batch.State.RETIRED))
    over |= Q(batch__after__state=Batch.State.ABORTED, batch__after__completed_at__isnull=False)
    waiting = Workunit.objects.filter(
        over, pending_dependency_count__gt=0, dependency_failed_at=None
    )
    return [f"{name} waits for nothing" for name in waiting.values_list("name", flat=True)]


def sink_faults(submitted, deaths):
    """Workunits that the science was not handed exactly once, where that is promised."""
    rows, found = counted.rows(), []
    for name, app in submitted.items():
        sink = APPS[app].get("assimilator", "copy_files")
        if sink.endswith("write_a_row"):
            if rows.pop(name, 0) != 1:
                found.append(f"{name} is not exactly once in the table of answers")
        elif sink.endswith("remember"):
            keys = counted.said.get(name, set())
            times = sum(counted.handed_over[key] for key in keys)
            if len(keys) != 1 or times > 1 + deaths:
                found.append(f"{name} was handed over {times} times as {sorted(keys)}")
        elif not any((settings.VAR_DIR / "results" / app / name).glob("*")):
            found.append(f"{name} left no file among the results")
    return found + [f"{name} was never submitted but answered" for name in rows]


def twice(submitted):
    """Workunits that a sink received more than once, although no process died."""
    rows = counted.rows()
    return [
        f"{name} was handed over twice"
        for name in submitted
        if rows.get(name, 0) > 1
        or sum(counted.handed_over[key] for key in counted.said.get(name, ())) > 1
    ]


def stray_files(excused, *, orphans):
    """Files that are there although no row names them; `orphans` of a submission that died may."""
    found = [
        f"upload {path.name} is needed by nobody"
        for path in _files("upload")
        if path.name not in excused
    ]
    known = set(File.objects.values_list("name", flat=True))
    return found + [
        f"download {path.name} is needed by nobody"
        for path in _files("download")
        if path.name not in known and not orphans
    ]


def left_over():
    """Workunits and downloads that remain after the purger has finished."""
    found = [f"{name} was not purged" for name in Workunit.objects.values_list("name", flat=True)]
    return found + [
        f"download {path.name} outlived its workunits"
        for path in _files("download")
        if not is_app_file(path)
    ]


def not_archived(submitted):
    told = set()
    for path in storage.archive_days().values():
        told |= {json.loads(line)["workunit"]["name"] for line in storage.read_archive(path)}
    return [f"{name} is not in the archive" for name in sorted(set(submitted) - told)]


def _files(hierarchy):
    top = settings.VAR_DIR / hierarchy
    return [path for path in top.rglob("*") if path.is_file() and not path.name.startswith(".")]


def hold(faults):
    """Raise if there are any."""
    if faults:
        raise AssertionError("\n".join(faults[:20]))
