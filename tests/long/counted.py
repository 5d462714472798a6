"""Assimilators of the long tests, which count their calls by idempotency key."""

from __future__ import annotations

from collections import Counter

from django.db import connection

#: Number of calls of `remember` by key, and the keys by workunit.
handed_over = Counter()
said = {}
#: Exceptions that the next calls raise, one each.
refusals = []


class NoRoom(Exception):
    """Raised by the assimilators here, as failing science code would."""


def create():
    """Create the table `sink`; without a unique key, so that duplicate calls can be counted."""
    with connection.cursor() as cursor:
        cursor.execute("CREATE TABLE IF NOT EXISTS sink (key text, workunit text, answer text)")


def forget():
    handed_over.clear()
    said.clear()
    refusals.clear()


def told():
    """Return the calls in this process, for `learn` in another process."""
    return {name: (set(keys), {k: handed_over[k] for k in keys}) for name, keys in said.items()}


def learn(answers):
    for name, (keys, times) in answers.items():
        said.setdefault(name, set()).update(keys)
        handed_over.update(times)


def write_a_row(assimilation):
    """Insert a row in the server's database: transactional, thus called exactly once."""
    if refusals:
        raise refusals.pop()
    with connection.cursor() as cursor:
        cursor.execute(
            "INSERT INTO sink (key, workunit, answer) VALUES (%s, %s, %s)",
            [assimilation.key, assimilation.workunit_name, _answer(assimilation)],
        )


write_a_row.transactional = True


def remember(assimilation):
    """Count the call in memory: at least once, always with the same key."""
    if refusals:
        raise refusals.pop()
    handed_over[assimilation.key] += 1
    said.setdefault(assimilation.workunit_name, set()).add(assimilation.key)


def rows():
    """Return the number of rows of the table `sink` by workunit name."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT workunit, count(*) FROM sink GROUP BY workunit")
        return dict(cursor.fetchall())


def _answer(assimilation):
    return "failed" if assimilation.failed else str(assimilation.canonical_result_name)
