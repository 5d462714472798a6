"""Worker processes with own connections, which can stop before every statement.

A `Worker` is a forked process that receives acts through a pipe.  If it is stepped, it waits for
permission before each statement.  `interleave` lets one worker proceed at a time, at random; a
worker that waits for a lock is skipped until it has the lock.
"""

from __future__ import annotations

import contextlib
import ctypes
import logging
import multiprocessing
import signal
import time
import traceback
from dataclasses import dataclass, field

from django.db import connection, connections

#: Seconds that a statement may take before it is checked for a lock wait.
SOON = 0.004
#: Seconds after which a wait fails.
PATIENCE = 60.0
#: PostgreSQL's `deadlock_timeout`: short, because a deadlock is a bug here.
DEADLOCK_TIMEOUT = "100ms"
#: PR_SET_PDEATHSIG of prctl(2): the child gets a signal when its parent ends.
_DIE_WITH_PARENT = 1


class Stuck(AssertionError):
    """No worker proceeds, for example because a lock is never released."""


@dataclass
class Answer:
    """The result of an act: its return value, or the text of its error."""

    value: object = None
    error: str = ""


@dataclass
class Worker:
    """A worker process; it calls `play(*words, take_turn)` for the words passed to `begin`."""

    play: object
    is_stepped: bool = True
    pid: int = 0
    backend: int = 0
    answer: Answer | None = None
    _pipe: object = None
    _process: object = None
    is_waiting_for_leave: bool = field(default=False, init=False)

    def start(self):
        """Fork the process; closes this process's connections, which must not be shared."""
        connections.close_all()
        context = multiprocessing.get_context("fork")
        self._pipe, theirs = context.Pipe()
        args = (theirs, self.play, self.is_stepped)
        self._process = context.Process(target=_live, args=args, daemon=True)
        self._process.start()
        theirs.close()
        self.pid = self._process.pid
        self.backend = self._receive()[1]

    def stop(self):
        with contextlib.suppress(OSError):
            self._pipe.send(None)
        self._process.join(5)
        if self._process.is_alive():
            self._process.kill()

    def begin(self, *words):
        """Send an act to the process; a stepped one stops before the first statement."""
        self.answer, self.is_waiting_for_leave = None, False
        self._pipe.send(words)

    def go_on(self):
        self.is_waiting_for_leave = False
        self._pipe.send("go")

    def has_stopped(self, seconds):
        """Return whether the process reached its next statement, or its end, within `seconds`."""
        if self.answer is not None or self.is_waiting_for_leave:
            return True
        if not self._pipe.poll(seconds):
            return False
        said = self._receive()
        if said[0] == "before":
            self.is_waiting_for_leave = True
        else:
            self.answer = said[1]
        return True

    def _receive(self):
        if not self._pipe.poll(PATIENCE):
            raise Stuck("A worker does not answer.")
        return self._pipe.recv()


def interleave(workers, chance):
    """Run all acts to their end, one statement at a time.

    Returns the order of the steps as letters: "a" for the first worker.
    """
    order = []
    until = time.monotonic() + PATIENCE
    while any(worker.answer is None for worker in workers):
        for worker in workers:
            while not worker.has_stopped(SOON) and not is_blocked(worker, workers):
                if time.monotonic() > until:
                    raise Stuck(f"No worker proceeds after {''.join(order)}.")
        ready = [i for i, worker in enumerate(workers) if worker.is_waiting_for_leave]
        if ready:
            chosen = chance.choice(ready)
            order.append("abcdef"[chosen])
            workers[chosen].go_on()
        elif time.monotonic() > until:
            raise Stuck(f"All workers wait for a lock after {''.join(order)}.")
    return "".join(order)


def is_blocked(worker, workers):
    """Return whether the worker waits for a lock that one of these workers holds.

    A lock of any other process, for example of autovacuum while it truncates a table, is released
    without an act of a worker: a worker that waits for it proceeds.
    """
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT pg_blocking_pids(%s) && %s::integer[]",
            [worker.backend, [one.backend for one in workers]],
        )
        return cursor.fetchone()[0]


# In the worker's process


def _live(pipe, play, is_stepped):
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    # If the test is killed, siblings hold the pipe open, and the worker would wait forever.
    ctypes.CDLL(None).prctl(_DIE_WITH_PARENT, signal.SIGKILL)
    logging.disable(logging.CRITICAL)
    connection.connect()
    with connection.cursor() as cursor:
        cursor.execute(f"SET deadlock_timeout TO '{DEADLOCK_TIMEOUT}'")
        cursor.execute("SELECT pg_backend_pid()")
        backend = cursor.fetchone()[0]
    pipe.send(("ready", backend))
    if not is_stepped:
        _serve(pipe, play, lambda *_seconds: None)
        return

    def stop_before(execute, *args):
        ask_leave(pipe)
        return execute(*args)

    commit = connection._commit
    connection._commit = lambda: stop_before(commit)
    with connection.execute_wrapper(stop_before):
        _serve(pipe, play, lambda *_seconds: ask_leave(pipe))


def _serve(pipe, play, take_turn):
    while (words := pipe.recv()) is not None:
        pipe.send(("through", _act(play, words, take_turn)))


def _act(play, words, take_turn):
    try:
        return Answer(value=play(*words, take_turn))
    except Exception as error:  # noqa: BLE001  returned in the answer
        where = traceback.extract_tb(error.__traceback__)[-1]
        said = " ".join(f"{type(error).__name__}: {error}".split())
        return Answer(error=f"{said} ({where.filename}:{where.lineno})")


def ask_leave(pipe):
    pipe.send(("before",))
    assert pipe.recv() == "go"
