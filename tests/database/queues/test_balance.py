"""The balance sets the limits of its queues, and is never exceeded."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

import pytest

from scheduler.lifecycle import Target
from scheduler.models import Queue, QueueSlot, Result
from scheduler.queues import balance, named_queues
from tests import rows
from tests.conftest import NOON
from tests.database.passes import statements_of
from tests.database.queues.test_named_queues import SUNDAY, violations

pytestmark = pytest.mark.django_db

MOST = {"* 00:00": 6}


def a_queue(name: str, *, unsent: int = 0, sent: int = 0, **facts: Any) -> Queue:
    queue = named_queues.create(name=name, now=NOON, **facts)
    for word, count in (("unsent", unsent), ("sent", sent)):
        for _ in range(count):
            workunit = rows.a_workunit(queue=queue)
            rows.a_result(workunit, word, target_kind=Target.QUEUE, target_id=queue.pk)
    return queue


def limits() -> dict[str, int | None]:
    return dict(Queue.objects.values_list("name", "max_in_progress"))


def change(*groups: list[str], at: datetime = NOON, **facts: Any) -> None:
    balance.change(queues=groups, now=at, **{"max_tasks": MOST} | facts)


def test_queues_of_the_first_group_share_and_the_others_get_the_rest() -> None:
    for name, unsent in (("a", 9), ("b", 1), ("rest", 9)):
        a_queue(name, unsent=unsent)
    change(["a", "b"], ["rest"])
    assert limits() == {"a": 5, "b": 1, "rest": 0}
    assert balance.groups() == [["a", "b"], ["rest"]]
    assert QueueSlot.objects.count() == 6
    assert not violations()


def test_limits_follow_the_work() -> None:
    first = a_queue("first", unsent=2)
    a_queue("second", unsent=9)
    change(["first"], ["second"])
    assert limits() == {"first": 2, "second": 4}
    Result.objects.filter(target_id=first.pk).delete()
    assert balance.apply(now=NOON + timedelta(seconds=15)) == 2
    assert limits() == {"first": 0, "second": 6}
    assert balance.apply(now=NOON + timedelta(seconds=30)) == 0


def test_results_in_progress_count_until_they_end() -> None:
    a_queue("first", unsent=9)
    second = a_queue("second", unsent=9, sent=4)
    change(["first"], ["second"])
    assert limits() == {"first": 2, "second": 0}
    sent = Result.objects.filter(target_id=second.pk, server_state=4).first()
    assert sent is not None
    Result.objects.filter(pk=sent.pk).update(server_state=5, outcome=1)
    QueueSlot.objects.filter(result=sent).update(result=None)
    balance.apply(now=NOON)
    assert limits() == {"first": 3, "second": 0}
    assert not violations()


def test_the_maximum_changes_by_weekday_and_time() -> None:
    a_queue("lane", unsent=99)
    change(["lane"], at=SUNDAY, max_tasks={"* 00:00": 6, "0 07:30": 2}, time_zone="Europe/Berlin")
    assert limits() == {"lane": 6}
    balance.apply(now=SUNDAY + timedelta(hours=6, minutes=29))
    assert limits() == {"lane": 6}
    balance.apply(now=SUNDAY + timedelta(hours=6, minutes=30))
    assert limits() == {"lane": 2}
    balance.apply(now=SUNDAY + timedelta(hours=23, minutes=1))
    assert limits() == {"lane": 6}


def test_a_disabled_balance_changes_nothing_before_its_time() -> None:
    a_queue("lane", unsent=99, max_in_progress=1)
    change(["lane"], disabled_until=NOON + timedelta(hours=1))
    assert limits() == {"lane": 1}
    balance.apply(now=NOON + timedelta(minutes=59))
    assert limits() == {"lane": 1}
    balance.apply(now=NOON + timedelta(hours=1))
    assert limits() == {"lane": 6}


def test_a_queue_that_leaves_keeps_its_limit_and_its_schedule_applies_again() -> None:
    queue = a_queue("lane", unsent=99)
    change(["lane"])
    with pytest.raises(named_queues.QueueIsBalanced, match="Hint"):
        named_queues.change(queue_of("lane"), now=NOON, max_in_progress=1)
    change()
    assert limits() == {"lane": 6}
    named_queues.change(queue_of("lane"), now=NOON, max_in_progress=1)
    balance.apply(now=NOON)
    assert limits() == {"lane": 1}
    assert queue.pk


def queue_of(name: str) -> Queue:
    return Queue.objects.get(name=name)


def test_a_project_without_a_balance_pays_one_statement() -> None:
    a_queue("lane")
    assert statements_of(lambda: balance.apply(now=NOON)) == 1


def test_a_pass_without_changes_takes_a_constant_number_of_statements() -> None:
    for number in range(5):
        a_queue(f"lane{number}", unsent=2)
    change([f"lane{number}" for number in range(5)])
    assert statements_of(lambda: balance.apply(now=NOON)) == 3
