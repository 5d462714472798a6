"""Submits a stream of workunits, all or none.

Theory of operation.  The steps are those of `submit.Pipeline`, in two passes.  Pass one reads while
no transaction is open, so that a slow client holds no lock.  It validates each chunk of workunits,
stores the contents in a short transaction that also protects them from deletion (a hold), and
spools the rows to a file.  Faults are counted, and the first ones are reported.  From the
first chunk with a fault on, contents are not stored.  Pass
two is a single transaction: it checks the idempotency key and the quota, opens the batch, and
writes the spooled rows with COPY.  After a deadlock, or a conflict with a name whose insertion was
rolled back, pass two is repeated.  After any other error, the holds are released and unreferenced
files are marked for deletion.  After a crash, the housekeeper does this.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from itertools import chain, islice
from typing import IO, Any

import orjson
from django.db import transaction

from scheduler import storage
from scheduler.files import download_files, file_holds
from scheduler.models import Account, App
from scheduler.people import idempotency, quotas, submitters
from scheduler.sql import release
from scheduler.work.submission import new_inputs
from scheduler.work.submission.facts import NewBatch, NewWorkunit
from scheduler.work.submission.rules import new_workunits
from scheduler.work.submission.rules.work_from_dicts import (
    BadDescription,
    new_batch,
    new_workunit,
    with_field_names,
)
from scheduler.work.submission.submission_checks import SubmissionRefused
from scheduler.work.submission.submit import CreatedWorkunits, Pipeline, retried
from scheduler.work.submission.workunit_rows import WorkunitRow

#: Maximum number of faults that are reported; further faults are only counted.
MAX_SHOWN_FAULTS = 100
#: Maximum number of workunits in a submission: the hash of each name takes 100 bytes of memory.
MAX_WORKUNITS = 1_000_000
#: Limits on a chunk of pass one: number of workunits, and bytes of their file contents.
_CHUNK, _CHUNK_BYTES = 500, 1 << 22
_HEAD = ("app", "batch", "defaults")


@dataclass(frozen=True, slots=True)
class Line:
    """A line of a submission, with its value, or with a fault if the line cannot be parsed.

    `value` is a `NewWorkunit`, or parsed JSON that describes a workunit without paths on the
    server.
    """

    number: int
    value: object = None
    fault: new_workunits.Fault | None = None


@dataclass(frozen=True, slots=True)
class LineFault:
    """A fault of a line; `pointer` is a JSON Pointer to the faulty part of the line."""

    number: int
    pointer: str
    fault: new_workunits.Fault


class BadLines(SubmissionRefused):
    """Some workunits are invalid. Hint: see each fault.

    `faults` has the first `MAX_SHOWN_FAULTS` faults.  `count` is the number of faults that were
    found, and `lines` the number of workunits in the submission.
    """

    def __init__(self, faults: list[LineFault], *, count: int, lines: int) -> None:
        self.faults, self.count = faults, count
        first = faults[0]
        super().__init__(
            f"{count} fault{'s' * (count > 1)} in {lines} workunit{'s' * (lines > 1)}. The first "
            f"fault is in entry number {first.number}: {first.fault.sentence} "
            f"Hint: {first.fault.hint}"
        )


class BadHead(BadDescription, SubmissionRefused):
    """The head of a submission is invalid. Hint: see the message."""


class NoWorkunits(SubmissionRefused):
    """The submission has no workunits. Hint: send at least one workunit."""


class CutShort(SubmissionRefused):
    """The count of the workunits is missing, wrong or not last. Hint: see the message."""

    def __init__(self, hint: str) -> None:
        super().__init__(f"The body ended too early. Hint: {hint}")


class TooManyWorkunits(SubmissionRefused):
    """The submission is too long. Hint: send several submissions into one batch."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Head:
    """The settings that apply to all workunits of a submission."""

    app: str
    batch: NewBatch | int | None
    defaults: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Key:
    """An idempotency key.

    The function `request_hash` returns the hash of the request.  Call it after the body was read.
    """

    text: str
    request_hash: Callable[[], str]


def read_line(number: int, text: bytes) -> Line:
    """Parse a line of JSON; a line that is not JSON is returned with a fault."""
    try:
        return Line(number, orjson.loads(text))
    except ValueError as error:
        hint = "write each workunit in one line of JSON."
        return Line(number, fault=new_workunits.Fault(f"The line is not JSON: {error}.", hint))


def counted(lines: Iterable[Line], *, is_needed: bool = False) -> Iterator[Line]:
    """Yield the workunits that precede the line ``{"count": N}``.

    Raises `CutShort` if N is wrong, if another line follows, or if `is_needed` is true and the
    line with the count is missing.
    """
    seen, count = 0, None
    for line in lines:
        if isinstance(line.value, dict) and line.value.keys() == {"count"}:
            count = line.value["count"]
        elif count is not None:
            raise CutShort("send the line with the count last.")
        else:
            seen += 1
            yield line
    if count is None and is_needed:
        raise CutShort(
            'end a chunked stream with a line {"count": N}, where N is the number of workunits; '
            "or send Content-Length, or compress the body with gzip."
        )
    if count not in (None, seen):
        raise CutShort(
            f"{seen} workunits were read, but the last line has the count {count!r:.40}."
        )


def read_head(value: object, *, now: datetime) -> Head:
    """Read the object ``{app, batch, defaults}`` of a submission; raises `BadHead`."""
    if not isinstance(value, Mapping):
        raise BadHead(f"{value!r:.60} is not an object.", 'begin with {"app": "...", ...}.')
    for name in value:
        if name not in _HEAD:
            hint = f"the fields are {', '.join(_HEAD)}."
            raise BadHead(f"{name!r:.60} is not a known field.", hint, "")
    app, defaults = value.get("app"), value.get("defaults")
    if not isinstance(app, str) or "\0" in app:
        raise BadHead(f"app is {app!r:.60}.", "give the name of an app.", "/app")
    if defaults is not None and not isinstance(defaults, Mapping):
        raise BadHead(f"defaults is {defaults!r:.60}.", "give an object.", "/defaults")
    return Head(app=app, batch=_batch(value.get("batch"), now), defaults=defaults or {})


def _batch(value: object, now: datetime) -> NewBatch | int:
    """Parse the field `batch` of a submission's head.

    An integer is the id of a batch and is returned unchanged.  A name, an object or null gives the
    description of a batch; null means that its name is generated.  Raises `BadHead`.
    """
    if isinstance(value, int) and not isinstance(value, bool) and abs(value) < 1 << 63:
        return value
    fields = {"name": value} if isinstance(value, str) else {} if value is None else value
    try:
        wanted = new_batch(fields, now=now, from_outside=True)
    except BadDescription as bad:
        raise BadHead(bad.sentence, bad.hint, f"/batch{bad.pointer}") from None
    if faults := new_workunits.batch_faults(wanted, now=now):
        raise BadHead(faults[0].sentence, faults[0].hint, "/batch")
    return replace(wanted, keep_outputs=True)


def submit_lines(
    head: Head,
    lines: Iterable[Line],
    *,
    submitter: Account | None,
    key: Key | None = None,
    by_operator: bool = False,
    created: CreatedWorkunits | None = None,
    now: datetime,
) -> idempotency.Outcome:
    """Create the workunits of these lines, all or none, and return a reply with status 201.

    The ``body`` of the reply is ``{batch, count, first_name, last_name, warnings}``, where the
    batch is ``{id, name, workunits_before}`` or null.  If the key was used before, the body of the
    request is read, and the first reply is returned.  (`idempotency.earlier_outcome` returns the
    first reply without reading the body.)  With `by_operator`, rights and quotas are not checked.
    The ids and names of the workunits are added to `created`.

    Raises `UnknownApp`, `BadHead`, `BadLines`, `NoWorkunits`, `TooManyWorkunits`, `DuplicateNames`,
    `BatchRefused`, `NotAllowed`, `QuotaExceeded`, and the exceptions of `idempotency` and of the
    iterator `lines`.
    """
    pipeline = Pipeline(head.app, head.batch, submitter, now=now)
    limited = None if by_operator else submitter
    if limited is not None:
        submitters.require_submit(limited, App(pk=pipeline.target.id, name=pipeline.target.name))
    with storage.spooled() as spool:
        first_pass = _FirstPass(pipeline, head.defaults, limited, spool)
        try:
            first_pass.read(lines)
            outcome = _second_pass(first_pass, key, created)
        except BaseException:
            first_pass.holds.abandon(now=now)
            raise
        if outcome.replayed:
            first_pass.holds.abandon(now=now)
        return outcome


def check_lines(head: Head, lines: Iterable[Line], *, submitter: Account, now: datetime) -> None:
    """Check workunits as `submit_lines` does in its first pass, and create none.

    Raises the same exceptions, except for quotas, names that are taken, and keys.
    """
    pipeline = Pipeline(head.app, head.batch, submitter, now=now)
    submitters.require_submit(submitter, App(pk=pipeline.target.id, name=pipeline.target.name))
    with storage.spooled() as spool:
        first_pass = _FirstPass(pipeline, head.defaults, submitter, spool)
        try:
            first_pass.read(lines)
        finally:
            first_pass.holds.abandon(now=now)


class _FirstPass:
    """Reads and validates lines, stores the contents of their files, and spools rows.

    `limited` is the account whose quotas apply; with None, no quotas apply.
    """

    def __init__(
        self,
        pipeline: Pipeline,
        defaults: Mapping[str, Any],
        limited: Account | None,
        spool: IO[bytes],
    ) -> None:
        self.pipeline, self.limited, self._spool = pipeline, limited, spool
        self.holds = file_holds.Holds(pipeline.submitter, now=pipeline.now)
        self._headroom = quotas.Headroom()
        self.count = self._faulty = 0
        self.first_name = self.last_name = ""
        self._faults: list[LineFault] = []
        self._names: set[int] = set()
        self._defaults = _with_defaults_of_app(pipeline.target.defaults, defaults)

    def read(self, lines: Iterable[Line]) -> None:
        """Read all lines; then raise `BadLines` for faults, or `NoWorkunits` without lines."""
        remaining = iter(lines)
        release()
        # A chunk without a readable line is empty, but more lines may follow.
        while (line := next(remaining, None)) is not None:
            self._take(list(self._chunk(chain([line], remaining))))
            # Return the connection to the pool: the client may be slow.
            release()
        if self._faulty:
            raise BadLines(self._faults, count=self._faulty, lines=self.count)
        if not self.count:
            raise NoWorkunits("There is nothing to submit. Hint: send at least one workunit.")

    def rows(self) -> Iterator[WorkunitRow]:
        """Yield the spooled rows; each call begins with the first row."""
        self._spool.seek(0)
        return (WorkunitRow(*orjson.loads(line)) for line in self._spool)

    def _chunk(self, lines: Iterator[Line]) -> Iterator[tuple[int, NewWorkunit]]:
        size = 0
        for line in islice(lines, _CHUNK):
            self.count += 1
            if self.count > MAX_WORKUNITS:
                msg = f"There are more than {MAX_WORKUNITS} workunits."
                raise TooManyWorkunits(f"{msg} Hint: send several submissions into one batch.")
            workunit = self._workunit(line)
            if workunit is None:
                continue
            yield line.number, workunit
            size += sum(len(file.content or b"") for file in workunit.input_files)
            if size > _CHUNK_BYTES:
                return

    def _workunit(self, line: Line) -> NewWorkunit | None:
        """Return the workunit of a line; record the fault of a faulty line and return None."""
        workunit = line.value
        if line.fault is not None:
            self._fault(line.number, "", line.fault)
            return None
        if not isinstance(workunit, NewWorkunit):
            try:
                workunit = new_workunit(self._with_defaults(workunit), from_outside=True)
            except BadDescription as bad:
                fault = new_workunits.Fault(bad.sentence, bad.hint)
                self._fault(line.number, bad.pointer, fault)
                return None
        if workunit.name is not None:
            count_before = len(self._names)
            self._names.add(hash(workunit.name))
            if len(self._names) == count_before:
                sentence = f"The name {workunit.name[:200]!r} is given more than once."
                fault = new_workunits.Fault(
                    sentence, "give each workunit a different name, or no name."
                )
                self._fault(line.number, "/name", fault)
        return workunit

    def _with_defaults(self, value: object) -> object:
        """Return a description with the defaults of the submission; a group has no defaults."""
        if not isinstance(value, dict) or value.get("group") is True:
            return value
        return {**self._defaults, **with_field_names(value)}

    def _fault(self, number: int, pointer: str, fault: new_workunits.Fault) -> None:
        self._faulty += 1
        if len(self._faults) < MAX_SHOWN_FAULTS:
            self._faults.append(LineFault(number, pointer, fault))

    def _take(self, chunk: list[tuple[int, NewWorkunit]]) -> None:
        workunits = [workunit for _, workunit in chunk]
        for index, faults in self.pipeline.checks.faults(workunits).items():
            for fault in faults:
                self._fault(chunk[index][0], "", fault)
        if self._faulty:
            return
        try:
            inputs = self._keep(workunits)
        except download_files.UnknownFiles as unknown:
            self._name_unknown(chunk, set(unknown.names))
            return
        self.pipeline.note_dependencies(workunits)
        for row in self.pipeline.rows(workunits, inputs, first=self.count - len(chunk)):
            self._spool.write(orjson.dumps(tuple(row), option=orjson.OPT_APPEND_NEWLINE))
            self.first_name = self.first_name or row.name
            self.last_name = row.name

    def _keep(self, workunits: list[NewWorkunit]) -> new_inputs.Kept:
        if not any(workunit.input_files for workunit in workunits):
            return {}
        with new_inputs.staged(workunits) as contents, transaction.atomic():
            quotas.lock(self.limited)
            inputs = self.pipeline.keep_inputs(workunits, contents)
            self._headroom.take(self.limited, self.holds.add(new_inputs.file_ids(inputs)))
        return inputs

    def _name_unknown(self, chunk: list[tuple[int, NewWorkunit]], unknown: set[str]) -> None:
        for number, workunit in chunk:
            for place, file in enumerate(workunit.input_files):
                name = file.known_as or file.sha256
                if name in unknown:
                    fault = new_workunits.Fault(
                        f"There is no file {name}.",
                        "send its content, or upload it first; unused files are deleted.",
                    )
                    self._fault(number, f"/input_files/{place}", fault)


def _with_defaults_of_app(app: Mapping[str, Any], own: Mapping[str, Any]) -> dict[str, Any]:
    """Return the app's defaults, overridden by the submission's defaults; raises `BadHead`."""
    defaults: dict[str, Any] = {}
    for prefix, fields in (("workunit_defaults of the app: ", app), ("", own)):
        try:
            defaults |= with_field_names(fields)
            new_workunit(defaults, from_outside=True)
        except BadDescription as bad:
            pointer = f"/defaults{bad.pointer}"
            raise BadHead(f"{prefix}{bad.sentence}", bad.hint, pointer) from None
    return defaults


def _second_pass(
    first_pass: _FirstPass, key: Key | None, created: CreatedWorkunits | None
) -> idempotency.Outcome:
    pipeline, limited = first_pass.pipeline, first_pass.limited

    def write() -> tuple[int, dict[str, Any]]:
        quotas.lock(limited)
        quotas.require_workunits(limited, first_pass.count)
        quotas.require_bytes(limited)
        opened = pipeline.open_batch()
        first_pass.holds.lock()
        pipeline.write(first_pass.rows(), opened, created)
        first_pass.holds.give_up()
        body = {
            "batch": opened.shown(),
            "count": first_pass.count,
            "first_name": first_pass.first_name,
            "last_name": first_pass.last_name,
            "warnings": [*pipeline.checks.warnings(), *opened.warnings()],
        }
        return 201, {"body": body}

    def attempt() -> idempotency.Outcome:
        if key is None or pipeline.submitter is None:
            with transaction.atomic():
                return idempotency.Outcome(*write())
        return idempotency.once(
            write,
            account=pipeline.submitter,
            key=key.text,
            request_hash=key.request_hash(),
            now=pipeline.now,
        )

    return retried(attempt, lambda: (row.name for row in first_pass.rows()))
