"""Answers to come: futures, and the one thread that asks for a whole batch."""

from __future__ import annotations

import concurrent.futures
import hashlib
import logging
import tempfile
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, InvalidStateError
from contextlib import suppress
from pathlib import Path
from typing import overload

from scientist import archive, models
from scientist.errors import (
    Damaged,
    ProblemError,
    ScientistError,
    ServerFault,
    Unreachable,
    WorkunitFailed,
)
from scientist.naming import parts_of, workunit_name
from scientist.transport import Transport

log = logging.getLogger("scientist")

#: What a workunit brings: the bytes of its output, or of each output by its name; paths, if the
#: outputs go to a folder.
Answer = bytes | Path | Mapping[str, bytes | Path]
#: Seconds between two looks at the outputs: the first while something comes, the other at most.
_SHORTEST, _LONGEST = 0.5, 10.0
_CHUNK = 1 << 18

__all__ = ["Answer", "Futures", "WorkunitFuture", "as_completed", "wait"]


class WorkunitFuture(Future[Answer]):
    """The answer of one workunit; a `concurrent.futures.Future` in every respect.

    `name` is the workunit's.  `result` gives the bytes of a single output or a mapping
    {open_name: bytes}; raises WorkunitFailed, or CancelledError.
    """

    def __init__(self, name: str, cancel: Callable[[str], bool]) -> None:
        super().__init__()
        self.name = name
        self._cancel_there = cancel

    def cancel(self) -> bool:
        """Cancel the workunit on the project; False if it is over already."""
        if self.done():
            return self.cancelled()
        return self._cancel_there(self.name) and super().cancel()

    def __repr__(self) -> str:
        state = "cancelled" if self.cancelled() else "done" if self.done() else "pending"
        return f"<WorkunitFuture {self.name} {state}>"


class Futures(Sequence[WorkunitFuture]):
    """The futures of a submission, in the order of its inputs; each is made when it is asked for.

    A hundred thousand of them that nobody looks at cost their names.
    """

    def __init__(self, transport: Transport, into: Path | None = None) -> None:
        self._transport, self._into = transport, into
        self._names: list[str] = []
        self._index: dict[str, int] = {}
        self._made: dict[int, WorkunitFuture] = {}
        self._answers: dict[int, Answer | BaseException] = {}
        self._order: list[int] = []
        self._news = threading.Condition()
        self._closing = threading.Event()
        self._thread: threading.Thread | None = None
        self._broken: ScientistError | None = None
        self.batch: models.BatchInfo | None = None

    def __len__(self) -> int:
        """How many workunits they are."""
        return len(self._names)

    @overload
    def __getitem__(self, index: int) -> WorkunitFuture: ...
    @overload
    def __getitem__(self, index: slice) -> list[WorkunitFuture]: ...
    def __getitem__(self, index: int | slice) -> WorkunitFuture | list[WorkunitFuture]:
        """The future of an input."""
        if isinstance(index, slice):
            return [self[one] for one in range(*index.indices(len(self)))]
        position = index + len(self) if index < 0 else index
        if not 0 <= position < len(self):
            raise IndexError(index)
        with self._news:
            future = self._made.get(position)
            if future is None:
                future = WorkunitFuture(self._names[position], self._cancel)
                self._made[position] = future
                _settle(future, self._answers.get(position, self._broken))
        self.start()
        return future

    def __repr__(self) -> str:
        return f"<Futures of {len(self)} workunits, {len(self._order)} over>"

    @property
    def names(self) -> Sequence[str]:
        """The workunits' names, in the order of the inputs."""
        return tuple(self._names)

    def add(self, name: str) -> int:
        """Know one more workunit; gives its place."""
        self._index[name] = len(self._names)
        self._names.append(name)
        return len(self._names) - 1

    def begin(self, batch: models.BatchInfo) -> None:
        """From now on there is something to ask for."""
        self.batch = batch
        if self._made:
            self.start()

    def start(self) -> None:
        """Have the thread run that asks; it ends when all is over or `close` is called."""
        with self._news:
            if self.batch is None or self._thread is not None or self._is_over():
                return
            self._thread = threading.Thread(
                target=self._ask, name=f"scientist-{self.batch.id}", daemon=True
            )
        self._thread.start()

    def close(self) -> None:
        """Ask no more; what is not over stays so."""
        self._closing.set()

    def completed(self, timeout: float | None = None) -> Iterator[WorkunitFuture]:
        """Give each as it is over, in that order.  Raises TimeoutError."""
        self.start()
        until = None if timeout is None else time.monotonic() + timeout
        for number in range(len(self)):
            with self._news:
                left = None if until is None else until - time.monotonic()
                there = self._news.wait_for(
                    lambda n=number: len(self._order) > n,  # type: ignore[misc]
                    None if left is None else max(left, 0.0),
                )
                if not there:
                    of = f"{len(self) - number} of {len(self)} futures"
                    raise TimeoutError(f"{of} are not over after {timeout:g} s.")
                position = self._order[number]
            yield self[position]

    def fail(self, error: ScientistError) -> None:
        """Nothing more will come: the submission did not succeed, or the project refuses."""
        with self._news:
            self._broken = error
            for position in range(len(self)):
                if position not in self._answers:
                    self._keep(position, error)

    def _is_over(self) -> bool:
        return len(self._order) >= len(self)

    def _cancel(self, name: str) -> bool:
        if self.batch is None:
            return False
        said = self._transport.post("workunits/cancel", {"names": [name]}) or {}
        with self._news:
            return _cancelled(said) and self._keep(self._index[name], None)

    def _keep(self, position: int, answer: Answer | BaseException | None) -> bool:
        """Hold an answer and tell who waits for it; None is a cancellation.  Under the lock."""
        if position in self._answers:
            return False
        self._answers[position] = concurrent.futures.CancelledError() if answer is None else answer
        self._order.append(position)
        if answer is not None and (future := self._made.get(position)) is not None:
            _settle(future, answer)
        self._news.notify_all()
        return True

    def _ask(self) -> None:
        """Ask for outputs until all is over: one request at a time, rarer while nothing comes."""
        assert self.batch is not None
        cursor, pause = "", _SHORTEST
        while not self._closing.is_set():
            before = len(self._order)
            try:
                cursor = self._collect(cursor) or cursor
            except (Unreachable, ServerFault) as error:
                log.warning("no outputs yet of batch %s: %s", self.batch.id, error.sentence)
            except Damaged as error:
                log.warning("outputs of batch %s are asked for again: %s", self.batch.id, error)
            except (ProblemError, OSError) as error:
                broken = error if isinstance(error, ScientistError) else ScientistError(str(error))
                self.fail(broken)
            if self._is_over():
                return
            pause = _SHORTEST if len(self._order) > before else min(pause * 1.5, _LONGEST)
            self._closing.wait(pause)

    def _collect(self, since: str) -> str:
        """Take what came since; gives the new cursor."""
        assert self.batch is not None
        got: dict[str, dict[str, tuple[bytes | Path, str]]] = {}
        cursor, damaged = "", 0
        for one in archive.outputs(self._transport, self.batch.id, since or None):
            match one:
                case archive.Member() if one.workunit in self._index:
                    got.setdefault(one.workunit, {})[one.path] = self._take(one)
                case models.ManifestEntry() if one.name in self._index:
                    damaged += not self._answer(one, got.pop(one.name, {}))
                case archive.Cursor():
                    cursor = one.value
        if damaged:
            raise Damaged(f"{damaged} workunits did not arrive as promised.")
        return cursor

    def _take(self, member: archive.Member) -> tuple[bytes | Path, str]:
        if self._into is None:
            content = member.content.read()
            return content, hashlib.sha256(content).hexdigest()
        goal = self._into.joinpath(workunit_name(member.workunit), *parts_of(member.path))
        goal.parent.mkdir(parents=True, exist_ok=True)
        digest = hashlib.sha256()
        with tempfile.NamedTemporaryFile(dir=goal.parent, prefix=".part-", delete=False) as file:
            while chunk := member.content.read(_CHUNK):
                digest.update(chunk)
                file.write(chunk)
        Path(file.name).replace(goal)
        return goal, digest.hexdigest()

    def _answer(
        self, entry: models.ManifestEntry, got: dict[str, tuple[bytes | Path, str]]
    ) -> bool:
        """Settle a workunit that is over; False if what arrived is not what was promised."""
        position = self._index[entry.name]
        if position in self._answers or entry.status not in {"done", "failed"}:
            return True
        if entry.status == "failed":
            stderr = ""
            with suppress(ScientistError):
                stderr = archive.stderr_of(self._transport, entry.id)
            with self._news:
                self._keep(position, WorkunitFailed(entry.name, entry.errors, stderr))
            return True
        paths = {one.open_name: archive.path_of(one) for one in entry.outputs}
        for one in entry.outputs:
            _, digest = got.get(paths[one.open_name], (b"", ""))
            if one.missing or one.damaged:
                gone = Damaged(f"Output {one.open_name} of {entry.name} is lost on the project.")
                with self._news:
                    self._keep(position, gone)
                return True
            if not digest or one.sha256 not in {None, digest}:
                return False
        contents = {name: got[path][0] for name, path in paths.items()}
        with self._news:
            single = next(iter(contents.values())) if len(contents) == 1 else contents
            self._keep(position, single)
        return True


def _cancelled(said: Mapping[str, object]) -> bool:
    """Whether an answer to a cancellation says that something was cancelled."""
    numbers = [value for value in said.values() if isinstance(value, int)]
    return any(numbers) or not numbers


def _settle(future: WorkunitFuture, answer: Answer | BaseException | None) -> None:
    with suppress(InvalidStateError):
        if isinstance(answer, concurrent.futures.CancelledError):
            Future.cancel(future)
        elif isinstance(answer, BaseException):
            future.set_exception(answer)
        elif answer is not None:
            future.set_result(answer)


def as_completed(
    futures: Iterable[WorkunitFuture], timeout: float | None = None
) -> Iterator[WorkunitFuture]:
    """Give futures as they are over, whichever comes first.  Raises TimeoutError."""
    if isinstance(futures, Futures):
        return futures.completed(timeout)
    found = concurrent.futures.as_completed(futures, timeout)
    return (one for one in found if isinstance(one, WorkunitFuture))


def wait(
    futures: Iterable[WorkunitFuture],
    timeout: float | None = None,
    return_when: str = concurrent.futures.ALL_COMPLETED,
) -> tuple[set[WorkunitFuture], set[WorkunitFuture]]:
    """Wait as `concurrent.futures.wait` does; gives those that are over and the others."""
    given = list(futures)
    done, _ = concurrent.futures.wait(given, timeout, return_when)
    return {one for one in given if one in done}, {one for one in given if one not in done}
