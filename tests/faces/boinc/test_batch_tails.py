"""Results of a batch's tail are sent before other work, and to fast hosts."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from django.utils import timezone

from scheduler.models import Batch, HostAppVersion, Result, Workunit
from scheduler.work import batches
from scheduler.work.batches import ACCELERATION
from tests.rows import settled, update
from tests.scientists import a_batch
from tests.scripted_client import ScriptedClient, a_client
from tests.work import an_app, workunits

pytestmark = pytest.mark.django_db


def a_batch_of_ten(*, done: int, **fields: Any) -> Batch:
    app = an_app(reliable_max_turnaround=timedelta(hours=1))
    batch = a_batch(app=app, accelerate_tail=True, **fields)
    for workunit in workunits(app, 10)[:done]:
        settled(workunit, assimilate_state=2)
    Workunit.objects.update(batch=batch)
    return batch


def a_host(email: str, *, quick: bool, batch: Batch) -> ScriptedClient:
    client = a_client(email=email, name=email)
    client.ask()
    HostAppVersion.objects.update_or_create(
        host_id=client.hostid,
        app_version=batch.app.versions.get(),  # type: ignore[union-attr]  # it has one
        defaults={
            "consecutive_valid": 20,
            "turnaround_n": 20,
            "turnaround_avg": 60 if quick else 90_000,
        },
    )
    return client


def test_batch_tail_is_accelerated_and_sent_only_to_fast_hosts() -> None:
    batch = a_batch_of_ten(done=9)
    slow = a_host("slow@example.org", quick=False, batch=batch)
    quick = a_host("quick@example.org", quick=True, batch=batch)
    assert batches.accelerate_tails(now=timezone.now()) == 1
    batch.refresh_from_db()
    assert batch.accelerate
    assert batch.tail_at is not None
    [left] = Result.objects.filter(workunit__error_mask=0)
    assert left.priority == ACCELERATION
    update_others(left)
    assert slow.ask_for_work() == []
    assert len(quick.ask_for_work()) == 1
    assert batches.accelerate_tails(now=timezone.now()) == 0


def update_others(left: Result) -> None:
    """Finish all results except `left`, as the transitioner would."""
    for result in Result.objects.exclude(pk=left.pk):
        update(result, server_state=5, outcome=5)


@pytest.mark.parametrize(
    ("done", "fields"),
    [(8, {}), (10, {}), (9, {"tail_at": timezone.now()}), (9, {"state": Batch.State.ABORTED})],
    ids=["not yet", "over", "accelerated before", "given up"],
)
def test_batch_that_is_not_in_its_tail_is_not_accelerated(
    done: int, fields: dict[str, Any]
) -> None:
    a_batch_of_ten(done=done, **fields)
    assert batches.accelerate_tails(now=timezone.now()) == 0
    assert not Result.objects.exclude(priority=0).exists()


def test_batch_without_accelerate_tail_is_not_accelerated() -> None:
    update(a_batch_of_ten(done=9), accelerate_tail=False)
    assert batches.accelerate_tails(now=timezone.now()) == 0
