"""Counts of computers by hardware: sums, shares, and no row about few people."""

from __future__ import annotations

from datetime import timedelta
from decimal import Decimal
from typing import Any

import pytest

from daemons import housekeeper
from scheduler.credit import hardware_statistics
from scheduler.credit.hardware_statistics import Kind
from scheduler.models import HardwareCount
from tests.conftest import NOON
from tests.faces.apis import Program
from tests.rows import a_host, an_account

pytestmark = pytest.mark.django_db

RYZEN = {
    "os_name": "Linux",
    "p_vendor": "AuthenticAMD",
    "p_model": "AMD Ryzen(TM) 7 [Family 23 Model 113 Stepping 0]",
    "capabilities": {"gpus": [{"name": "T4"}, {"name": "T4"}, {"name": 5}, "x"]},
}


def owned(count: int, *, account: dict[str, Any] | None = None, **fields: Any) -> None:
    """Create accounts with one computer each, which has credit 10 in total and 2 recently."""
    credit = {"total_credit": Decimal(10), "expavg_credit": 2.0}
    for _ in range(count):
        a_host(an_account(**(account or {})), **credit | fields)


def counted() -> dict[Kind, list[tuple[str, int]]]:
    hardware_statistics.count(now=NOON)
    lines = hardware_statistics.current().lines
    return {kind: [(line.name, line.computers) for line in lines[kind]] for kind in Kind}


def test_computers_are_counted_by_system_vendor_processor_and_gpu():
    owned(5, **RYZEN)
    assert counted() == {
        Kind.SYSTEM: [("Linux", 5)],
        Kind.VENDOR: [("AuthenticAMD", 5)],
        Kind.PROCESSOR: [("AMD Ryzen 7", 5)],
        Kind.GPU: [("T4", 5)],
    }


def test_shares_are_those_of_the_listed_names():
    owned(5, os_name="Linux")
    owned(5, os_name="Windows", total_credit=Decimal(30), expavg_credit=0.0)
    hardware_statistics.count(now=NOON)
    statistics = hardware_statistics.current()
    linux, windows = statistics.lines[Kind.SYSTEM]
    assert (linux.name, linux.total_share, linux.recent_share) == ("Linux", 0.25, 1.0)
    assert (windows.name, windows.total_share, windows.recent_share) == ("Windows", 0.75, 0.0)
    assert windows.total_credit == 150
    assert statistics.counted_at == NOON


def test_names_of_few_people_are_not_counted_even_with_many_computers():
    owned(4, os_name="FourPeople")
    ada = an_account()
    for _ in range(9):
        a_host(ada, os_name="OnePerson", total_credit=Decimal(10))
    owned(5, os_name="Linux")
    assert counted()[Kind.SYSTEM] == [("Linux", 5)]


@pytest.mark.parametrize("account", [{"share_statistics": False}, {"is_active": False}])
def test_computers_without_consent_or_credit_are_not_counted(account):
    owned(4, os_name="Linux")
    owned(5, account=account, os_name="Linux")
    owned(5, os_name="Linux", total_credit=Decimal(0))
    assert counted()[Kind.SYSTEM] == []


def test_unreadable_texts_of_clients_are_ignored_or_cut():
    owned(5, os_name=" " * 3, capabilities=[], p_model="x" * 250)
    owned(5, os_name="", capabilities={"gpus": {"name": "y" * 300}}, p_model="")
    owned(5, capabilities={"gpus": None})
    assert counted() == {
        Kind.SYSTEM: [],
        Kind.VENDOR: [],
        Kind.PROCESSOR: [("x" * 100, 5)],
        Kind.GPU: [("y" * 100, 5)],
    }


def test_names_have_no_characters_that_disturb_other_text():
    owned(3, os_name="Linux\u202e xuniL\u200b", p_model="\x1b[31m chip\t1\n")
    owned(2, os_name="Linux xuniL", p_model="[31m chip 1")
    owned(5, os_name="\u200b\u202e\ufeff")
    names = counted()
    assert names[Kind.SYSTEM] == [("Linux xuniL", 5)]
    assert names[Kind.PROCESSOR] == [("[31m chip 1", 5)]


def test_one_volunteer_cannot_add_names_or_change_the_number_of_rows():
    owned(5, os_name="Linux", p_model="chip")
    ada = an_account()
    gpus = [{"name": f"gpu {number}"} for number in range(200)]
    for number in range(120):
        a_host(
            ada,
            os_name=f"system {number}",
            p_vendor=f"vendor {number}",
            p_model=f"model {number}",
            capabilities={"gpus": gpus},
            total_credit=Decimal(10**9),
        )
    assert counted() == {
        Kind.SYSTEM: [("Linux", 5)],
        Kind.VENDOR: [],
        Kind.PROCESSOR: [("chip", 5)],
        Kind.GPU: [],
    }


def test_housekeeper_replaces_the_counts_once_a_day():
    owned(5, os_name="Linux")
    housekeeper.run_pass(now=NOON, limit=100)
    assert HardwareCount.objects.get(kind=Kind.SYSTEM).counted_at == NOON
    owned(5, os_name="Windows")
    housekeeper.run_pass(now=NOON + timedelta(hours=23), limit=100)
    assert HardwareCount.objects.filter(kind=Kind.SYSTEM).count() == 1
    tomorrow = NOON + timedelta(days=1)
    housekeeper.run_pass(now=tomorrow, limit=100)
    assert set(HardwareCount.objects.values_list("name", "counted_at")) == {
        ("Linux", tomorrow),
        ("Windows", tomorrow),
    }


def test_page_and_api_show_the_counts(client):
    text = client.get("/statistics/computers/").content.decode()
    assert "Nothing is counted yet" in text
    assert Program().send("get", "/statistics/computers").json()["counted_at"] is None
    owned(5, **RYZEN | {"os_name": "<script>alert(1)</script>"})
    owned(4, os_name="secretsystem")
    hardware_statistics.count(now=NOON)
    answer = client.get("/statistics/computers/")
    text = answer.content.decode()
    assert "<script" not in text
    for part in ("AMD Ryzen 7", "T4", "100.0 %", "AuthenticAMD"):
        assert part in text
    reply = Program().send("get", "/statistics/computers")
    [gpu] = reply.json()["gpus"]
    assert gpu == {
        "name": "T4",
        "computers": 5,
        "total_credit": 50,
        "total_share": 1,
        "recent_share": 1,
    }
    assert "secretsystem" not in text + reply.content.decode()


def test_empty_count_differs_from_no_count(client):
    owned(4, **RYZEN)
    hardware_statistics.count(now=NOON)
    statistics = hardware_statistics.current()
    assert statistics.is_empty
    assert statistics.counted_at == NOON
    text = client.get("/statistics/computers/").content.decode()
    assert "too few people share" in text
    assert "Nothing is counted yet" not in text
    reply = Program().send("get", "/statistics/computers").json()
    assert reply.pop("counted_at") is not None
    assert reply == {"systems": [], "vendors": [], "processors": [], "gpus": []}
    owned(1, **RYZEN)
    hardware_statistics.count(now=NOON + timedelta(days=1))
    assert not hardware_statistics.current().is_empty
    assert not HardwareCount.objects.filter(kind="").exists()
    assert "too few people" not in client.get("/statistics/computers/").content.decode()


def test_page_takes_one_statement(client, django_assert_num_queries):
    owned(5, **RYZEN)
    hardware_statistics.count(now=NOON)
    with django_assert_num_queries(1):
        client.get("/statistics/computers/")
