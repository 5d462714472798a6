"""Changes of dependencies, releases and failures that happen at the same time."""

from __future__ import annotations

import threading

import pytest
from django.db import transaction

from daemons import transitioner
from scheduler.models import Batch, Dependency, Workunit, WorkunitWakeup
from scheduler.work import control, dependencies, retry
from scheduler.work.dependencies import DependencyRefused
from tests import rows
from tests.conftest import NOON
from tests.database.daemons.test_interleavings import PATIENCE, Meanwhile, stopped_in
from tests.database.passes import a_pass
from tests.graphs import (
    a_graph,
    an_app,
    ended,
    fail,
    finish,
    named,
    report,
    run_daemons,
    sent,
    violations,
)

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def app():
    return an_app()


def outcome(act):
    """Return the error that a call raises, or its value."""
    try:
        return act()
    except DependencyRefused as error:
        return error


def test_two_changes_without_a_common_workunit_cannot_close_a_cycle(app, monkeypatch):
    """a waits for d, and c waits for b: together with a -> b and c -> d this is a cycle."""
    a_graph({"x": (), "a": ("x",), "b": ("a",), "c": ("x",), "d": ("c",)}, app=app)
    first, second = ((named("d").pk, "a"), (named("b").pk, "c"))
    with stopped_in(monkeypatch, dependencies, "_require_no_cycle") as (arrived, go):
        one = Meanwhile(lambda: dependencies.add_continuations(first[0], [first[1]], now=NOON))
        assert arrived.wait(PATIENCE)
        other = Meanwhile(
            lambda: outcome(
                lambda: dependencies.add_continuations(second[0], [second[1]], now=NOON)
            )
        )
        assert other.is_waiting
        go.set()
        one.wait()
        assert "cycle of 4 workunits" in str(other.wait())
    assert Dependency.objects.count() == 5
    assert violations() == []


def test_parent_that_ends_while_its_child_is_judged_releases_the_child(app, monkeypatch):
    a_graph({"p": (), "c": ("p",)}, app=app)
    run_daemons()
    WorkunitWakeup.objects.create(workunit_id=named("c").pk, inserted_at=NOON)
    with stopped_in(monkeypatch, transitioner.replication, "judge") as (arrived, go):
        judging = Meanwhile(lambda: a_pass(transitioner))
        assert arrived.wait(PATIENCE)
        finish("p")
        assert sent() == set(), "the child is still locked"
        go.set()
        judging.wait()
    run_daemons()
    assert sent() == {"c"}
    assert violations() == []


def test_dependency_added_while_the_child_is_being_released_is_refused(app, monkeypatch):
    a_graph({"p": (), "q": (), "c": ("p",)}, app=app)
    run_daemons()
    finish_in_passes("p")
    with stopped_in(monkeypatch, transitioner, "_wake_children") as (arrived, go):
        releasing = Meanwhile(lambda: a_pass(transitioner))
        assert arrived.wait(PATIENCE)
        adding = Meanwhile(
            lambda: outcome(lambda: dependencies.add_continuations(named("q").pk, ["c"], now=NOON))
        )
        assert adding.is_waiting
        go.set()
        releasing.wait()
        assert "c was released" in str(adding.wait())
    run_daemons()
    assert sent() == {"q", "c"}
    assert violations() == []


def test_dependency_added_before_a_release_holds_the_child_back(app, monkeypatch):
    a_graph({"p": (), "q": (), "c": ("p",)}, app=app)
    run_daemons()
    with stopped_in(monkeypatch, dependencies, "_recount") as (arrived, go):
        adding = Meanwhile(lambda: dependencies.add_continuations(named("q").pk, ["c"], now=NOON))
        assert arrived.wait(PATIENCE)
        finish("p")
        assert sent() == {"q"}
        go.set()
        adding.wait()
    run_daemons()
    assert sent() == {"q"}
    assert named("c").pending_dependency_count == 1
    finish("q")
    assert sent() == {"c"}
    assert violations() == []


def test_dependency_on_a_workunit_that_fails_meanwhile_is_not_lost(app, monkeypatch):
    a_graph({"p": (), "q": (), "c": ("p",)}, app=app)
    run_daemons()
    with stopped_in(monkeypatch, dependencies, "_require_no_cycle") as (arrived, go):
        adding = Meanwhile(lambda: dependencies.add_continuations(named("q").pk, ["c"], now=NOON))
        assert arrived.wait(PATIENCE)
        cancelling = Meanwhile(lambda: control.cancel(names=["q"], now=NOON))
        assert cancelling.is_waiting
        go.set()
        adding.wait()
        cancelling.wait()
    run_daemons()
    assert ended()["dependency failed"] == {"c"}
    assert violations() == []


def test_retry_waits_for_the_end_of_a_parent_that_is_being_judged(app, monkeypatch):
    a_graph({"p": (), "q": (), "c": ("p", "q")}, app=app, submitter=rows.an_account("ada"))
    run_daemons()
    fail("q")
    report(["p"], word="error")
    arrived, go = threading.Event(), threading.Event()
    wake_children = transitioner._wake_children

    def still(*args, **options):
        wake_children(*args, **options)
        arrived.set()
        assert go.wait(PATIENCE)

    with monkeypatch.context() as patch:
        patch.setattr(transitioner, "_wake_children", still)
        judging = Meanwhile(lambda: a_pass(transitioner))
        assert arrived.wait(PATIENCE)
        retrying = Meanwhile(lambda: retry.retry(Batch.objects.get().pk, now=NOON))
        assert retrying.is_waiting
        go.set()
        judging.wait()
        retrying.wait()
    run_daemons()
    assert "c.2" in ended()["dependency failed"]
    assert violations() == []


def test_end_of_a_parent_does_not_wait_for_a_locked_child(app):
    a_graph({"p": (), "c": ("p",)}, app=app)
    run_daemons()
    with transaction.atomic():
        Workunit.objects.select_for_update(no_key=True).get(name="c")
        Meanwhile(lambda: finish_in_passes("p")).wait()
    run_daemons()
    assert sent() == {"c"}


def finish_in_passes(name):
    from daemons import validator

    report([name])
    for daemon in (transitioner, validator, transitioner):
        a_pass(daemon)
