"""Runs science code in a process of its own, which may hang or crash as it likes.

Each daemon process has at most one worker.  It starts with the first call, serves many, and is
replaced after a hang, a crash, or `MAX_CALLS` calls, so that what leaks is given back.  It leads a
process group of its own, which is killed as a whole, and it ends with its daemon.
"""

from __future__ import annotations

import atexit
import os
import pickle
import signal
import socket
import subprocess
import sys
import tempfile
import threading
from contextlib import suppress
from datetime import timedelta
from select import select
from time import monotonic, sleep
from typing import IO, Any

from daemons.science.interfaces import TransientScienceError
from daemons.science.worker_main import LENGTH, packed

#: After so many calls a worker is replaced.
MAX_CALLS = 500
#: How long a worker may take to start; seconds.  No science runs meanwhile.
START_LIMIT = 60.0
#: How often the worker's life is looked at while it is silent, and how long a dying one may take
#: to write down where it was; seconds.
_LOOK_EVERY, _LAST_WORDS = 0.05, 0.3
_MAX_TRACE = 20_000


class ScienceFailed(Exception):
    """Science code did not do its work; `traceback` says where it was, as far as is known."""

    def __init__(self, sentence: str, traceback: str = "") -> None:
        super().__init__(sentence)
        self.traceback = traceback or sentence


class ScienceTimedOut(ScienceFailed):
    """It did not answer within its time limit and was killed."""


class ScienceCrashed(ScienceFailed):
    """Its process ended before it answered: a signal, or an exit status."""


class ScienceRaised(ScienceFailed):
    """It raised; the sentence is the exception's last line."""


def call(target: str, *args: Any, time_limit: timedelta) -> Any:  # noqa: ANN401 - whatever it returns
    """Run ``package.module:function`` with these arguments in the worker; return what it returns.

    Arguments and answer are pickled.  Raises `ScienceTimedOut`, `ScienceCrashed`, `ScienceRaised`
    (all `ScienceFailed`), or the `TransientScienceError` that the science raised.  The time to
    start a worker does not count.
    """
    request = packed((target, args))
    with _lock:
        worker = _ready_worker()
        answer = worker.ask(target, request, time_limit.total_seconds())
        if worker.calls >= MAX_CALLS:
            _stop()
    kind, *content = answer
    if kind == "value":
        return content[0]
    if kind == "transient":
        error = TransientScienceError(content[0])
        error.add_note(content[1])
        raise error
    raise ScienceRaised(*content)


def stop() -> None:
    """End this process's worker, if there is one; the next call starts another."""
    with _lock:
        _stop()


def _stop() -> None:
    """End the worker while the caller holds the lock."""
    if _own:
        _own.pop().end()


class _Worker:
    """One worker process and our end of its channel."""

    def __init__(self) -> None:
        self.owner = os.getpid()
        self.calls = 0
        self.channel, theirs = socket.socketpair()
        self._traces: IO[bytes] = tempfile.TemporaryFile()  # noqa: SIM115 - end() closes it
        numbers = (theirs.fileno(), self._traces.fileno())
        with theirs:
            self.process = subprocess.Popen(  # noqa: S603 - our own command line
                [sys.executable, "-m", "daemons.science.worker_main", *map(str, numbers)],
                stdin=subprocess.DEVNULL,
                # What the science prints is for the operator's log, never for the channel.
                stdout=2,
                env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
                pass_fds=numbers,
                start_new_session=True,
            )
        self._receive("the start of a worker", monotonic() + START_LIMIT)

    def ask(self, target: str, request: bytes, seconds: float) -> tuple[Any, ...]:
        """Send a request and return the answer; the worker is gone if this raises."""
        self.calls += 1
        deadline = monotonic() + seconds
        try:
            self._send(request, deadline)
            return self._receive(target, deadline)
        except TimeoutError:
            where = self._last_words()
            _stop()
            sentence = f"{target} did not answer within {seconds:g} s and was killed."
            raise ScienceTimedOut(sentence, f"{sentence}\n{where}") from None
        except OSError:
            raise self._crashed(target) from None
        except BaseException:
            # Interrupted half way: the answer to this request must not be taken for the next one's.
            _stop()
            raise

    def end(self) -> None:
        """Kill the whole process group and forget it; twice is fine."""
        if self._traces.closed:
            return
        self.channel.close()
        self._traces.close()
        if self.owner != os.getpid():
            # A copy made by fork: the process belongs to our parent.
            self.process.returncode = 0
            return
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()

    def is_usable(self) -> bool:
        """Whether it is ours and lives."""
        return self.owner == os.getpid() and self.process.poll() is None

    def _send(self, request: bytes, deadline: float) -> None:
        self.channel.settimeout(max(0.001, deadline - monotonic()))
        self.channel.sendall(request)

    def _receive(self, target: str, deadline: float) -> tuple[Any, ...]:
        head = self._read(LENGTH, target, deadline)
        data = self._read(int.from_bytes(head, "big"), target, deadline)
        try:
            # Written by our own worker, whose science the operator has chosen to run.
            answer: tuple[Any, ...] = pickle.loads(data)  # noqa: S301
        except Exception as error:
            raise ScienceRaised(f"The answer of {target} cannot be unpickled: {error!r}") from error
        return answer

    def _read(self, count: int, target: str, deadline: float) -> bytes:
        data = bytearray()
        while len(data) < count:
            self._wait_for_bytes(target, deadline)
            part = self.channel.recv(min(count - len(data), 1 << 20))
            if not part:
                raise self._crashed(target)
            data += part
        return bytes(data)

    def _wait_for_bytes(self, target: str, deadline: float) -> None:
        # A child that the science forked may keep the channel open: watch the worker, too.
        while True:
            left = deadline - monotonic()
            if left <= 0:
                raise TimeoutError
            has_ended = self.process.poll() is not None
            if select([self.channel], [], [], 0 if has_ended else min(left, _LOOK_EVERY))[0]:
                return
            if has_ended:
                raise self._crashed(target)

    def _crashed(self, target: str) -> ScienceCrashed:
        with suppress(subprocess.TimeoutExpired):
            self.process.wait(_LAST_WORDS)
        code = self.process.poll()
        how = "closed its channel" if code is None else _status(code)
        where = self._read_traces()
        _own.clear()
        self.end()
        sentence = f"{target} crashed its process: {how}."
        return ScienceCrashed(sentence, f"{sentence}\n{where}")

    def _last_words(self) -> str:
        """Where a hanging worker is, by its own account."""
        with suppress(ProcessLookupError):
            self.process.send_signal(signal.SIGUSR1)
        before, deadline = -1, monotonic() + _LAST_WORDS
        while (
            monotonic() < deadline and (size := os.fstat(self._traces.fileno()).st_size) != before
        ):
            before = size or -1
            sleep(0.02)
        return self._read_traces()

    def _read_traces(self) -> str:
        if self._traces.closed:
            return ""
        self._traces.seek(0)
        return self._traces.read(_MAX_TRACE).decode(errors="replace")


def _ready_worker() -> _Worker:
    if _own and not _own[0].is_usable():
        _stop()
    if not _own:
        _own.append(_Worker())
    return _own[0]


def _status(code: int) -> str:
    if code >= 0:
        return f"exit status {code}"
    with suppress(ValueError):
        return signal.Signals(-code).name
    return f"signal {-code}"


#: This process's worker, if it has one.
_own: list[_Worker] = []
_lock = threading.RLock()
atexit.register(stop)
