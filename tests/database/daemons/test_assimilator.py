"""The assimilator hands finished workunits to the app's science code."""

from __future__ import annotations

import errno
import json
from datetime import timedelta

import pytest
from django.db import OperationalError

from daemons import assimilator, poison
from daemons.science import assimilators
from daemons.science.interfaces import Defer, TransientScienceError
from scheduler import storage
from scheduler.models import ScienceFailure, Team, Workunit
from tests import rows
from tests.database import sinks
from tests.database.passes import a_pass, moves, statements_of

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("targets_allowed")]


@pytest.fixture(autouse=True)
def kinds_of_ours(monkeypatch):
    """Register the tests' assimilators, which run in this process."""
    for name, sink in (("remember", sinks.remember), ("fail", sinks.fail), ("ask", sinks.ask)):
        monkeypatch.setitem(assimilators.KINDS, name, lambda *_, sink=sink: sink)
    assimilators._find.cache_clear()
    yield
    assimilators._find.cache_clear()


@pytest.fixture(autouse=True)
def empty_sinks():
    sinks.handed_over.clear()
    sinks.before_returning.clear()
    sinks.answers.clear()
    yield
    sinks.handed_over.clear()
    sinks.before_returning.clear()


def finished(app=None, *, data=b"answer", **fields):
    """Create a workunit with a canonical result, ready to be assimilated."""
    workunit = rows.a_workunit(app, transition_at=None, **fields)
    canonical = rows.a_result(workunit, "valid", output=data, uploaded=True)
    return rows.settled(workunit, canonical, assimilate_state=1)


def failed(app=None, **fields):
    """Create a cancelled workunit, ready to be assimilated."""
    return rows.settled(rows.a_workunit(app, transition_at=None, **fields), assimilate_state=1)


def remembering(**fields):
    return rows.an_app(assimilator="remember", **fields)


def test_canonical_output_is_copied_to_a_folder_named_after_the_workunit(settings):
    workunit = finished(rows.an_app("sums"), name="wu_7")
    assert a_pass(assimilator).sentence() == "1 workunit: 1 assimilated"
    assert (settings.VAR_DIR / "results/sums/wu_7/out").read_bytes() == b"answer"
    workunit.refresh_from_db()
    assert workunit.assimilate_state == 2
    assert workunit.finished_at == rows.due_at(workunit) == rows.hours(0)
    assert workunit.lease_until is None
    assert moves(workunit) == ["assimilation: READY→DONE"]


def test_a_failed_workunit_gets_a_file_with_its_errors(settings):
    failed(rows.an_app("sums"), name="wu_8", cancel_reason="wrong input")
    a_pass(assimilator)
    reason = json.loads((settings.VAR_DIR / "results/sums/wu_8/FAILED.json").read_text())
    assert reason == {"workunit": "wu_8", "errors": ["CANCELLED"], "cancel_reason": "wrong input"}


def test_pass_without_ready_workunits_does_nothing():
    rows.a_workunit()
    assert a_pass(assimilator).sentence() == "nothing to do"


def test_a_function_gets_all_facts_of_the_workunit():
    workunit = finished(remembering(name="told"), meta={"range": 7})
    a_pass(assimilator)
    (told,) = sinks.handed_over
    assert told.key == f"Manyhands/{workunit.pk}"
    assert (told.app, told.workunit_name, told.meta) == ("told", workunit.name, {"range": 7})
    assert [(o.open_name, o.path.read_bytes()) for o in told.outputs] == [("out", b"answer")]
    assert not told.failed
    workunit.refresh_from_db()
    assert workunit.assimilate_state == 2


@pytest.mark.django_db(transaction=True)
def test_no_transaction_is_open_while_science_code_runs():
    from django.db import connection

    open_ = []
    sinks.before_returning.append(lambda: open_.append(connection.in_atomic_block))
    finished(remembering())
    a_pass(assimilator)
    assert open_ == [False]


def test_failing_workunit_is_put_off_and_others_are_assimilated(caplog):
    bad = finished(rows.an_app(assimilator="fail"), name="bad")
    good = finished(remembering())
    tally = a_pass(assimilator)
    bad.refresh_from_db()
    good.refresh_from_db()
    assert (bad.assimilate_state, good.assimilate_state) == (1, 2)
    assert bad.assimilate_after == rows.hours(0) + timedelta(seconds=10)
    assert tally.done == {"assimilated": 1, "put off": 1}
    (said,) = [one for one in caplog.records if one.message == "assimilation_failed"]
    assert (said.workunit, said.reason) == ("bad", "no room for bad")
    assert a_pass(assimilator).seen == 0


def test_delay_grows_with_each_failure():
    bad = finished(rows.an_app(assimilator="fail"))
    waits = []
    now = rows.hours(0)
    for _ in range(3):
        a_pass(assimilator, now=now)
        bad.refresh_from_db()
        waits.append((bad.assimilate_after - now).total_seconds())
        now = bad.assimilate_after
    assert waits == [10, 20, 40]


def times_out_of(workunit, *, until_parked=20):
    """Run passes until the workunit is parked; return their number, or None if it is not."""
    now = rows.hours(0)
    for number in range(1, until_parked + 1):
        assert a_pass(assimilator, now=now).seen >= 1
        if ScienceFailure.objects.filter(subject_id=workunit.pk, parked_at__isnull=False):
            return number
        workunit.refresh_from_db()
        now = workunit.assimilate_after
    return None


def test_a_workunit_whose_assimilation_fails_too_often_is_parked(caplog):
    bad = finished(rows.an_app(assimilator="fail", max_science_failures=3), name="bad")
    assert times_out_of(bad) == 3
    assert a_pass(assimilator, now=rows.hours(24 * 365)).seen == 0
    failure = ScienceFailure.objects.get()
    assert (failure.stage, failure.subject_id, failure.failures) == (2, bad.pk, 3)
    assert failure.error.startswith("Traceback (most recent call last)")
    assert "OSError: no room for bad" in failure.error


def test_successful_assimilation_deletes_the_recorded_failures():
    sinks.answers[:] = [RuntimeError("once")]
    workunit = finished(rows.an_app(assimilator="ask"))
    a_pass(assimilator)
    assert ScienceFailure.objects.count() == 1
    a_pass(assimilator, now=rows.hours(1))
    workunit.refresh_from_db()
    assert workunit.assimilate_state == 2
    assert ScienceFailure.objects.count() == 0


def test_expired_leases_do_not_count_as_failures():
    """A workunit whose lease expired nine times has the delay of a first failure."""
    bad = finished(rows.an_app(assimilator="fail"), lease_token=9)
    a_pass(assimilator)
    bad.refresh_from_db()
    assert bad.assimilate_after == rows.hours(0) + timedelta(seconds=10)


@pytest.mark.parametrize(
    "trouble",
    [TransientScienceError("away"), OperationalError("deadlock"), OSError(errno.EIO, "disk")],
)
def test_transient_errors_park_only_after_ten_times_as_many(trouble):
    sinks.answers[:] = [trouble] * 30
    workunit = finished(rows.an_app(assimilator="ask", max_science_failures=2))
    assert times_out_of(workunit, until_parked=30) == 20


@pytest.mark.parametrize("how", ["raises", "returns"])
@pytest.mark.parametrize("until", [timedelta(hours=2), rows.hours(2)])
def test_a_deferred_workunit_is_assimilated_again_at_the_requested_time(how, until):
    later = Defer(until, "a partner is missing")
    sinks.answers[:] = [later if how == "raises" else (later,)]
    workunit = finished(rows.an_app(assimilator="ask"))
    assert a_pass(assimilator).done == {"deferred": 1}
    workunit.refresh_from_db()
    assert (workunit.assimilate_state, workunit.lease_until) == (1, None)
    assert workunit.assimilate_after == rows.hours(2)
    assert ScienceFailure.objects.count() == 0
    assert a_pass(assimilator, now=rows.hours(1.9)).seen == 0
    assert a_pass(assimilator, now=rows.hours(2)).done == {"assimilated": 1}


@pytest.mark.parametrize("until", [rows.hours(-5), timedelta(hours=-5)])
def test_deferring_to_a_past_time_waits_for_the_minimum_deferral(until):
    sinks.answers[:] = [Defer(until)]
    workunit = finished(rows.an_app(assimilator="ask"))
    a_pass(assimilator)
    workunit.refresh_from_db()
    assert workunit.assimilate_after == rows.hours(0) + assimilator.MIN_DEFERRAL


@pytest.mark.parametrize("until", ["tomorrow", rows.hours(1).replace(tzinfo=None)])
def test_deferring_to_an_invalid_or_naive_time_is_a_failure(until):
    sinks.answers[:] = [Defer(until)]
    finished(rows.an_app(assimilator="ask"))
    assert a_pass(assimilator).done == {"put off": 1}
    assert "TypeError" in ScienceFailure.objects.get().error


def test_an_app_that_failed_slowly_is_skipped_for_the_rest_of_the_pass():
    slow = rows.an_app(assimilator="fail", science_time_limit=timedelta(0))
    others = [finished(slow, name=f"slow{number}") for number in range(3)]
    good = finished(remembering())
    tally = a_pass(assimilator)
    assert tally.done == {"put off": 1, "left for the next pass": 2, "assimilated": 1}
    assert tally.more
    good.refresh_from_db()
    assert good.assimilate_state == 2
    for workunit in others[1:]:
        workunit.refresh_from_db()
        assert (workunit.assimilate_after, workunit.lease_until) == (None, None)
    assert a_pass(assimilator).seen == 2


def test_workunits_that_failed_before_are_assimilated_last():
    app = remembering()
    stale = finished(app, name="stale")
    poison.record(poison.Stage.ASSIMILATE, {stale.pk: "?"}, {stale.pk: app.pk}, now=rows.hours(0))
    finished(app, name="fresh")
    a_pass(assimilator)
    assert [told.workunit_name for told in sinks.handed_over] == ["fresh", "stale"]


def test_the_lease_is_longer_than_the_longest_science_time_limit():
    rows.an_app(science_time_limit=timedelta(hours=3))
    leases = []
    workunit = finished(remembering())

    def look():
        workunit.refresh_from_db()
        leases.append(workunit.lease_until)

    sinks.before_returning.append(look)
    a_pass(assimilator)
    assert leases == [rows.hours(3) + assimilator.LEASE]


def test_result_files_are_synced_to_disk_before_workunits_are_marked_assimilated(monkeypatch):
    acts = []
    sync, settle = storage.sync_results, assimilator._settle
    monkeypatch.setattr(storage, "sync_results", lambda paths: (acts.append("sync"), sync(paths)))
    monkeypatch.setattr(
        assimilator, "_settle", lambda *a, **o: (acts.append("settle"), settle(*a, **o))[1]
    )
    for _ in range(3):
        finished(rows.an_app())
    assert a_pass(assimilator).done == {"assimilated": 3}
    assert acts == ["sync", "settle"]


def test_a_workunit_is_not_assimilated_if_its_files_cannot_be_synced(monkeypatch, caplog):
    def broken(_paths):
        raise OSError(errno.EIO, "Input/output error")

    monkeypatch.setattr(storage, "sync_results", broken)
    workunit = finished()
    assert a_pass(assimilator).done == {"put off": 1}
    workunit.refresh_from_db()
    assert workunit.assimilate_state == 1
    failure = ScienceFailure.objects.get()
    assert (failure.failures, failure.transients) == (0, 1)
    assert "result_sync_failed" in caplog.messages


@pytest.mark.parametrize("act", ["sync_results", "keep_result"])
def test_on_a_full_disk_workunits_are_postponed_without_recorded_failures(act, monkeypatch, caplog):
    caplog.set_level("INFO", logger="daemons.full_disk")

    def full(*_args, **_names):
        raise OSError(errno.ENOSPC, "No space left on device")

    workunits = [finished(rows.an_app()) for _ in range(3)]
    with monkeypatch.context() as patch:
        patch.setattr(storage, act, full)
        assert a_pass(assimilator).done == {"waiting for room on disk": 3}
        assert ScienceFailure.objects.count() == 0
        assert a_pass(assimilator).seen == 0
        again = rows.hours(0) + assimilator.FULL_DISK_DELAY + timedelta(seconds=1)
        assert a_pass(assimilator, now=again).done == {"waiting for room on disk": 3}
    again += assimilator.FULL_DISK_DELAY + timedelta(seconds=1)
    assert a_pass(assimilator, now=again).done == {"assimilated": 3}
    # One event when the disk is full, and one when it has room again.
    [full, room] = caplog.records
    assert (full.getMessage(), full.workunits) == ("disk_full", 3)
    assert (room.getMessage(), room.put_off) == ("disk_has_room", 6)
    for workunit in workunits:
        assert list(storage.upload_path("x").parents[2].glob(f"results/*/{workunit.name}/*"))


@pytest.mark.parametrize("moment", ["files are there", "files are on the disk"])
def test_a_crash_before_settlement_does_not_duplicate_result_files(moment, monkeypatch):
    """The next pass finds that files of the crashed pass already have these names."""

    class Crash(BaseException):
        pass

    def crash(*_args, **_names):
        raise Crash

    app = rows.an_app()
    workunits = [finished(app, data=b"%d" % number) for number in range(12)]
    with monkeypatch.context() as patch:
        if moment == "files are there":
            patch.setattr(storage, "sync_results", crash)
        else:
            patch.setattr(assimilator, "_settle", crash)
        with pytest.raises(Crash):
            a_pass(assimilator)
    assert Workunit.objects.filter(assimilate_state=1).count() == 12
    assert a_pass(assimilator, now=rows.hours(2)).done == {"assimilated": 12}
    results = storage.upload_path("x").parents[2] / "results" / app.name
    kept = sorted(path for path in results.rglob("*") if path.is_file())
    assert sorted(path.read_bytes() for path in kept) == sorted(b"%d" % n for n in range(12))
    assert {path.parent.name for path in kept} == {workunit.name for workunit in workunits}


def test_slow_workunit_is_settled_before_the_next_one_begins(monkeypatch):
    monkeypatch.setattr(assimilator, "SLOW", timedelta(0))
    app = remembering()
    first = finished(app)
    finished(app)
    seen = []
    sinks.before_returning.append(
        lambda: seen.append(Workunit.objects.get(pk=first.pk).assimilate_state)
    )
    assert a_pass(assimilator).done == {"assimilated": 2}
    assert seen == [1, 2]


def test_no_workunit_is_assimilated_after_the_time_limit_of_the_batch(monkeypatch):
    monkeypatch.setattr(assimilator, "TIME_LIMIT", timedelta(0))
    workunit = finished(remembering())
    tally = a_pass(assimilator)
    assert (tally.done, tally.more) == ({"left for the next pass": 1}, True)
    workunit.refresh_from_db()
    assert (workunit.lease_until, workunit.assimilate_after) == (None, None)
    assert sinks.handed_over == []


def test_a_missing_upload_postpones_only_its_own_workunit(settings):
    workunit = rows.a_workunit(transition_at=None)
    canonical = rows.a_result(workunit, "valid", output=b"lost", uploaded=False)
    rows.settled(workunit, canonical, assimilate_state=1)
    other = finished()
    a_pass(assimilator)
    workunit.refresh_from_db()
    other.refresh_from_db()
    assert (workunit.assimilate_state, other.assimilate_state) == (1, 2)


@pytest.mark.parametrize(
    ("name", "hint"),
    [
        ("copy_file", "did you mean 'copy_files'"),
        ("copy_files:x", "did you mean 'copy_files'"),
        ("python:no.such.thing", "No module named 'no'"),
    ],
)
def test_an_unknown_assimilator_is_recorded_as_a_failure_with_a_hint(name, hint, caplog):
    workunit = finished(rows.an_app(assimilator=name))
    a_pass(assimilator)
    workunit.refresh_from_db()
    assert workunit.assimilate_state == 1
    assert hint in ScienceFailure.objects.get().error
    assert hint in caplog.records[-1].reason


def test_a_leased_workunit_is_not_claimed_until_the_lease_expires():
    workunit = finished(remembering(), lease_until=rows.hours(0.1))
    assert a_pass(assimilator).seen == 0
    assert a_pass(assimilator, now=rows.hours(0.1)).seen == 1
    workunit.refresh_from_db()
    assert workunit.assimilate_state == 2


def test_assimilator_with_an_expired_lease_settles_nothing():
    """The lease expires during the call, and another process takes the workunit over."""
    workunit = finished(remembering())

    def another_takes_over():
        sinks.before_returning.clear()
        a_pass(assimilator, now=rows.hours(1))

    sinks.before_returning.append(another_takes_over)
    tally = a_pass(assimilator)
    workunit.refresh_from_db()
    assert tally.done == {"settled by another": 1}
    assert workunit.finished_at == rows.hours(1)
    assert workunit.lease_token == 2
    assert moves(workunit) == ["assimilation: READY→DONE"]
    # The workunit was handed over twice, with the same key.
    assert len({told.key for told in sinks.handed_over}) == 1
    assert len(sinks.handed_over) == 2


def test_assimilator_settles_nothing_while_another_holds_the_lease():
    workunit = finished(remembering())

    def another_claims():
        sinks.before_returning.clear()
        rows.update(workunit, lease_token=2, lease_until=rows.hours(2))

    sinks.before_returning.append(another_claims)
    tally = a_pass(assimilator)
    workunit.refresh_from_db()
    assert tally.done == {"settled by another": 1}
    assert workunit.assimilate_state == 1
    assert workunit.lease_until == rows.hours(2)


def test_rows_in_the_projects_database_are_written_exactly_once():
    app = rows.an_app(assimilator="python:tests.database.sinks.write_a_row")
    steady = finished(app, name="steady")
    stumbling = finished(app, name="stumble")
    a_pass(assimilator)
    a_pass(assimilator, now=rows.hours(1))
    steady.refresh_from_db()
    stumbling.refresh_from_db()
    assert [team.name for team in Team.objects.all()] == ["steady"]
    assert (steady.assimilate_state, stumbling.assimilate_state) == (2, 1)


@pytest.mark.parametrize("count", [1, 150])
def test_assimilator_pass_uses_4_statements_for_any_number_of_rows(count):
    app = remembering()
    bad = rows.an_app(assimilator="fail")
    for _ in range(count):
        failed(app)
        failed(bad)
    assert statements_of(lambda: a_pass(assimilator)) == 4
    assert Workunit.objects.filter(assimilate_state=2).count() == count


def test_workunits_claimed_before_a_database_outage_are_taken_by_the_next_pass(monkeypatch):
    workunit = finished(rows.an_app(assimilator="remember"))
    with monkeypatch.context() as patch:
        patch.setattr(assimilator, "_settle", refuse)
        with pytest.raises(OperationalError):
            a_pass(assimilator)
    assert a_pass(assimilator).sentence() == "1 workunit: 1 assimilated"
    workunit.refresh_from_db()
    assert workunit.assimilate_state == 2
    assert assimilator._unsettled == []


def refuse(*_, **__):
    raise OperationalError("the database is away")
