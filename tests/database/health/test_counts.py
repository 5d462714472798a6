"""Counts of work are exact, at most a minute old, and include purged work."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from daemons import purger
from scheduler.boinc_submission import submission_reads
from scheduler.health import counts, status, totals
from scheduler.lifecycle import AssimilateState, FileDeleteState
from scheduler.models import Batch, Workunit
from scheduler.work import batch_reads
from scheduler.work.progress import progress_of
from tests.conftest import NOON
from tests.database.passes import a_pass
from tests.rows import a_result, a_workunit, an_account, an_app, hours, settled, update
from tests.scientists import a_batch

pytestmark = pytest.mark.django_db


@pytest.fixture
def big_tables(monkeypatch):
    """Count small tables by the method for large tables."""
    monkeypatch.setattr(counts, "SMALL_NBYTES", -1)


def seen(now=NOON):
    """Return the current status, read with an empty cache."""
    status.forget_own()
    return status.current(now=now)


def values(found):
    return {name: count.value for name, count in found.items() if count.value}


# Large tables


def test_large_tables_are_counted_exactly(big_tables):
    app = an_app()
    for _ in range(3):
        a_workunit(app)
    with connection.cursor() as cursor:
        cursor.execute("ANALYZE workunit, result")
    cancelled = Workunit.objects.order_by("id")[:2]
    for workunit in cancelled:
        settled(workunit, assimilate_state=AssimilateState.DONE)
    assert values(seen().workunits) == {"in_progress": 1, "waiting_for_deletion": 2, "failed": 2}


def test_counts_of_large_tables_are_at_most_a_minute_old(big_tables):
    app = an_app()
    workunits = [a_workunit(app) for _ in range(3)]
    assert values(seen().workunits) == {"in_progress": 3}
    for workunit in workunits:
        settled(workunit, assimilate_state=AssimilateState.DONE)
    after = seen(NOON + counts.MAX_AGE)
    assert values(after.workunits) == {"waiting_for_deletion": 3, "failed": 3}
    assert after.read_at == NOON + counts.MAX_AGE


def test_resources_of_results_are_read_with_the_cached_counts(big_tables, monkeypatch):
    """Requests for statistics must not scan the results."""
    monkeypatch.setattr(counts, "NBYTES_PER_SECOND", 1)
    app = an_app()
    a_result(a_workunit(app), "success", cpu_time=40.0, elapsed_time=50.0)
    expected = {app.name: counts.Resources(1, 50.0, 40.0, 50.0, 50.0, 0.0)}
    assert counts.current(now=NOON).resources == expected
    a_result(a_workunit(app), "success", cpu_time=40.0, elapsed_time=50.0)
    with CaptureQueriesContext(connection) as captured:
        assert counts.current(now=NOON + timedelta(seconds=20)).resources == expected
    assert len(captured) == 1


def test_processes_share_the_stored_counts_of_large_tables(big_tables, monkeypatch):
    monkeypatch.setattr(counts, "NBYTES_PER_SECOND", 1)
    a_workunit()
    first = seen()
    a_workunit()
    with CaptureQueriesContext(connection) as captured:
        again = seen(NOON + timedelta(seconds=20))
    assert values(again.workunits) == values(first.workunits)
    assert (again.read_at, again.workunits["in_progress"].exact) == (NOON, False)
    assert not any(
        "GROUP BY workunit.app_id" in query["sql"] for query in captured.captured_queries
    )


def test_stored_counts_are_returned_while_another_process_refreshes_them(big_tables, monkeypatch):
    monkeypatch.setattr(counts, "try_lock", lambda: False)
    a_workunit()
    counts.store(counts.count(now=NOON, nbytes=0))
    a_workunit()
    assert values(seen(NOON + timedelta(seconds=50)).workunits) == {"in_progress": 1}


def test_small_tables_are_counted_on_every_read(monkeypatch):
    a_workunit()
    assert values(seen().workunits) == {"in_progress": 1}
    a_workunit()
    assert values(seen().workunits) == {"in_progress": 2}


def test_rows_waiting_for_a_daemon_are_counted_exactly():
    app = an_app()
    for _ in range(4):
        a_workunit(app)
    waiting = {one.daemon: one for one in seen().stations}
    assert waiting["transitioner"].waiting.label == "4"


def test_counting_uses_a_constant_number_of_statements(big_tables):
    numbers = []
    for _ in range(2):
        for _ in range(5):
            a_result(a_workunit())
        with CaptureQueriesContext(connection) as captured:
            seen(NOON + len(numbers) * counts.MAX_AGE)
        numbers.append(len(captured))
    assert numbers[0] == numbers[1]


# Purged work


def purgeable(app, batch=None, *, done=True, credit=7):
    workunit = a_workunit(app, batch=batch, transition_at=None, rsc_fpops_est=1e12)
    word, fields = ("valid", {"granted_credit": credit}) if done else ("error", {})
    result = a_result(workunit, word, file_delete_state=FileDeleteState.DONE, **fields)
    if done:
        update(workunit, canonical_credit=credit)
    return settled(
        workunit,
        result if done else None,
        assimilate_state=AssimilateState.DONE,
        file_delete_state=FileDeleteState.DONE,
    )


def purge():
    a_pass(purger, now=hours(10_000))
    assert not Workunit.objects.exists()


def counted(found):
    """Return totals without what results used."""
    apps = tuple(replace(app, resources=counts.Resources()) for app in found.apps)
    return replace(found, apps=apps, resources=counts.Resources())


def test_purged_workunits_stay_in_the_totals_of_the_project_and_its_apps():
    primes, other = an_app("primes"), an_app("other")
    for app, done in ((primes, True), (primes, False), (other, True)):
        purgeable(app, done=done)
    before = seen(), totals.current(now=NOON)
    assert values(before[0].outcomes) == {"success": 2, "client_error": 1}
    purge()
    after = seen(), totals.current(now=NOON)
    assert after[0].workunits == before[0].workunits
    assert (after[0].results, after[0].outcomes) == (before[0].results, before[0].outcomes)
    assert counted(after[1]) == counted(before[1])
    # The times and the memory are those of results that were not purged.
    assert before[1].resources.peak_memory_bytes == 0
    assert after[1].resources == counts.Resources()
    assert {one.name: (one.workunits_done, one.workunits_failed) for one in after[1].apps} == {
        "other": (1, 0),
        "primes": (1, 1),
    }
    purger_line = {one.daemon: one for one in after[0].stations}["purger"]
    assert purger_line.waiting.value == 0


def test_purged_workunits_stay_in_the_counts_of_their_batch():
    eve, app = an_account("eve"), an_app()
    batch = a_batch("mine", eve, app=app)
    purgeable(app, batch)
    purgeable(app, batch, done=False)
    before = batch_reads.line(batch.pk), batch_reads.results_of(batch.pk)
    assert (before[0].workunits, before[0].answered, before[0].failed) == (2, 1, 1)
    purge()
    after = batch_reads.line(batch.pk), batch_reads.results_of(batch.pk)
    assert (replace(after[0], unpurged=2), after[1]) == before
    assert after[0].unpurged == 0


def test_purged_workunits_stay_in_the_batch_data_of_the_boinc_submission_api():
    eve, app = an_account("eve"), an_app()
    batch = a_batch("mine", eve, app=app)
    purgeable(app, batch)
    purgeable(app, batch, done=False)
    before = submission_reads.batch(eve, batch.pk, with_cpu_time=True)
    assert (before.total, before.credit, before.fpops) == (2, 7, 2e12)
    purge()
    after = submission_reads.batch(eve, batch.pk, with_cpu_time=True)
    assert replace(after, last_finished_at=before.last_finished_at) == before


def test_all_batch_counts_omit_workunits_that_were_retried():
    eve, app = an_account("eve"), an_app()
    batch = a_batch("mine", eve, app=app)
    failed = purgeable(app, batch, done=False)
    update(failed, retried_as=a_workunit(app, batch=batch).pk)
    progress = progress_of([batch], now=NOON)[batch.pk]
    assert (progress.total, progress.failed) == (1, 0)
    line = batch_reads.line(batch.pk)
    assert (line.workunits, line.failed) == (1, 0)
    remote = submission_reads.batch(eve, batch.pk, with_cpu_time=False)
    assert (remote.total, remote.failed) == (1, 0)


def test_counts_of_several_purges_add_up():
    app = an_app()
    for _ in range(2):
        for done in (True, False):
            purgeable(app, a_batch(f"b{Batch.objects.count()}", an_account(), app=app), done=done)
        purge()
    assert values(seen().workunits) == {"finished": 4, "failed": 2}
