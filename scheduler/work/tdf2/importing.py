"""Submits the unfinished tasks of a folder of TDF2."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Final, Literal

from django.conf import settings

from scheduler import sql, storage
from scheduler.dispatch.rules.launching import COMMAND
from scheduler.models import Account, App, Batch, Workunit
from scheduler.work.rules import tdf2_files, tdf2_plans
from scheduler.work.rules.tdf2_files import Task
from scheduler.work.rules.tdf2_plans import FoundFile, Wanted
from scheduler.work.submission.facts import NewBatch, NewOutput, NewWorkunit
from scheduler.work.submission.rules.bundling import run_time_defaults
from scheduler.work.submission.submit import Submission, submit

#: The fields of a workunit that `until` sets (G.7, C9): both, unless the user decides.
Until = Literal["both", "start", "end"]
#: TDF2 opens a list again as often as its workers crash.
_MAX_RESULTS: Final = 10_000
_MAX_OUTPUT_BYTES: Final = 100_000_000
#: The name of the output that becomes the file ``.out``.
OUTPUT: Final = "out"
_MAX_SHOWN: Final = 50


class ImportRefused(Exception):
    """A folder of TDF2 cannot be imported; nothing was changed. Hint: see the message."""


@dataclass(frozen=True, slots=True)
class Imported:
    """The numbers of imported tasks and lists, of known and of finished tasks; warnings."""

    batch: str
    tasks: int
    lists: int
    known_tasks: int
    finished: int
    warnings: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Choices:
    """The options of an import.

    `bundle_size` is the number of tasks of the lists that the server makes of new tasks; None sends
    them singly.
    """

    app: str
    batch: str
    bundle_size: int | None = 10
    until: Until = "both"
    dry_run: bool = False


def import_tree(folder: str, choices: Choices, *, submitter: Account, now: datetime) -> Imported:
    """Submit the tasks of a folder that are not finished and not imported yet, all or none.

    Raises `ImportRefused` with every fault of every file, `storage.BadTree` if the
    folder cannot be read, and the exceptions of `submit`.
    """
    files, others = storage.read_tree(folder)
    plan = tdf2_plans.plan(
        [FoundFile(file.parts, file.text, file.fault, file.has_errors) for file in files]
    )
    app = App.objects.filter(name=choices.app).first()
    faults = [*_app_faults(app), *plan.faults]
    known_numbers = _known(plan.wanted, choices.batch, submitter, faults)
    if faults:
        raise ImportRefused(_refusal(folder, faults))
    wanted = [each for each in plan.wanted if each.task.number not in known_numbers]
    if wanted and not choices.dry_run:
        _submit(wanted, choices, submitter, now=now)
    return Imported(
        batch=choices.batch,
        tasks=len(wanted),
        lists=len({each.in_list for each in wanted if each.in_list is not None}),
        known_tasks=len(known_numbers),
        finished=plan.finished,
        warnings=tuple(_warnings(app, others)),
    )


def _refusal(folder: str, faults: Sequence[str]) -> str:
    lines = [f"{folder} was not imported, because of {len(faults)} faults:"]
    lines += [f"  {fault}" for fault in faults[:_MAX_SHOWN]]
    if len(faults) > _MAX_SHOWN:
        lines.append(f"  ... and {len(faults) - _MAX_SHOWN} more.")
    return "\n".join(lines)


def _app_faults(app: App | None) -> list[str]:
    if app is not None and app.kind != COMMAND:
        fault = (
            f"App {app.name} is of kind {app.kind}, but the tasks of TDF2 are shell commands. "
            "Hint: `publish_app sh 1.00 --create-app --kind command`, with COMMAND_APPS=true."
        )
        return [fault]
    return []


def _warnings(app: App | None, others: Sequence[str]) -> list[str]:
    warnings = []
    if app is not None and app.success_rule != "empty_stderr":
        warnings.append(
            f"The success rule of app {app.name} is {app.success_rule}, but in TDF2 a task fails "
            "if it writes to its standard error. Hint: set success_rule to empty_stderr."
        )
    if others:
        example = tdf2_files.printable(others[0])
        warnings.append(f"{len(others)} other files were ignored, such as {example}.")
    return warnings


def _known(
    wanted: Sequence[Wanted], batch: str, submitter: Account, faults: list[str]
) -> frozenset[str]:
    """Return the numbers of tasks that were imported before; add faults for taken names."""
    by_number = {each.task.number: each for each in wanted}
    known_numbers = set()
    own = Batch.objects.filter(submitter=submitter, name=batch)
    rows = Workunit.objects.filter(name__in=list(by_number)).values("name", "batch_id", "meta")
    batch_ids = set(own.values_list("pk", flat=True))
    for row in rows:
        if row["batch_id"] in batch_ids and "tdf2" in row["meta"]:
            known_numbers.add(row["name"])
        else:
            hint = "import the folder into the batch of the first import, or rename the task."
            faults.append(
                f"{by_number[row['name']].path}: a workunit {row['name']} exists already, outside "
                f"of batch {batch!r}. Hint: {hint}"
            )
    return frozenset(known_numbers)


def _submit(
    wanted: Sequence[Wanted], choices: Choices, submitter: Account, *, now: datetime
) -> None:
    until = choices.until
    paths = dict.fromkeys(each.in_list for each in wanted if each.in_list is not None)
    # A path can be too long for the label of a list.
    labels = {path: f"list {number}" for number, path in enumerate(paths)}

    def date(made: Submission) -> None:
        untils = [_moment(each.task.until) for each in wanted]
        params: dict[str, Any] = {
            "ids": list(made.workunit_ids),
            "created_ats": [_moment(each.task.created) for each in wanted],
            "start_befores": [u if until in {"both", "start"} else None for u in untils],
            "end_befores": [u if until in {"both", "end"} else None for u in untils],
        }
        sql.execute("work/tdf2/date_tasks", params)
        sql.execute("work/tdf2/date_lists", {"ids": params["ids"]})

    submit(
        app=choices.app,
        workunits=[_workunit(each, labels.get(each.in_list or "")) for each in wanted],
        batch=NewBatch(name=choices.batch, bundle_size=choices.bundle_size, keep_outputs=True),
        submitter=submitter,
        then=date,
        now=now,
    )


def _moment(unix_seconds: int | None) -> datetime | None:
    return None if unix_seconds is None else tdf2_files.moment(unix_seconds)


def _workunit(wanted: Wanted, label: str | None) -> NewWorkunit:
    """Return the workunit of a task; `label` is that of its list.

    The times are set after the submission, which refuses an `until` that has passed: TDF2 keeps
    such a task, and it ends as failed_time.
    """
    task: Task = wanted.task
    expected = timedelta(seconds=task.expected_duration)
    max_nbytes = min(_MAX_OUTPUT_BYTES, settings.PROJECT.max_output_bytes)
    return NewWorkunit(
        name=task.number,
        command_line=task.cmd,
        outputs=(NewOutput(open_name=OUTPUT, max_nbytes=max_nbytes),),
        expected_duration=expected,
        max_error_results=task.max_fails - task.fails,
        max_total_results=max(_MAX_RESULTS, task.max_fails + 1),
        bundle=label,
        meta={"tdf2": {"fails": task.fails, "max_fails": task.max_fails}},
        **run_time_defaults({}, expected),  # type: ignore[arg-type]  # fields of the dataclass
    )
