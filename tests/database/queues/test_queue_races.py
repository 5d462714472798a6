"""Changes of what a queue accepts, while workunits are submitted or retried."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import pytest
from django.db import transaction

from scheduler.models import Queue, Workunit
from scheduler.queues import admission, named_queues, slots
from scheduler.queues.facts import FOREVER
from scheduler.work import retry
from scheduler.work.submission import new_batches, submit
from scheduler.work.submission.submission_checks import QueueChanged, WorkunitChecks
from scheduler.work.submission.submit import NewOutput, NewWorkunit
from tests import rows
from tests.conftest import NOON
from tests.database.daemons.test_interleavings import PATIENCE, Meanwhile, stopped_in
from tests.scientists import a_batch, in_batch

pytestmark = pytest.mark.django_db(transaction=True)

#: Changes after which the queue accepts fewer workunits.
NARROWED = pytest.mark.parametrize("facts", [{"app": "other"}, {"trusted": False}], ids=str)


@pytest.fixture
def queue() -> Queue:
    rows.an_app("sieve")
    rows.an_app("other")
    return named_queues.create(name="lab", trusted=True, now=NOON)


def submitted() -> Any:
    endless = NewWorkunit(queue="lab", delay_bound=FOREVER, outputs=(NewOutput(open_name="out"),))
    return submit.submit(app="sieve", workunits=[endless], now=NOON)


def outcome(act: Callable[[], Any]) -> Any:
    """Return the refusal that a call raises, or its value."""
    try:
        return act()
    except (QueueChanged, *named_queues.REFUSALS) as refusal:
        return refusal


def changed(queue: Queue, facts: dict[str, Any]) -> Any:
    return outcome(lambda: named_queues.change(queue, now=NOON, **facts))


@NARROWED
def test_a_submission_that_was_checked_before_a_change_is_refused(
    queue: Queue, facts: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    with stopped_in(monkeypatch, new_batches, "open_batch") as (arrived, go):
        submission = Meanwhile(lambda: outcome(submitted))
        assert arrived.wait(PATIENCE)
        named_queues.change(queue, now=NOON, **facts)
        go.set()
        assert isinstance(submission.wait(), QueueChanged)
    assert not Workunit.objects.exists()


@NARROWED
def test_a_queue_is_not_changed_while_a_submission_writes(
    queue: Queue, facts: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    with stopped_in(monkeypatch, submit.workunit_rows, "_copy_workunits") as (arrived, go):
        submission = Meanwhile(submitted)
        assert arrived.wait(PATIENCE)
        assert isinstance(changed(queue, facts), admission.QueueBusy)
        # Other fields are changed at once.
        assert named_queues.change(queue, now=NOON, max_in_progress=3).max_in_progress == 3
        assert named_queues.change(queue, now=NOON, app=None, trusted=True).trusted
        go.set()
        assert submission.wait().count == 1
    assert isinstance(
        changed(queue, facts),
        named_queues.QueueOfOtherApp | named_queues.QueueHasInfiniteDeadlines,
    )


@pytest.mark.parametrize(
    "act",
    [
        lambda queue: named_queues.change(queue, now=NOON, name="renamed"),
        lambda queue: named_queues.drop(queue, now=NOON),
    ],
    ids=["renamed", "deleted"],
)
def test_a_queue_is_not_renamed_or_deleted_while_a_submission_writes(
    queue: Queue, act: Callable[[Queue], Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    with stopped_in(monkeypatch, submit.workunit_rows, "_copy_workunits") as (arrived, go):
        submission = Meanwhile(submitted)
        assert arrived.wait(PATIENCE)
        other = Meanwhile(lambda: outcome(lambda: act(Queue.objects.get())))
        try:
            assert isinstance(other.wait(), admission.QueueBusy)
            assert slots.lock_queue(queue.pk, waits=False), "claims still use the queue"
        finally:
            go.set()
        assert submission.wait().count == 1
    assert Queue.objects.get().name == "lab"


def test_a_submission_that_began_before_a_new_name_is_finished(
    queue: Queue, monkeypatch: pytest.MonkeyPatch
) -> None:
    with stopped_in(monkeypatch, new_batches, "open_batch") as (arrived, go):
        submission = Meanwhile(submitted)
        assert arrived.wait(PATIENCE)
        named_queues.change(queue, now=NOON, name="renamed")
        go.set()
        assert submission.wait().count == 1
    assert Workunit.objects.get().queue == queue


@NARROWED
def test_a_submission_waits_for_a_change_and_is_refused(
    queue: Queue, facts: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    checked, go = threading.Event(), threading.Event()
    draw = WorkunitChecks.draw_ids

    def draw_later(checks: WorkunitChecks, count: int) -> list[int]:
        checked.set()
        assert go.wait(PATIENCE)
        return draw(checks, count)

    monkeypatch.setattr(WorkunitChecks, "draw_ids", draw_later)
    with transaction.atomic():
        named_queues.change(queue, now=NOON, **facts)
        submission = Meanwhile(lambda: outcome(submitted))
        assert checked.wait(PATIENCE)
        go.set()
        assert submission.is_waiting
    assert isinstance(submission.wait(), QueueChanged)


def a_failed_workunit(queue: Queue) -> Workunit:
    workunit = in_batch(a_batch(), queue=queue, delay_bound=FOREVER)
    rows.update(workunit, error_mask=2, assimilate_state=1)
    rows.update(workunit, assimilate_state=2, finished_at=NOON)
    return workunit


def test_a_queue_is_not_changed_while_a_retry_writes(
    queue: Queue, monkeypatch: pytest.MonkeyPatch
) -> None:
    failed = a_failed_workunit(queue)
    with stopped_in(monkeypatch, retry, "_create") as (arrived, go):
        retried = Meanwhile(lambda: retry.retry(failed.batch_id, now=NOON))
        assert arrived.wait(PATIENCE)
        assert isinstance(changed(queue, {"trusted": False}), admission.QueueBusy)
        go.set()
        assert retried.wait() == retry.Retried(count=1)
    assert isinstance(changed(queue, {"trusted": False}), named_queues.QueueHasInfiniteDeadlines)


@NARROWED
def test_a_workunit_that_its_queue_accepts_no_more_is_not_retried(
    queue: Queue, facts: dict[str, Any]
) -> None:
    failed = a_failed_workunit(queue)
    named_queues.change(queue, now=NOON, **facts)
    assert retry.retry(failed.batch_id, now=NOON) == retry.Retried(refused_by_queue=1)
    assert Workunit.objects.count() == 1
    named_queues.change(queue, now=NOON, app=None, trusted=True)
    assert retry.retry(failed.batch_id, now=NOON) == retry.Retried(count=1)
