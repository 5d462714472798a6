"""Processes on connections of their own, stopped before every statement.

A `Worker` is a forked process that receives acts through a pipe, and waits for leave before each
statement.  `interleave` gives leave to one worker at a time, at random; a worker that waits for a
lock is skipped until it has the lock.
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
#: How long anything may take; seconds.
PATIENCE = 60.0
#: How soon PostgreSQL looks for a deadlock, where the product must not have any.
DEADLOCK_TIMEOUT = "100ms"
#: Linux' number of the option by which a child is told of its parent's end.
_DIE_WITH_PARENT = 1


class Stuck(AssertionError):
    """No worker proceeds: a lock is never released."""


@dataclass
class Answer:
    """The result of an act: its return value, or the text of its error."""

    value: object = None
    error: str = ""


@dataclass
class Worker:
    """One process; `play` is given (what, *words) and does it there."""

    play: object
    pid: int = 0
    backend: int = 0
    answer: Answer | None = None
    _pipe: object = None
    _process: object = None
    is_waiting_for_leave: bool = field(default=False, init=False)

    def start(self):
        """Fork; this process' own connection must be closed, or both would speak on it."""
        connections.close_all()
        context = multiprocessing.get_context("fork")
        self._pipe, theirs = context.Pipe()
        self._process = context.Process(target=_live, args=(theirs, self.play), daemon=True)
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
        """Send it an act; it stops before the first statement."""
        self.answer, self.is_waiting_for_leave = None, False
        self._pipe.send(words)

    def go_on(self):
        self.is_waiting_for_leave = False
        self._pipe.send("go")

    def has_stopped(self, seconds):
        """Whether it arrived at its next statement, or at its end, within the time."""
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
    """Run all to their end, one statement at a time; return the order, as letters."""
    order = []
    until = time.monotonic() + PATIENCE
    while any(worker.answer is None for worker in workers):
        for worker in workers:
            while not worker.has_stopped(SOON) and not is_blocked(worker):
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


def is_blocked(worker):
    """Whether its statement waits for a lock that another transaction holds."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT cardinality(pg_blocking_pids(%s))", [worker.backend])
        return cursor.fetchone()[0] > 0


# In the worker's process


def _live(pipe, play):
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    # A killed test leaves no worker behind that waits on a pipe which siblings hold open.
    ctypes.CDLL(None).prctl(_DIE_WITH_PARENT, signal.SIGKILL)
    logging.disable(logging.CRITICAL)
    connection.connect()
    with connection.cursor() as cursor:
        cursor.execute(f"SET deadlock_timeout TO '{DEADLOCK_TIMEOUT}'")
        cursor.execute("SELECT pg_backend_pid()")
        backend = cursor.fetchone()[0]
    pipe.send(("ready", backend))

    def stop_before(execute, *args):
        ask_leave(pipe)
        return execute(*args)

    commit = connection._commit
    connection._commit = lambda: stop_before(commit)
    with connection.execute_wrapper(stop_before):
        while (words := pipe.recv()) is not None:
            pipe.send(("through", _act(play, words, pipe)))


def _act(play, words, pipe):
    try:
        return Answer(value=play(*words, lambda *_seconds: ask_leave(pipe)))
    except Exception as error:  # noqa: BLE001  returned in the answer
        where = traceback.extract_tb(error.__traceback__)[-1]
        said = " ".join(f"{type(error).__name__}: {error}".split())
        return Answer(error=f"{said} ({where.filename}:{where.lineno})")


def ask_leave(pipe):
    pipe.send(("before",))
    assert pipe.recv() == "go"
