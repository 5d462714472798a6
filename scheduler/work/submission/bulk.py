"""Submit any number of workunits as a stream, all or none.

Theory of operation.  Pass one reads while no transaction is open, so that a slow client holds no
lock.  Each chunk of workunits is validated, its contents are stored and held in a short transaction
of their own, and the rows are spooled to a file.  The faults of all lines are counted; the first
are reported.  Pass two is a single transaction: the idempotency key, the quota, the batch, then
COPY from the spool.  If it fails by a deadlock, or by a name whose holder rolled back, it is
retried from the spool.  In every other case the holds are released and unreferenced files are
marked for deletion; after a crash the housekeeper does that.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from itertools import islice
from typing import Any

import orjson
from django.db import OperationalError, connection, transaction

from scheduler import storage
from scheduler.files import download_files, file_holds
from scheduler.files.rules.refused_names import usable
from scheduler.models import Account, App
from scheduler.people import idempotency, quotas, submitters
from scheduler.sql import release
from scheduler.work.submission import births, new_batches, new_inputs, submit
from scheduler.work.submission.births import WorkunitRow
from scheduler.work.submission.facts import NewBatch, NewWorkunit
from scheduler.work.submission.rules import new_workunits
from scheduler.work.submission.rules.work_from_dicts import BadDescription, new_batch, new_workunit
from scheduler.work.submission.submission_checks import (
    Judge,
    SubmissionRefused,
    Target,
    find_target,
    may_set_priority,
)

#: Number of faults that are reported; all are counted.
MAX_SHOWN_FAULTS = 100
#: Workunits of one submission: the hashes of their names stay in memory, 100 bytes each.
MAX_WORKUNITS = 1_000_000
#: A chunk of pass one: number of workunits, and bytes of their contents.
_CHUNK, _CHUNK_BYTES = 500, 1 << 22
#: Attempts at pass two.
_MAX_ATTEMPTS = 4
_HEAD = ("app", "batch", "defaults")
_DEADLOCK = "40P01"


@dataclass(frozen=True, slots=True)
class Line:
    """One line of a submission: its number, and its value or the fault that made it unreadable.

    `value` is a `NewWorkunit` or a dict, which is read with `from_outside`: it may name no paths.
    """

    number: int
    value: object = None
    fault: new_workunits.Fault | None = None


@dataclass(frozen=True, slots=True)
class LineFault:
    """One fault of a line; `pointer` is a JSON Pointer to the part of the line that has it."""

    number: int
    pointer: str
    fault: new_workunits.Fault


class BadLines(SubmissionRefused):
    """Some workunits are invalid; `faults` has the first `MAX_SHOWN_FAULTS`. Hint: see each fault.

    `count` is the number of all faults, `lines` that of all workunits.
    """

    def __init__(self, faults: list[LineFault], *, count: int, lines: int) -> None:
        self.faults, self.count = faults, count
        first = faults[0]
        super().__init__(
            f"{count} fault{'s' * (count > 1)} in {lines} workunit{'s' * (lines > 1)}, the first "
            f"in number {first.number}: {first.fault.sentence} Hint: {first.fault.hint}"
        )


class BadHead(SubmissionRefused):
    """The head of a submission is invalid. Hint: the message states what to change."""

    def __init__(self, sentence: str, hint: str, pointer: str = "") -> None:
        super().__init__(f"{sentence} Hint: {hint}")
        self.sentence, self.hint, self.pointer = sentence, hint, pointer


class NoWorkunits(SubmissionRefused):
    """The submission has no workunits. Hint: send at least one workunit."""


class CutShort(SubmissionRefused):
    """The lines end too early, or their number differs from the count. Hint: see the message."""

    def __init__(self, hint: str) -> None:
        super().__init__(f"The body ended before its end. Hint: {hint}")


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
    """An idempotency key; `request_hash` is called after the body was read."""

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
    """Yield the workunits that precede ``{"count": N}``; raises `CutShort` if N is wrong.

    With `is_needed`, a missing count is an error as well.
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
    """Read ``{app, batch, defaults}``; raises `BadHead`."""
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
    """Read a name, an id, an object or null; null creates a batch with a generated name."""
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
    created: submit.CreatedWorkunits | None = None,
    now: datetime,
) -> idempotency.Outcome:
    """Create the workunits of these lines, all or none; returns status 201 and a summary.

    The ``body`` is ``{batch, count, first_name, last_name, warnings}``, where the batch is
    ``{id, name, workunits_before}`` or null.  A repeat with the same key returns the same answer
    once its body was read; `idempotency.earlier_outcome` avoids reading it.  With `by_operator`,
    rights and quotas are not checked.  `created` collects ids and names.

    Raises what `submit.submit` raises, but `BadLines` in place of `BadWorkunits`; and `BadHead`,
    `NoWorkunits`, `TooManyWorkunits`, `NotAllowed`, `QuotaExceeded`, and what `idempotency` and
    reading `lines` raise.
    """
    target = find_target(head.app)
    if submitter is not None and not by_operator:
        submitters.require_submit(submitter, App(pk=target.id, name=target.name))
    with storage.Spool() as spool:
        first_pass = _PassOne(target, head, spool, submitter, now)
        first_pass.created = created
        if by_operator:
            first_pass.limited = None
        try:
            first_pass.read(lines)
            answer = _write(first_pass, key, now)
        except BaseException:
            first_pass.holds.abandon(now=now)
            raise
        if answer.replayed:
            first_pass.holds.abandon(now=now)
        return answer


class _PassOne:
    """Reads and validates lines, stores their contents, and spools rows."""

    def __init__(
        self,
        target: Target,
        head: Head,
        spool: storage.Spool,
        submitter: Account | None,
        now: datetime,
    ) -> None:
        self.target, self.head, self.submitter, self._now = target, head, submitter, now
        self.judge = Judge(target, submitter, batch=head.batch, now=now)
        self.holds = file_holds.Holds(submitter, now=now)
        self.spool, self._headroom = spool, quotas.Headroom()
        #: The account whose quotas apply, and the collector of ids and names.
        self.limited: Account | None = submitter
        self.created: submit.CreatedWorkunits | None = None
        self.count = self._faulty = 0
        self.first_name = self.last_name = ""
        self._faults: list[LineFault] = []
        self._names: set[int] = set()
        self._stem = usable(f"{target.name}_{secrets.token_hex(4)}")
        self._writer = births.WorkunitWriter(honors_priorities=may_set_priority(submitter))
        self._base = self._defaults()

    def _defaults(self) -> dict[str, Any]:
        base = {**self.target.defaults, **self.head.defaults}
        for where, fields in (("workunit_defaults of the app", self.target.defaults), ("", base)):
            try:
                new_workunit(fields, from_outside=True)
            except BadDescription as bad:
                what = f"{where}: {bad.sentence}" if where else bad.sentence
                raise BadHead(what, bad.hint, f"/defaults{bad.pointer}") from None
        return base

    def read(self, lines: Iterable[Line]) -> None:
        """Read all lines; raises `BadLines` at the end if any had a fault."""
        remaining = iter(lines)
        release()
        while chunk := list(self._chunk(remaining)):
            self._take(chunk)
            # Return the connection to the pool: the client may be slow.
            release()
        if self._faulty:
            raise BadLines(self._faults, count=self._faulty, lines=self.count)
        if not self.count:
            raise NoWorkunits("There is nothing to submit. Hint: send at least one workunit.")

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
        if line.fault is not None:
            self._fault(line.number, "", line.fault)
            return None
        value = line.value
        if isinstance(value, NewWorkunit):
            return self._named(line.number, value)
        try:
            merged = {**self._base, **value} if isinstance(value, dict) else value
            workunit = new_workunit(merged, from_outside=True)
        except BadDescription as bad:
            fault = new_workunits.Fault(bad.sentence, bad.hint)
            self._fault(line.number, bad.pointer, fault)
            return None
        return self._named(line.number, workunit)

    def _named(self, number: int, workunit: NewWorkunit) -> NewWorkunit:
        """Record the workunit's name; add a fault if an earlier line has the same name."""
        if workunit.name is not None:
            count_before = len(self._names)
            self._names.add(hash(workunit.name))
            if len(self._names) == count_before:
                sentence = f"The name {workunit.name[:200]!r} is given more than once."
                fault = new_workunits.Fault(sentence, "use a different name for each, or none.")
                self._fault(number, "/name", fault)
        return workunit

    def _fault(self, number: int, pointer: str, fault: new_workunits.Fault) -> None:
        self._faulty += 1
        if len(self._faults) < MAX_SHOWN_FAULTS:
            self._faults.append(LineFault(number, pointer, fault))

    def _take(self, chunk: list[tuple[int, NewWorkunit]]) -> None:
        workunits = [workunit for _, workunit in chunk]
        for index, faults in self.judge.faults(workunits).items():
            for fault in faults:
                self._fault(chunk[index][0], "", fault)
        if self._faulty:
            return
        try:
            inputs = self._keep(workunits)
        except download_files.UnknownFiles as unknown:
            self._name_unknown(chunk, set(unknown.names))
            return
        first = self.count - len(chunk)
        for index, workunit in enumerate(workunits):
            name = workunit.name or f"{self._stem}_{first + index}"
            row = self._writer.prepare(workunit, name, inputs.get(index, ()))
            self.spool.add(orjson.dumps(tuple(row)))
            self.first_name = self.first_name or name
            self.last_name = name

    def _keep(self, workunits: list[NewWorkunit]) -> new_inputs.Kept:
        if not any(workunit.input_files for workunit in workunits):
            return {}
        with new_inputs.staged(workunits) as contents, transaction.atomic():
            quotas.lock(self.limited)
            inputs = new_inputs.keep(
                workunits, contents, on_largest=self.judge.add_inputs, now=self._now
            )
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


def _write(first_pass: _PassOne, key: Key | None, now: datetime) -> idempotency.Outcome:
    for attempt in range(_MAX_ATTEMPTS):
        try:
            with transaction.atomic():
                return _write_once(first_pass, key, now)
        except births.NameTaken:
            _raise_for_taken_names(first_pass)
            if attempt + 1 == _MAX_ATTEMPTS:
                raise
        except OperationalError as error:
            is_deadlock = getattr(error.__cause__, "sqlstate", None) == _DEADLOCK
            if not is_deadlock or attempt + 1 == _MAX_ATTEMPTS or connection.in_atomic_block:
                raise
    raise AssertionError


def _write_once(first_pass: _PassOne, key: Key | None, now: datetime) -> idempotency.Outcome:
    submitter, target = first_pass.submitter, first_pass.target
    claim = None
    if key is not None and submitter is not None:
        claim = idempotency.begin(account=submitter, key=key.text, now=now)
        if claim.earlier is not None:
            return idempotency.replay(claim, key.request_hash())
    quotas.lock(first_pass.limited)
    quotas.require_workunits(first_pass.limited, first_pass.count)
    quotas.require_bytes(first_pass.limited)
    opened = None
    if first_pass.head.batch is not None and submitter is not None:
        opened = new_batches.open_batch(
            first_pass.head.batch, app_id=target.id, app=target.name, submitter=submitter, now=now
        )
    first_pass.holds.lock()
    context = births.SubmissionContext(app_id=target.id) if opened is None else opened.context
    on_created = None if first_pass.created is None else first_pass.created.start()
    submit.write(
        _rows(first_pass.spool), context, submitter=submitter, on_created=on_created, now=now
    )
    first_pass.holds.give_up()
    answer = {
        "batch": None if opened is None else opened.shown(),
        "count": first_pass.count,
        "first_name": first_pass.first_name,
        "last_name": first_pass.last_name,
        "warnings": [*first_pass.judge.warnings(), *([] if opened is None else opened.warnings())],
    }
    stored = {"body": answer}
    if claim is None or key is None:
        return idempotency.Outcome(201, stored)
    return idempotency.finish(claim, request_hash=key.request_hash(), status=201, answer=stored)


def _rows(spool: storage.Spool) -> Iterator[WorkunitRow]:
    for line in spool.lines():
        yield WorkunitRow(*orjson.loads(line))


def _raise_for_taken_names(first_pass: _PassOne) -> None:
    births.raise_for_taken_names(row.name for row in _rows(first_pass.spool))
