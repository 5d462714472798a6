"""Writes the tasks of a batch as a folder of TDF2.

Each workunit is a file in its current state, that of its canonical result if it has one, and each
failed attempt a file in failed_archive.  A success that was found invalid is a failed attempt too.
An attempt that a host did not report, or that its volunteer aborted, leaves no file: in TDF2, its
list is opened again with the same files.  A retry of a workunit is the next attempt of the same
task: it has its number, and at least one more failure.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import Any, Final

from django.db.models import F

from scheduler import sql, storage
from scheduler.lifecycle import BundleState, Outcome, ValidateState
from scheduler.models import Batch, Bundle, Result, Workunit
from scheduler.results.facts import (
    JOINED,
    RESULT_COLUMNS,
    WORKUNIT_COLUMNS,
    ResultFacts,
    WorkunitFacts,
)
from scheduler.results.rules.reports import own_stderr
from scheduler.work.rules import predecessor_states, rounds, tdf2_files
from scheduler.work.rules.predecessor_states import Tdf2State
from scheduler.work.rules.tdf2_files import Task

#: The number of workunits that are read at once.
PAGE_SIZE: Final = 500
_NOT_STARTED: Final = (Tdf2State.NEW, Tdf2State.OPEN)
_ENDS: Final = (Tdf2State.FAILED, Tdf2State.FAILED_TIME, Tdf2State.FAILED_COUNT)
_IN_LISTS: Final = (Tdf2State.NEW, Tdf2State.OPEN, Tdf2State.RUNNING, Tdf2State.CLOSED)
_OWN_COLUMNS: Final = (
    "command_line",
    "created_at",
    "expected_duration",
    "rsc_fpops_est",
    "meta",
    "retried_as",
)


@dataclass(slots=True)
class Exported:
    """The number of written tasks by state, and the number of lists; warnings."""

    by_state: dict[str, int] = field(default_factory=dict)
    lists: int = 0
    warnings: list[str] = field(default_factory=list)

    @property
    def tasks(self) -> int:
        return sum(self.by_state.values())


@dataclass(slots=True)
class _Labels:
    """The folders of task lists; lists of one second get different names."""

    taken: set[str] = field(default_factory=set)
    by_id: dict[int, tuple[str, str]] = field(default_factory=dict)

    def add(self, bundles: Iterable[Bundle]) -> None:
        for bundle in bundles:
            if bundle.pk in self.by_id:
                continue
            state, created = BundleState(bundle.state), bundle.created_at
            worker = bundle.host.domain_name or f"host{bundle.host_id}" if bundle.host else None
            while (
                label := tdf2_files.list_label(
                    state,
                    created=created,
                    worker=worker,
                    started=bundle.started_at,
                    finished=bundle.finished_at,
                )
            ).partition("_")[0] in self.taken:
                created += timedelta(seconds=1)
            self.taken.add(label.partition("_")[0])
            self.by_id[bundle.pk] = (state.name.lower(), label)


def export_batch(batch: Batch, folder: str) -> Exported:
    """Write the tasks of a batch into a new or empty folder.

    Raises `storage.BadTree` if the folder cannot be written.  Workunits that were purged are left
    out, and with a warning also commands of several lines and workunits without a number: those
    whose name is another word, unless they retry a task that is exported.
    """
    tree, exported, labels = storage.TreeWriter(folder), Exported(), _Labels()
    retries: dict[int, Task] = {}
    unnumbered: list[str] = []
    for state in Tdf2State:
        tree.add_folder(state.value)
    for rows in _pages(batch):
        workunits = _with_results(rows)
        # Read after the results, so that it has a row for each of them.
        details = _details(rows, labels)
        for workunit, own in workunits:
            task = _task(workunit, own, retries.pop(workunit.id, None))
            if "\n" in task.cmd:
                exported.warnings.append(
                    f"{workunit.name} was left out: its command has several lines. Hint: TDF2 "
                    "has commands of one line; fetch its outputs with `scientist fetch`."
                )
            elif not tdf2_files.is_number(task.number):
                unnumbered.append(workunit.name)
            else:
                is_retried = own["retried_as"] is not None
                last = _export(
                    workunit, task, details, labels, tree, exported, is_retried=is_retried
                )
                if is_retried:
                    retries[own["retried_as"]] = last.failed_again()
    if unnumbered:
        exported.warnings.append(
            "Workunits were left out because the names of TDF2's tasks are numbers: "
            f"{len(unnumbered)}, such as {unnumbered[0]}. Hint: fetch their outputs with "
            "`scientist fetch`."
        )
    exported.lists = len(labels.by_id)
    return exported


def _details(rows: Sequence[dict[str, Any]], labels: _Labels) -> dict[int, dict[str, Any]]:
    """Return the rows of `read_tasks` by the id of the result, and name the lists."""
    ids = [row["id"] for row in rows]
    details = {row["id"]: row for row in sql.fetch("work/tdf2/read_tasks", {"ids": ids})}
    bundle_ids = {row["bundle_id"] for row in [*details.values(), *rows] if row["bundle_id"]}
    labels.add(
        Bundle.objects.filter(pk__in=bundle_ids).select_related("host").order_by("created_at")
    )
    return details


def _with_results(rows: Sequence[dict[str, Any]]) -> list[tuple[WorkunitFacts, dict[str, Any]]]:
    """Return the facts of each workunit with its results, and its other columns."""
    results: dict[int, list[ResultFacts]] = {row["id"]: [] for row in rows}
    columns = Result.objects.filter(workunit_id__in=list(results)).order_by("attempt")
    for values in columns.values(*RESULT_COLUMNS):
        results[values["workunit_id"]].append(ResultFacts(**values))
    pairs = []
    for row in rows:
        own = {name: row[name] for name in _OWN_COLUMNS}
        facts = {name: value for name, value in row.items() if name not in _OWN_COLUMNS}
        pairs.append((WorkunitFacts(**facts, results=tuple(results[row["id"]])), own))
    return pairs


def _pages(batch: Batch) -> Iterator[list[dict[str, Any]]]:
    after = 0
    joined = {name: F(path) for name, path in JOINED.items()}
    while True:
        rows = list(
            Workunit.objects.filter(batch=batch, pk__gt=after, is_group=False)
            .order_by("id")
            .values(*WORKUNIT_COLUMNS, *_OWN_COLUMNS, **joined)[:PAGE_SIZE]
        )
        if rows:
            yield rows
        if len(rows) < PAGE_SIZE:
            return
        after = rows[-1]["id"]


def _export(
    workunit: WorkunitFacts,
    task: Task,
    details: dict[int, dict[str, Any]],
    labels: _Labels,
    tree: storage.TreeWriter,
    exported: Exported,
    *,
    is_retried: bool,
) -> Task:
    """Write the files of a workunit: one for each failed attempt, and one for its state.

    Returns the task of the last file.
    """
    final = _final(workunit)
    failed = [result for result in workunit.results if result is not final and _has_failed(result)]
    # `max_error_results` does not count results that were found invalid; the fails of TDF2 do.
    invalid = sum(predecessor_states.is_wrong(result) for result in failed)
    task = replace(task, max_fails=task.max_fails + invalid)
    for result in failed:
        detail = details[result.id]
        archived = _executed(task, detail)
        _write(Tdf2State.FAILED_ARCHIVE, archived, detail, 0, labels, tree, exported)
        task = task.failed_again()
    state = predecessor_states.tdf2_state(workunit)
    if is_retried and (final is None or state in _ENDS):
        state = Tdf2State.FAILED_ARCHIVE
    own = None if final is None else details[final.id]
    bundle_id = (own and own["bundle_id"]) or workunit.bundle_id or 0
    # The last attempt can be one that was aborted: the task is as before.
    written = task if own is None or state in _NOT_STARTED else _executed(task, own)
    _write(state, written, own, bundle_id, labels, tree, exported)
    return task


def _final(workunit: WorkunitFacts) -> ResultFacts | None:
    """Return the canonical result, or else the last one, which has the state of the workunit."""
    for result in workunit.results:
        if result.id == workunit.canonical_result_id:
            return result
    return workunit.results[-1] if workunit.results else None


def _has_failed(result: ResultFacts) -> bool:
    return rounds.is_failure(result) or predecessor_states.is_wrong(result)


def _task(workunit: WorkunitFacts, own: dict[str, Any], retried: Task | None) -> Task:
    """Return the task of a workunit before its first attempt.

    `retried` is set for a retry: the duplicate of the task that it retries.
    """
    tdf2 = own["meta"].get("tdf2") if isinstance(own["meta"], dict) else None
    before = tdf2.get("fails") if isinstance(tdf2, dict) else 0
    fails = before if type(before) is int and before >= 0 else 0
    fails = fails if retried is None else retried.fails
    until = workunit.start_before or workunit.end_before
    expected = own["expected_duration"]
    seconds = expected.total_seconds() if expected else own["rsc_fpops_est"] / 1e9
    return Task(
        number=workunit.name if retried is None else retried.number,
        created=tdf2_files.seconds(own["created_at"]),
        until=None if until is None else tdf2_files.seconds(until),
        expected_duration=max(1, round(seconds)),
        max_fails=workunit.max_error_results + fails,
        fails=fails,
        cmd=own["command_line"].strip("\n"),
    )


def _executed(task: Task, detail: dict[str, Any]) -> Task:
    """Return the task with the worker's lines, if a host reported it.

    The end is the time of the report, and the start that many seconds before it as the program ran,
    but not before the result was sent: both by the server's clock.
    """
    sent_at, received_at = detail["sent_at"], detail["received_at"]
    if received_at is None or sent_at is None:
        return task
    started: datetime = max(sent_at, received_at - timedelta(seconds=detail["elapsed_time"]))
    return replace(
        task,
        worker=tdf2_files.worker_name(detail["worker"]),
        started=tdf2_files.seconds(started),
        ended=tdf2_files.seconds(received_at),
    )


def _write(
    state: Tdf2State,
    task: Task,
    detail: dict[str, Any] | None,
    bundle_id: int,
    labels: _Labels,
    tree: storage.TreeWriter,
    exported: Exported,
) -> None:
    folder: tuple[str, ...] = (state.value,)
    if state in _IN_LISTS and bundle_id in labels.by_id:
        folder = labels.by_id[bundle_id]
    elif state is Tdf2State.OPEN:
        folder = (Tdf2State.NEW.value,)
    elif state in {Tdf2State.RUNNING, Tdf2State.CLOSED} and detail is not None:
        folder = (state.value, _list_of_one(state, task, detail))
    tree.add(tdf2_files.render(task).encode(), *folder, f"{task.id}.task")
    exported.by_state[folder[0]] = exported.by_state.get(folder[0], 0) + 1
    if detail is None or not task.is_executed:
        return
    if detail["output"] is not None:
        try:
            file = storage.open_upload(detail["output"])
        except (OSError, storage.BadFileName):
            exported.warnings.append(f"The output of {task.id} was deleted from the server.")
        else:
            with file:
                tree.copy(file, *folder, f"{task.id}.out")
    if text := _error_text(detail):
        tree.add(f"{text}\n".encode(), *folder, f"{task.id}.err")


def _error_text(detail: dict[str, Any]) -> str:
    """Return the text of the file `.err`, which is empty only for an attempt that did not fail."""
    if detail["outcome"] == Outcome.SUCCESS and detail["validate_state"] == ValidateState.INVALID:
        return own_stderr(detail["stderr"]) or "invalid"
    if detail["outcome"] in predecessor_states.ERRORS:
        return own_stderr(detail["stderr"]) or f"exit status {detail['exit_status']}"
    return ""


def _list_of_one(state: Tdf2State, task: Task, detail: dict[str, Any]) -> str:
    """Return the name of the list in which TDF2 would have a task that was sent singly."""
    return tdf2_files.list_label(
        BundleState.RUNNING if state is Tdf2State.RUNNING else BundleState.CLOSED,
        created=tdf2_files.moment(task.created),
        worker=detail["worker"],
        started=detail["sent_at"],
        finished=detail["received_at"],
    )
