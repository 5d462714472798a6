"""Task lists are claimed as a unit, and closed when all members are over."""

from __future__ import annotations

from datetime import timedelta

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from daemons import transitioner
from scheduler.lifecycle import ErrorMask
from scheduler.models import Bundle, Result, Workunit
from scheduler.work import control, task_lists
from scheduler.work.submission.facts import NewBatch
from tests.database.passes import statements_of
from tests.lists import (
    SECONDS,
    an_app_with_lists,
    expire,
    members,
    passes,
    state,
    submitted,
)
from tests.scripted_client import a_client, rpc_statements
from tests.work import an_app, workunits

pytestmark = pytest.mark.django_db(transaction=True)


def attached(name: str = "computer", **fields):
    client = a_client(email=f"{name}@example.org", name=name, **fields)
    client.ask()
    return client


def test_a_list_is_claimed_as_a_unit_and_in_order():
    submitted(an_app_with_lists(), "a", "a", "a")
    bundle = Bundle.objects.get()
    assert state(bundle) == "open"
    client = attached()
    reply = client.ask(cpu_req_secs=1)
    assert [r.name for r in reply.results] == ["wu0_0", "wu1_0", "wu2_0"]
    assert [(r.bundle, r.bundle_place) for r in reply.results] == [
        (bundle.pk, 1),
        (bundle.pk, 2),
        (bundle.pk, 3),
    ]
    assert state(bundle) == "running"
    assert (bundle.host_id, bundle.claims) == (client.hostid, 1)


def test_a_list_closes_when_its_last_member_is_reported():
    submitted(an_app_with_lists(), "a", "a")
    bundle, client = Bundle.objects.get(), attached()
    client.ask_for_work()
    client.report("wu0_0")
    passes()
    assert state(bundle) == "running"
    client.report("wu1_0")
    passes()
    assert state(bundle) == "closed"
    assert bundle.finished_at is not None
    assert bundle.host_id == client.hostid


def test_lease_is_three_times_the_sum_of_expected_run_times():
    submitted(an_app_with_lists(), "a", "a")
    attached().ask_for_work()
    for result in Result.objects.all():
        assert result.report_deadline - result.sent_at == timedelta(seconds=3 * 2 * SECONDS)


def test_lease_factor_is_an_option(settings):
    from dataclasses import replace

    settings.PROJECT = replace(settings.PROJECT, bundle_lease_factor=5)
    submitted(an_app_with_lists(), "a")
    attached().ask_for_work()
    result = Result.objects.get()
    assert result.report_deadline - result.sent_at == timedelta(seconds=5 * SECONDS)


def test_only_unreported_members_are_opened_again_after_the_lease():
    submitted(an_app_with_lists(), "a", "a", "a")
    bundle, client = Bundle.objects.get(), attached()
    client.ask_for_work()
    client.report("wu1_0")
    expire(bundle)
    passes()
    assert state(bundle) == "open"
    assert bundle.host_id is None
    other = attached("other")
    assert other.ask_for_work() == ["wu0_1", "wu2_1"]
    assert state(bundle) == "running"
    assert bundle.claims == 2


def test_a_failed_member_leaves_the_list_and_gets_a_list_of_its_own():
    submitted(an_app_with_lists(), "a", "a")
    bundle, client = Bundle.objects.get(), attached()
    client.ask_for_work()
    client.report("wu0_0", state=3, exit_status=1, upload=None)
    passes()
    failed = Workunit.objects.get(name="wu0")
    assert failed.bundle_id == 0
    assert Result.objects.get(name="wu0_1").target_id == 0
    passes(timezone.now() + timedelta(seconds=20))
    failed.refresh_from_db()
    assert failed.bundle_id not in {0, bundle.pk}
    assert members(Bundle.objects.get(pk=failed.bundle_id)) == ["wu0"]
    client.report("wu1_0")
    passes()
    assert state(bundle) == "closed"
    assert members(bundle) == ["wu0", "wu1"]


def test_a_list_waits_until_every_member_has_an_unsent_result():
    submitted(an_app_with_lists(), "a", "a", held=True)
    bundle = Bundle.objects.get()
    control.release(names=["wu0"], now=timezone.now())
    passes()
    assert state(bundle) == "waiting"
    assert attached().ask_for_work() == []


@pytest.mark.parametrize("field", ["start_before", "end_before"])
def test_a_member_whose_time_passes_does_not_stop_its_open_list(field):
    submitted(an_app_with_lists(), "a", "a", "a")
    now, client = timezone.now(), attached()
    Workunit.objects.filter(name="wu1").update(**{field: now - timedelta(seconds=1)})
    assert client.ask_for_work() == [], "the list is not sent with a member that is too late"
    Workunit.objects.filter(name="wu1").update(transition_at=now)
    passes()
    passes()
    assert Workunit.objects.get(name="wu1").error_mask == ErrorMask.EXPIRED
    assert client.ask_for_work() == ["wu0_0", "wu2_0"]


def test_a_member_whose_end_passes_is_aborted_while_its_list_runs_on():
    submitted(an_app_with_lists(), "a", "a")
    bundle, client = Bundle.objects.get(), attached()
    client.ask_for_work()
    past = timezone.now() - timedelta(seconds=1)
    Workunit.objects.update(start_before=past)
    Workunit.objects.filter(name="wu1").update(end_before=past)
    passes()
    passes()
    assert list(Workunit.objects.order_by("id").values_list("error_mask", flat=True)) == [
        *(0, ErrorMask.EXPIRED)
    ]
    assert state(bundle) == "running"
    reply = client.ask()
    assert [*reply.result_aborts, *reply.result_aborts_if_not_started] == ["wu1_0"]
    client.report("wu1_0", state=6, exit_status=200, upload=None)
    client.report("wu0_0")
    passes()
    assert state(bundle) == "closed"


def test_a_list_that_does_not_fit_is_refused_as_a_whole_with_the_reason():
    app = an_app_with_lists()
    submitted(app, "a", rsc_memory_bound=1e8)
    submitted(app, "b", "b", rsc_memory_bound=1e8)
    Workunit.objects.filter(name="wu2").update(rsc_memory_bound=1e13)
    client = attached()
    assert client.ask_for_work(seconds=10_000) == ["wu0_0"]
    reply = attached("other").ask(cpu_req_secs=1)
    assert reply.results == ()
    assert any("needs 9536743.16 MB RAM" in message.text for message in reply.messages)


def test_single_results_follow_when_no_list_is_left():
    app = an_app_with_lists()
    submitted(app, "a", None)
    first, second = attached("first"), attached("second")
    assert first.ask_for_work() == ["wu0_0"]
    assert second.ask_for_work() == ["wu1_0"]


def test_lists_are_claimed_by_priority_then_by_age():
    app = an_app_with_lists()
    submitted(app, "old")
    submitted(app, "new")
    submitted(app, "urgent", priority=5)
    clients = [attached(f"computer{number}") for number in range(3)]
    assert [client.ask_for_work() for client in clients] == [["wu2_0"], ["wu0_0"], ["wu1_0"]]


def test_a_list_is_as_old_as_its_oldest_member():
    submitted(an_app_with_lists(), *[None] * 3, batch=NewBatch(name="sized", bundle_size=3))
    transitioner.run_pass(now=timezone.now(), limit=100)
    oldest = timezone.now().replace(microsecond=0) - timedelta(hours=1)
    Workunit.objects.filter(name="wu1").update(created_at=oldest)
    passes()
    [bundle] = Bundle.objects.all()
    assert bundle.created_at == oldest
    assert task_lists.label_of(bundle) == str(int(oldest.timestamp()))


def test_a_host_gets_as_many_lists_as_meet_its_request():
    app = an_app_with_lists()
    for label in "abc":
        submitted(app, label, label)
    assert attached().ask_for_work(seconds=3 * SECONDS) == ["wu0_0", "wu1_0", "wu2_0", "wu3_0"]


def test_a_list_counts_with_the_processors_that_its_largest_member_requests():
    app = an_app_with_lists()
    for label in "abc":
        submitted(app, label, label)
    Workunit.objects.filter(name__in=["wu1", "wu3", "wu5"]).update(requested_cpus=2)
    client = attached()
    names = ["wu0_0", "wu1_0", "wu2_0", "wu3_0"]
    assert client.ask_for_work(seconds=0, cpu_req_instances=4.0) == names
    assert attached("other").ask_for_work(seconds=0, cpu_req_instances=4.0) == ["wu4_0", "wu5_0"]


def test_bundler_groups_new_results_by_the_size_that_the_batch_asks_for():
    batch = NewBatch(name="sized", bundle_size=2)
    submitted(an_app_with_lists(), *[None] * 5, batch=batch)
    passes()
    assert [members(bundle) for bundle in Bundle.objects.order_by("id")] == [
        ["wu0", "wu1"],
        ["wu2", "wu3"],
    ]
    passes(timezone.now() + timedelta(seconds=20))
    assert members(Bundle.objects.order_by("id").last()) == ["wu4"]
    assert attached().ask_for_work() == ["wu0_0", "wu1_0"]


def test_bundler_groups_new_results_by_their_expected_run_time():
    batch = NewBatch(name="timed", bundle_duration=timedelta(seconds=3.5 * SECONDS))
    submitted(an_app_with_lists(), *[None] * 7, batch=batch)
    passes()
    assert [len(members(bundle)) for bundle in Bundle.objects.order_by("id")] == [3, 3]


def test_a_cancelled_list_is_closed():
    made = submitted(an_app_with_lists(), "a", "a")
    control.cancel_all_of(made.batch_id, reason="not needed", now=timezone.now())
    passes()
    bundle = Bundle.objects.get()
    assert state(bundle) == "closed"
    assert bundle.host_id is None


def test_a_project_without_lists_runs_no_statement_for_them():
    workunits(an_app(), 2)
    client = attached()
    with CaptureQueriesContext(connection) as captured:
        assert client.ask_for_work() == ["upper_0_0"]
        client.report("upper_0_0")
        passes()
    touching = [query["sql"] for query in captured if "FROM bundle" in query["sql"]]
    touching += [query["sql"] for query in captured if "bundle_member" in query["sql"]]
    assert touching == []


def claim_of(count: int) -> int:
    """Return the number of statements of a claim of `count` lists of `count` members."""
    app = an_app_with_lists(name=f"app{count}")
    for label in map(str, range(count)):
        submitted(app, *[label] * count)
    client = attached(f"of{count}")
    return len(rpc_statements(lambda: client.ask_for_work(seconds=count * count * SECONDS)))


def test_a_claim_takes_the_same_number_of_statements_for_any_number_of_lists():
    assert claim_of(2) == claim_of(6)


def test_settling_takes_the_same_number_of_statements_for_any_number_of_lists():
    counts = []
    for count in (1, 5):
        app = an_app_with_lists(name=f"app{count}")
        for label in map(str, range(count)):
            submitted(app, label, label)
        client = attached(f"of{count}")
        names = client.ask_for_work(seconds=2 * count * SECONDS)
        assert len(names) == 2 * count
        client.report(*names)
        counts.append(statements_of(lambda: transitioner.run_pass(now=timezone.now(), limit=1000)))
    assert counts[0] == counts[1]
