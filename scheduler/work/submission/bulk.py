"""Submit any number of workunits as a stream, all or none.

Theory of operation.  Pass one reads, while no transaction is open: a slow client holds no lock.  A
chunk of workunits is judged, its contents are kept and held in a short transaction of their own,
and what is to be written is spooled to a file.  All faults of all lines are counted, the first are
told.  Pass two is one transaction of statements alone: the idempotency key, the quota, the batch,
then COPY from the spool.  What ends it but a refusal (a name's owner who gave up, a deadlock) has
it try again, for the spool is still there.  Whatever else happens, holds are given up, and what
nobody refers to is doomed; after a crash the housekeeper does that.
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
from scheduler.work.submission.births import Birth
from scheduler.work.submission.facts import NewBatch, NewWorkunit
from scheduler.work.submission.rules import new_workunits
from scheduler.work.submission.rules.work_from_dicts import BadDescription, new_batch, new_workunit
from scheduler.work.submission.submission_checks import (
    Judge,
    SubmissionRefused,
    Target,
    find_target,
    may_wish,
)

#: So many faults are told; all are counted.
SHOWN = 100
#: So many workunits one submission has at most: their names are remembered, 100 bytes each.
MOST_WORKUNITS = 1_000_000
#: A chunk of pass one: workunits, and bytes of their contents.
_CHUNK, _CHUNK_BYTES = 500, 1 << 22
#: So often pass two is tried.
_ATTEMPTS = 4
_HEAD = ("app", "batch", "defaults")
_DEADLOCK = "40P01"


@dataclass(frozen=True, slots=True)
class Line:
    """One workunit as it came: where it stood, and what it said, or why that cannot be read.

    What it said is a dict, which `from_outside` names no paths, or a `NewWorkunit`.
    """

    number: int
    said: object = None
    fault: new_workunits.Fault | None = None


@dataclass(frozen=True, slots=True)
class LineFault:
    """One thing that is wrong with a line; `pointer` says with which part of it."""

    number: int
    pointer: str
    fault: new_workunits.Fault


class BadLines(SubmissionRefused):
    """Some workunits are impossible; `faults` has the first. Hint: each has its own."""

    def __init__(self, faults: list[LineFault], *, count: int, lines: int) -> None:
        """Keep the first of them, and say how many there are."""
        self.faults, self.count = faults, count
        first = faults[0]
        super().__init__(
            f"{count} fault{'s' * (count > 1)} in {lines} workunit{'s' * (lines > 1)}, the first "
            f"in number {first.number}: {first.fault.sentence} Hint: {first.fault.hint}"
        )


class BadHead(SubmissionRefused):
    """What comes before the workunits cannot be read. Hint: the message says what to change."""

    def __init__(self, sentence: str, hint: str, pointer: str = "") -> None:
        """Keep both, and where it is."""
        super().__init__(f"{sentence} Hint: {hint}")
        self.sentence, self.hint, self.pointer = sentence, hint, pointer


class NoWorkunits(SubmissionRefused):
    """There is nothing to submit. Hint: send a workunit at least."""


class CutShort(SubmissionRefused):
    """The lines end too early, or not where their count says. Hint: the message says what."""

    def __init__(self, hint: str) -> None:
        """Keep what to do."""
        super().__init__(f"The body ended before its end. Hint: {hint}")


class TooManyWorkunits(SubmissionRefused):
    """The submission is too long. Hint: send several, into one batch."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Head:
    """What holds for all workunits of a submission."""

    app: str
    batch: NewBatch | int | None
    defaults: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Key:
    """An idempotency key; `request_hash` is asked when the body was read."""

    text: str
    request_hash: Callable[[], str]


def read_line(number: int, text: bytes) -> Line:
    """Read a line of JSON; what is none is a line with a fault."""
    try:
        return Line(number, orjson.loads(text))
    except ValueError as error:
        hint = "write each workunit in one line of JSON."
        return Line(number, fault=new_workunits.Fault(f"The line is no JSON: {error}.", hint))


def counted(lines: Iterable[Line], *, is_needed: bool = False) -> Iterator[Line]:
    """Yield the workunits until ``{"count": N}``, which is checked; raises `CutShort`.

    With `is_needed`, the lines must end with the count.
    """
    seen, count = 0, None
    for line in lines:
        if isinstance(line.said, dict) and line.said.keys() == {"count"}:
            count = line.said["count"]
        elif count is not None:
            raise CutShort("let the line with the count be the last one.")
        else:
            seen += 1
            yield line
    if count is None and is_needed:
        raise CutShort(
            'a stream in chunks ends with a line {"count": N}, N being the number of workunits; '
            "or say Content-Length, or pack it by gzip."
        )
    if count not in (None, seen):
        raise CutShort(f"there were {seen} workunits, and the last line says {count!r:.40}.")


def read_head(given: object, *, now: datetime) -> Head:
    """Read ``{app, batch, defaults}``; raises `BadHead`."""
    if not isinstance(given, Mapping):
        raise BadHead(f"{given!r:.60} is no object.", 'begin with {"app": "...", ...}.')
    for name in given:
        if name not in _HEAD:
            raise BadHead(f"{name!r:.60} is not known.", f"known are {', '.join(_HEAD)}.", "")
    app, defaults = given.get("app"), given.get("defaults")
    if not isinstance(app, str) or "\0" in app:
        raise BadHead(f"app is {app!r:.60}.", "give the name of an app.", "/app")
    if defaults is not None and not isinstance(defaults, Mapping):
        raise BadHead(f"defaults is {defaults!r:.60}.", "give an object.", "/defaults")
    return Head(app=app, batch=_batch(given.get("batch"), now), defaults=defaults or {})


def _batch(given: object, now: datetime) -> NewBatch | int:
    """Read a name, a number, an object or null: what comes over the API has a batch."""
    if isinstance(given, int) and not isinstance(given, bool) and abs(given) < 1 << 63:
        return given
    said = {"name": given} if isinstance(given, str) else {} if given is None else given
    try:
        wanted = new_batch(said, now=now, from_outside=True)
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
    made: submit.Made | None = None,
    now: datetime,
) -> idempotency.Told:
    """Create the workunits of these lines, all or none; 201 and what was made.

    The answer's ``body`` is ``{batch, count, first_name, last_name, warnings}``, where the batch
    is ``{id, name, workunits_before}`` or null.  A repeat with the same key is told the same, after
    it was read; `idempotency.told_before` spares that.  Rights and quotas are not asked for
    `by_operator`.  `made` gathers ids and names.  Raises what `submit.submit` raises, but not
    `BadLines`; and `BadHead`, `NoWorkunits`, `TooManyWorkunits`, `NotAllowed`, `QuotaExceeded`,
    and what `idempotency` and reading `lines` raise.
    """
    target = find_target(head.app)
    if submitter is not None and not by_operator:
        submitters.require_submit(submitter, App(pk=target.id, name=target.name))
    with storage.Spool() as spool:
        passed = _PassOne(target, head, spool, submitter, now)
        passed.made = made
        if by_operator:
            passed.limited = None
        try:
            passed.read(lines)
            told = _write(passed, key, now)
        except BaseException:
            passed.holds.abandon(now=now)
            raise
        if told.replayed:
            passed.holds.abandon(now=now)
        return told


class _PassOne:
    """Reads lines, judges, keeps contents, spools."""

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
        self.spool, self._room = spool, quotas.Room()
        #: Whose quotas count, and what gathers ids and names.
        self.limited: Account | None = submitter
        self.made: submit.Made | None = None
        self.count = self._faulty = 0
        self.first_name = self.last_name = ""
        self._faults: list[LineFault] = []
        self._names: set[int] = set()
        self._stem = usable(f"{target.name}_{secrets.token_hex(4)}")
        self._midwife = births.Midwife(follows_wishes=may_wish(submitter))
        self._base = self._defaults()

    def _defaults(self) -> dict[str, Any]:
        base = {**self.target.defaults, **self.head.defaults}
        for where, said in (("workunit_defaults of the app", self.target.defaults), ("", base)):
            try:
                new_workunit(said, from_outside=True)
            except BadDescription as bad:
                what = f"{where}: {bad.sentence}" if where else bad.sentence
                raise BadHead(what, bad.hint, f"/defaults{bad.pointer}") from None
        return base

    def read(self, lines: Iterable[Line]) -> None:
        """Read all; raises `BadLines` at the end if there was a fault."""
        remaining = iter(lines)
        release()
        while chunk := list(self._chunk(remaining)):
            self._take(chunk)
            # The connection is another's while the client is slow.
            release()
        if self._faulty:
            raise BadLines(self._faults, count=self._faulty, lines=self.count)
        if not self.count:
            raise NoWorkunits("There is nothing to submit. Hint: send a workunit at least.")

    def _chunk(self, lines: Iterator[Line]) -> Iterator[tuple[int, NewWorkunit]]:
        size = 0
        for line in islice(lines, _CHUNK):
            self.count += 1
            if self.count > MOST_WORKUNITS:
                msg = f"There are more than {MOST_WORKUNITS} workunits."
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
        said = line.said
        if isinstance(said, NewWorkunit):
            return self._named(line.number, said)
        try:
            merged = {**self._base, **said} if isinstance(said, dict) else said
            workunit = new_workunit(merged, from_outside=True)
        except BadDescription as bad:
            fault = new_workunits.Fault(bad.sentence, bad.hint)
            self._fault(line.number, bad.pointer, fault)
            return None
        return self._named(line.number, workunit)

    def _named(self, number: int, workunit: NewWorkunit) -> NewWorkunit:
        """Remember its name, and note if it is another's."""
        if workunit.name is not None:
            known = len(self._names)
            self._names.add(hash(workunit.name))
            if len(self._names) == known:
                said_twice = f"The name {workunit.name[:200]!r} is given more than once."
                fault = new_workunits.Fault(said_twice, "give each workunit another, or none.")
                self._fault(number, "/name", fault)
        return workunit

    def _fault(self, number: int, pointer: str, fault: new_workunits.Fault) -> None:
        self._faulty += 1
        if len(self._faults) < SHOWN:
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
            birth = self._midwife.prepare(workunit, name, inputs.get(index, ()))
            self.spool.add(orjson.dumps(tuple(birth)))
            self.first_name = self.first_name or name
            self.last_name = name

    def _keep(self, workunits: list[NewWorkunit]) -> new_inputs.Kept:
        if not any(workunit.input_files for workunit in workunits):
            return {}
        with new_inputs.staged(workunits) as contents, transaction.atomic():
            quotas.lock(self.limited)
            inputs = new_inputs.keep(workunits, contents, tell=self.judge.add_inputs, now=self._now)
            self._room.take(self.limited, self.holds.add(new_inputs.file_ids(inputs)))
        return inputs

    def _name_unknown(self, chunk: list[tuple[int, NewWorkunit]], unknown: set[str]) -> None:
        for number, workunit in chunk:
            for place, file in enumerate(workunit.input_files):
                name = file.known_as or file.sha256
                if name in unknown:
                    fault = new_workunits.Fault(
                        f"There is no file {name}.",
                        "send its content, or upload it first; what nobody needs is deleted.",
                    )
                    self._fault(number, f"/input_files/{place}", fault)


def _write(passed: _PassOne, key: Key | None, now: datetime) -> idempotency.Told:
    for attempt in range(_ATTEMPTS):
        try:
            with transaction.atomic():
                return _write_once(passed, key, now)
        except births.NameTaken:
            _raise_for_taken_names(passed)
            if attempt + 1 == _ATTEMPTS:
                raise
        except OperationalError as error:
            is_deadlock = getattr(error.__cause__, "sqlstate", None) == _DEADLOCK
            if not is_deadlock or attempt + 1 == _ATTEMPTS or connection.in_atomic_block:
                raise
    raise AssertionError


def _write_once(passed: _PassOne, key: Key | None, now: datetime) -> idempotency.Told:
    submitter, target = passed.submitter, passed.target
    claim = None
    if key is not None and submitter is not None:
        claim = idempotency.begin(account=submitter, key=key.text, now=now)
        if claim.told is not None:
            return idempotency.replay(claim, key.request_hash())
    quotas.lock(passed.limited)
    quotas.require_workunits(passed.limited, passed.count)
    quotas.require_bytes(passed.limited)
    opened = None
    if passed.head.batch is not None and submitter is not None:
        opened = new_batches.open_batch(
            passed.head.batch, app_id=target.id, app=target.name, submitter=submitter, now=now
        )
    passed.holds.lock()
    home = births.Home(app_id=target.id) if opened is None else opened.home
    tell = None if passed.made is None else passed.made.start()
    submit.write(_births(passed.spool), home, submitter=submitter, tell=tell, now=now)
    passed.holds.give_up()
    answer = {
        "batch": None if opened is None else opened.shown(),
        "count": passed.count,
        "first_name": passed.first_name,
        "last_name": passed.last_name,
        "warnings": [*passed.judge.warnings(), *([] if opened is None else opened.warnings())],
    }
    kept = {"body": answer}
    if claim is None or key is None:
        return idempotency.Told(201, kept)
    return idempotency.finish(claim, request_hash=key.request_hash(), status=201, answer=kept)


def _births(spool: storage.Spool) -> Iterator[Birth]:
    for line in spool.lines():
        yield Birth(*orjson.loads(line))


def _raise_for_taken_names(passed: _PassOne) -> None:
    """Say which names are taken: the first of them, and how many there are."""
    births.raise_for_taken_names(birth.name for birth in _births(passed.spool))
