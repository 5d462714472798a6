"""Sinks of the long tests; each counts the answers by key."""

from __future__ import annotations

from collections import Counter

from django.db import connection

#: Number of calls of `remember` by key, and the keys by workunit.
handed_over = Counter()
said = {}
#: How many of the next answers are refused.
refusals = []


class NoRoom(Exception):
    """The sink refuses, as failing science code does."""


def create():
    """Make the table of answers: without a unique key, so that a second one is seen."""
    with connection.cursor() as cursor:
        cursor.execute("CREATE TABLE IF NOT EXISTS sink (key text, workunit text, answer text)")


def forget():
    handed_over.clear()
    said.clear()
    refusals.clear()


def told():
    """The calls of this process, in the form that `learn` takes in another."""
    return {name: (set(keys), {k: handed_over[k] for k in keys}) for name, keys in said.items()}


def learn(answers):
    for name, (keys, times) in answers.items():
        said.setdefault(name, set()).update(keys)
        handed_over.update(times)


def write_a_row(assimilation):
    """Write to our own database: exactly once is promised here."""
    if refusals:
        raise refusals.pop()
    with connection.cursor() as cursor:
        cursor.execute(
            "INSERT INTO sink (key, workunit, answer) VALUES (%s, %s, %s)",
            [assimilation.key, assimilation.workunit_name, _answer(assimilation)],
        )


write_a_row.transactional = True


def remember(assimilation):
    """Keep it outside the database: at least once, always with the same key."""
    if refusals:
        raise refusals.pop()
    handed_over[assimilation.key] += 1
    said.setdefault(assimilation.workunit_name, set()).add(assimilation.key)


def rows():
    """How often each workunit was written to the table, by name."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT workunit, count(*) FROM sink GROUP BY workunit")
        return dict(cursor.fetchall())


def _answer(assimilation):
    return "failed" if assimilation.failed else str(assimilation.canonical_result_name)
