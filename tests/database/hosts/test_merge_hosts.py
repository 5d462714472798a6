"""Merging two rows of one computer keeps its results, credit and client."""

from __future__ import annotations

import threading
from decimal import Decimal

import pytest
from django.db import connection, transaction
from django.utils import timezone

from scheduler.credit import app_credits
from scheduler.health.invariants import invariants
from scheduler.hosts import merge_hosts, recognition
from scheduler.models import AppVersion, CreditEntry, Host, HostAppCredit, HostAppVersion, Result
from tests.conftest import NOON
from tests.scripted_client import ScriptedClient, a_client
from tests.work import an_app, workunits

pytestmark = pytest.mark.django_db


@pytest.fixture
def pair() -> tuple[ScriptedClient, ScriptedClient]:
    old, new = a_client(name="old"), a_client(name="new")
    old.ask()
    new.ask()
    return old, new


def pay(host_id: int, amount: str, result_id: int) -> None:
    host = Host.objects.get(pk=host_id)
    CreditEntry.objects.create(
        result_id=result_id,
        rule="validated",
        account_id=host.account_id,
        host=host,
        app=an_app(version_num=100 + result_id),
        amount=Decimal(amount),
        granted_at=timezone.now(),
    )
    Host.objects.filter(pk=host_id).update(total_credit=Decimal(amount))


def test_results_and_credit_move_to_the_kept_host(
    pair: tuple[ScriptedClient, ScriptedClient],
) -> None:
    old, new = pair
    workunits(an_app(), 1)
    assert old.ask_for_work() == ["upper_0_0"]
    pay(old.hostid, "2.5", 1)
    pay(new.hostid, "1.5", 2)
    kept = merge_hosts.merge(kept_id=new.hostid, merged_id=old.hostid)
    assert kept.total_credit == Decimal(4)
    assert Host.objects.get(pk=old.hostid).total_credit == 0
    assert Result.objects.get().host_id == new.hostid


def test_credit_by_app_moves_to_the_kept_host(
    pair: tuple[ScriptedClient, ScriptedClient],
) -> None:
    old, new = pair
    primes, twins = an_app("primes"), an_app("twins")
    for host_id, app, amount in (
        (old.hostid, primes, "2.5"),
        (new.hostid, primes, "1.5"),
        (old.hostid, twins, "4"),
    ):
        CreditEntry.objects.create(
            result_id=CreditEntry.objects.count() + 1,
            rule="validated",
            account_id=Host.objects.get(pk=host_id).account_id,
            host_id=host_id,
            app=app,
            amount=Decimal(amount),
            granted_at=timezone.now(),
        )
    app_credits.count(now=timezone.now())
    pay(old.hostid, "1", 50)
    merge_hosts.merge(kept_id=new.hostid, merged_id=old.hostid)
    app_credits.count(now=timezone.now())
    totals = {row.app.name: row.total for row in HostAppCredit.objects.filter(host_id=new.hostid)}
    assert totals.pop("primes") == 4
    assert totals.pop("twins") == 4
    assert list(totals.values()) == [1]
    assert not HostAppCredit.objects.filter(host_id=old.hostid).exists()
    assert not [each.name for each in invariants() if "host_app" in each.name and each.find(NOON)]


@pytest.mark.parametrize(
    ("kept_is_hidden", "merged_is_hidden", "is_hidden"),
    [(False, False, False), (True, False, True), (False, True, True)],
)
def test_kept_host_is_hidden_if_one_of_the_hosts_was(
    pair: tuple[ScriptedClient, ScriptedClient],
    kept_is_hidden: bool,
    merged_is_hidden: bool,
    is_hidden: bool,
) -> None:
    old, new = pair
    Host.objects.filter(pk=old.hostid).update(hidden=merged_is_hidden)
    Host.objects.filter(pk=new.hostid).update(hidden=kept_is_hidden)
    kept = merge_hosts.merge(kept_id=new.hostid, merged_id=old.hostid)
    kept.refresh_from_db()
    assert kept.hidden is is_hidden


def test_work_targeted_at_the_merged_host_is_sent_to_the_kept_host(
    pair: tuple[ScriptedClient, ScriptedClient],
) -> None:
    old, new = pair
    (workunit,) = workunits(an_app(), 1, target_host_id=old.hostid)
    Result.objects.update(target_kind=1, target_id=old.hostid)
    merge_hosts.merge(kept_id=new.hostid, merged_id=old.hostid)
    workunit.refresh_from_db()
    assert workunit.target_host_id == new.hostid
    assert new.ask_for_work() == ["upper_0_0"]


def test_the_client_of_a_merged_host_receives_the_id_of_the_kept_host(
    pair: tuple[ScriptedClient, ScriptedClient],
) -> None:
    old, new = pair
    workunits(an_app(), 1)
    old.ask_for_work()
    merge_hosts.merge(kept_id=new.hostid, merged_id=old.hostid)
    old.rpc_seqno = 50
    reply = old.report("upper_0_0")
    assert reply.hostid == new.hostid
    assert Result.objects.get().outcome == 1


def test_hosts_merged_earlier_point_to_the_newly_kept_host(
    pair: tuple[ScriptedClient, ScriptedClient],
) -> None:
    old, new = pair
    newest = a_client(name="newest")
    newest.ask()
    merge_hosts.merge(kept_id=new.hostid, merged_id=old.hostid)
    merge_hosts.merge(kept_id=newest.hostid, merged_id=new.hostid)
    assert Host.objects.get(pk=old.hostid).merged_into_id == newest.hostid


def test_merging_a_host_with_itself_an_unknown_or_another_accounts_host_is_refused(
    pair: tuple[ScriptedClient, ScriptedClient],
) -> None:
    old, new = pair
    stranger = a_client(email="bob@example.org")
    stranger.ask()
    for kept, merged, said in (
        (old.hostid, old.hostid, "itself"),
        (old.hostid, 10**9, "no host 1000000000"),
        (old.hostid, stranger.hostid, "Hint: merge hosts of one account"),
    ):
        with pytest.raises(merge_hosts.CannotMerge, match=said):
            merge_hosts.merge(kept_id=kept, merged_id=merged)
    merge_hosts.merge(kept_id=new.hostid, merged_id=old.hostid)
    with pytest.raises(merge_hosts.CannotMerge, match="already"):
        merge_hosts.merge(kept_id=new.hostid, merged_id=old.hostid)


def test_two_hosts_that_hold_one_workunit_are_merged_after_one_is_reported(
    pair: tuple[ScriptedClient, ScriptedClient],
) -> None:
    old, new = pair
    workunits(an_app(one_result_per="host"), 1, results=2)
    assert (old.ask_for_work(), new.ask_for_work()) == (["upper_0_0"], ["upper_0_1"])
    with pytest.raises(merge_hosts.CannotMerge, match="upper_0 in progress"):
        merge_hosts.merge(kept_id=new.hostid, merged_id=old.hostid)
    assert Host.objects.get(pk=old.hostid).merged_into_id is None
    old.report("upper_0_0")
    merge_hosts.merge(kept_id=new.hostid, merged_id=old.hostid)
    assert set(Result.objects.values_list("host", flat=True)) == {new.hostid}


@pytest.mark.django_db(transaction=True)
def test_a_merge_waits_for_a_request_of_the_hosts_that_is_being_answered(
    pair: tuple[ScriptedClient, ScriptedClient],
) -> None:
    old, new = pair
    ended = threading.Event()

    def merge() -> None:
        try:
            merge_hosts.merge(kept_id=new.hostid, merged_id=old.hostid)
        finally:
            connection.close()
            ended.set()

    thread = threading.Thread(target=merge)
    with transaction.atomic():
        recognition.lock_hosts([old.hostid])
        thread.start()
        assert not ended.wait(0.5)
        assert Host.objects.get(pk=old.hostid).merged_into_id is None
    thread.join(30)
    assert Host.objects.get(pk=old.hostid).merged_into_id == new.hostid


def test_results_that_were_not_counted_yet_move_to_the_kept_host(pair):
    old, new = (Host.objects.get(pk=client.hostid) for client in pair)
    for number in (300, 301):
        an_app(version_num=number)
    both, one = AppVersion.objects.order_by("pk")
    counts = {"uncounted_reports": 5, "uncounted_errors": 4, "uncounted_invalid": 1}
    for host, version in ((old, both), (new, both), (old, one)):
        HostAppVersion.objects.create(host=host, app_version=version, **counts)
    merge_hosts.merge(kept_id=new.pk, merged_id=old.pk)
    kept = HostAppVersion.objects.filter(host=new).order_by("app_version_id")
    assert list(kept.values_list("app_version_id", *counts)) == [
        (both.pk, 10, 8, 2),
        (one.pk, 5, 4, 1),
    ]
