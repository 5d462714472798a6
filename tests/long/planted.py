"""Plants known bugs, one at a time, and runs the random test that must fail.

`make test-planted` prints for each bug which test failed, and after how many seconds.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace

from tests.mutate.switching import Both, Code, Sql, Switch

ROOT = Path(__file__).resolve().parents[2]
VARIABLE = "PLANTED_BUG"
#: Seconds within which a test must fail.
LONGEST = 300.0
WALKS = "tests/long/test_walks.py::test_thirty_random_walks_keep_every_invariant"
INTERLEAVINGS = (
    "tests/long/test_interleavings.py::test_hundred_interleavings_of_statements_lose_no_work"
)
GRAPHS = "tests/long/test_graph_walks.py::test_graph_walks_in_several_processes"
_ABOVE = "above.queue_id = capped.queue_id AND above.number > capped.max_in_progress"
_COUNTS = re.compile(r"^in all: (.*)$", re.MULTILINE)
_SECONDS = re.compile(r"\| (\d+) s$", re.MULTILINE)
_SAID = re.compile(r"^E +(.+)$", re.MULTILINE)


def _hand_over_first(_original):
    """Return an assimilator that settles outside of the transaction of the science code."""
    from daemons import assimilator
    from scheduler import storage

    def forgetful(assimilate, row, batch):
        written = assimilator._call(assimilate, row)
        storage.sync_results(written)
        batch.counts["assimilated"] += assimilator._settle([row], now=batch.now)

    return forgetful


def _delete_last(original):
    """Return a function that writes the verdicts, then deletes all wake-ups of the workunits."""

    def write(judged, *, now):
        from scheduler.models import WorkunitWakeup

        original(judged, now=now)
        ids = [workunit_id for group in judged for workunit_id in group.workunit_ids]
        WorkunitWakeup.objects.filter(workunit_id__in=ids).delete()

    return write


def _drop_unread(_original):
    """Return a `_drop` that drops all locked workunits, also those that were woken meanwhile."""
    from django.db import transaction

    from scheduler import sql

    def drop(tokens):
        with transaction.atomic():
            params = {"ids": list(tokens), "tokens": list(tokens.values())}
            locked = [row["id"] for row in sql.fetch("lock_archived", params, "daemons.sql")]
            sql.execute("drop_dependencies", {"ids": locked}, "daemons.sql")
            ((dropped,),) = sql.fetch_rows("drop_workunits", {"ids": locked}, "daemons.sql")
            return dropped

    return drop


def _results_first(original):
    """Return a `lock` that locks the results before their workunits."""
    from django.db import connection

    def lock(reported, **options):
        all_of_them = list(reported)
        ids = sorted({one.id for said in all_of_them for one in said.results.values()})
        with connection.cursor() as cursor:
            cursor.execute(
                "SELECT id FROM result WHERE id = ANY(%s::bigint[]) ORDER BY id FOR NO KEY UPDATE",
                [ids],
            )
        return original(all_of_them, **options)

    return lock


def _when_all_are_made(original):
    """Return a rule that detects an unreachable quorum only after all results were created."""

    def is_out_of_results(workunit, counts):
        return counts.total >= workunit.max_total_results and original(workunit, counts)

    return is_out_of_results


def _keep_slots(_original):
    """Return a module `slots` whose `free` does nothing."""
    return SimpleNamespace(free=lambda _result_ids: None)


def _lock_no_slots(_original):
    """Return a `lock` that locks no slots."""
    from scheduler.dispatch.queue_claims import QueueClaims

    return lambda _searches: QueueClaims()


BUGS = (
    Switch(
        "lost wake-up: a report does not wake the transitioner",
        Sql(
            "results/settle_reports",
            "SELECT DISTINCT workunit_id, %(now)s::timestamptz FROM settled",
            "SELECT DISTINCT workunit_id, %(now)s::timestamptz FROM settled WHERE FALSE",
        ),
        (WALKS,),
    ),
    Switch(
        "lost wake-up: a time-out does not wake the transitioner",
        Sql(
            "time_out_results",
            "SELECT DISTINCT workunit_id, %(now)s::timestamptz FROM timed_out",
            "SELECT DISTINCT workunit_id, %(now)s::timestamptz FROM timed_out WHERE FALSE",
            package="daemons.sql",
        ),
        (WALKS,),
    ),
    Switch(
        "lost wake-up: an unreachable quorum is detected too late",
        Code("scheduler.results.rules.replication:_is_out_of_results", made=_when_all_are_made),
        (WALKS,),
    ),
    Switch(
        "double assimilation: a claim ignores the lease of another process",
        Sql(
            "lease_unassimilated",
            "AND (lease_until IS NULL OR lease_until <= %(now)s::timestamptz)",
            package="daemons.sql",
        ),
        (INTERLEAVINGS,),
    ),
    Switch(
        "double assimilation: the science code and the settlement commit separately",
        Code("daemons.assimilator:_assimilate_in_transaction", made=_hand_over_first),
        (WALKS,),
    ),
    Switch(
        "missing lock: the transitioner does not lock workunits",
        Sql("lock_woken_workunits", "FOR NO KEY UPDATE SKIP LOCKED", package="daemons.sql"),
        (INTERLEAVINGS,),
    ),
    Switch(
        "lost wake-up: a pass deletes wake-ups after it has read the results",
        Code("daemons.transitioner:_write_workunits", made=_delete_last),
        (INTERLEAVINGS,),
    ),
    Switch(
        "lost wake-up: a pass deletes wake-ups of workunits that it has skipped",
        Sql("lock_woken_workunits", "WHERE skipped.id IS NULL", package="daemons.sql"),
        (INTERLEAVINGS,),
    ),
    Switch(
        "lost wake-up: the purger drops workunits without reading them again",
        Code("daemons.purger:_drop", made=_drop_unread),
        (INTERLEAVINGS,),
    ),
    Switch(
        "missing lock: a report does not lock its workunits",
        Sql("results/lock_workunits", "FOR NO KEY UPDATE"),
        (INTERLEAVINGS,),
    ),
    Switch(
        "lost wake-up: the end of a workunit does not wake those that wait for it",
        Sql(
            "wake_children",
            "WHERE parent_id = any",
            "WHERE FALSE AND parent_id = any",
            "daemons.sql",
        ),
        (GRAPHS,),
    ),
    Switch(
        "missing lock: dependencies are added without the locks of the workunits",
        Sql("work/lock_linked_workunits", "FOR NO KEY UPDATE OF w", ""),
        (GRAPHS,),
    ),
    Switch(
        "missing lock: two changes of dependencies at once close a cycle",
        Code("scheduler.work.dependencies:lock_graph", lambda _owner: None),
        (GRAPHS,),
    ),
    Switch(
        "lost slot: a result that times out does not free its slot",
        Code("daemons.timeout_checker:slots", made=_keep_slots),
        (WALKS,),
    ),
    Switch(
        "lost list: a list is not closed when all members are over",
        Sql(
            "work/settle_bundles",
            "AND b.state <> {{BundleState.CLOSED}}",
            "AND settled.state <> {{BundleState.CLOSED}}",
        ),
        (WALKS,),
    ),
    Switch(
        "broken limit: a claim takes no slots",
        Code("scheduler.dispatch.queue_claims:lock", made=_lock_no_slots),
        (WALKS,),
    ),
    Switch(
        "broken limit: a claim takes free slots while slots above a lowered limit are in use",
        Both(
            Sql("queues/read_free_slots", _ABOVE, f"{_ABOVE} AND FALSE"),
            Sql("queues/lock_slots", _ABOVE, f"{_ABOVE} AND FALSE"),
        ),
        (INTERLEAVINGS,),
    ),
    Switch(
        "broken limit: a claim ignores a change of the queue after its judgement",
        Sql("dispatch/claim_results", "AND q.xmin::text::bigint = chosen.queue_version"),
        (INTERLEAVINGS,),
    ),
    Switch(
        "wrong lock order: a report locks its results before their workunits",
        Code("scheduler.results.report:lock", made=_results_first),
        (INTERLEAVINGS,),
    ),
    Switch(
        "late work: results sent in one request are not added to the queue",
        Code("scheduler.dispatch.rules.selection:_devices", lambda _host, _device: float("inf")),
        (WALKS,),
    ),
    Switch(
        "late work: the number of threads of a version is ignored",
        Code("scheduler.dispatch.rules.selection:_used", lambda _version, _device: 1.0),
        (WALKS,),
    ),
    Switch(
        "late work: the active fraction of a host is ignored",
        Code("scheduler.dispatch.rules.estimates:active_fraction", lambda _host: 1.0),
        (WALKS,),
    ),
    Switch(
        "late work: the queue is ignored",
        Code("scheduler.dispatch.rules.fit:Judge._late", lambda *_facts: None),
        (WALKS,),
    ),
)


@dataclass(frozen=True, slots=True)
class Found:
    """The result for a planted bug; `by` is empty if no test failed."""

    bug: str
    by: str = ""
    tried: str = ""
    seconds: float = 0.0
    said: str = ""


def look_for(switch, *, longest=LONGEST):
    """Plant a bug in a new pytest process and run its random test until it fails."""
    began = time.monotonic()
    (test,) = switch.tests
    words = ["-x", "-q", "--no-header", "--tb=short", "-p", "no:cacheprovider", "-p", "no:randomly"]
    environment = {VARIABLE: switch.rule, "LONG_SHRINK_SECONDS": "0.001", "LONG_SEED": ""}
    tries = {"LONG_WALKS": "2000", "LONG_INTERLEAVINGS": "5000"}
    try:
        done = subprocess.run(
            [sys.executable, "-m", "pytest", *words, "-p", "tests.long.planting", test],
            cwd=ROOT,
            env={**os.environ, **tries, **environment},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
            timeout=longest,
        )
    except subprocess.TimeoutExpired:
        return Found(switch.rule, said=f"No test failed in {longest:.0f} s.")
    counts, lines = _COUNTS.search(done.stdout), _SAID.findall(done.stdout)
    if done.returncode != 1 or counts is None:
        return Found(switch.rule, said=done.stdout[-1500:] + done.stderr[-1500:])
    own = _SECONDS.search(done.stdout)
    return Found(
        switch.rule,
        by=test.rpartition("::")[2],
        tried=counts[1],
        seconds=float(own[1]) if own else time.monotonic() - began,
        said=next((line for line in lines if "Error" in line), ""),
    )


def main():
    """Plant each bug; return 0 if a test failed for each, else 1."""
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "project.settings")
    missed = 0
    for switch in BUGS:
        found = look_for(switch)
        missed += not found.by
        by = f"found by {found.by}" if found.by else "NOT FOUND"
        print(f"{found.bug}\n  {by} after {found.seconds:.0f} s: {found.tried}\n  {found.said}\n")
    print(f"{len(BUGS)} bugs planted, {missed} not found.")
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
