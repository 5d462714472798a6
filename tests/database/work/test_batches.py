"""Batches are accelerated, expire, are completed and retired."""

from __future__ import annotations

import io
import json
from datetime import timedelta

import pytest
from django.core.management import CommandError, call_command
from django.db import connection
from django.test.utils import CaptureQueriesContext

from scheduler.models import Batch, Result, Workunit
from scheduler.work import batch_reads as queries
from scheduler.work import batches
from scheduler.work.batches import ACCELERATION, Accelerated, BatchNotReady
from tests import rows
from tests.conftest import NOON
from tests.rows import a_result, a_workunit, an_account, an_app, settled, update

pytestmark = pytest.mark.django_db

State = Batch.State


def a_batch(name="b", **fields) -> Batch:
    fields = {"state": State.IN_PROGRESS, "created_at": NOON, "submitter": None} | fields
    fields["submitter"] = fields["submitter"] or an_account()
    return Batch.objects.create(name=name, app=fields.pop("app", None) or an_app(), **fields)


def in_batch(batch, *, finished=False, **fields) -> Workunit:
    workunit = a_workunit(batch.app, batch=batch, **fields)
    if finished:
        settled(workunit, assimilate_state=2)
    return workunit


def state(batch) -> int:
    return Batch.objects.get(pk=batch.pk).state


def run(*words) -> str:
    out = io.StringIO()
    call_command("batch", *words, stdout=out)
    return out.getvalue().strip()


# Accelerating


def test_accelerating_a_batch_raises_the_priority_of_its_open_work():
    batch = a_batch()
    slow = in_batch(batch, priority=5)
    unsent, sent = a_result(slow), a_result(slow, "sent")
    asleep = a_result(slow, "inactive")
    over = in_batch(batch, finished=True)
    done = batches.accelerate(batch.pk, now=NOON)
    assert done == Accelerated(workunits=1, results=2)
    assert Batch.objects.get(pk=batch.pk).accelerate
    priorities = dict(Result.objects.values_list("id", "priority"))
    assert priorities == {unsent.pk: ACCELERATION, sent.pk: 0, asleep.pk: ACCELERATION}
    assert Workunit.objects.get(pk=slow.pk).priority == 5 + ACCELERATION
    assert Workunit.objects.get(pk=over.pk).priority == 0


def test_accelerating_twice_changes_nothing_and_can_be_reverted():
    batch = a_batch()
    result = a_result(in_batch(batch, priority=5))
    batches.accelerate(batch.pk, now=NOON)
    assert batches.accelerate(batch.pk, now=NOON) == Accelerated(0, 0)
    assert batches.accelerate(batch.pk, on=False, now=NOON) == Accelerated(1, 1)
    result.refresh_from_db()
    assert (result.priority, Workunit.objects.get().priority) == (0, 5)


def test_accelerated_results_are_reserved_for_reliable_hosts_if_the_app_defines_them():
    app = an_app(reliable_max_turnaround=timedelta(days=1), reliable_wait=timedelta(hours=6))
    quick = a_result(in_batch(a_batch(app=app)))
    other = a_result(in_batch(a_batch("c")))
    for row in Batch.objects.all():
        batches.accelerate(row.pk, now=NOON)
    quick.refresh_from_db()
    other.refresh_from_db()
    assert (quick.reliable_until, other.reliable_until) == (NOON + timedelta(hours=6), None)


def test_accelerated_priority_is_capped_at_the_column_maximum():
    batch = a_batch()
    in_batch(batch, priority=2**31 - 5)
    batches.accelerate(batch.pk, now=NOON)
    assert Workunit.objects.get().priority == 2**31 - 1


def test_a_retired_batch_cannot_be_accelerated():
    with pytest.raises(BatchNotReady, match="is retired and cannot be accelerated"):
        batches.accelerate(a_batch(state=State.RETIRED).pk, now=NOON)


def test_accelerating_any_number_of_workunits_uses_the_same_statements():
    counts = []
    for size in (1, 100):
        batch = a_batch(f"of {size}")
        for _ in range(size):
            a_result(in_batch(batch))
        with CaptureQueriesContext(connection) as captured:
            batches.accelerate(batch.pk, now=NOON)
        counts.append(len(captured))
    assert counts[0] == counts[1]


# Expiring


def test_an_expired_batch_is_aborted_and_its_workunits_are_cancelled():
    late = a_batch("late", expire_at=NOON)
    early = a_batch("early", expire_at=NOON + timedelta(seconds=1))
    never = a_batch("never")
    work = {batch.pk: in_batch(batch, transition_at=None) for batch in (late, early, never)}
    assert batches.expire(now=NOON) == 1
    assert [state(b) for b in (late, early, never)] == [State.ABORTED, 1, 1]
    for batch_id, workunit in work.items():
        workunit.refresh_from_db()
        assert (workunit.cancel_requested_at == NOON) == (batch_id == late.pk)
        assert (rows.due_at(workunit) == NOON) == (batch_id == late.pk)
    assert batches.expire(now=NOON) == 0


def test_an_expired_complete_batch_is_retired():
    batch = a_batch(state=State.COMPLETE, expire_at=NOON)
    assert batches.expire(now=NOON) == 1
    assert state(batch) == State.RETIRED


# Completing


def test_a_batch_is_complete_when_all_its_workunits_are_assimilated():
    done, open_, empty = a_batch("done"), a_batch("open"), a_batch("all purged")
    in_batch(done, finished=True)
    in_batch(open_, finished=True)
    in_batch(open_)
    assert batches.complete(now=NOON) == 2
    assert [state(b) for b in (done, open_, empty)] == [State.COMPLETE, 1, State.COMPLETE]


# Retiring and deleting


@pytest.mark.parametrize("over", [State.COMPLETE, State.ABORTED, State.RETIRED])
def test_a_finished_batch_can_be_retired(over):
    batch = a_batch(state=over)
    batches.retire(batch.pk, now=NOON)
    assert state(batch) == State.RETIRED


def test_an_open_batch_cannot_be_retired_or_deleted():
    batch = a_batch()
    in_batch(batch)
    with pytest.raises(BatchNotReady, match="is in progress and cannot be retired"):
        batches.retire(batch.pk, now=NOON)
    with pytest.raises(BatchNotReady, match="is in progress and cannot be deleted"):
        batches.delete(batch.pk)


def test_a_batch_can_be_deleted_only_after_its_workunits_are_purged():
    batch = a_batch(state=State.RETIRED)
    workunit = in_batch(batch, finished=True)
    with pytest.raises(BatchNotReady, match="still has 1 workunits"):
        batches.delete(batch.pk)
    workunit.delete()
    batches.delete(batch.pk)
    assert not Batch.objects.exists()


# The command


def test_list_prints_the_progress_of_each_batch():
    batch = a_batch()
    in_batch(batch, finished=True)
    in_batch(batch)
    assert "in progress   50 %  2 workunits, 1 open, 1 failed" in run("list")
    (line,) = json.loads(run("list", "--json"))["batches"]
    assert (line["workunits"], line["open"], line["failed"]) == (2, 1, 1)


def test_show_prints_the_result_counts_of_a_batch():
    a_result(in_batch(a_batch()))
    facts = json.loads(run("show", "b", "--json"))
    assert (facts["state"], facts["results"]["unsent"]) == ("in progress", 1)


@pytest.mark.parametrize("action", ["accelerate", "abort", "retire", "delete"])
def test_a_dry_run_changes_nothing(action):
    batch = a_batch()
    in_batch(batch)
    assert run(action, "b", "--dry-run").endswith("Nothing was done.")
    batch.refresh_from_db()
    assert (batch.state, batch.accelerate) == (State.IN_PROGRESS, False)
    assert not Workunit.objects.exclude(cancel_requested_at=None).exists()


def test_the_batch_command_accelerates_expires_aborts_retires_and_deletes():
    batch = a_batch()
    a_result(in_batch(batch))
    assert run("accelerate", "b") == "Accelerated: 1 workunit, 1 unsent result of batch b."
    assert "expires on" in run("expire", "b", "--in", "7d")
    assert run("expire") == "Ended 0 expired batches."
    assert "cancellation requested for 1 workunit;" in run("abort", "b", "--reason", "wrong data")
    assert Workunit.objects.get().cancel_reason == "wrong data"
    assert run("retire", "b") == "Retired batch b."
    update(Workunit.objects.get(), batch=None)
    assert "Deleted batch b" in run("delete", "b")


def test_unknown_and_ambiguous_batch_names_are_refused():
    with pytest.raises(CommandError, match="There is no batch 'b'"):
        run("show", "b")
    one = a_batch()
    a_batch()
    with pytest.raises(CommandError, match="Several accounts have a batch 'b'"):
        run("show", "b")
    assert queries.find("b", one.submitter) == one
    with pytest.raises(CommandError, match="No batch is named"):
        run("abort")


def test_show_prints_a_progress_bar_and_the_batch_it_follows():
    first = a_batch("first")
    second = a_batch("second", submitter=first.submitter, after=first, keep_outputs=True)
    in_batch(second, finished=True)
    in_batch(second)
    output = run("show", "second")
    assert "[###############---------------] 50 % of 2: 1 unsent, 1 failed" in output
    assert "starts after batch first (which is in progress), if no workunit failed" in output
    assert "its outputs are kept until it is retired" in output
    facts = json.loads(run("show", "second", "--json"))
    assert (facts["after"], facts["progress"]["failed"]) == ("first", 1)


def test_abort_of_a_complete_batch_is_refused_and_retire_succeeds():
    a_batch("over", state=State.COMPLETE)
    with pytest.raises(CommandError, match=r"is complete and there is nothing to abort"):
        run("abort", "over")
    assert run("retire", "over") == "Retired batch over."
