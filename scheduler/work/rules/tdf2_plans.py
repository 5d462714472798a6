"""Decides what an import does with each task file of TDF2 [pure].

Tasks that are new or in an open list are imported.  A list that was running is imported as an open
one, because its worker cannot report here.  A failed task of a running or closed list is tried
again as TDF2 does: unless it failed too often, or its `until` has passed.  All other executed tasks
are finished, and stay files.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

from scheduler.work.rules import tdf2_files
from scheduler.work.rules.tdf2_files import BadLine, Task

NEW: Final = "new"
LISTS: Final = ("open", "running", "closed")
FINISHED: Final = (
    "completed",
    "completed_archive",
    "failed",
    "failed_archive",
    "failed_time",
    "failed_count",
)


@dataclass(frozen=True, slots=True)
class FoundFile:
    """A task file: its path as parts, its text, and whether a ``.err`` with content is beside it.

    `fault` is the reason why it could not be read, else empty.
    """

    parts: tuple[str, ...]
    text: str
    fault: str = ""
    has_errors: bool = False

    @property
    def path(self) -> str:
        return tdf2_files.printable("/".join(self.parts))


@dataclass(frozen=True, slots=True)
class Wanted:
    """A task to import; `in_list` is the path of its list, or None for a new task."""

    path: str
    task: Task
    in_list: str | None


@dataclass(frozen=True, slots=True)
class Plan:
    """The tasks to import, the number of finished tasks, and all faults as texts."""

    wanted: list[Wanted] = field(default_factory=list)
    finished: int = 0
    faults: list[str] = field(default_factory=list)


def plan(files: Sequence[FoundFile]) -> Plan:
    """Return the plan for the task files of a folder."""
    wanted: list[Wanted] = []
    faults: list[str] = []
    finished = 0
    for file in files:
        outcome = _judge(file)
        if isinstance(outcome, list):
            faults += [fault.text(file.path) for fault in outcome]
        elif outcome is None:
            finished += 1
        else:
            wanted.append(outcome)
    for first, again, number in tdf2_files.repeated_numbers([(w.path, w.task) for w in wanted]):
        hint = "keep the newest of them, and move the others to failed_archive."
        faults.append(f"{again}: task {number} is also {first}. Hint: {hint}")
    faults += tdf2_files.overfull_lists([w.in_list for w in wanted if w.in_list is not None])
    return Plan(wanted, finished, faults)


def _judge(file: FoundFile) -> Wanted | list[BadLine] | None:
    """Return the task to import, its faults, or None for a finished task."""
    folder = NEW if len(file.parts) == 1 else file.parts[0]
    if fault := _place_fault(file, folder):
        return [fault]
    task = tdf2_files.parse(file.text, stem=file.parts[-1].removesuffix(".task"))
    if isinstance(task, list):
        return task
    if fault := _length_fault(task, folder):
        return [fault]
    return None if folder in FINISHED else _unfinished(file, task, folder)


def _unfinished(file: FoundFile, task: Task, folder: str) -> Wanted | list[BadLine] | None:
    if not task.is_executed:
        if task.fails > task.max_fails:
            sentence = f"fails is {task.fails}, more than max_fails ({task.max_fails})."
            return [BadLine(6, sentence, "move the task to failed_count.")]
        in_list = None if folder == NEW else "/".join(file.parts[:2])
        return Wanted(file.path, task, in_list)
    if not file.has_errors or _is_final(task):
        return None
    return Wanted(file.path, task.failed_again(), None)


def _is_final(task: Task) -> bool:
    """Return whether a failed task is not tried again."""
    too_often = task.fails + 1 > task.max_fails
    return too_often or (task.until is not None and (task.ended or 0) > task.until)


def _place_fault(file: FoundFile, folder: str) -> BadLine | None:
    if file.fault:
        return BadLine(0, file.fault, "correct the file, or remove it.")
    if folder in LISTS:
        if len(file.parts) != 3:  # noqa: PLR2004  state, list, file
            hint = f"put it into a list, such as {folder}/1448978609/{file.parts[-1]}."
            return BadLine(0, f"A task in {folder} is in no list.", hint)
        if tdf2_files.parse_list(file.parts[1], state=folder) is None:
            hint = (
                "lists are named ${timestamp} in open, ${timestamp}_${worker}_${started} in "
                "running, and ${timestamp}_${worker}_${started}_${finished} in closed."
            )
            return BadLine(0, f"{file.parts[1]!r} is not the name of a list in {folder}.", hint)
        return None
    if folder != NEW and folder not in FINISHED:
        hint = f"move it to one of {', '.join((NEW, *LISTS, *FINISHED))}."
        return BadLine(0, f"{folder!r} is not a folder of TDF2.", hint)
    return None


def _length_fault(task: Task, folder: str) -> BadLine | None:
    if task.is_executed and folder in {NEW, "open"}:
        sentence = f"The file has {tdf2_files.EXECUTED_LINES} lines, but its folder is {folder}."
        hint = "remove the last three lines to run the task again, or move the file."
        return BadLine(8, sentence, hint)
    if not task.is_executed and folder == "closed":
        sentence = f"The file has {tdf2_files.NEW_LINES} lines, but its list is closed."
        hint = "move it to a list in open to run it, or add worker, started and ended."
        return BadLine(0, sentence, hint)
    return None
