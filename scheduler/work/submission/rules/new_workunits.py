"""Checks whether described workunits can be submitted [pure].

Theory of operation.  `faults` returns all faults of all workunits, so that a scientist can correct
them together.  `Survey` warns of settings that are allowed but probably mistakes.
"""

from __future__ import annotations

import json
import re
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, fields, replace
from datetime import UTC, datetime, timedelta
from operator import attrgetter
from typing import Any

from scheduler.config import MAX_TERMINATION_TIME
from scheduler.files.rules.refused_names import clash, name_fault, usable
from scheduler.queues.facts import FOREVER
from scheduler.results.facts import output_name, result_name
from scheduler.work.rules.statuses import hold_code_fault
from scheduler.work.submission.facts import (
    NewBatch,
    NewFile,
    NewOutput,
    NewWorkunit,
)

#: A workunit's name becomes part of file names and URLs; 200 is the width of its column.
NAME_PATTERN = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.+=-]{0,199}")
_BATCH_NAME = re.compile(r"[^\x00-\x1f\x7f]{1,250}")
OPEN_NAME_PATTERN = re.compile(r"[^/\\\x00-\x1f\x7f<>&%][^\\\x00-\x1f\x7f<>&%]{0,249}")

#: Hosts also compute other work: they often miss a deadline shorter than this many run times.
COMFORTABLE_RUN_TIMES = 3

#: Speed of a host, in operations per second, while no host has been seen (BOINC's default).
TYPICAL_FPOPS = 1e9

#: Maximum number of characters of a command line and of meta; a page of a list has 1000 of each.
MAX_TEXT_LENGTH = 65_536

#: Limits of values that Python can read and add.  A later time or an infinite sum would break every
#: transaction that reads the workunit together with others.
_EARLIEST = datetime(1970, 1, 1, tzinfo=UTC)
_LATEST = datetime(9999, 12, 31, 23, 59, 59, tzinfo=UTC)
_MAX_DELAY = timedelta(days=36_525)
_MAX_RESOURCES = 1e100
#: Maximum number of CPUs, and of GPUs, that a workunit may request.
MAX_REQUESTED = 1024

#: Widths of PostgreSQL's integer and smallint columns.
_MAX_INT, _MAX_SMALLINT = 2**31 - 1, 2**15 - 1
_MAX_KEYWORDS = 254
_SHA256 = re.compile(r"[0-9a-f]{64}")
_KEYWORDS = re.compile(r"\d{1,9}( ?, ?\d{1,9})*")


@dataclass(frozen=True, slots=True)
class Fault:
    """A sentence that describes a fault, and a hint that describes the correction."""

    sentence: str
    hint: str

    def __str__(self) -> str:
        return f"{self.sentence} Hint: {self.hint}"


@dataclass(frozen=True, slots=True)
class Speed:
    """The median speed of `hosts` hosts, in operations per second; a guess if `hosts` is 0."""

    fpops: float
    hosts: int

    def __str__(self) -> str:
        gflops = f"{self.fpops / 1e9:.1f} GFLOPS"
        if not self.hosts:
            return f"{gflops}, a guess while no host has been seen"
        return f"{gflops}, the median of the newest {self.hosts} host{'s' * (self.hosts > 1)}"


#: The fields that differ between workunits of one shape.
_OWN_FIELDS = frozenset(
    {"name", "command_line", "input_files", "meta", "after", "continuations", "bundle"}
)
#: Returns the values of all fields except `_OWN_FIELDS`, as a key.  Workunits with equal keys have
#: one shape.  These fields are checked, and converted to text, once for each shape.
shape: Callable[[NewWorkunit], tuple[object, ...]] = attrgetter(
    *(field.name for field in fields(NewWorkunit) if field.name not in _OWN_FIELDS)
)


@dataclass(frozen=True, slots=True)
class Shapes:
    """The shapes of workunits: the number of each workunit's shape, and the first one of each."""

    numbers: Sequence[int]
    firsts: Sequence[NewWorkunit]

    @classmethod
    def of(cls, workunits: Iterable[NewWorkunit]) -> Shapes:
        """Return the shapes of workunits, which are numbered in the order of their appearance."""
        numbers: list[int] = []
        firsts: list[NewWorkunit] = []
        by_key: dict[tuple[object, ...], int] = {}
        last, number = None, 0
        for workunit in workunits:
            key = shape(workunit)
            # Often equal to the one before; a comparison is faster than a hash.
            if key != last:
                number = by_key.setdefault(key, len(firsts))
                if number == len(firsts):
                    firsts.append(workunit)
                last = key
            numbers.append(number)
        return cls(numbers, firsts)

    @property
    def counts(self) -> list[int]:
        """The number of workunits of each shape."""
        counter = Counter(self.numbers)
        return [counter[number] for number in range(len(self.firsts))]

    def spread(self, by_shape: Mapping[int, tuple[Fault, ...]]) -> dict[int, tuple[Fault, ...]]:
        """Return the faults of shapes by the indexes of all workunits of these shapes."""
        if not by_shape:
            return {}
        return {
            index: by_shape[number]
            for index, number in enumerate(self.numbers)
            if number in by_shape
        }


def faults(
    workunits: Sequence[NewWorkunit],
    *,
    shapes: Shapes | None = None,
    max_output_bytes: int,
    now: datetime,
) -> dict[int, tuple[Fault, ...]]:
    """Return all faults by the index of their workunit; empty if all workunits are valid.

    `shapes` are those of the workunits, if the caller has them already.
    """
    shapes = shapes or Shapes.of(workunits)
    common = [_shape_faults(first, max_output_bytes, now) for first in shapes.firsts]
    by_index: dict[int, tuple[Fault, ...]] = {}
    # Pairs of shape and files without faults: often all workunits have the same file objects.
    fine: set[tuple[int, ...]] = set()
    for index, (number, workunit) in enumerate(zip(shapes.numbers, workunits, strict=True)):
        shared = common[number]
        has_own = (
            workunit.name is not None
            or workunit.meta
            or workunit.after
            or workunit.group
            or _line_fault(workunit.command_line)
        )
        fields = (
            (
                *_name(workunit),
                *shared,
                *_texts(workunit),
                *_dependencies(workunit),
                *_command_of_group(workunit),
            )
            if has_own
            else shared
        )
        files = (number, *map(id, workunit.input_files))
        if files in fine and not fields:
            continue
        if own := (*fields, *_inputs(workunit)):
            by_index[index] = own
        else:
            fine.add(files)
    return by_index


def _shape_faults(workunit: NewWorkunit, max_output_bytes: int, now: datetime) -> tuple[Fault, ...]:
    return (
        *_replication(workunit),
        *_resources(workunit),
        *_times(workunit, now),
        *_termination(workunit),
        *_release(workunit),
        *_group(workunit),
        *_outputs(workunit, max_output_bytes),
    )


def duplicates(workunits: Iterable[NewWorkunit]) -> dict[str, list[int]]:
    """Return the names that more than one workunit has, with the indexes of these workunits."""
    seen: defaultdict[str, list[int]] = defaultdict(list)
    for index, workunit in enumerate(workunits):
        if workunit.name is not None:
            seen[workunit.name].append(index)
    return {name: indexes for name, indexes in seen.items() if len(indexes) > 1}


def batch_faults(batch: NewBatch, *, now: datetime) -> tuple[Fault, ...]:
    """Return all faults of a batch that can be found without the database."""
    return tuple(_batch(batch, now))


def _batch(batch: NewBatch, now: datetime) -> Iterator[Fault]:
    name = batch.name
    if name is not None and not _BATCH_NAME.fullmatch(name):
        yield Fault(
            f"{name[:60]!r} is not a name for a batch.",
            "use 1 to 250 characters without control characters.",
        )
    if batch.priority is not None and abs(batch.priority) > _MAX_INT:
        yield Fault(f"priority is {batch.priority}.", f"give a number up to {_MAX_INT}.")
    if batch.meta and (fault := _meta_fault(batch.meta)):
        yield fault
    if batch.after_any and batch.after is None:
        yield Fault("after_any is given without after.", "name the batch that this one follows.")
    if batch.expire_at is not None:
        if batch.expire_at.utcoffset() is None:
            yield Fault("expire_at has no time zone.", "give an aware datetime, in UTC.")
        elif _is_unreadable(batch.expire_at):
            yield _unreadable("expire_at")
        elif batch.expire_at <= now:
            yield Fault(f"expire_at ({_in_utc(batch.expire_at)}) is past.", "give a later time.")


@dataclass(frozen=True, slots=True)
class HostsAbout:
    """The number of active hosts and of their accounts, and their largest memory and disk.

    Active hosts contacted the server in the last 30 days.  Disk is free disk, or total disk for a
    host that does not report free disk.
    """

    hosts: int
    accounts: int
    memory_bytes: float
    disk_bytes: float


class Survey:
    """Collects facts about workunits, chunk by chunk, for warnings about probable mistakes.

    Run times are estimated from the project's speed.
    """

    def __init__(self, speed: Speed) -> None:
        self._speed = speed
        self._total = self._short = self._without_outputs = 0
        #: Run time and deadline with the largest ratio, in seconds.
        self._worst: tuple[float, float] = (0.0, 1.0)
        self._wanted: set[int] = set()
        #: The maximum of each value over all workunits.
        self._quorum, self._memory, self._disk, self._inputs = 1, 0.0, 0.0, 0.0

    def add(self, shapes: Shapes) -> None:
        """Add a chunk of workunits by their shapes."""
        for workunit, count in zip(shapes.firsts, shapes.counts, strict=True):
            if workunit.group:
                continue
            self._total += count
            self._quorum = max(self._quorum, workunit.min_quorum)
            self._memory = max(self._memory, workunit.rsc_memory_bound)
            self._disk = max(self._disk, workunit.rsc_disk_bound)
            if workunit.app_version_num:
                self._wanted.add(workunit.app_version_num)
            if not workunit.outputs:
                self._without_outputs += count
            run_time = workunit.rsc_fpops_est / self._speed.fpops
            deadline = workunit.delay_bound.total_seconds()
            if deadline < COMFORTABLE_RUN_TIMES * run_time:
                self._short += count
                # Cross-multiplied, since a deadline may be zero.
                if run_time * self._worst[1] > self._worst[0] * deadline:
                    self._worst = (run_time, deadline)

    def add_inputs(self, nbytes: float) -> None:
        """Record the size of one workunit's inputs, in bytes."""
        self._inputs = max(self._inputs, nbytes)

    def warnings(self, *, app: str, versions: Collection[int]) -> tuple[str, ...]:
        """Return the warnings; `versions` are the numbers of the app's versions."""
        return (
            *self._short_deadlines(),
            *_missing_versions(self._wanted, app, versions),
            *self._no_outputs(),
        )

    @property
    def is_demanding(self) -> bool:
        """Whether a quorum is above 1 or a bound above its default, so that hosts may be unfit."""
        default = NewWorkunit()
        return (
            self._quorum > 1
            or self._memory > default.rsc_memory_bound
            or max(self._disk, self._inputs) > default.rsc_disk_bound
        )

    def unfit(self, about: HostsAbout, *, one_result_per: str) -> Iterator[str]:
        """Yield warnings about requirements that no active host meets, if there are any hosts."""
        if not about.hosts:
            return
        if one_result_per == "account" and self._quorum > about.accounts:
            yield (
                f"A quorum of {self._quorum} needs {self._quorum} accounts, but only computers of "
                f"{about.accounts} contacted the server in the last 30 days."
            )
        elif one_result_per == "host" and self._quorum > about.hosts:
            yield (
                f"A quorum of {self._quorum} needs {self._quorum} hosts, but only {about.hosts} "
                "contacted the server in the last 30 days."
            )
        which = (
            f"the largest of the {about.hosts} computers that contacted the server in the last "
            "30 days"
        )
        if about.hosts == 1:
            which = "the only computer that contacted the server in the last 30 days"
        for what, wanted, most in (
            ("rsc_memory_bound is", self._memory, about.memory_bytes),
            ("rsc_disk_bound is", self._disk, about.disk_bytes),
            ("The inputs of a workunit are", self._inputs, about.disk_bytes),
        ):
            # 0 if no host reports it.
            if 0 < most < wanted:
                yield f"{what} {wanted / 1e9:.1f} GB; {which} has {most / 1e9:.1f} GB."

    def _short_deadlines(self) -> Iterator[str]:
        if self._short:
            run_time, deadline = self._worst
            yield (
                f"delay_bound_seconds ({_duration(deadline)}) is under "
                f"{COMFORTABLE_RUN_TIMES} times the estimated run time "
                f"({_duration(run_time)} at {self._speed}){_of(self._short, self._total)}: "
                "many results may miss their deadline."
            )

    def _no_outputs(self) -> Iterator[str]:
        if count := self._without_outputs:
            yield f"No output files are named{_of(count, self._total)}: hosts upload nothing."


def _name(workunit: NewWorkunit) -> Iterator[Fault]:
    name = workunit.name
    if name is not None and (not NAME_PATTERN.fullmatch(name) or ".." in name):
        yield Fault(
            f"{name[:60]!r} is not a name for a workunit.",
            "use 1 to 200 letters, digits, dots, dashes and underscores, without adjacent dots.",
        )
    elif name is not None and usable(output := output_name(result_name(name, 0), 1, 0)) != output:
        yield Fault(
            f"{name[:60]!r} is not a name for a workunit: clients refuse outputs whose names begin"
            " like this.",
            "do not begin it with boinc_ or the name of a Windows device.",
        )


def _texts(workunit: NewWorkunit) -> Iterator[Fault]:
    if fault := _line_fault(workunit.command_line):
        yield fault
    if workunit.meta and (fault := _meta_fault(workunit.meta)):
        yield fault


def _line_fault(line: str) -> Fault | None:
    if "\0" in line:
        return Fault("The command line contains a NUL character.", "leave it out.")
    if len(line) > MAX_TEXT_LENGTH:
        sentence = f"The command line has {len(line)} characters."
        hint = f"use at most {MAX_TEXT_LENGTH}, and put the rest into an input file."
        return Fault(sentence, hint)
    return None


def _meta_fault(value: Mapping[str, Any]) -> Fault | None:
    try:
        text = json.dumps(dict(value), allow_nan=False)
    except (TypeError, ValueError) as error:
        return Fault(f"meta cannot be written as JSON: {error}.", "use plain JSON values.")
    # PostgreSQL's jsonb accepts every character but this one.
    if "\\u0000" in text:
        why = "it contains a NUL character"
        return Fault(f"meta cannot be written as JSON: {why}.", "use plain JSON values.")
    if len(text) > MAX_TEXT_LENGTH:
        sentence = f"meta has {len(text)} characters as JSON."
        hint = f"use at most {MAX_TEXT_LENGTH}, and put the rest into an input file."
        return Fault(sentence, hint)
    return None


def _replication(workunit: NewWorkunit) -> Iterator[Fault]:
    target = workunit.target
    for name, value, least in (
        ("min_quorum", workunit.min_quorum, 1),
        ("max_error_results", workunit.max_error_results, 0),
        ("max_timeouts", workunit.max_timeouts, 0),
    ):
        if value is not None and not least <= value <= _MAX_INT:
            yield Fault(f"{name} is {value}.", f"give at least {least}.")
    if workunit.min_quorum > target:
        yield Fault(
            f"min_quorum ({workunit.min_quorum}) is greater than target_nresults ({target}).",
            f"raise target_nresults to {workunit.min_quorum}, or leave it out.",
        )
    for name, value in (
        ("max_total_results", workunit.total),
        ("max_success_results", workunit.successes),
    ):
        if not target <= value <= _MAX_INT:
            yield Fault(
                f"target_nresults ({target}) is greater than {name} ({value}).",
                f"raise {name} to {target} or more, or leave it out.",
            )


def _resources(workunit: NewWorkunit) -> Iterator[Fault]:
    for name, value, may_be_zero in (
        ("rsc_fpops_est", workunit.rsc_fpops_est, False),
        ("rsc_fpops_bound", workunit.rsc_fpops_bound, False),
        ("rsc_disk_bound", workunit.rsc_disk_bound, False),
        ("rsc_memory_bound", workunit.rsc_memory_bound, True),
        ("rsc_bandwidth_bound", workunit.rsc_bandwidth_bound, True),
    ):
        if not (1 <= value <= _MAX_RESOURCES or (value == 0 and may_be_zero)):
            kind = "0, or 1 or more" if may_be_zero else "1 or more"
            yield Fault(f"{name} is {value:g}.", f"give a number, {kind}, up to 1e100.")
    if workunit.rsc_fpops_bound < workunit.rsc_fpops_est:
        yield Fault(
            f"rsc_fpops_bound ({workunit.rsc_fpops_bound:g}) is less than "
            f"rsc_fpops_est ({workunit.rsc_fpops_est:g}).",
            "give several times the estimate: clients abort a result at the bound.",
        )
    for name, requested in (
        ("requested_cpus", workunit.requested_cpus),
        ("requested_gpus", workunit.requested_gpus),
    ):
        if not 0 <= requested <= MAX_REQUESTED:
            yield Fault(f"{name} is {requested:g}.", f"give a number from 0 to {MAX_REQUESTED}.")
    if len(workunit.keywords) > _MAX_KEYWORDS:
        yield Fault(
            f"keywords has {len(workunit.keywords)} characters.", f"use at most {_MAX_KEYWORDS}."
        )
    elif workunit.keywords and not _KEYWORDS.fullmatch(workunit.keywords):
        yield Fault(
            f"keywords is {workunit.keywords!r}.", "give numbers separated by commas, as 3,17."
        )
    for name, number, most in (
        ("priority", workunit.priority or 0, _MAX_INT),
        ("size_class", workunit.size_class, _MAX_SMALLINT),
        ("app_version_num", workunit.app_version_num, _MAX_INT),
    ):
        if not -most <= number <= most:
            yield Fault(f"{name} is {number}.", f"give a number up to {most}.")


def _times(workunit: NewWorkunit, now: datetime) -> Iterator[Fault]:
    if workunit.delay_bound <= timedelta(0):
        yield Fault(
            f"delay_bound_seconds is {workunit.delay_bound.total_seconds():g}.",
            "give the time in which a host must report, more than zero.",
        )
    if workunit.delay_bound > _MAX_DELAY and workunit.delay_bound != FOREVER:
        yield Fault(
            f"delay_bound_seconds is {workunit.delay_bound.total_seconds():g}.",
            "give the time in which a host must report, a hundred years at most.",
        )
    bounds: dict[str, datetime] = {
        name: value
        for name in ("start_after", "start_before", "end_before")
        if (value := getattr(workunit, name)) is not None
    }
    naive = [name for name, value in bounds.items() if value.utcoffset() is None]
    for name in naive:
        yield Fault(f"{name} has no time zone.", "give an aware datetime, in UTC for instance.")
    unreadable = [] if naive else [name for name in bounds if _is_unreadable(bounds[name])]
    for name in unreadable:
        yield _unreadable(name)
    if naive or unreadable:
        return
    for name in ("start_before", "end_before"):
        if name in bounds and bounds[name] <= now:
            yield Fault(f"{name} ({_in_utc(bounds[name])}) is past.", "give a later time.")
    yield from _start_offset(workunit, bounds, now)
    for earlier, later in (
        ("start_after", "start_before"),
        ("start_after", "end_before"),
    ):
        if earlier in bounds and later in bounds and bounds[later] <= bounds[earlier]:
            yield Fault(f"{later} is not later than {earlier}.", f"set {later} after {earlier}.")


def _start_offset(
    workunit: NewWorkunit, bounds: Mapping[str, datetime], now: datetime
) -> Iterator[Fault]:
    offset = workunit.start_offset_seconds
    if not 0 <= offset <= _MAX_DELAY.total_seconds():
        yield Fault(f"start_offset_seconds is {offset:g}.", "give 0 or more, 3e9 at most.")
        return
    latest = bounds.get("start_after", now).timestamp() + offset
    ends = [name for name in ("start_before", "end_before") if name in bounds]
    if offset and (late := [name for name in ends if bounds[name].timestamp() <= latest]):
        yield Fault(
            f"With start_offset_seconds ({offset:g}), it may start after {late[0]}.",
            f"give a smaller offset, or a later {late[0]}.",
        )
    elif offset and latest > _LATEST.timestamp():
        yield _unreadable("start_after with start_offset_seconds")


def with_start_offset(workunit: NewWorkunit, *, now: datetime, draw: float) -> NewWorkunit:
    """Return the workunit with a random part of its start offset added to `start_after`.

    The part is a whole number of milliseconds; `draw` is a random number from 0 to 1, without 1.
    Workunits with the same `start_after` become startable in random order.
    """
    milliseconds = int(draw * (int(1000 * workunit.start_offset_seconds) + 1))
    start_after = (workunit.start_after or now) + timedelta(milliseconds=milliseconds)
    return replace(workunit, start_after=start_after, start_offset_seconds=0.0)


def _termination(workunit: NewWorkunit) -> Iterator[Fault]:
    termination = workunit.max_termination_time
    if termination is not None and not timedelta(0) <= termination <= MAX_TERMINATION_TIME:
        yield Fault(
            f"max_termination_time is {termination.total_seconds():g}.",
            f"give seconds from 0 to {MAX_TERMINATION_TIME.total_seconds():g}.",
        )


def _in_utc(moment: datetime) -> str:
    return f"{moment.astimezone(UTC):%Y-%m-%d %H:%M:%S} UTC"


def _is_unreadable(moment: datetime) -> bool:
    return not _EARLIEST <= moment <= _LATEST


def _unreadable(name: str) -> Fault:
    return Fault(f"{name} is not in the years 1970 to 9999 (UTC).", "give a time in these years.")


def _release(workunit: NewWorkunit) -> Iterator[Fault]:
    # The server counts the dependencies; a count without dependencies would never reach zero.
    if workunit.pending_dependency_count != 0:
        yield Fault(
            f"pending_dependency_count is {workunit.pending_dependency_count}.",
            "leave it out; to make workunits wait for others or for a batch, set `after` of the "
            "workunits or of their batch.",
        )
    if workunit.hold_code is not None and (text := hold_code_fault(workunit.hold_code)):
        sentence, _, hint = text.partition(" Hint: ")
        yield Fault(sentence, hint)


def _group(workunit: NewWorkunit) -> Iterator[Fault]:
    if not workunit.group:
        return
    fields = [
        name
        for name in ("outputs", "broadcast", "start_after", "start_before", "end_before")
        if getattr(workunit, name)
    ]
    fields += [
        f"target_{kind}" for kind in ("host", "account", "team") if _is_aimed(workunit, kind)
    ]
    for name in fields:
        yield Fault(f"A group has no results, but {name} is given.", f"leave {name} out.")


def _is_aimed(workunit: NewWorkunit, kind: str) -> bool:
    return getattr(workunit, f"target_{kind}") is not None


def _command_of_group(workunit: NewWorkunit) -> Iterator[Fault]:
    if workunit.group and (workunit.command_line or workunit.input_files):
        name = "command_line" if workunit.command_line else "input_files"
        yield Fault(f"A group has no command, but {name} is given.", f"leave {name} out.")


def _dependencies(workunit: NewWorkunit) -> Iterator[Fault]:
    if workunit.hold is not None and workunit.after:
        name = "held" if workunit.held else "hold_code"
        yield Fault(
            f"{name} and after are both given.",
            f"leave {name} out: a workunit is released when the workunits in after have answers.",
        )


def _inputs(workunit: NewWorkunit) -> Iterator[Fault]:
    if not workunit.input_files:
        return
    for file in workunit.input_files:
        yield from _input(file)
    names = [file.open_name for file in workunit.input_files]
    names += [output.open_name for output in workunit.outputs]
    yield from _same_names(names)


def _input(file: NewFile) -> Iterator[Fault]:
    sources = (file.content, file.path, file.known_as, file.sha256)
    if sources.count(None) != len(sources) - 1:
        yield Fault(
            f"Input file {file.open_name!r} has {len(sources) - sources.count(None)} sources.",
            "give exactly one of content, path, known_as and sha256.",
        )
    if file.sha256 is not None and not _SHA256.fullmatch(file.sha256):
        yield Fault(
            f"sha256 of input file {file.open_name!r} is {file.sha256[:80]!r}.",
            "give 64 lower-case hexadecimal digits.",
        )
    if file.known_as is not None and "\0" in file.known_as:
        yield Fault(
            f"known_as of input file {file.open_name!r} contains a NUL character.",
            "give the name that the server returned.",
        )
    yield from _open_name(file.open_name)


def _open_name(name: str) -> Iterator[Fault]:
    if not OPEN_NAME_PATTERN.fullmatch(name) or ".." in name:
        yield Fault(
            f"{name[:60]!r} is not a name that a program can open in its folder.",
            "use a relative name of 1 to 250 characters, without .. and < > & % \\.",
        )
    elif why := name_fault(name):
        yield Fault(
            f"{name[:60]!r} is not a name that a program can open in its folder: it {why}.",
            "give the input or output another open_name.",
        )


def _same_names(names: Sequence[str]) -> Iterator[Fault]:
    if (pair := clash(names)) is None:
        return
    repeated = sorted({name for name in names if names.count(name) > 1})
    for name in repeated:
        yield Fault(
            f"The name {name!r} is used for more than one file.",
            "give every input and output a different open_name.",
        )
    if not repeated:
        first, second = pair
        yield Fault(
            f"The names {first!r} and {second!r} cannot be in one folder on every computer.",
            "use names that differ in more than case, and no file name that is also a folder.",
        )


def _outputs(workunit: NewWorkunit, max_output_bytes: int) -> Iterator[Fault]:
    for output in workunit.outputs:
        yield from _output(output, max_output_bytes)
    if not workunit.input_files:
        yield from _same_names([output.open_name for output in workunit.outputs])


def _output(output: NewOutput, max_output_bytes: int) -> Iterator[Fault]:
    yield from _open_name(output.open_name)
    if output.max_nbytes <= 0:
        yield Fault(
            f"max_nbytes of output {output.open_name!r} is {output.max_nbytes}.",
            "give the maximum size of the file in bytes, more than zero.",
        )
    if output.max_nbytes > max_output_bytes:
        yield Fault(
            f"max_nbytes of output {output.open_name!r} is {output.max_nbytes}, and this project"
            f" accepts uploads of at most {max_output_bytes} bytes.",
            "declare a smaller size, split the output into several files, or ask an operator to"
            " raise MAX_OUTPUT_BYTES.",
        )


def _missing_versions(
    wanted: AbstractSet[int], app: str, versions: Collection[int]
) -> Iterator[str]:
    if not versions:
        yield f"App {app} has no version yet: nothing is sent until `publish_app` adds one."
        return
    for number in sorted(wanted - set(versions)):
        yield f"App {app} has no version {number} yet: workunits that require it wait for it."


def _of(count: int, total: int) -> str:
    return "" if count == total else f" for {count} of {total} workunits"


def _duration(seconds: float) -> str:
    for unit, length in (("d", 86400.0), ("h", 3600.0), ("min", 60.0)):
        if seconds >= length:
            return f"{seconds / length:.3g} {unit}"
    return f"{seconds:.3g} s"
