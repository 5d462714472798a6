"""Futures of workunits, and the thread that polls a batch for its outputs."""

from __future__ import annotations

import concurrent.futures
import hashlib
import logging
import tempfile
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import CancelledError, Future, InvalidStateError
from contextlib import AbstractContextManager, nullcontext, suppress
from pathlib import Path
from typing import cast, overload

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

#: The outputs of a workunit: the bytes of a single output, or a mapping {open_name: bytes}.  If the
#: outputs are written to a folder, paths replace the bytes.
Answer = bytes | Path | Mapping[str, bytes | Path]
#: Seconds between two polls: the minimum while outputs arrive, then up to the maximum.
_MIN_POLL_SECONDS, _MAX_POLL_SECONDS = 0.5, 10.0
_CHUNK_BYTES = 1 << 18

__all__ = ["Answer", "Futures", "WorkunitFuture", "as_completed", "wait"]


class WorkunitFuture(Future[Answer]):
    """A `concurrent.futures.Future` for the outputs of one workunit.

    `name` is the workunit's name.  `result` returns the bytes of a single output or a mapping
    {open_name: bytes}; if outputs are written to a folder, paths replace the bytes.  `result`
    raises WorkunitFailed, CancelledError, Damaged if the project lost an output, or the error of
    the submission or of a request for the outputs.
    """

    def __init__(self, name: str, cancel: Callable[[str], bool]) -> None:
        super().__init__()
        self.name = name
        self._cancel_there = cancel

    def cancel(self) -> bool:
        """Cancel the workunit in the project; return True if the future is cancelled.

        Returns False if the workunit has already ended without a cancellation, or if the batch is
        not submitted yet.  Raises ScientistError if the request fails.
        """
        if self.done():
            return self.cancelled()
        return self._cancel_there(self.name) and super().cancel()

    def __repr__(self) -> str:
        state = "cancelled" if self.cancelled() else "done" if self.done() else "pending"
        return f"<WorkunitFuture {self.name} {state}>"


class Futures(Sequence[WorkunitFuture]):
    """The futures of a submission, in the order of its inputs.

    A future is created on first access.  Until then, memory holds only the names of the workunits,
    because a batch can have 100 000 of them.
    """

    def __init__(self, transport: Transport, into: Path | None = None) -> None:
        self._transport, self._into = transport, into
        self._names: list[str] = []
        self._index: dict[str, int] = {}
        self._futures: dict[int, WorkunitFuture] = {}
        self._answers: dict[int, Answer | BaseException] = {}
        self._order: list[int] = []
        self._changed = threading.Condition()
        self._closing = threading.Event()
        self._thread: threading.Thread | None = None
        self._failure: ScientistError | None = None
        self.batch: models.BatchInfo | None = None

    def __len__(self) -> int:
        return len(self._names)

    @overload
    def __getitem__(self, index: int) -> WorkunitFuture: ...
    @overload
    def __getitem__(self, index: slice) -> list[WorkunitFuture]: ...
    def __getitem__(self, index: int | slice) -> WorkunitFuture | list[WorkunitFuture]:
        """Return the future of the input at `index`, or a list of futures for a slice."""
        if isinstance(index, slice):
            return [self[position] for position in range(*index.indices(len(self)))]
        position = index + len(self) if index < 0 else index
        if not 0 <= position < len(self):
            raise IndexError(index)
        with self._changed:
            future = self._futures.get(position)
            if future is None:
                future = WorkunitFuture(self._names[position], self._cancel)
                self._futures[position] = future
                _settle(future, self._answers.get(position, self._failure))
        self.start()
        return future

    def __repr__(self) -> str:
        return f"<Futures of {len(self)} workunits, {len(self._order)} done>"

    @property
    def names(self) -> Sequence[str]:
        """The names of the workunits, in the order of the inputs."""
        return tuple(self._names)

    def add(self, name: str) -> int:
        """Add a workunit; return its index."""
        self._index[name] = len(self._names)
        self._names.append(name)
        return len(self._names) - 1

    def begin(self, batch: models.BatchInfo) -> None:
        """Set the batch after its submission, and start polling if a future exists."""
        self.batch = batch
        if self._futures:
            self.start()

    def start(self) -> None:
        """Start the polling thread, unless it was started or the batch is not submitted.

        The thread ends when all futures are done or `close` was called.
        """
        with self._changed:
            if self.batch is None or self._thread is not None or self._is_finished():
                return
            self._thread = threading.Thread(
                target=self._poll, name=f"scientist-{self.batch.id}", daemon=True
            )
        self._thread.start()

    def close(self) -> None:
        """Stop the polling; pending futures stay pending."""
        self._closing.set()

    def completed(self, timeout: float | None = None) -> Iterator[WorkunitFuture]:
        """Yield the futures in the order in which they are done.

        Raises TimeoutError if futures are still pending after `timeout` seconds.
        """
        self.start()
        until = None if timeout is None else time.monotonic() + timeout
        for number in range(len(self)):
            with self._changed:
                left = None if until is None else until - time.monotonic()
                is_done = self._changed.wait_for(
                    lambda n=number: len(self._order) > n,  # type: ignore[misc]
                    None if left is None else max(left, 0.0),
                )
                if not is_done:
                    pending = f"{len(self) - number} of {len(self)} futures"
                    raise TimeoutError(f"{pending} are not done after {timeout:g} s.")
                position = self._order[number]
            yield self[position]

    def fail(self, error: ScientistError) -> None:
        """Set `error` as the exception of all pending futures."""
        with self._changed:
            self._failure = error
            for position in range(len(self)):
                if position not in self._answers:
                    self._record(position, error)

    def _is_finished(self) -> bool:
        return len(self._order) >= len(self)

    def _cancel(self, name: str) -> bool:
        if self.batch is None:
            return False
        counts = self._transport.post("workunits/cancel", {"names": [name]}) or {}
        return _is_cancelled(counts) and self._record(self._index[name], None)

    def _record(self, position: int, answer: Answer | BaseException | None) -> bool:
        """Store the answer of a workunit and wake waiting threads.

        `answer` is None if the workunit was cancelled.  Returns False, without a change, if the
        workunit already has an answer.
        """
        with self._changed:  # the lock is reentrant
            if position in self._answers:
                return False
            self._answers[position] = CancelledError() if answer is None else answer
            self._order.append(position)
            if answer is not None and (future := self._futures.get(position)) is not None:
                _settle(future, answer)
            self._changed.notify_all()
            return True

    def _poll(self) -> None:
        """Poll the project for outputs until all futures are done or `close` was called.

        While no outputs arrive, each pause is 1.5 times as long as the previous pause, up to 10
        seconds.
        """
        assert self.batch is not None
        cursor, pause = "", _MIN_POLL_SECONDS
        while not self._closing.is_set():
            before = len(self._order)
            try:
                cursor = self._collect(cursor) or cursor
            except (Unreachable, ServerFault) as error:
                log.warning("outputs_unavailable batch=%s error=%s", self.batch.id, error.sentence)
            except Damaged as error:
                log.warning("outputs_damaged batch=%s error=%s", self.batch.id, error)
            except (ProblemError, OSError) as error:
                failure = error if isinstance(error, ScientistError) else ScientistError(str(error))
                self.fail(failure)
            if self._is_finished():
                return
            pause = min(pause * 1.5, _MAX_POLL_SECONDS)
            if len(self._order) > before:
                pause = _MIN_POLL_SECONDS
            self._closing.wait(pause)

    def _collect(self, since: str) -> str:
        """Receive the outputs after the cursor `since`, and return the new cursor.

        Files are received in a temporary folder, because their digests arrive after them.  Raises
        Damaged if outputs differ from their digests.
        """
        assert self.batch is not None
        received: dict[str, dict[str, tuple[bytes | Path, str]]] = {}
        cursor, damaged = "", 0
        with self._temporary_folder() as folder:
            for item in archive.outputs(self._transport, self.batch.id, since or None):
                match item:
                    case archive.Member() if item.workunit in self._index:
                        files = received.setdefault(item.workunit, {})
                        files[item.path] = _receive(item, folder)
                    case models.ManifestEntry() if item.name in self._index:
                        damaged += not self._finish(item, received.pop(item.name, {}))
                    case archive.Cursor():
                        cursor = item.value
        if damaged:
            raise Damaged(f"The outputs of {damaged} workunits differ from their digests.")
        return cursor

    def _temporary_folder(self) -> AbstractContextManager[str | None]:
        """Return a folder on the disk of the outputs, or None if they are kept in memory."""
        if self._into is None:
            return nullcontext()
        self._into.mkdir(parents=True, exist_ok=True)
        return tempfile.TemporaryDirectory(dir=self._into, prefix=".part-")

    def _finish(
        self, entry: models.ManifestEntry, received: dict[str, tuple[bytes | Path, str]]
    ) -> bool:
        """Record the answer of a workunit that is done or failed.

        Returns False, without a record, if a file is missing or differs from its digest.
        """
        position = self._index[entry.name]
        if position in self._answers or entry.status not in {"done", "failed"}:
            return True
        if entry.status == "failed":
            stderr = ""
            with suppress(ScientistError):
                stderr = archive.stderr_of(self._transport, entry.id)
            self._record(position, WorkunitFailed(entry.name, entry.errors, stderr))
            return True
        paths = {output.open_name: archive.path_of(output) for output in entry.outputs}
        for output in entry.outputs:
            _, digest = received.get(paths[output.open_name], (b"", ""))
            if output.missing or output.damaged:
                reason = f"The project has lost the output {output.open_name} of {entry.name}."
                self._record(position, Damaged(reason))
                return True
            if not digest or output.sha256 not in {None, digest}:
                return False
        contents = {
            name: self._place(entry.name, path, received[path][0]) for name, path in paths.items()
        }
        self._record(position, contents.popitem()[1] if len(contents) == 1 else contents)
        return True

    def _place(self, workunit: str, path: str, content: bytes | Path) -> bytes | Path:
        """Move a received file to its final name, and return its path; return bytes unchanged."""
        if self._into is None or isinstance(content, bytes):
            return content
        target = self._into.joinpath(workunit_name(workunit), *parts_of(path))
        target.parent.mkdir(parents=True, exist_ok=True)
        return content.replace(target)


def _receive(member: archive.Member, folder: str | None) -> tuple[bytes | Path, str]:
    """Return the content of a file, or its temporary path in `folder`, and its SHA-256."""
    if folder is None:
        content = member.content.read()
        return content, hashlib.sha256(content).hexdigest()
    digest = hashlib.sha256()
    with tempfile.NamedTemporaryFile(dir=folder, delete=False) as file:
        while chunk := member.content.read(_CHUNK_BYTES):
            digest.update(chunk)
            file.write(chunk)
    return Path(file.name), digest.hexdigest()


def _is_cancelled(counts: Mapping[str, object]) -> bool:
    """Return False if the workunit was already finished, so that its answer is still collected."""
    return not counts.get("finished")


def _settle(future: WorkunitFuture, answer: Answer | BaseException | None) -> None:
    with suppress(InvalidStateError):
        if isinstance(answer, CancelledError):
            Future.cancel(future)
        elif isinstance(answer, BaseException):
            future.set_exception(answer)
        elif answer is not None:
            future.set_result(answer)


def as_completed(
    futures: Iterable[WorkunitFuture], timeout: float | None = None
) -> Iterator[WorkunitFuture]:
    """Yield the futures in the order in which they are done.

    Raises TimeoutError if futures are still pending after `timeout` seconds.
    """
    if isinstance(futures, Futures):
        return futures.completed(timeout)
    completed = concurrent.futures.as_completed(futures, timeout)
    return (future for future in completed if isinstance(future, WorkunitFuture))


def wait(
    futures: Iterable[WorkunitFuture],
    timeout: float | None = None,
    return_when: str = concurrent.futures.ALL_COMPLETED,
) -> tuple[set[WorkunitFuture], set[WorkunitFuture]]:
    """Wait as `concurrent.futures.wait` does; return the done and the pending futures."""
    done, pending = concurrent.futures.wait(futures, timeout, return_when)
    return cast("set[WorkunitFuture]", done), cast("set[WorkunitFuture]", pending)
