"""Claims, reports, time-outs and passes on one task list at the same time."""

from __future__ import annotations

from datetime import timedelta

import pytest
from django.db import connection, transaction
from django.utils import timezone

from daemons import timeout_checker, transitioner, validator
from scheduler.dispatch import bundle_claims
from scheduler.models import Bundle, BundleMember, Result
from scheduler.work import task_lists
from scheduler.work.submission.facts import NewBatch
from tests.database.daemons.test_interleavings import PATIENCE, Meanwhile, stopped_in
from tests.lists import an_app_with_lists, expire, passes, state, submitted
from tests.scripted_client import ScriptedClient, a_client

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture(autouse=True)
def no_endless_wait():
    """Limit each wait for a lock: a claim that does not skip a locked list fails, not hangs."""
    with connection.cursor() as cursor:
        cursor.execute("SET lock_timeout TO '5s'")
    yield
    with connection.cursor() as cursor:
        cursor.execute("RESET lock_timeout")


def attached(name: str) -> ScriptedClient:
    client = a_client(email=f"{name}@example.org", name=name)
    client.ask()
    return client


def holders(bundle: Bundle) -> set[int | None]:
    """Return the hosts of the list's results in progress."""
    rows = Result.objects.filter(target_id=bundle.pk, server_state=4)
    return set(rows.values_list("host_id", flat=True))


def test_a_pass_waits_for_a_claim_and_does_not_open_its_list(monkeypatch):
    made = submitted(an_app_with_lists(), "a", "a")
    bundle, client = Bundle.objects.get(), attached("ada")
    with stopped_in(monkeypatch, bundle_claims, "_send") as (arrived, go):
        claim = Meanwhile(client.ask_for_work)
        assert arrived.wait(PATIENCE)
        settled = Meanwhile(lambda: settle(made.workunit_ids, bundle))
        assert settled.is_waiting
        go.set()
        assert claim.wait() == ["wu0_0", "wu1_0"]
        settled.wait()
    assert state(bundle) == "running"


def settle(workunit_ids, bundle: Bundle) -> None:
    """Settle a list as a pass does that has locked none of its members' workunits."""
    with transaction.atomic():
        task_lists.settle([], [bundle.pk], now=timezone.now())


def test_a_list_that_another_claim_holds_is_not_sent(other):
    submitted(an_app_with_lists(), "a", "a")
    client = attached("ada")
    other.execute("SELECT FROM bundle FOR NO KEY UPDATE")
    assert client.ask_for_work() == []
    assert Result.objects.filter(server_state=4).count() == 0
    other.rollback()
    assert client.ask_for_work() == ["wu0_0", "wu1_0"]


def test_none_of_a_list_is_sent_while_one_workunit_is_locked(other):
    submitted(an_app_with_lists(), "a", "a", "a")
    client, bundle = attached("ada"), Bundle.objects.get()
    other.execute("SELECT FROM workunit WHERE name = 'wu1' FOR NO KEY UPDATE")
    assert client.ask_for_work() == []
    assert state(bundle) == "open"
    other.rollback()
    assert len(client.ask_for_work()) == 3


def test_a_spare_list_is_sent_in_place_of_a_locked_one(other):
    app = an_app_with_lists()
    submitted(app, "a")
    submitted(app, "b")
    client = attached("ada")
    other.execute("SELECT FROM bundle ORDER BY id LIMIT 1 FOR NO KEY UPDATE")
    assert client.ask_for_work() == ["wu1_0"]


def test_a_list_that_changed_between_read_and_lock_is_not_sent(other, monkeypatch):
    """A member is held: its result is no longer unsent, though the list was read as ready."""
    submitted(an_app_with_lists(), "a", "a")
    client = attached("ada")
    lock = bundle_claims._lock

    def overtaken(*args, **kwargs):
        other.execute("UPDATE result SET server_state = 1 WHERE name = 'wu1_0'")
        other.commit()
        return lock(*args, **kwargs)

    monkeypatch.setattr(bundle_claims, "_lock", overtaken)
    assert client.ask_for_work() == []
    assert Result.objects.filter(server_state=4).count() == 0


def test_a_list_is_not_sent_without_a_member_that_was_just_held():
    """The list still counts as ready, because no pass has looked at the held member yet."""
    submitted(an_app_with_lists(), "a", "a", "a")
    client, bundle = attached("ada"), Bundle.objects.get()
    Result.objects.filter(name="wu2_0").update(server_state=1)
    assert bundle.is_ready
    assert client.ask_for_work() == []
    assert Result.objects.filter(server_state=4).count() == 0


def test_concurrent_claims_send_each_list_to_one_host():
    app = an_app_with_lists()
    for label in "abcdef":
        submitted(app, label, label, label)
    clients = [attached(f"computer{number}") for number in range(6)]
    claims = [Meanwhile(client.ask_for_work) for client in clients]
    names = [claim.wait() for claim in claims]
    assert all(len(each) in {0, 3} for each in names)
    for bundle in Bundle.objects.all():
        held = holders(bundle)
        assert held == ({bundle.host_id} if state(bundle) == "running" else set())
    sent = [name for each in names for name in each]
    assert len(sent) == len(set(sent)) == Result.objects.filter(server_state=4).count()


def test_a_member_reported_during_the_time_out_is_not_opened_again(other):
    submitted(an_app_with_lists(), "a", "a")
    bundle, client = Bundle.objects.get(), attached("ada")
    client.ask_for_work()
    expire(bundle)
    # A report has locked its workunit; the time-out checker skips it.
    other.execute("SELECT FROM workunit WHERE name = 'wu0' FOR NO KEY UPDATE")
    passes()
    assert state(bundle) == "running"
    other.execute(
        "UPDATE result SET server_state = 5, outcome = 1, received_at = now() WHERE name = 'wu0_0'"
    )
    other.execute(
        "INSERT INTO workunit_wakeup (workunit_id, inserted_at)"
        " SELECT id, now() FROM workunit WHERE name = 'wu0'"
    )
    other.commit()
    passes()
    assert state(bundle) == "open"
    assert attached("bob").ask_for_work() == ["wu1_1"]


def test_a_late_report_closes_a_list_that_was_opened_again():
    submitted(an_app_with_lists(), "a", "a")
    bundle, client = Bundle.objects.get(), attached("ada")
    client.ask_for_work()
    expire(bundle)
    passes()
    assert state(bundle) == "open"
    client.report("wu0_0", "wu1_0")
    now = timezone.now()
    transitioner.run_pass(now=now, limit=100)
    validator.run_pass(now=now + timedelta(seconds=1), limit=100)
    transitioner.run_pass(now=now + timedelta(seconds=2), limit=100)
    assert state(bundle) == "closed"
    assert attached("bob").ask_for_work() == []


def test_two_passes_that_settle_one_list_see_each_others_members(monkeypatch):
    """The close of one member and the re-opening of the other meet: the list is open and ready."""
    submitted(an_app_with_lists(), "a", "a")
    bundle, client = Bundle.objects.get(), attached("ada")
    client.ask_for_work()
    client.report("wu0_0")
    expire(bundle)
    with stopped_in(monkeypatch, task_lists, "_members") as (arrived, go):
        first = Meanwhile(lambda: transitioner.run_pass(now=timezone.now(), limit=100))
        assert arrived.wait(PATIENCE)
        timeout_checker.run_pass(now=timezone.now(), limit=100)
        second = Meanwhile(lambda: transitioner.run_pass(now=timezone.now(), limit=100))
        assert second.is_waiting
        go.set()
        first.wait()
        second.wait()
    assert state(bundle) == "open"
    assert attached("bob").ask_for_work() == ["wu1_1"]


def test_concurrent_bundlers_put_each_result_into_one_list():
    batch = NewBatch(name="sized", bundle_size=3)
    submitted(an_app_with_lists(), *[None] * 30, batch=batch)
    bundlers = [
        Meanwhile(lambda: task_lists.make_lists(now=timezone.now(), limit=100)) for _ in range(4)
    ]
    made = sum(bundler.wait() for bundler in bundlers)
    made += task_lists.make_lists(now=timezone.now() + timedelta(seconds=20), limit=100)
    assert made == Bundle.objects.count()
    targets = list(Result.objects.values_list("target_id", flat=True))
    assert len(targets) == 30
    assert 0 not in targets


def test_a_bundler_skips_results_that_another_one_groups(monkeypatch):
    submitted(an_app_with_lists(), *[None] * 4, batch=NewBatch(name="sized", bundle_size=2))
    with stopped_in(monkeypatch, task_lists.grouping, "group") as (arrived, go):
        first = Meanwhile(lambda: task_lists.make_lists(now=timezone.now(), limit=100))
        assert arrived.wait(PATIENCE)
        assert task_lists.make_lists(now=timezone.now(), limit=100) == 0
        go.set()
        assert first.wait() == 2
    assert BundleMember.objects.count() == 4
