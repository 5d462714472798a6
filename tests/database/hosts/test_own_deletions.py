"""Owners delete computers of which the project keeps no results."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pytest

from scheduler.apps import hygiene
from scheduler.credit import leaderboards
from scheduler.credit.rules.board_positions import Order
from scheduler.hosts import merge_hosts, own_deletions, own_hosts, recognition
from scheduler.hosts.recognition import DAY
from scheduler.models import (
    Account,
    AuditEntry,
    Host,
    HostAppVersion,
    HostToken,
    StatisticsDeletion,
)
from scheduler.people.personal_data import consents, erasure
from tests.conftest import NOON
from tests.rows import a_host, a_result, a_workunit, an_account, an_app_version, update
from tests.scripted_client import ScriptedClient, a_client
from tests.work import an_app, workunits

pytestmark = pytest.mark.django_db


@pytest.fixture
def ada() -> Account:
    return an_account("ada", share_statistics=True, show_hosts=True)


@pytest.fixture
def host(ada: Account) -> Host:
    fields: dict[str, Any] = {"host_cpid": "c" * 32, "last_ip_addr": "192.0.2.1", "venue": "home"}
    return a_host(ada, domain_name="desk", total_credit=Decimal(7), **fields)


def delete(host: Host) -> None:
    own_deletions.delete(host.account, host.pk, now=NOON)


def listed(kind: StatisticsDeletion.Kind) -> list[tuple[int, str]]:
    rows = StatisticsDeletion.objects.filter(kind=kind).order_by("number")
    return list(rows.values_list("number", "cpid"))


def test_a_deleted_computer_is_on_no_list_and_its_personal_data_are_erased(ada, host):
    HostAppVersion.objects.create(host=host, app_version=an_app_version(an_app()))
    board = leaderboards.computer_board(Order.TOTAL)
    assert [line.row.pk for line in leaderboards.read(board, below=None, count=9).lines]
    delete(host)
    host.refresh_from_db()
    assert host.is_deleted
    assert (host.domain_name, host.last_ip_addr, host.host_cpid, host.venue) == ("", "", "", "")
    assert host.total_credit == 7  # the sum of its credit entries
    assert not HostAppVersion.objects.exists()
    assert own_hosts.of_account(ada) == []
    assert own_hosts.find(ada, host.pk) is None
    assert own_hosts.find_shown(host.pk) is None
    assert leaderboards.read(board, below=None, count=9).lines == ()
    entry = AuditEntry.objects.get()
    assert (entry.event, entry.details) == ("host_changed", {"deleted": True})
    with pytest.raises(own_hosts.UnknownHost):
        delete(host)


def test_statistics_sites_are_told_once_and_for_all(ada, host):
    delete(host)
    expected = [(host.pk, "c" * 32)]
    assert listed(StatisticsDeletion.Kind.HOST) == expected
    for share in (False, True):
        ada = consents.change(ada, share_statistics=share, source="test", now=NOON)
        assert listed(StatisticsDeletion.Kind.HOST) == expected
    erasure.erase(ada, now=NOON)
    assert listed(StatisticsDeletion.Kind.HOST) == expected


def test_computers_that_were_not_exported_are_not_listed_as_deleted(ada):
    delete(a_host(ada))
    delete(a_host(an_account("eve", share_statistics=False), total_credit=Decimal(1)))
    assert listed(StatisticsDeletion.Kind.HOST) == []


def test_client_of_a_deleted_computer_gets_a_new_entry_and_work():
    client: ScriptedClient = a_client()
    client.ask()
    old = Host.objects.get(pk=client.hostid)
    delete(old)
    workunits(an_app(), 1)
    assert client.ask_for_work() == ["upper_0_0"]
    new = Host.objects.get(pk=client.hostid)
    assert new.pk != old.pk
    assert new.merged_into_id is None
    old.refresh_from_db()
    assert old.is_deleted


def test_client_of_an_entry_that_was_merged_into_a_deleted_computer_gets_a_new_entry():
    old, new = a_client(name="old"), a_client(name="new")
    old.ask()
    new.ask()
    merge_hosts.merge(kept_id=new.hostid, merged_id=old.hostid)
    deleted_ids = {old.hostid, new.hostid}
    delete(Host.objects.get(pk=new.hostid))
    assert {
        host.pk for host in Host.objects.filter(domain_name="") if host.is_deleted
    } == deleted_ids
    old.rpc_seqno = 50
    old.ask()
    assert old.hostid not in deleted_ids


def test_another_account_can_neither_delete_a_computer_nor_block_its_requests(host, monkeypatch):
    locked_ids: list[int] = []
    monkeypatch.setattr(recognition, "lock_hosts", locked_ids.extend)
    with pytest.raises(own_hosts.UnknownHost):
        own_deletions.delete(an_account("eve"), host.pk, now=NOON)
    host.refresh_from_db()
    assert not host.is_deleted
    assert locked_ids == []


@pytest.mark.parametrize(
    ("obstacle", "message"),
    [
        ("denied", "denied or limited by the project"),
        ("limited", "denied or limited by the project"),
        ("in progress", "has results in progress"),
        ("over", "still keeps results"),
        ("targeted", "work that only computer"),
        ("in a pool", "is in a pool"),
    ],
)
def test_deletion_is_refused_with_the_reason_while(host, obstacle, message):
    match obstacle:
        case "denied":
            update(host, denied=True)
        case "limited":
            update(host, max_in_progress=1)
        case "in progress":
            a_result(a_workunit(), "sent", host=host)
        case "over":
            a_result(a_workunit(), "valid", host=host)
        case "targeted":
            a_workunit(target_host=host)
        case _:
            HostToken.objects.create(host=host, token_hash="h", created_at=NOON)
    with pytest.raises(own_deletions.DeletionRefused, match=message):
        delete(host)
    host.refresh_from_db()
    assert not host.is_deleted
    assert host.domain_name == "desk"


def test_rows_of_deleted_computers_without_credit_are_deleted_after_a_while(ada):
    host = a_host(ada)
    delete(host)
    rules = hygiene.Rules()
    assert list(hygiene.zombies(rules, now=NOON + rules.zombie_after + DAY)) == [host]


def test_deleted_computers_are_not_merged(ada, host):
    delete(host)
    other = a_host(ada)
    for kept, merged in ((host, other), (other, host)):
        with pytest.raises(merge_hosts.CannotMerge, match="was deleted by its owner"):
            merge_hosts.merge(kept_id=kept.pk, merged_id=merged.pk)
