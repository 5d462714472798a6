"""Simulates the death of a process before or after a statement or a commit."""

from __future__ import annotations

from contextlib import contextmanager

from django.db import connection


class ProcessDied(BaseException):
    """The simulated death; not an Exception, so that no handler catches it."""


class Fault:
    """Raises ProcessDied before or after the n-th statement or commit from now on."""

    def __init__(self, number, *, after):
        self._left = number
        self._after = after
        self.has_struck = False
        #: "before" or "after", and the first 60 characters of the statement.
        self.struck_at = ""

    def statement(self, execute, sql, params, many, context):
        """An execute wrapper, see `connection.execute_wrapper`."""
        return self._around(lambda: execute(sql, params, many, context), str(sql)[:60])

    def _around(self, act, what, before=lambda: None):
        strikes = not self.has_struck and self._left == 0
        self._left -= 1
        if strikes and not self._after:
            before()
            self._strike(f"before {what}")
        answer = act()
        if strikes:
            self._strike(f"after {what}")
        return answer

    def _strike(self, at):
        self.has_struck, self.struck_at = True, at
        raise ProcessDied

    @contextmanager
    def at_work(self):
        """Apply the fault in this block; ProcessDied ends the block and its open transaction."""
        commit = connection._commit
        connection._commit = lambda: self._around(commit, "the commit", before=connection._rollback)
        try:
            with connection.execute_wrapper(self.statement):
                yield
        except ProcessDied:
            pass
        finally:
            del connection._commit
            if self.has_struck:
                # PostgreSQL rolls back the open transaction of a lost connection.
                connection.close()
