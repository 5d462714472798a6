"""Queues are changed and balanced, schedules applied, and slots checked."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from daemons import housekeeper, work_generator
from scheduler.health import alerts
from scheduler.health.invariants import invariants
from scheduler.hosts import merge_hosts
from scheduler.lifecycle import ReleaseState, Target
from scheduler.models import App, Queue, QueueSlot, Result, Workunit
from scheduler.queues import named_queues, slots
from scheduler.queues.facts import FOREVER
from scheduler.queues.rules.schedules import entry_of_line
from scheduler.work.explain import explanation_of
from scheduler.work.submission.facts import NewWorkunit
from tests import rows
from tests.conftest import NOON
from tests.database.passes import a_pass, statements_of

pytestmark = pytest.mark.django_db

#: A Sunday.
SUNDAY = datetime(2029, 1, 7, tzinfo=UTC)


def a_queue(name: str = "lane", **facts: Any) -> Queue:
    return named_queues.create(name=name, now=NOON, **facts)


def a_result_in(queue: Queue, word: str = "sent") -> Result:
    workunit = rows.a_workunit(queue=queue)
    return rows.a_result(workunit, word, target_kind=Target.QUEUE, target_id=queue.pk)


def in_use() -> list[tuple[int, int]]:
    slots_in_use = QueueSlot.objects.filter(result__isnull=False).order_by("number")
    return list(slots_in_use.values_list("number", "result_id"))


def numbers() -> list[int]:
    return list(QueueSlot.objects.order_by("number").values_list("number", flat=True))


def violations() -> dict[str, list[str]]:
    ours = [invariant for invariant in invariants() if invariant.name.startswith("queue")]
    details = {each.name: [row.detail for row in each.find(NOON)] for each in ours}
    return {name: texts for name, texts in details.items() if texts}


def limit_of(queue: Queue) -> int | None:
    queue.refresh_from_db()
    return queue.max_in_progress


# Slots


def test_a_queue_has_one_slot_per_permitted_result() -> None:
    queue = a_queue(max_in_progress=3)
    assert numbers() == [1, 2, 3]
    named_queues.change(queue, now=NOON, max_in_progress=5)
    assert numbers() == [1, 2, 3, 4, 5]
    named_queues.change(queue, now=NOON, max_in_progress=2)
    assert numbers() == [1, 2]
    named_queues.change(queue, now=NOON, max_in_progress=None)
    assert numbers() == []
    named_queues.change(queue, now=NOON, max_in_progress=0)
    assert numbers() == []


def test_a_new_limit_counts_the_results_in_progress() -> None:
    queue = a_queue()
    sent = [a_result_in(queue).pk for _ in range(3)]
    a_result_in(queue, "unsent")
    named_queues.change(queue, now=NOON, max_in_progress=5)
    assert [result_id for _, result_id in in_use()] == sent
    assert numbers() == [1, 2, 3, 4, 5]
    assert violations() == {}


def test_slots_in_use_remain_above_a_lower_limit_until_they_are_free() -> None:
    queue = a_queue()
    sent = [a_result_in(queue) for _ in range(3)]
    named_queues.change(queue, now=NOON, max_in_progress=1)
    assert len(in_use()) == 3
    assert slots.free_slots(slots.all_queues().values()) == {queue.pk: 0}
    assert violations() == {}
    rows.update(sent[0], server_state=5, outcome=4)
    rows.update(sent[1], server_state=5, outcome=4)
    slots.free([sent[0].pk, sent[1].pk])
    assert slots.free_slots(slots.all_queues().values()) == {queue.pk: 0}
    rows.update(sent[2], server_state=5, outcome=4)
    slots.free([sent[2].pk])
    assert slots.free_slots(slots.all_queues().values()) == {queue.pk: 1}
    assert numbers() == [1]


def test_a_full_queue_above_its_limit_costs_one_statement_per_look() -> None:
    queue = a_queue()
    for _ in range(3):
        a_result_in(queue)
    named_queues.change(queue, now=NOON, max_in_progress=1)
    facts = list(slots.all_queues().values())
    assert statements_of(lambda: slots.free_slots(facts)) == 1


# Invariants


def _lose(_queue: Queue, result: Result) -> None:
    QueueSlot.objects.filter(result=result).update(result=None)


def _end(_queue: Queue, result: Result) -> None:
    rows.update(result, server_state=5, outcome=4)


def _drop(_queue: Queue, _result: Result) -> None:
    QueueSlot.objects.filter(result__isnull=True).delete()


def _exceed(queue: Queue, _result: Result) -> None:
    Queue.objects.filter(pk=queue.pk).update(max_in_progress=1)
    QueueSlot.objects.filter(number=1).update(number=0)
    QueueSlot.objects.filter(number=2).update(number=1)
    QueueSlot.objects.filter(number=3).delete()


def broken(break_it: Callable[[Queue, Result], None]) -> None:
    """Create a queue with a limit of 3 and one result in progress, and damage its slots."""
    queue = a_queue()
    result = a_result_in(queue)
    named_queues.change(queue, now=NOON, max_in_progress=3)
    assert violations() == {}
    break_it(queue, result)


def assert_repaired_by_the_chore() -> None:
    assert slots.balance_all(now=NOON) == 1
    assert violations() == {}
    assert slots.balance_all(now=NOON) == 0


@pytest.mark.parametrize(
    ("break_it", "detail"),
    [
        (_lose, "is in progress without a slot of queue lane"),
        (_end, "which is not in progress"),
    ],
)
def test_fsck_finds_slots_of_wrong_results_and_the_chore_repairs_them(
    break_it: Callable[[Queue, Result], None], detail: str
) -> None:
    broken(break_it)
    assert any(detail in text for text in violations()["queue_slots_match_results"])
    assert_repaired_by_the_chore()


@pytest.mark.parametrize(
    ("break_it", "detail"),
    [
        (_drop, "has 1 slots, 1 of them in use, and a limit of 3"),
        (_exceed, "has 2 slots, 1 of them in use, and a limit of 1"),
    ],
)
def test_fsck_finds_a_wrong_number_of_slots_and_the_chore_repairs_it(
    break_it: Callable[[Queue, Result], None], detail: str
) -> None:
    broken(break_it)
    assert any(detail in text for text in violations()["queue_slots_within_limit"])
    assert_repaired_by_the_chore()


def test_slots_of_a_queue_above_its_limit_need_no_repair() -> None:
    queue = a_queue()
    for _ in range(3):
        a_result_in(queue)
    named_queues.change(queue, now=NOON, max_in_progress=1)
    assert slots.balance_all(now=NOON) == 0


# Schedules


def scheduled(*lines: str, **facts: Any) -> Queue:
    return a_queue(schedule=[entry_of_line(line) for line in lines], **facts)


def test_the_housekeeper_applies_the_entry_in_effect_once() -> None:
    queue = scheduled("* 07:00 2", "* 19:00 4", "0 07:00 none")
    assert a_pass(housekeeper, now=SUNDAY + timedelta(hours=6)).done["queue limits changed"] == 1
    assert limit_of(queue) == 4
    assert len(numbers()) == 4
    a_pass(housekeeper, now=SUNDAY + timedelta(hours=7))
    assert limit_of(queue) is None
    named_queues.change(queue, now=NOON, max_in_progress=9)
    a_pass(housekeeper, now=SUNDAY + timedelta(hours=8))
    assert limit_of(queue) == 9, "a limit that was set by hand holds until the next entry"
    a_pass(housekeeper, now=SUNDAY + timedelta(hours=19))
    assert limit_of(queue) == 4
    a_pass(housekeeper, now=SUNDAY + timedelta(days=1, hours=7))
    assert limit_of(queue) == 2
    assert len(numbers()) == 2


def test_an_interruption_applies_only_the_entry_in_effect() -> None:
    queue = scheduled("* 07:00 2", "* 19:00 4")
    named_queues.apply_schedules(now=SUNDAY + timedelta(hours=8))
    named_queues.apply_schedules(now=SUNDAY + timedelta(days=3, hours=20))
    assert limit_of(queue) == 4
    assert queue.scheduled_at == SUNDAY + timedelta(days=3, hours=19)


def test_a_new_schedule_replaces_the_former_one_and_is_applied() -> None:
    queue = scheduled("* 07:00 2")
    named_queues.apply_schedules(now=SUNDAY + timedelta(hours=8))
    named_queues.change(queue, now=NOON, schedule=[entry_of_line("* 07:00 3")])
    named_queues.apply_schedules(now=SUNDAY + timedelta(hours=9))
    assert limit_of(queue) == 3
    named_queues.change(queue, now=NOON, schedule=[])
    assert named_queues.apply_schedules(now=SUNDAY + timedelta(hours=10)) == 0
    assert limit_of(queue) == 3


def test_schedules_are_read_with_two_statements_if_no_entry_is_due() -> None:
    for number in range(5):
        scheduled("* 07:00 2", name=f"lane{number}")
    now = SUNDAY + timedelta(hours=8)
    named_queues.apply_schedules(now=now)
    assert statements_of(lambda: named_queues.apply_schedules(now=now)) == 2


def test_a_bad_schedule_is_refused() -> None:
    with pytest.raises(named_queues.BadSchedule, match="more than once"):
        scheduled("* 07:00 2", "* 07:00 3")
    with pytest.raises(named_queues.BadSchedule, match="is not a time zone"):
        a_queue(time_zone="Europe/Berlinn")
    assert not Queue.objects.exists()


# Lists


def test_lists_contain_existing_hosts_and_accounts() -> None:
    host = rows.a_host()
    queue = a_queue(allowed_hosts=[host.pk, host.pk], denied_accounts=[host.account_id])
    assert queue.allowed_hosts == [host.pk]
    with pytest.raises(named_queues.UnknownListed, match="denied_hosts has no host 99999"):
        named_queues.change(queue, now=NOON, denied_hosts=[99999])
    with pytest.raises(named_queues.UnknownListed, match="is not a list of ids"):
        named_queues.change(queue, now=NOON, denied_hosts={"a": 1})


def test_a_merged_host_is_replaced_in_the_lists() -> None:
    kept = rows.a_host()
    merged = rows.a_host(kept.account)
    queue = a_queue(allowed_hosts=[merged.pk], denied_hosts=[kept.pk, merged.pk])
    merge_hosts.merge(kept_id=kept.pk, merged_id=merged.pk)
    queue.refresh_from_db()
    assert (queue.allowed_hosts, queue.denied_hosts) == ([kept.pk], [kept.pk])


# Apps, and deletion


def test_an_app_is_refused_while_work_of_another_app_waits() -> None:
    queue = a_queue()
    result = a_result_in(queue, "unsent")
    other = rows.an_app("other")
    with pytest.raises(named_queues.QueueOfOtherApp, match="other apps than other"):
        named_queues.change(queue, now=NOON, app="other")
    rows.update(result, server_state=5, outcome=5)
    with pytest.raises(named_queues.QueueOfOtherApp, match="other apps than other"):
        named_queues.change(queue, now=NOON, app="other")
    rows.update(result.workunit, finished_at=NOON)
    assert named_queues.change(queue, now=NOON, app="other").app == other


@pytest.mark.parametrize(
    "facts",
    [{}, {"release_state": ReleaseState.HELD}, {"release_state": ReleaseState.INACTIVE}],
    ids=["new", "held", "waiting"],
)
def test_an_app_is_refused_while_a_workunit_of_another_app_has_no_result(
    facts: dict[str, Any],
) -> None:
    queue = a_queue()
    rows.a_workunit(queue=queue, **facts)
    rows.an_app("other")
    with pytest.raises(named_queues.QueueOfOtherApp, match="other apps than other"):
        named_queues.change(queue, now=NOON, app="other")
    queue.refresh_from_db()
    assert queue.app is None


def test_an_app_is_refused_while_a_result_of_another_app_is_in_progress() -> None:
    queue = a_queue()
    a_result_in(queue, "sent")
    rows.an_app("other")
    with pytest.raises(named_queues.QueueOfOtherApp, match="other apps than other"):
        named_queues.change(queue, now=NOON, app="other")


@pytest.mark.parametrize("name", ["before", "after"])
def test_an_app_is_refused_while_an_older_or_newer_app_has_work(name: str) -> None:
    for app in ("before", "own", "after"):
        rows.an_app(app)
    queue = a_queue()
    rows.a_workunit(App.objects.get(name="own"), queue=queue)
    workunit = rows.a_workunit(App.objects.get(name=name), queue=queue)
    with pytest.raises(named_queues.QueueOfOtherApp, match="other apps than own"):
        named_queues.change(queue, now=NOON, app="own")
    rows.update(workunit, finished_at=NOON)
    assert named_queues.change(queue, now=NOON, app="own").app.name == "own"


def test_a_change_compares_with_the_stored_queue_and_not_with_an_older_copy() -> None:
    queue = a_queue()
    older = Queue.objects.get(pk=queue.pk)
    rows.an_app("other")
    app = rows.an_app("primes")
    named_queues.change(older, now=NOON, app="primes")
    named_queues.change(queue, now=NOON, app=None)
    rows.a_workunit(app, queue=queue)
    with pytest.raises(named_queues.QueueOfOtherApp, match="other apps than other"):
        named_queues.change(older, now=NOON, app="other")


def stranded() -> Result:
    """Return an unsent result of a queue that was given to another app afterwards."""
    queue = a_queue()
    result = a_result_in(queue, "unsent")
    Queue.objects.filter(pk=queue.pk).update(app=rows.an_app("other"))
    return result


def test_explain_and_an_alert_report_work_of_another_app_than_the_queue() -> None:
    rows.a_host(rpc_at=NOON)
    result = stranded()
    reasons = explanation_of(result.workunit.name, now=NOON).reasons
    assert "is not sent, because queue lane sends only work of app other" in reasons
    why = "it sends only work of app other, and its results are of other apps"
    assert alert_sentences() == [f"Queue lane has work but sends none: {why}."]
    own = rows.a_workunit(Queue.objects.get().app, queue=Queue.objects.get())
    rows.a_result(own, "unsent", target_kind=Target.QUEUE, target_id=own.queue_id)
    assert alert_sentences() == []


def test_fsck_finds_unfinished_work_that_its_queue_does_not_accept() -> None:
    workunit = stranded().workunit
    endless = rows.a_workunit(queue=a_queue("lab", trusted=True), delay_bound=FOREVER)
    app = workunit.app.name
    detail = f"is of app {app}, but its queue lane sends only work of app other"
    assert violations()["queues_accept_their_work"] == [detail]
    Queue.objects.filter(name="lab").update(trusted=False)
    endless_detail = "has an infinite deadline, but its queue lab is not trusted"
    assert violations()["queues_accept_their_work"] == [detail, endless_detail]
    rows.update(workunit, finished_at=NOON)
    rows.update(endless, finished_at=NOON)
    assert "queues_accept_their_work" not in violations()


def test_a_queue_stays_trusted_while_workunits_without_deadline_are_unfinished() -> None:
    queue = a_queue(trusted=True)
    rows.a_workunit(queue=queue)
    workunit = rows.a_workunit(queue=queue, delay_bound=FOREVER)
    with pytest.raises(named_queues.QueueHasInfiniteDeadlines, match="Hint: wait until they"):
        named_queues.change(queue, now=NOON, trusted=False)
    queue.refresh_from_db()
    assert queue.trusted
    named_queues.change(queue, now=NOON, trusted=True)
    Workunit.objects.filter(pk=workunit.pk).update(finished_at=NOON)
    assert not named_queues.change(queue, now=NOON, trusted=False).trusted


def test_only_a_queue_without_workunits_can_be_deleted() -> None:
    queue = a_queue(max_in_progress=2, schedule=[entry_of_line("* 07:00 2")])
    result = a_result_in(queue, "unsent")
    with pytest.raises(named_queues.QueueInUse, match="delete it after they are purged"):
        named_queues.drop(queue, now=NOON)
    result.delete()
    result.workunit.delete()
    named_queues.drop(queue, now=NOON)
    assert not Queue.objects.exists()
    assert not QueueSlot.objects.exists()


# Explanations


@pytest.mark.parametrize(
    ("fields", "sentence"),
    [
        ({}, "is sent by queue lane, which has 1 result in progress"),
        (
            {"max_in_progress": 1},
            "is sent by queue lane, which is full: 1 result in progress, with a limit of 1",
        ),
        (
            {"max_in_progress": 0},
            "is sent by queue lane, which is stopped, because its limit is 0",
        ),
        (
            {"disabled_until": NOON + timedelta(hours=1)},
            "is sent by queue lane, which is disabled until 2026-01-01 13:00 UTC",
        ),
    ],
)
def test_explain_describes_the_queue_of_an_unsent_result(
    fields: dict[str, Any], sentence: str
) -> None:
    queue = a_queue(**fields)
    a_result_in(queue)
    result = a_result_in(queue, "unsent")
    assert sentence in explanation_of(result.name, now=NOON).reasons
    assert sentence in explanation_of(result.workunit.name, now=NOON).reasons


# Copies


def test_copies_of_a_template_are_in_the_same_queue() -> None:
    queue = a_queue(trusted=True)
    app = rows.an_app()
    rows.a_workunit(app, name="template", queue=queue, delay_bound=FOREVER)
    options = {"id": app.pk, "generator_options": {}}
    answer = work_generator.copies("template", 3, options, {})
    assert {each["queue"] for each in answer.workunits} == {"lane"}
    assert "queue" in NewWorkunit.__dataclass_fields__


# Queues that stand still


def alert_sentences(now: datetime = NOON) -> list[str]:
    return [
        alert.sentence for alert in alerts.current(now=now) if alert.kind == "queue_stands_still"
    ]


@pytest.mark.parametrize(
    ("facts", "why"),
    [
        ({"max_in_progress": 0}, "its limit is 0"),
        (
            {"disabled_until": NOON + timedelta(days=1)},
            f"it is disabled until {NOON + timedelta(days=1):%Y-%m-%d %H:%M} UTC",
        ),
    ],
)
def test_a_closed_queue_with_work_raises_an_alert_and_is_explained(
    facts: dict[str, Any], why: str
) -> None:
    rows.a_host(rpc_at=NOON)
    queue = a_queue(**facts)
    assert alert_sentences() == []
    result = a_result_in(queue, "unsent")
    assert alert_sentences() == [f"Queue lane has work but sends none: {why}."]
    [reason] = [r for r in explanation_of(result.name, now=NOON).reasons if "queue lane" in r]
    assert why.removeprefix("it ") in reason


def test_a_queue_without_a_host_raises_an_alert() -> None:
    served = rows.a_host(rpc_at=NOON)
    others = rows.a_host(rpc_at=NOON)
    queue = a_queue(allowed_hosts=[served.pk])
    waiting = a_result_in(queue, "unsent")
    assert alert_sentences() == []
    type(served).objects.filter(pk=served.pk).update(denied=True)
    [sentence] = alert_sentences()
    assert "its lists exclude every active host" in sentence
    [reason] = [r for r in explanation_of(waiting.name, now=NOON).reasons if "queue lane" in r]
    assert reason.endswith("it stands still: its lists exclude every active host")
    named_queues.change(queue, now=NOON, allowed_hosts=[], denied_accounts=[others.account_id])
    assert len(alert_sentences()) == 1
    named_queues.change(queue, now=NOON, denied_accounts=[])
    assert alert_sentences() == []


def test_a_full_queue_raises_an_alert_after_a_day_without_a_free_slot() -> None:
    rows.a_host(rpc_at=NOON)
    queue = a_queue()
    sent = a_result_in(queue, "sent")
    Result.objects.filter(pk=sent.pk).update(sent_at=NOON - timedelta(days=2))
    named_queues.change(queue, now=NOON, max_in_progress=1)
    assert alert_sentences() == []
    a_result_in(queue, "unsent")
    [sentence] = alert_sentences()
    assert "all its slots are in use since" in sentence
    named_queues.change(queue, now=NOON, max_in_progress=2)
    assert alert_sentences() == []


def test_a_limit_of_0_in_a_schedule_or_the_balance_raises_no_alert() -> None:
    rows.a_host(rpc_at=NOON)
    queue = a_queue(max_in_progress=0, schedule=[entry_of_line("* 07:00 0")])
    a_result_in(queue, "unsent")
    assert alert_sentences() == []
    named_queues.change(queue, now=NOON, schedule=[])
    assert len(alert_sentences()) == 1
