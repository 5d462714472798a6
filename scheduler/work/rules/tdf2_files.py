"""Reads and writes the task files and the names of task lists of TDF2 [pure].

A task file has one field per line: seven lines, and ten after a worker has executed the task.  Its
name is ``${id}.task``; the id is a number and, after ``_``, the number of failures.  A list is a
folder whose name is the time at which its first task was created, then the worker and the time of
the claim, then the time of the end, as far as they are known.  All times are in unix seconds.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import Final

from scheduler.lifecycle import BundleState

FIELDS: Final = (
    "id",
    "created",
    "until",
    "expected_duration",
    "max_fails",
    "fails",
    "cmd",
    "worker",
    "started",
    "ended",
)
NEW_LINES, EXECUTED_LINES = 7, 10
#: The number of the last day of the year 9999, which is exported for a task without `until`.
NO_UNTIL: Final = 253_402_300_799
#: The number of results of a workunit is larger by one, and is stored as a PostgreSQL integer.
_MAX_COUNT: Final = 2**31 - 2
#: The deadline is three times as long, and at most a hundred years.
_MAX_SECONDS: Final = 33 * 365 * 86_400
#: The limits of a submission: characters of a command line, and workunits of a task list.
MAX_CMD_LENGTH: Final = 65_536
MAX_LIST_LENGTH: Final = 1000
_NUMBER = re.compile(r"[0-9]{1,60}")
#: Numbers without leading zeros, so that files are written as they were read.
_ID = re.compile(r"([0-9]{1,60})(?:_(0|[1-9][0-9]{0,8}))?")
_WHOLE = re.compile(r"0|[1-9][0-9]{0,11}")
_WORKER = re.compile(r"[^\x00-\x20/\x7f][^\x00-\x1f/\x7f]{0,199}")
_LISTS = {
    "open": re.compile(r"([0-9]{1,12})"),
    "running": re.compile(r"([0-9]{1,12})_(.+)_([0-9]{1,12})"),
    # A list that was closed without a claim has no worker.
    "closed": re.compile(r"([0-9]{1,12})(?:_(.+)_([0-9]{1,12}))?_([0-9]{1,12})"),
}
_NOT_OF_A_WORKER = re.compile(r"[\s/]+")
#: With three times of up to twelve digits, a list's name has at most the 255 bytes of a file name.
_MAX_WORKER_BYTES: Final = 200


@dataclass(frozen=True, slots=True)
class BadLine:
    """A fault of a task file; `line` is counted from 1, and 0 is the file or its name."""

    line: int
    sentence: str
    hint: str

    def text(self, path: str) -> str:
        where = f"{path}, line {self.line}" if self.line else path
        return f"{where}: {self.sentence} Hint: {self.hint}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Task:
    """The fields of a task file; `number` is the id without the suffix.

    `until` is None for a task without a limit.  The last three fields are None before a worker has
    executed the task.
    """

    number: str
    created: int
    until: int | None
    expected_duration: int
    max_fails: int
    fails: int
    cmd: str
    worker: str | None = None
    started: int | None = None
    ended: int | None = None

    @property
    def id(self) -> str:
        """The id with the number of failures."""
        return f"{self.number}_{self.fails}"

    @property
    def is_executed(self) -> bool:
        return self.worker is not None

    def failed_again(self) -> Task:
        """Return the duplicate that TDF2 makes of a failed task: new, with one more failure."""
        return replace(self, fails=self.fails + 1, worker=None, started=None, ended=None)


@dataclass(frozen=True, slots=True)
class ListName:
    """The parts of a list's name; those of later states are None."""

    created: int
    worker: str | None = None
    started: int | None = None
    finished: int | None = None


def parse(text: str, *, stem: str) -> Task | list[BadLine]:
    """Read a task file whose name is `stem`.task; returns all its faults if it has any."""
    lines = text.split("\n")
    if lines and not lines[-1]:
        lines.pop()
    if len(lines) not in (NEW_LINES, EXECUTED_LINES):
        hint = f"write {NEW_LINES} lines, or {EXECUTED_LINES} after the task was executed: "
        hint += f"{', '.join(FIELDS)}."
        return [BadLine(0, f"The file has {len(lines)} lines.", hint)]
    values = dict(zip(FIELDS, lines, strict=False))
    faults = [*_faults(values, stem)]
    if faults:
        return faults
    number, suffix = _id_of(values["id"])
    fails = int(values["fails"])
    if suffix is not None and int(suffix) != fails:
        hint = "make the suffix of the id equal to the field fails."
        return [BadLine(1, f"id ends with _{suffix}, but fails is {fails}.", hint)]
    until = int(values["until"])
    return Task(
        number=number,
        created=int(values["created"]),
        until=None if until >= NO_UNTIL else until,
        expected_duration=int(values["expected_duration"]),
        max_fails=int(values["max_fails"]),
        fails=fails,
        cmd=values["cmd"],
        worker=values.get("worker"),
        started=int(values["started"]) if "started" in values else None,
        ended=int(values["ended"]) if "ended" in values else None,
    )


def _faults(values: dict[str, str], stem: str) -> Iterator[BadLine]:
    if not _ID.fullmatch(values["id"]):
        hint = "write digits, and perhaps _ and the number of failures, without a comment."
        yield BadLine(1, f"id is {values['id'][:60]!r}.", hint)
    elif stem not in {values["id"], _id_of(values["id"])[0]}:
        hint = f"rename the file to {values['id']}.task, or correct the id."
        yield BadLine(1, f"id is {values['id']!r}, but the file is {printable(stem)}.task.", hint)
    for line, name in enumerate(FIELDS, 1):
        if name in values and name not in {"id", "cmd", "worker"}:
            yield from _number_faults(line, name, values[name])
    if not values["cmd"].strip():
        yield BadLine(7, "cmd is empty.", "write the command in one line.")
    elif "\r" in values["cmd"] or "\0" in values["cmd"]:
        hint = "remove carriage returns (such as by dos2unix) and NUL characters."
        yield BadLine(7, "cmd has a control character.", hint)
    elif len(values["cmd"]) > MAX_CMD_LENGTH:
        hint = f"write at most {MAX_CMD_LENGTH}, and put the rest into a program."
        yield BadLine(7, f"cmd has {len(values['cmd'])} characters.", hint)
    worker = values.get("worker")
    if worker is not None and not _WORKER.fullmatch(worker):
        yield BadLine(8, f"worker is {worker[:60]!r}.", "write the name of the worker.")


def _number_faults(line: int, name: str, value: str) -> Iterator[BadLine]:
    if not _WHOLE.fullmatch(value):
        hint = "write a whole number, without a comment or leading zeros."
        yield BadLine(line, f"{name} is {value[:60]!r}.", hint)
    elif name in {"max_fails", "fails"} and int(value) > _MAX_COUNT:
        yield BadLine(line, f"{name} is {value}.", f"write at most {_MAX_COUNT}.")
    elif name == "expected_duration" and not 1 <= int(value) <= _MAX_SECONDS:
        hint = f"write the expected seconds, from 1 to {_MAX_SECONDS}."
        yield BadLine(line, f"{name} is {value}.", hint)
    elif int(value) > NO_UNTIL:
        yield BadLine(line, f"{name} is {value}.", "write unix seconds, not milliseconds.")


def _id_of(value: str) -> tuple[str, str | None]:
    match = _ID.fullmatch(value)
    return (match[1], match[2]) if match else (value, None)


def is_number(name: str) -> bool:
    """Return whether a name is the number of a task, which an id begins with.

    >>> is_number("123"), is_number("123.2"), is_number("123_4")
    (True, False, False)
    """
    return _NUMBER.fullmatch(name) is not None


def render(task: Task) -> str:
    r"""Return the content of a task file: seven lines, or ten for an executed task.

    >>> render(Task(number="7", created=1, until=2, expected_duration=3, max_fails=4, fails=0,
    ...     cmd="date"))
    '7_0\n1\n2\n3\n4\n0\ndate\n'
    """
    values: list[object] = [
        task.id,
        task.created,
        NO_UNTIL if task.until is None else task.until,
        task.expected_duration,
        task.max_fails,
        task.fails,
        task.cmd,
    ]
    if task.is_executed:
        values += [task.worker, task.started, task.ended]
    return "".join(f"{value}\n" for value in values)


def parse_list(name: str, *, state: str) -> ListName | None:
    """Read the name of a list in the folder of its state, or return None for another name.

    >>> parse_list("1448978609_worker_123_1448978619", state="running")
    ListName(created=1448978609, worker='worker_123', started=1448978619, finished=None)
    """
    match = _LISTS[state].fullmatch(name)
    if match is None or not name.isprintable():
        return None
    parts: list[str | None] = [*match.groups(), None, None, None]
    created, worker, started, finished = match[1], *parts[1:4]
    return ListName(
        int(created),
        worker,
        None if started is None else int(started),
        None if finished is None else int(finished),
    )


def list_label(
    state: int,
    *,
    created: datetime,
    worker: str | None,
    started: datetime | None,
    finished: datetime | None,
) -> str:
    """Return the name of a list in its state: ``${timestamp}_${worker}_${started}_${finished}``.

    A list that was closed without a claim has only its first and its last part.
    """
    parts: list[str] = [str(seconds(created))]
    if state != BundleState.OPEN and worker is not None and started is not None:
        parts += [worker_name(worker), str(seconds(started))]
    if state == BundleState.CLOSED and finished is not None:
        parts.append(str(seconds(finished)))
    return "_".join(parts)


def worker_name(name: str) -> str:
    """Return a host's name as the name of a worker: one word that a file name can contain.

    >>> worker_name("lab / pc 7")
    'lab-pc-7'
    """
    word = _NOT_OF_A_WORKER.sub("-", "".join(c if c.isprintable() else " " for c in name))
    short = word.encode()[:_MAX_WORKER_BYTES].decode(errors="ignore")
    return short.strip("-") or "worker"


def printable(text: str) -> str:
    r"""Return a text for a terminal, with a question mark for each control character.

    >>> printable("open/\x1b[31m.task")
    'open/?[31m.task'
    """
    return "".join(c if c.isprintable() else "?" for c in text)


def seconds(moment: datetime) -> int:
    """Return a time in whole unix seconds."""
    return int(moment.timestamp())


def moment(unix_seconds: int) -> datetime:
    """Return the time of whole unix seconds, in UTC."""
    return datetime(1970, 1, 1, tzinfo=UTC) + timedelta(seconds=unix_seconds)


def overfull_lists(paths: Sequence[str]) -> Iterator[str]:
    """Yield a sentence for each task list that has too many tasks; `paths` has one for each."""
    for path, count in Counter(paths).items():
        if count > MAX_LIST_LENGTH:
            hint = f"move tasks to new, or to other lists of at most {MAX_LIST_LENGTH} tasks."
            yield f"{printable(path)}: The list has {count} tasks. Hint: {hint}"


def repeated_numbers(tasks: Sequence[tuple[str, Task]]) -> Iterator[tuple[str, str, str]]:
    """Yield the paths and the number of tasks whose number another task had before."""
    first: dict[str, str] = {}
    for path, task in tasks:
        if task.number in first:
            yield first[task.number], path, task.number
        first.setdefault(task.number, path)
