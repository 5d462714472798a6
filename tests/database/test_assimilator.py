"""The assimilator hands every finished workunit to the science."""

from __future__ import annotations

import json
from datetime import timedelta

import pytest

from daemons import assimilator
from scheduler.models import Team, Workunit
from tests import rows
from tests.database import sinks
from tests.database.passes import a_pass, moves, statements_of

pytestmark = pytest.mark.django_db


@pytest.fixture(autouse=True)
def empty_sinks():
    sinks.handed_over.clear()
    sinks.before_returning.clear()
    yield
    sinks.handed_over.clear()
    sinks.before_returning.clear()


def finished(app=None, *, data=b"answer", **fields):
    """A workunit with its answer, ready to be handed over."""
    workunit = rows.a_workunit(app, transition_at=None, **fields)
    canonical = rows.a_result(workunit, "valid", output=data, uploaded=True)
    return rows.settled(workunit, canonical, assimilate_state=1)


def failed(app=None, **fields):
    """A workunit that was cancelled, ready to be handed over."""
    return rows.settled(rows.a_workunit(app, transition_at=None, **fields), assimilate_state=1)


def remembering(**fields):
    return rows.an_app(assimilator="python:tests.database.sinks.remember", **fields)


def test_the_canonical_output_is_filed_under_its_workunits_name(settings):
    workunit = finished(rows.an_app("sums"), name="wu_7")
    assert a_pass(assimilator).sentence() == "1 workunit: 1 assimilated"
    assert (settings.VAR_DIR / "results/sums/wu_7/out").read_bytes() == b"answer"
    workunit.refresh_from_db()
    assert workunit.assimilate_state == 2
    assert workunit.finished_at == workunit.transition_at == rows.hours(0)
    assert workunit.lease_until is None
    assert moves(workunit) == ["assimilation: READY→DONE"]


def test_a_failed_workunit_leaves_its_reason(settings):
    failed(rows.an_app("sums"), name="wu_8", cancel_reason="wrong input")
    a_pass(assimilator)
    reason = json.loads((settings.VAR_DIR / "results/sums/wu_8/FAILED.json").read_text())
    assert reason == {"workunit": "wu_8", "errors": ["CANCELLED"], "cancel_reason": "wrong input"}


def test_nothing_is_ready_nothing_is_done():
    rows.a_workunit()
    assert a_pass(assimilator).sentence() == "nothing to do"


def test_a_function_is_told_everything():
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
def test_no_transaction_is_open_while_the_science_works():
    from django.db import connection

    open_ = []
    sinks.before_returning.append(lambda: open_.append(connection.in_atomic_block))
    finished(remembering())
    a_pass(assimilator)
    assert open_ == [False]


def test_what_fails_is_put_off_and_others_go_on(caplog):
    bad = finished(rows.an_app(assimilator="python:tests.database.sinks.fail"), name="bad")
    good = finished(remembering())
    tally = a_pass(assimilator)
    bad.refresh_from_db()
    good.refresh_from_db()
    assert (bad.assimilate_state, good.assimilate_state) == (1, 2)
    assert bad.assimilate_after == rows.hours(0) + timedelta(seconds=10)
    assert tally.done == {"assimilated": 1, "put off": 1}
    assert "no room for bad" in caplog.text
    assert a_pass(assimilator).seen == 0


def test_it_waits_longer_each_time_it_fails():
    bad = finished(rows.an_app(assimilator="python:tests.database.sinks.fail"))
    waits = []
    now = rows.hours(0)
    for _ in range(3):
        a_pass(assimilator, now=now)
        bad.refresh_from_db()
        waits.append((bad.assimilate_after - now).total_seconds())
        now = bad.assimilate_after
    assert waits == [10, 20, 40]


def test_a_missing_upload_puts_only_its_workunit_off(settings):
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
        ("copy_file", "There is no assimilator 'copy_file'"),
        ("python:no.such.thing", "cannot be imported"),
    ],
)
def test_an_unknown_assimilator_is_named(name, hint, caplog):
    workunit = finished(rows.an_app(assimilator=name))
    a_pass(assimilator)
    workunit.refresh_from_db()
    assert workunit.assimilate_state == 1
    assert hint in caplog.text


def test_a_lease_keeps_others_away_until_it_runs_out():
    workunit = finished(remembering(), lease_until=rows.hours(0.1))
    assert a_pass(assimilator).seen == 0
    assert a_pass(assimilator, now=rows.hours(0.1)).seen == 1
    workunit.refresh_from_db()
    assert workunit.assimilate_state == 2


def test_who_lost_his_lease_settles_nothing():
    """While one works, his lease runs out and another takes over: the first is fenced off."""
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
    # At least once means twice here; the key says that it is the same workunit.
    assert len({told.key for told in sinks.handed_over}) == 1
    assert len(sinks.handed_over) == 2


def test_what_goes_to_our_own_database_is_written_exactly_once():
    app = rows.an_app(assimilator="python:tests.database.sinks.write_a_row")
    steady = finished(app, name="steady")
    stumbling = finished(app, name="stumble")
    a_pass(assimilator)
    a_pass(assimilator, now=rows.hours(1))
    steady.refresh_from_db()
    stumbling.refresh_from_db()
    assert [team.name for team in Team.objects.all()] == ["steady"]
    assert (steady.assimilate_state, stumbling.assimilate_state) == (2, 1)


@pytest.mark.parametrize("count", [1, 500])
def test_a_pass_costs_the_same_statements_for_any_number_of_rows(count):
    app = remembering()
    bad = rows.an_app(assimilator="python:tests.database.sinks.fail")
    for _ in range(count):
        failed(app)
        failed(bad)
    assert statements_of(lambda: a_pass(assimilator)) == 3
    assert Workunit.objects.filter(assimilate_state=2).count() == count
