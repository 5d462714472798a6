"""Create workunits: thousands in a handful of statements [operations].

Theory of operation.  Everything that can be refused is refused before anything is written, with
all its faults at once.  Contents are hashed (those that come by path, copied) before the
transaction opens, and stand under their names, on the disk for good, before it commits; a crash
between leaves a file that no row names, never a row without its file.  Ids are drawn beforehand, so
that one statement inserts the workunits, their inputs and the first entries of their ledger,
without a join.  What workunits have in common is sent once.
"""

from __future__ import annotations

import json
import secrets
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from difflib import get_close_matches
from typing import Any

from django.conf import settings
from django.db import transaction

from scheduler import storage, wakeups
from scheduler.facts.new_work import Addressees, AppRules, NewFile, NewOutput, NewWorkunit
from scheduler.lifecycle import NOTHING, Actor, Axis, Because, ReleaseState, WorkunitState
from scheduler.models import Account, App, Batch
from scheduler.operations import files, shares
from scheduler.policy import aiming, submission
from scheduler.sql import array, fetch, fetch_one, fetch_rows

__all__ = [
    "BadWorkunits",
    "BatchRefused",
    "DuplicateNames",
    "NewFile",
    "NewOutput",
    "NewWorkunit",
    "Submission",
    "SubmissionRefused",
    "UnknownApp",
    "submit",
]

#: How many faults or names a message shows; the exception carries them all.
_SHOWN = 10

#: How many hosts, the newest, speak for the project's speed: a sample, for the cost not to grow.
_HOSTS_ASKED = 1000
#: For whom alone work may be.
_ADDRESSEES = ("host", "account", "team")


class SubmissionRefused(ValueError):
    """Nothing was submitted. Hint: each kind of refusal says what to change."""


class UnknownApp(SubmissionRefused):
    """There is no such app, or it takes no work any more. Hint: the message names a near miss."""


class BadWorkunits(SubmissionRefused):
    """Some workunits are impossible; `faults` has them all, by index. Hint: each has its own."""

    def __init__(self, faults: Mapping[int, tuple[submission.Fault, ...]], total: int) -> None:
        """Say how many, and the first of them."""
        self.faults = dict(faults)
        said = [f"  [{index}] {fault}" for index, all_ in faults.items() for fault in all_]
        more = [f"  ... and {len(said) - _SHOWN} more."] if len(said) > _SHOWN else []
        head = f"{len(faults)} of {total} workunits cannot be submitted:"
        super().__init__("\n".join([head, *said[:_SHOWN], *more]))


class DuplicateNames(SubmissionRefused):
    """Names are given twice, or are taken; `names` has them all. Hint: choose others, or none."""

    def __init__(self, names: Sequence[str], *, where: str) -> None:
        """Keep the names and say where they occur."""
        self.names = tuple(names)
        shown = ", ".join(names[:_SHOWN]) + ", ..." * (len(names) > _SHOWN)
        super().__init__(
            f"{len(names)} workunit name{'s' * (len(names) > 1)} {where}: {shown}. "
            "Hint: a name is never used twice; choose others, or leave them out to have them made."
        )


class BatchRefused(SubmissionRefused):
    """The batch cannot take these workunits. Hint: name another batch."""


@dataclass(frozen=True, slots=True)
class Submission:
    """What was submitted; `workunit_ids` and `names` in the order in which they were given."""

    batch_id: int | None
    workunit_ids: tuple[int, ...]
    names: tuple[str, ...]
    warnings: tuple[str, ...]

    @property
    def count(self) -> int:
        """How many workunits were made."""
        return len(self.workunit_ids)


@dataclass(frozen=True, slots=True)
class _Target:
    """What is known of the app when work for it arrives."""

    id: int
    rules: AppRules
    versions: tuple[int, ...]
    speed: submission.Speed


def submit(
    *,
    app: str,
    workunits: Sequence[NewWorkunit],
    batch: str | None = None,
    submitter: Account | None = None,
    then: Callable[[Submission], None] | None = None,
    now: datetime,
) -> Submission:
    """Create workunits of one app, all or none.

    `batch` names a batch of the submitter's, made if it does not exist.  The transitioner, due at
    once, makes their results.  Where the project shares fairly, priorities are the submitter's
    share (`operations.shares`) unless staff names others.  Refuses: an unknown or deprecated app
    (`UnknownApp`); impossible workunits (`BadWorkunits`); a name given twice or taken
    (`DuplicateNames`); a batch without submitter, of another app or closed (`BatchRefused`); input
    files by an unknown name (`files.UnknownFiles`).  What `then` does belongs to the transaction:
    if it raises, nothing is submitted.
    """
    target = _target(app)
    known = _addressees(workunits)
    if faults := _faults(workunits, target.rules, known, now):
        raise BadWorkunits(faults, len(workunits))
    if repeated := submission.duplicates(workunits):
        raise DuplicateNames(sorted(repeated), where="given more than once")
    warnings = (
        *submission.warnings(workunits, app=app, versions=target.versions, speed=target.speed),
        *aiming.warnings(workunits, app=target.rules, known=known),
        *_wishes_not_followed(workunits, submitter),
    )
    names = _names(app, workunits)
    with _staged(workunits) as staged, transaction.atomic():
        batch_id = _open_batch(batch, submitter, target, app, now)
        inputs = _keep_inputs(workunits, staged, now)
        fair = _fair_priorities(workunits, submitter, now)
        ids = _insert(target, batch_id, workunits, names, inputs, fair, now)
        done = Submission(batch_id, ids, names, warnings)
        if then is not None:
            then(done)
    return done


def _target(name: str) -> _Target:
    row = fetch_one("read_submission_target", {"app": name, "hosts": _HOSTS_ASKED})
    if row is None:
        raise UnknownApp(_no_such_app(name))
    if row["deprecated"]:
        msg = f"App {name} is deprecated and takes no more work. Hint: submit to its successor."
        raise UnknownApp(msg)
    speed = submission.Speed(row["fpops"] or submission.TYPICAL_FPOPS, row["hosts"])
    rules = AppRules(
        name=name,
        validator=row["validator"],
        one_result_per=row["one_result_per"],
        target_nresults=row["target_nresults"],
        n_size_classes=row["n_size_classes"],
    )
    return _Target(row["id"], rules, tuple(row["versions"]), speed)


def _addressees(workunits: Sequence[NewWorkunit]) -> Addressees:
    """Look up whom work is for; no statement if it is for everybody."""
    hosts = {w.target_host for w in workunits if w.target_host is not None}
    accounts = {w.target_account for w in workunits if w.target_account is not None}
    teams = {w.target_team for w in workunits if w.target_team is not None}
    if not (hosts or accounts or teams):
        return Addressees()
    params = {"hosts": sorted(hosts), "accounts": sorted(accounts), "teams": sorted(teams)}
    rows = fetch("read_addressees", params)
    found = {kind: {r["id"] for r in rows if r["kind"] == kind} for kind in _ADDRESSEES}
    merged = {r["id"]: r["merged_into_id"] for r in rows if r["merged_into_id"] is not None}
    return Addressees(
        hosts=frozenset(found["host"] - merged.keys()),
        merged_hosts=merged,
        denied_hosts=frozenset(r["id"] for r in rows if r["denied"]),
        accounts=frozenset(found["account"]),
        teams=frozenset(found["team"]),
    )


def _faults(
    workunits: Sequence[NewWorkunit], rules: AppRules, known: Addressees, now: datetime
) -> dict[int, tuple[submission.Fault, ...]]:
    own = submission.faults(workunits, now=now)
    aimed = aiming.faults(workunits, app=rules, known=known)
    indexes = sorted(own.keys() | aimed.keys())
    return {index: own.get(index, ()) + aimed.get(index, ()) for index in indexes}


def _may_wish(submitter: Account | None) -> bool:
    """Whether explicit priorities are followed: a fair share is no wish of its submitter's."""
    return submitter is None or submitter.is_staff or not settings.PROJECT.fair_share


def _wishes_not_followed(
    workunits: Sequence[NewWorkunit], submitter: Account | None
) -> Iterator[str]:
    if not _may_wish(submitter) and any(w.priority is not None for w in workunits):
        yield "The project shares fairly: priorities follow the submitter's share, not his wish."


def _fair_priorities(
    workunits: Sequence[NewWorkunit], submitter: Account | None, now: datetime
) -> tuple[int | None, ...]:
    """The priority of each workunit's fair share; None where its own is followed."""
    shared = [
        settings.PROJECT.fair_share and (w.priority is None or not _may_wish(submitter))
        for w in workunits
    ]
    if not any(shared):
        return (None,) * len(workunits)
    turns = shares.Turns(submitter, now=now)
    fair = zip(workunits, shared, strict=True)
    taken = iter(turns.take([w.operations for w, is_shared in fair if is_shared]))
    turns.keep()
    return tuple(next(taken) if is_shared else None for is_shared in shared)


def _no_such_app(name: str) -> str:
    known = sorted(App.objects.values_list("name", flat=True))
    near = get_close_matches(name, known, n=1)
    if near:
        return f"There is no app {name!r}. Hint: did you mean {near[0]!r}?"
    if known:
        return f"There is no app {name!r}. Hint: the apps are {', '.join(known[:_SHOWN])}."
    return f"There is no app {name!r}, nor any other. Hint: publish one with `publish_app`."


def _names(app: str, workunits: Sequence[NewWorkunit]) -> tuple[str, ...]:
    token = secrets.token_hex(4)
    return tuple(w.name or f"{app}_{token}_{index}" for index, w in enumerate(workunits))


def _open_batch(
    name: str | None, submitter: Account | None, target: _Target, app: str, now: datetime
) -> int | None:
    if name is None:
        return None
    if submitter is None:
        msg = f"Batch {name!r} has no submitter. Hint: a batch is a person's; say whose it is."
        raise BatchRefused(msg)
    params = {
        "name": name,
        "submitter_id": submitter.pk,
        "app_id": target.id,
        "in_progress": Batch.State.IN_PROGRESS.value,
        "open": [Batch.State.INIT, Batch.State.IN_PROGRESS, Batch.State.COMPLETE],
        "now": now,
    }
    if row := fetch_one("open_batch", params):
        return int(row["id"])
    known = Batch.objects.select_related("app").get(submitter=submitter, name=name)
    if known.app_id != target.id:
        msg = f"Batch {name!r} holds workunits of app {known.app}, not {app}."
    else:
        msg = f"Batch {name!r} is {known.get_state_display().lower()}."
    msg += " Hint: name another batch."
    raise BatchRefused(msg)


@contextmanager
def _staged(workunits: Sequence[NewWorkunit]) -> Iterator[dict[bytes | str, storage.Staged]]:
    """Every content and every path that the workunits bring, hashed, each once."""
    staged: dict[bytes | str, storage.Staged] = {}
    try:
        for workunit in workunits:
            for file in workunit.input_files:
                if file.content is not None and file.content not in staged:
                    staged[file.content] = storage.stage_bytes(file.content)
                elif file.path is not None and file.path not in staged:
                    staged[file.path] = storage.stage_file(file.path)
        yield staged
    finally:
        for left_over in staged.values():
            storage.discard(left_over)


def _keep_inputs(
    workunits: Sequence[NewWorkunit], staged: Mapping[bytes | str, storage.Staged], now: datetime
) -> list[tuple[int, int, int, NewFile]]:
    """One row per input file: index of its workunit, its position, its file's id, itself."""
    listed = [
        (index, position, file)
        for index, workunit in enumerate(workunits)
        for position, file in enumerate(workunit.input_files)
    ]
    if not listed:
        return []
    wanted = {
        staged[_source(file)].digest.sha256: files.Wanted(staged[_source(file)], _hint(file))
        for _, _, file in listed
        if file.known_as is None
    }
    named = {file.known_as for _, _, file in listed if file.known_as is not None}
    by_sha, by_name = files.keep(wanted, names=named, now=now)
    return [
        (
            index,
            position,
            by_name[file.known_as].id
            if file.known_as is not None
            else by_sha[staged[_source(file)].digest.sha256].id,
            file,
        )
        for index, position, file in listed
    ]


def _source(file: NewFile) -> bytes | str:
    return file.content if file.content is not None else file.path or ""


def _hint(file: NewFile) -> str:
    return file.path or file.open_name


def _insert(
    target: _Target,
    batch_id: int | None,
    workunits: Sequence[NewWorkunit],
    names: Sequence[str],
    inputs: Sequence[tuple[int, int, int, NewFile]],
    fair: Sequence[int | None],
    now: datetime,
) -> tuple[int, ...]:
    drawn = fetch_one("draw_workunit_ids", {"count": len(workunits)}) or {}
    ids: tuple[int, ...] = tuple(drawn["ids"] or ())
    params = {
        "kinds": json.dumps(_kinds(workunits, names, ids, fair)),
        "inputs": json.dumps(_references(inputs, ids)),
        "app_id": target.id,
        "batch_id": batch_id,
        "now": now,
        "axis": Axis.WORKUNIT.value,
        "nothing": NOTHING,
        "open": WorkunitState.OPEN.value,
        "submitted": Because.SUBMITTED.value,
        "submitter": Actor.SUBMITTER.value,
    }
    born = {id_ for (id_,) in fetch_rows("insert_workunits", params)}
    if len(born) < len(ids):
        taken = [name for id_, name in zip(ids, names, strict=True) if id_ not in born]
        raise DuplicateNames(taken, where="already taken")
    wakeups.after_commit("transitioner")
    return ids


def _references(
    inputs: Sequence[tuple[int, int, int, NewFile]], ids: Sequence[int]
) -> list[dict[str, Any]]:
    """The input files, each with all the workunits that name it alike, as the statement reads."""
    sharing: dict[tuple[int, int, str, bool, bool], list[int]] = {}
    for index, position, file_id, file in inputs:
        key = (position, file_id, file.open_name, file.copy_file, file.sticky)
        sharing.setdefault(key, []).append(ids[index])
    return [
        dict(zip("pfocs", key, strict=True)) | {"w": array(workunit_ids)}
        for key, workunit_ids in sharing.items()
    ]


def _kinds(
    workunits: Sequence[NewWorkunit],
    names: Sequence[str],
    ids: Sequence[int],
    fair: Sequence[int | None],
) -> list[dict[str, Any]]:
    """The workunits gathered by what they have in common, as the statement reads them."""
    kinds: dict[tuple[object, ...], dict[str, Any]] = {}
    for workunit, name, id_, priority in zip(workunits, names, ids, fair, strict=True):
        key = submission.shape(workunit)
        kind = kinds.get(key) or kinds.setdefault(key, _kind(workunit))
        entry: dict[str, Any] = {"id": id_, "name": name, "command_line": workunit.command_line}
        if workunit.meta:
            entry["meta"] = dict(workunit.meta)
        if priority is not None:
            entry["fair_priority"] = priority
        kind["workunits"].append(entry)
    return list(kinds.values())


def _kind(workunit: NewWorkunit) -> dict[str, Any]:
    return {
        "workunits": [],
        "outputs": [output.as_json() for output in workunit.outputs],
        "keywords": workunit.keywords,
        "rsc_fpops_est": workunit.rsc_fpops_est,
        "rsc_fpops_bound": workunit.rsc_fpops_bound,
        "rsc_memory_bound": workunit.rsc_memory_bound,
        "rsc_disk_bound": workunit.rsc_disk_bound,
        "rsc_bandwidth_bound": workunit.rsc_bandwidth_bound,
        "delay_seconds": workunit.delay_bound.total_seconds(),
        "min_quorum": workunit.min_quorum,
        "target_nresults": workunit.target,
        "max_error_results": workunit.max_error_results,
        "max_total_results": workunit.total,
        "max_success_results": workunit.successes,
        "max_timeouts": workunit.max_timeouts,
        "priority": workunit.priority or 0,
        "size_class": workunit.size_class,
        "app_version_num": workunit.app_version_num,
        "target_host": workunit.target_host,
        "target_account": workunit.target_account,
        "target_team": workunit.target_team,
        "broadcast": workunit.broadcast,
        "start_after": _iso(workunit.start_after),
        "start_before": _iso(workunit.start_before),
        "end_before": _iso(workunit.end_before),
        "release_state": _release_state(workunit).value,
        "pending_dependency_count": workunit.pending_dependency_count,
    }


def _iso(moment: datetime | None) -> str | None:
    return None if moment is None else moment.isoformat()


def _release_state(workunit: NewWorkunit) -> ReleaseState:
    if workunit.pending_dependency_count:
        return ReleaseState.INACTIVE
    return ReleaseState.HELD if workunit.held else ReleaseState.RELEASED
