"""Workunits that wait for the answers of other workunits."""

from __future__ import annotations

import json

import pytest

from daemons import assimilator, purger, transitioner
from scheduler import storage
from scheduler.lifecycle import ReleaseState
from scheduler.models import Batch, Dependency, LedgerEntry, Workunit, WorkunitWakeup
from scheduler.results import revalidate
from scheduler.work import batches, control, dependencies, explain, followers, retry
from scheduler.work.dependencies import DependencyRefused, UnknownWorkunits
from scheduler.work.submission.submit import BadWorkunits, NewBatch, NewWorkunit, submit
from tests import rows
from tests.conftest import NOON
from tests.database.passes import a_pass, moves, statements_of
from tests.graphs import (
    a_graph,
    an_app,
    edges,
    ended,
    fail,
    finish,
    named,
    report,
    run_daemons,
    sent,
    violations,
)

pytestmark = pytest.mark.django_db

INACTIVE, HELD = ReleaseState.INACTIVE, ReleaseState.HELD
DIAMOND = {"top": (), "left": ("top",), "right": ("top",), "bottom": ("left", "right")}


@pytest.fixture
def app():
    return an_app()


@pytest.fixture
def ada():
    return rows.an_account("ada")


def pending(name):
    return named(name).pending_dependency_count


def reopen(name):
    revalidate.request(revalidate.choose(workunit=name).ids, now=NOON)


def claimed(name):
    """Send the only result of a workunit to a host; return the result."""
    result, host = named(name).results.get(), rows.a_host()
    rows.walk(
        result,
        server_state=4,
        host=host,
        account=host.account,
        sent_at=NOON,
        report_deadline=rows.hours(1),
    )
    return result


@pytest.fixture
def unassimilated(monkeypatch):
    """Keep the assimilator from finishing workunits, so that they can be validated again."""
    from daemons.tally import Tally

    monkeypatch.setattr(assimilator, "run_pass", lambda **_: Tally())


# Release


def test_child_is_sent_when_all_its_parents_have_answers(app):
    a_graph(DIAMOND, app=app)
    run_daemons()
    assert sent() == {"top"}
    assert [pending(name) for name in DIAMOND] == [0, 1, 1, 2]
    finish("top")
    assert sent() == {"left", "right"}
    finish("left")
    assert sent() == {"right"}
    assert pending("bottom") == 1
    finish("right")
    assert sent() == {"bottom"}
    finish("bottom")
    assert ended()["done"] == set(DIAMOND)
    assert violations() == []


def test_reported_success_without_validation_releases_nothing(app):
    a_graph({"p": (), "c": ("p",)}, app=app, min_quorum=2)
    run_daemons()
    first = named("p").results.order_by("id").first()
    rows.update(first, server_state=1)  # one of the two results is held back
    report(["p"])
    run_daemons()
    assert named("p").canonical_result_id is None
    assert sent() == {"p"}
    assert named("c").release_state == INACTIVE


def test_release_is_a_move_of_the_transitioner(app):
    a_graph({"p": (), "c": ("p",)}, app=app)
    run_daemons()
    finish("p")
    assert "release: INACTIVE→RELEASED" in moves(named("c"))


def test_parents_may_be_named_after_their_children_and_by_id(app):
    (old,) = a_graph({"old": ()}, app=app).workunit_ids
    a_graph({"c": ("p", old), "p": ()}, app=app)
    assert edges() == {("p", "c"), ("old", "c")}
    assert pending("c") == 2
    run_daemons()
    assert sent() == {"p", "old"}


def test_dependency_on_a_finished_workunit_is_met_at_once(app):
    a_graph({"p": ()}, app=app)
    run_daemons()
    finish("p")
    a_graph({"c": ("p",)}, app=app)
    assert pending("c") == 0
    run_daemons()
    assert sent() == {"c"}


def test_workunit_without_dependencies_costs_no_statement(app):
    """The passes for a workunit with dependencies run two more statements."""
    plain = submit(app=app.name, workunits=[NewWorkunit(name="plain")], now=NOON)
    assert plain.count == 1
    first = statements_of(lambda: a_pass(transitioner))
    a_graph({"p": (), "c": ("p",)}, app=app)
    assert statements_of(lambda: a_pass(transitioner)) == first + 1
    finish("plain")
    report(["p"])
    names = [f"wu{number}" for number in range(300)]
    a_graph(dict.fromkeys(names, ("p",)), app=app)
    many = statements_of(lambda: a_pass(transitioner))
    assert many <= first + 2


# Failure and cancellation


def test_failure_cascades_to_all_descendants_and_to_no_others(app):
    a_graph(DIAMOND | {"below": ("bottom",), "beside": ("right",)}, app=app)
    run_daemons()
    finish("top")
    fail("left")
    assert ended()["dependency failed"] == {"bottom", "below"}
    assert sent() == {"right"}
    finish("right")
    assert sent() == {"beside"}
    assert violations() == []


def test_cancelled_parent_cancels_its_children(app):
    a_graph({"p": (), "c": ("p",), "g": ("c",)}, app=app)
    run_daemons()
    control.cancel(names=["p"], now=NOON)
    run_daemons()
    assert ended() == {
        "done": set(),
        "failed": {"p"},
        "dependency failed": {"c", "g"},
        "open": set(),
    }
    assert violations() == []


def test_children_of_a_cancelled_parent_fail_while_a_host_still_computes_it(app):
    """The server does not wait for the worker (E-19)."""
    a_graph({"p": (), "c": ("p",), "g": ("c",)}, app=app)
    run_daemons()
    running = claimed("p")
    control.cancel(names=["p"], now=NOON)
    run_daemons()
    assert ended()["dependency failed"] == {"c", "g"}
    running.refresh_from_db()
    assert running.server_state == 4, "the result ends by a report or its deadline"
    assert violations() == []


def test_revalidation_does_not_take_back_a_release(app, unassimilated):
    a_graph({"p": (), "c": ("p",), "d": ("p",)}, app=app)
    run_daemons()
    finish("p")
    assert sent() == {"c", "d"}
    reopen("p")
    a_pass(transitioner)
    assert named("p").canonical_result_id is None
    a_pass(transitioner)
    assert sent() == {"c", "d"}
    assert pending("c") == 0
    assert violations() == []


def test_parent_that_fails_after_a_revalidation_cancels_running_children(app, unassimilated):
    a_graph({"p": (), "c": ("p",)}, app=app)
    run_daemons()
    finish("p")
    running = claimed("c")
    reopen("p")
    a_pass(transitioner)
    control.cancel(names=["p"], now=NOON)
    run_daemons()
    assert ended()["dependency failed"] == {"c"}
    running.refresh_from_db()
    assert running.server_state == 4, "the result ends by a report or its deadline"
    assert violations() == []


def test_workunit_that_waits_again_is_counted_again_after_a_revalidation(app, unassimilated):
    a_graph({"p": (), "q": (), "c": ("p", "q")}, app=app)
    run_daemons()
    finish("p")
    assert pending("c") == 1
    reopen("p")
    a_pass(transitioner)
    a_pass(transitioner)
    assert pending("c") == 2
    run_daemons()
    assert pending("c") == 1
    assert violations() == []


def test_late_success_of_a_failed_parent_does_not_release_its_children(app):
    a_graph({"p": (), "c": ("p",)}, app=app)
    run_daemons()
    control.cancel(names=["p"], now=NOON)
    a_pass(transitioner)
    report(["p"])
    run_daemons()
    assert ended()["dependency failed"] == {"c"}


# Refusals


def test_unknown_parent_is_refused_by_name(app):
    with pytest.raises(UnknownWorkunits, match=r"no workunit #77, nowhere of this submitter"):
        a_graph({"c": ("nowhere", 77)}, app=app)
    assert not Workunit.objects.exists()


def test_workunits_of_another_submitter_are_unknown(app, ada):
    a_graph({"p": ()}, app=app, submitter=ada)
    for submitter in (None, rows.an_account("bob")):
        with pytest.raises(UnknownWorkunits):
            a_graph({"c": ("p",)}, app=app, submitter=submitter)
    a_graph({"c": ("p",)}, app=app, submitter=ada, batch="other")
    assert edges() == {("p", "c")}


def test_failed_parent_is_refused(app):
    a_graph({"p": ()}, app=app)
    run_daemons()
    fail("p")
    with pytest.raises(DependencyRefused, match="p has failed"):
        a_graph({"c": ("p",)}, app=app)


def test_cycle_is_refused_with_its_names(app):
    with pytest.raises(DependencyRefused, match=r"a -> b -> c -> a\. Hint"):
        a_graph({"a": ("c",), "b": ("a",), "c": ("b",)}, app=app)
    with pytest.raises(DependencyRefused, match="a cannot wait for itself"):
        a_graph({"a": ("a",)}, app=app)
    assert not Workunit.objects.exists()


def test_long_cycle_is_shortened_in_the_message(app):
    chain = {f"w{number}": (f"w{(number - 1) % 30}",) for number in range(30)}
    with pytest.raises(DependencyRefused, match=r"of 30 workunits: w0 -> w1 .*\.\.\. -> w29 -> w0"):
        a_graph(chain, app=app)


def test_cycle_through_existing_workunits_is_refused(app):
    a_graph({"a": (), "b": ("a",), "c": ("b",)}, app=app)
    new = NewWorkunit(name="new", after=("c",), continuations=("b",))
    with pytest.raises(DependencyRefused, match="cycle of 3 workunits: c -> new -> b -> c"):
        submit(app=app.name, workunits=[new], now=NOON)
    with pytest.raises(DependencyRefused, match="cycle of 2 workunits"):
        dependencies.add_continuations(named("c").pk, ["b"], now=NOON)
    assert edges() == {("a", "b"), ("b", "c")}


def test_long_cycle_through_existing_workunits_is_refused(app):
    a_graph({"a": (), "b": ("a",), "c": ("b",), "d": ("c",), "e": ("d",)}, app=app)
    with pytest.raises(DependencyRefused, match="cycle of 4 workunits: e -> b -> c -> d -> e"):
        dependencies.add_continuations(named("e").pk, ["b"], now=NOON)


def test_held_and_after_exclude_each_other(app):
    with pytest.raises(BadWorkunits, match="held and after are both given"):
        a_graph({"a": ("b",), "b": ()}, app=app, held=True)


# Continuations


def test_held_workunit_becomes_inactive_when_it_becomes_a_continuation(app):
    """This is how Eve submits: the children first, then the parents that name them."""
    submit(app=app.name, workunits=[NewWorkunit(name="c", held=True)], now=NOON)
    run_daemons()
    parents = [NewWorkunit(name=name, continuations=("c",)) for name in ("p", "q")]
    submit(app=app.name, workunits=parents, now=NOON)
    child = named("c")
    assert (child.release_state, child.pending_dependency_count) == (INACTIVE, 2)
    assert moves(child) == ["workunit: nothing→OPEN", "release: HELD→INACTIVE"]
    run_daemons()
    finish("p")
    assert sent() == {"q"}
    finish("q")
    assert sent() == {"c"}
    assert violations() == []


def test_continuation_in_the_same_submission_waits(app):
    workunits = [NewWorkunit(name="p", continuations=("c",)), NewWorkunit(name="c")]
    submit(app=app.name, workunits=workunits, now=NOON)
    assert named("c").release_state == INACTIVE
    run_daemons()
    assert sent() == {"p"}


def test_continuation_can_be_added_while_the_parent_runs(app):
    a_graph({"p": (), "q": (), "c": ("p",)}, app=app)
    run_daemons()
    done = dependencies.add_continuations(named("q").pk, ["c"], now=NOON)
    assert (done.changed, done.already, done.continuations) == (1, 0, (named("c").pk,))
    again = dependencies.add_continuations(named("q").pk, ["c", named("c").pk], now=NOON)
    assert (again.changed, again.already) == (0, 1)
    finish("p")
    assert sent() == {"q"}
    finish("q")
    assert sent() == {"c"}
    assert violations() == []


@pytest.mark.parametrize("state", ["released", "held again", "done", "failed"])
def test_released_or_ended_workunit_cannot_become_a_continuation(app, state):
    a_graph({"p": (), "c": ()}, app=app)
    run_daemons()
    {
        "released": lambda: None,
        "held again": lambda: control.hold(names=["c"], now=NOON),
        "done": lambda: finish("c"),
        "failed": lambda: fail("c"),
    }[state]()
    with pytest.raises(DependencyRefused, match="The dependencies cannot be added: c "):
        dependencies.add_continuations(named("p").pk, ["c"], now=NOON)
    assert not Dependency.objects.exists()


def test_removed_dependency_releases_a_child_without_others(app):
    a_graph({"p": (), "q": (), "c": ("p", "q")}, app=app)
    run_daemons()
    for name in ("p", "q"):
        assert sent() == {"p", "q"}
        done = dependencies.remove_continuations(named(name).pk, ["c"], now=NOON)
        assert (done.changed, done.continuations) == (1, ())
        run_daemons()
    assert sent() == {"p", "q", "c"}
    assert violations() == []


def test_removed_dependency_protects_the_child_from_a_failure(app):
    a_graph({"p": (), "q": (), "c": ("p", "q")}, app=app)
    run_daemons()
    dependencies.remove_continuations(named("p").pk, ["c"], now=NOON)
    fail("p")
    finish("q")
    assert sent() == {"c"}


def test_failure_that_was_counted_before_the_dependency_was_removed_has_no_effect(app):
    a_graph({"p": (), "q": (), "c": ("p",)}, app=app)
    run_daemons()
    report(["p"], word="error")
    a_pass(transitioner)
    dependencies.add_continuations(named("q").pk, ["c"], now=NOON)
    assert named("c").dependency_failed_at is None, "only the failure of a batch is stored"
    dependencies.remove_continuations(named("p").pk, ["c"], now=NOON)
    finish("q")
    assert sent() == {"c"}
    assert violations() == []


@pytest.mark.parametrize("counted_by", ["added edge", "removed edge"])
def test_removed_dependency_on_a_failed_workunit_has_no_effect_beside_a_batch(app, ada, counted_by):
    a_graph({"first": ()}, app=app, submitter=ada, batch="one")
    a_graph({"p": (), "q": (), "r": ()}, app=app, submitter=ada, batch="two")
    submit(
        app=app.name,
        workunits=[NewWorkunit(name="c", after=("p", "q"))],
        batch=NewBatch(name="three", after=Batch.objects.get(name="one").pk),
        submitter=ada,
        now=NOON,
    )
    run_daemons()
    report(["p"], word="error")
    a_pass(transitioner)
    if counted_by == "added edge":
        dependencies.add_continuations(named("r").pk, ["c"], now=NOON)
    else:
        dependencies.remove_continuations(named("q").pk, ["c"], now=NOON)
    dependencies.remove_continuations(named("p").pk, ["c"], now=NOON)
    finish("q", "r")
    assert ended()["open"] == {"first", "c"}
    finish("first")
    end_of_batches()
    assert sent() == {"c"}
    assert violations() == []


def test_failed_batch_counts_after_a_dependency_was_removed(app, ada):
    a_graph({"first": ()}, app=app, submitter=ada, batch="one")
    a_graph({"p": ()}, app=app, submitter=ada, batch="two")
    submit(
        app=app.name,
        workunits=[NewWorkunit(name="c", after=("p",))],
        batch=NewBatch(name="three", after=Batch.objects.get(name="one").pk),
        submitter=ada,
        now=NOON,
    )
    run_daemons()
    fail("first")
    batches.complete(now=NOON)
    followers.settle(now=NOON)
    dependencies.remove_continuations(named("p").pk, ["c"], now=NOON)
    run_daemons()
    assert ended()["dependency failed"] == {"c"}


def test_removed_dependency_on_a_failed_workunit_does_not_end_a_released_one(app, unassimilated):
    a_graph({"p": (), "q": (), "c": ("p", "q")}, app=app)
    run_daemons()
    finish("p", "q")
    reopen("p")
    a_pass(transitioner)
    control.cancel(names=["p"], now=NOON)
    a_pass(transitioner)
    assert (named("p").error_mask != 0, named("c").error_mask) == (True, 0)
    for name in ("q", "p"):
        dependencies.remove_continuations(named(name).pk, ["c"], now=NOON)
    run_daemons()
    assert ended()["open"] == {"c"}
    assert sent() == {"c"}
    assert pending("c") == 0
    assert violations() == []


def test_removing_what_is_no_continuation_is_refused(app):
    a_graph({"p": (), "c": ("p",), "d": ()}, app=app)
    with pytest.raises(DependencyRefused, match="d does not wait for p"):
        dependencies.remove_continuations(named("p").pk, ["c", "d"], now=NOON)
    assert edges() == {("p", "c")}


def test_removing_an_edge_to_an_ended_child_changes_no_state(app):
    a_graph({"p": (), "c": ("p",)}, app=app)
    run_daemons()
    control.cancel(names=["c"], now=NOON)
    run_daemons()
    before = Workunit.objects.values().get(name="c")
    dependencies.remove_continuations(named("p").pk, ["c"], now=NOON)
    run_daemons()
    assert Workunit.objects.values().get(name="c") == before
    assert edges() == set()


# Batches


def test_workunit_waits_for_its_parents_and_for_its_batch(app, ada):
    a_graph({"first": ()}, app=app, submitter=ada, batch="one")
    a_graph({"p": ()}, app=app, submitter=ada, batch="two")
    one = Batch.objects.get(name="one")
    submit(
        app=app.name,
        workunits=[NewWorkunit(name="c", after=("p",)), NewWorkunit(name="plain")],
        batch=NewBatch(name="three", after=one.pk),
        submitter=ada,
        now=NOON,
    )
    assert (pending("c"), pending("plain")) == (2, 1)
    run_daemons()
    finish("first")
    end_of_batches()
    assert (pending("c"), pending("plain")) == (1, 0)
    assert sent() == {"p", "plain"}
    finish("p")
    assert sent() == {"plain", "c"}
    assert violations() == []


def end_of_batches():
    batches.complete(now=NOON)
    followers.settle(now=NOON)
    run_daemons()


@pytest.mark.parametrize("is_in_batch", [True, False])
def test_failed_graph_is_retried_with_its_dependencies(app, ada, is_in_batch):
    submitter = ada if is_in_batch else None
    a_graph(DIAMOND | {"below": ("bottom",)}, app=app, submitter=submitter)
    run_daemons()
    finish("top")
    fail("left")
    finish("right")
    assert ended()["dependency failed"] == {"bottom", "below"}
    retried = retry.retry(Batch.objects.get().pk if is_in_batch else None, now=NOON)
    assert retried.count == 3
    assert {edge for edge in edges() if edge[1].endswith(".2")} == {
        ("top", "left.2"),
        ("left.2", "bottom.2"),
        ("right", "bottom.2"),
        ("bottom.2", "below.2"),
    }
    run_daemons()
    assert sent() == {"left.2"}
    for name in ("left.2", "bottom.2", "below.2"):
        finish(name)
    assert ended()["done"] == {"top", "right", "left.2", "bottom.2", "below.2"}
    assert violations() == []


def test_retry_does_not_depend_on_the_order_of_submission(app, ada, monkeypatch):
    monkeypatch.setattr(retry, "_CHUNK", 1)
    a_graph({"d": ("c",), "c": ("p",), "p": ()}, app=app, submitter=ada)
    run_daemons()
    fail("p")
    assert retry.retry(Batch.objects.get().pk, now=NOON).count == 3
    run_daemons()
    for name in ("p.2", "c.2", "d.2"):
        assert sent() == {name}
        finish(name)
    assert ended()["done"] == {"p.2", "c.2", "d.2"}
    assert violations() == []


def test_retry_waits_for_the_newest_retry_of_a_parent(app, ada):
    a_graph({"p": ()}, app=app, submitter=ada, batch="parents")
    a_graph({"c": ("p",)}, app=app, submitter=ada, batch="children")
    run_daemons()
    parents, children = (Batch.objects.get(name=name).pk for name in ("parents", "children"))
    for name in ("p", "p.2"):
        fail(name)
        retry.retry(parents, now=NOON)
        run_daemons()
    retry.retry(children, now=NOON)
    assert {edge for edge in edges() if edge[1] == "c.2"} == {("p.2.2", "c.2")}
    finish("p.2.2")
    assert sent() == {"c.2"}
    assert violations() == []


# Purge, explanations, fsck


def test_parent_is_kept_until_its_children_have_ended(app, settings):
    a_graph({"p": (), "q": (), "c": ("p", "q")}, app=app)
    run_daemons()
    finish("p")
    purge_all()
    assert {w.name for w in Workunit.objects.all()} == {"p", "q", "c"}
    control.cancel(names=["c"], now=NOON)
    run_daemons()
    purge_all()
    assert {w.name for w in Workunit.objects.all()} == {"q"}
    assert edges() == set()
    assert violations() == []


def purge_all():
    from daemons import file_deleter

    later = rows.hours(10_000)
    run_daemons(now=later)
    file_deleter.run_pass(now=later, limit=1000)
    run_daemons(now=later)
    a_pass(purger, now=later)


def test_failed_parent_is_kept_until_its_children_are_purged(app, ada):
    """A child that is retried meanwhile must not be released without its parent."""
    a_graph({"p": ()}, app=app, submitter=ada, batch="one")
    a_graph({"c": ("p",)}, app=app, submitter=ada, batch="two")
    run_daemons()
    fail("p")
    Workunit.objects.filter(name="c").update(outputs_kept=True)
    purge_all()
    assert {w.name for w in Workunit.objects.all()} == {"p", "c"}
    retry.retry(Batch.objects.get(name="two").pk, now=NOON)
    run_daemons()
    assert ended()["dependency failed"] == {"c", "c.2"}
    Workunit.objects.update(outputs_kept=False)
    for _ in range(2):
        purge_all()
    assert not Workunit.objects.exists()


def test_archive_keeps_the_dependencies(app):
    a_graph({"p": (), "c": ("p",)}, app=app)
    run_daemons()
    finish("p")
    finish("c")
    parent, child = named("p").pk, named("c").pk
    purge_all()
    archived = {
        line["workunit"]["name"]: line
        for path in storage.archive_days().values()
        for line in map(json.loads, storage.read_archive(path))
    }
    assert archived["p"]["continuations"] == [child]
    assert archived["c"]["after"] == [parent]
    assert "after" not in archived["p"]


def test_explanation_names_the_parents(app):
    a_graph({"p": (), "q": (), "c": ("p", "q")}, app=app)
    run_daemons()
    assert "waits for 2 workunits on which it depends: p, q" in reasons("c")
    finish("q")
    assert "waits for 1 workunit on which it depends: p" in reasons("c")
    fail("p")
    assert "failed: dependency failed" in reasons("c")
    assert "depended on p, which failed" in reasons("c")


def reasons(name):
    return explain.reasons_of(named(name).pk, now=NOON)


def broken():
    return {text.split(":")[0] for text in violations()}


def test_fsck_finds_a_wrong_count(app):
    a_graph({"p": (), "c": ("p",)}, app=app)
    run_daemons()
    rows.update(named("c"), pending_dependency_count=2)
    assert broken() == {"dependency_counts_are_current"}


def test_fsck_finds_a_child_that_nothing_wakes(app):
    a_graph({"p": (), "c": ("p",)}, app=app)
    run_daemons()
    report(["p"])
    run_until_settled_without_waking()
    assert broken() == {"dependency_counts_are_current"}


def run_until_settled_without_waking():
    run_daemons_but_delete = WorkunitWakeup.objects.filter(workunit_id=named("c").pk)
    from daemons import validator

    for daemon in (transitioner, validator, transitioner):
        a_pass(daemon)
    run_daemons_but_delete.delete()


def test_fsck_finds_a_child_that_outlives_a_failed_parent(app):
    a_graph({"p": (), "c": ("p",)}, app=app)
    run_daemons()
    control.cancel(names=["p"], now=NOON)
    a_pass(transitioner)
    WorkunitWakeup.objects.all().delete()
    assert "children_of_failed_workunits_fail" in broken()


def test_fsck_finds_an_early_release(app):
    a_graph({"p": (), "c": ("p",)}, app=app)
    run_daemons()
    Workunit.objects.filter(name="c").update(release_state=3, pending_dependency_count=0)
    run_daemons()
    assert "dependencies_were_met" in broken()


def test_fsck_finds_an_edge_without_its_workunits(app):
    a_graph({"p": (), "c": ("p",)}, app=app)
    Dependency.objects.create(parent_id=named("c").pk, child_id=1 << 40)
    assert "dependencies_join_workunits" in broken()


def test_fsck_finds_a_cycle(app):
    a_graph({"a": (), "b": ("a",), "c": ("b",)}, app=app)
    run_daemons()
    Dependency.objects.create(parent_id=named("c").pk, child_id=named("b").pk)
    assert "dependencies_have_no_cycle" in broken()


def test_ledger_has_no_entry_for_a_workunit_that_is_linked_while_it_waits(app):
    a_graph({"p": (), "q": (), "c": ("p",)}, app=app)
    dependencies.add_continuations(named("q").pk, ["c"], now=NOON)
    assert LedgerEntry.objects.filter(workunit_id=named("c").pk).count() == 1
    assert named("c").release_state != HELD


# Groups


def a_group(app, name, after=(), **fields):
    workunit = NewWorkunit(name=name, group=True, after=tuple(after), **fields)
    return submit(app=app.name, workunits=[workunit], now=NOON)


def test_group_is_complete_when_its_dependencies_are_met(app):
    a_graph({"p": (), "q": ()}, app=app)
    a_group(app, "all", ["p", "q"])
    a_graph({"c": ("all",)}, app=app)
    run_daemons()
    finish("p")
    assert named("all").canonical_result_id is None
    finish("q")
    group = named("all")
    assert (group.canonical_result_id, group.assimilate_state) == (0, 2)
    assert group.finished_at == NOON
    assert not group.results.exists()
    assert moves(group)[1:4] == [
        "release: INACTIVE→RELEASED",
        "workunit: OPEN→COMPLETE",
        "assimilation: INIT→DONE",
    ]
    assert sent() == {"c"}
    assert violations() == []


def test_group_without_dependencies_is_complete_at_once_unless_it_is_held(app):
    a_group(app, "free")
    a_group(app, "held", held=True)
    a_graph({"c": ("free",), "d": ("held",)}, app=app)
    run_daemons()
    assert sent() == {"c"}
    control.release(names=["held"], now=NOON)
    run_daemons()
    assert sent() == {"c", "d"}
    assert violations() == []


def test_group_fails_with_its_dependencies_and_can_be_cancelled(app):
    a_graph({"p": (), "q": ()}, app=app)
    a_group(app, "one", ["p"])
    a_group(app, "two", ["q"])
    a_graph({"c": ("one",), "d": ("two",)}, app=app)
    run_daemons()
    fail("p")
    control.cancel(names=["two"], now=NOON)
    run_daemons()
    assert ended()["dependency failed"] == {"one", "c", "d"}
    assert sent() == {"q"}
    assert violations() == []


def test_failed_group_ends_without_an_assimilator(app, monkeypatch):
    called = []
    monkeypatch.setattr(
        assimilator.assimilators, "find", lambda *_: lambda one: called.append(one.workunit_name)
    )
    a_graph({"p": ()}, app=app)
    a_group(app, "g", ["p"])
    run_daemons()
    fail("p")
    group = named("g")
    assert called == ["p"]
    assert (group.canonical_result_id, group.error_mask) == (None, 256)
    assert group.finished_at == NOON
    assert moves(group)[1:] == [
        "workunit: OPEN→FAILED",
        "assimilation: INIT→DONE",
        "workunit files: INIT→READY",
    ]
    purge_all()
    assert [one.name for one in Workunit.objects.all()] == ["p"]


def test_complete_group_is_purged_and_counted_as_done(app, ada):
    submit(
        app=app.name,
        workunits=[NewWorkunit(name="g", group=True)],
        batch=NewBatch(name="b"),
        submitter=ada,
        now=NOON,
    )
    run_daemons()
    from scheduler.work.progress import progress_of

    batch = Batch.objects.get()
    assert progress_of([batch], now=NOON)[batch.pk].done == 1
    end_of_batches()
    assert Batch.objects.get().state == Batch.State.COMPLETE
    purge_all()
    assert not Workunit.objects.exists()
    assert Batch.objects.get().purged_done == 1


def test_explanation_of_a_group(app):
    a_graph({"p": ()}, app=app)
    a_group(app, "g", ["p"])
    run_daemons()
    assert "waits for 1 workunit on which it depends: p" in reasons("g")
    finish("p")
    assert "is a complete group: the workunits on which it depends have answers" in reasons("g")


@pytest.mark.parametrize(
    ("fields", "fault"),
    [
        ({"command_line": "--x"}, "A group has no command, but command_line is given"),
        ({"broadcast": True, "end_before": rows.hours(9)}, "A group has no results, but broadcast"),
        ({"target_host": 1}, "A group has no results, but target_host is given"),
        ({"start_after": rows.hours(1)}, "A group has no results, but start_after is given"),
    ],
)
def test_group_with_a_command_or_results_is_refused(app, fields, fault):
    with pytest.raises(BadWorkunits, match=fault):
        a_group(app, "g", **fields)


def test_database_refuses_the_answer_of_a_group_for_other_workunits(app):
    from django.db import IntegrityError, transaction

    a_graph({"p": ()}, app=app)
    with pytest.raises(IntegrityError, match="only_as_a_group"), transaction.atomic():
        Workunit.objects.update(canonical_result_id=0)
    a_group(app, "g")
    with pytest.raises(IntegrityError, match="only_as_a_group"), transaction.atomic():
        Workunit.objects.filter(name="g").update(canonical_result_id=7)


def test_fsck_finds_a_group_with_results_and_one_that_is_not_ended(app):
    a_group(app, "g")
    WorkunitWakeup.objects.all().delete()
    assert "groups_have_no_results" in broken()
    rows.a_result(named("g"))
    assert "groups_have_no_results" in broken()


# Large graphs


def test_diamond_of_200_workunits_with_a_failing_branch_ends_as_it_must(app, ada):
    """Three levels: one root, 66 branches of three workunits in a row, and one end."""
    branches = range(66)
    graph = {"root": ()}
    graph |= {f"split_{n}": ("root",) for n in branches}
    graph |= {f"work_{n}": (f"split_{n}",) for n in branches}
    graph |= {f"check_{n}": (f"work_{n}",) for n in branches}
    graph |= {"end": tuple(f"check_{n}" for n in branches)}
    assert len(graph) == 200
    a_graph(graph, app=app, submitter=ada)
    failing = 13
    run_daemons()
    for _ in range(10):
        if not sent():
            break
        fail(*(sent() & {f"split_{failing}"}))
        finish(*sent())
        assert violations() == []
    ends = ended()
    assert ends["failed"] == {f"split_{failing}"}
    assert ends["dependency failed"] == {f"work_{failing}", f"check_{failing}", "end"}
    assert ends["done"] == graph.keys() - ends["failed"] - ends["dependency failed"]
    assert ends["open"] == set()
