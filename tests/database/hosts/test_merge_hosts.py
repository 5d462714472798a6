"""Merging two rows of one computer keeps its results, credit and client."""

from __future__ import annotations

import threading
from decimal import Decimal

import pytest
from django.db import connection, transaction
from django.utils import timezone

from scheduler.hosts import merge_hosts, recognition
from scheduler.models import CreditEntry, Host, Result
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
