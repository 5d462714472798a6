"""Volunteers' lists of computers, and the reasons why they got work or none."""

from __future__ import annotations

from datetime import timedelta

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from scheduler.dispatch.rules.fit import RefusalReason
from scheduler.hosts import own_hosts
from scheduler.hosts.decision_texts import WHY, read_decision
from scheduler.hosts.own_hosts import Group, System
from scheduler.models import Account, HostAppVersion
from tests.conftest import NOON
from tests.rows import a_host, a_result, a_workunit, an_account, an_app, an_app_version

pytestmark = pytest.mark.django_db


@pytest.fixture
def ada() -> Account:
    return an_account("ada")


def names(account: Account, order: str) -> list[str]:
    listed = own_hosts.page_of(account, order=order, number=1, size=10)
    return [host.domain_name for host in listed.hosts]


def test_computers_are_sorted_by_each_order_in_both_directions(ada):
    early = NOON - timedelta(days=1)
    a_host(ada, domain_name="B", os_name="linux", p_ncpus=1, rpc_at=NOON, total_credit=3)
    a_host(ada, domain_name="a", os_name="Windows", p_ncpus=8, rpc_at=early, expavg_credit=2)
    expected = {
        "name": "aB",
        "system": "Ba",
        "processors": "Ba",
        "contact": "aB",
        "total": "aB",
        "recent": "Ba",
    }
    assert set(expected) == set(own_hosts.ORDERS)
    for order, ascending in expected.items():
        assert "".join(names(ada, order)) == ascending
        assert "".join(names(ada, f"-{order}")) == ascending[::-1]


def test_page_counts_results_in_progress_with_two_statements_for_any_number(ada):
    for count in (0, 1, 3):
        host = a_host(ada, domain_name=str(count))
        for _ in range(count):
            a_result(a_workunit(), "sent", host=host)
        a_result(a_workunit(), "valid", host=host)
    a_host(domain_name="of another account")
    merged = a_host(ada, domain_name="merged")
    merged.merged_into = host
    merged.save()
    with CaptureQueriesContext(connection) as captured:
        listed = own_hosts.page_of(ada, order="name", number=1, size=10)
    assert [(host.domain_name, host.in_progress) for host in listed.hosts] == [
        ("0", 0),
        ("1", 1),
        ("3", 3),
    ]
    assert len(captured) == 2


def test_page_number_beyond_the_last_page_gives_the_last_page(ada):
    for number in range(5):
        a_host(ada, domain_name=str(number))
    listed = own_hosts.page_of(ada, order="name", number=99, size=2)
    assert ([host.domain_name for host in listed.hosts], listed.number, listed.pages) == (
        ["4"],
        3,
        3,
    )
    empty = own_hosts.page_of(an_account(), order="name", number=0, size=2)
    assert (empty.hosts, empty.number, empty.pages, empty.total) == ((), 1, 1, 0)


def test_computers_are_found_by_group_and_by_family_of_operating_systems(ada):
    long_ago = NOON - own_hosts.ACTIVE_FOR
    systems = ("Microsoft Windows 11", "Linux Ubuntu", "Darwin", "Android", "FreeBSD", "")
    for number, os_name in enumerate(systems):
        a_host(ada, domain_name=str(number), os_name=os_name, rpc_at=NOON)
    a_host(ada, domain_name="old", os_name="linux", rpc_at=long_ago)
    a_host(ada, domain_name="secret", os_name="Linux", rpc_at=NOON, hidden=True)
    a_host(domain_name="of another account", os_name="Linux", hidden=True)

    def matching(**chosen: object) -> list[str]:
        condition = own_hosts.condition(**chosen, now=NOON)
        listed = own_hosts.page_of(ada, order="name", number=1, size=20, matching=condition)
        assert (listed.matching, listed.total) == (len(listed.hosts), 8)
        return [host.domain_name for host in listed.hosts]

    assert matching(group=Group.ACTIVE) == ["0", "1", "2", "3", "4", "5", "secret"]
    assert matching(group=Group.INACTIVE) == ["old"]
    assert matching(group=Group.HIDDEN) == ["secret"]
    assert matching(system=System.WINDOWS) == ["0"]
    assert matching(system=System.LINUX) == ["1", "old", "secret"]
    assert matching(system=System.MACOS) == ["2"]
    assert matching(system=System.ANDROID) == ["3"]
    assert matching(system=System.OTHER) == ["4", "5"]
    assert matching(group=Group.ACTIVE, system=System.LINUX) == ["1", "secret"]
    assert len(matching()) == 8


def test_filtered_page_takes_two_statements_and_has_its_own_number_of_pages(ada):
    for number in range(5):
        a_host(ada, domain_name=str(number), hidden=number > 1)
    condition = own_hosts.condition(group=Group.HIDDEN, now=NOON)
    with CaptureQueriesContext(connection) as captured:
        listed = own_hosts.page_of(ada, order="name", number=2, size=2, matching=condition)
    assert [host.domain_name for host in listed.hosts] == ["4"]
    assert (listed.pages, listed.matching, listed.total) == (2, 3, 5)
    assert len(captured) == 2


def test_totals_count_computers_and_their_results_in_progress(ada):
    assert own_hosts.totals(ada) == (0, 0)
    host = a_host(ada)
    a_host(ada, merged_into=host)
    for word in ("sent", "sent", "valid"):
        a_result(a_workunit(), word, host=host)
    a_result(a_workunit(), "sent", host=a_host())
    assert own_hosts.totals(ada) == (1, 2)


def test_each_reason_for_refusal_has_a_sentence_for_volunteers():
    assert set(WHY) == {str(reason) for reason in RefusalReason}


def test_decision_without_work_has_reasons_with_values():
    decision = read_decision(
        {
            "at": "2026-01-01T12:00:00+00:00",
            "given": 0,
            "resent": 0,
            "refused": {"memory": 3, "queue_hosts": 1},
            "sentences": {"memory": "needs 4 GB, has 2 GB", "queue_hosts": "queue secret"},
            "said": ["No work sent"],
        }
    )
    assert decision.summary == "No work: the available results do not fit this computer"
    memory, queue = decision.reasons
    assert (memory.count, memory.detail) == (3, "needs 4 GB, has 2 GB")
    assert "memory" in memory.text
    # Names of queues are the project's business.
    assert queue.detail == ""
    assert decision.messages == ("No work sent",)


@pytest.mark.parametrize(
    ("stored", "summary"),
    [
        ({"given": 1}, "1 result sent"),
        ({"given": 2, "resent": 1}, "2 results sent, and 1 result sent again"),
        ({"given": 0}, "No work: the project had no results to send"),
        ({"refused": "x", "sentences": [], "said": 7, "at": "?", "given": "2"}, "No work"),
    ],
)
def test_summary_of_a_decision(stored, summary):
    decision = read_decision(stored)
    assert decision.summary.startswith(summary)
    assert decision.at is None


def test_unreadable_decision_and_unreadable_gpus_are_left_out(ada):
    assert read_decision("text") is None
    host = a_host(ada, capabilities={"gpus": [{"kind": "nvidia", "name": "T4", "new": 1}, "x"]})
    (gpu,) = own_hosts.gpus_of(host)
    assert (gpu.kind, gpu.name) == ("nvidia", "T4")
    host.capabilities = {"gpus": {}}
    assert own_hosts.gpus_of(host) == []


def test_results_that_were_sent_on_another_day_do_not_count_as_sent_today(ada):
    host = a_host(ada)
    version = an_app_version(an_app())
    today = NOON.date()
    sent = {"host": host, "app_version": version, "quota_day": today, "results_today": 40}
    HostAppVersion.objects.create(**sent)
    [now] = own_hosts.records(host, today=today)
    [later] = own_hosts.records(host, today=today + timedelta(days=4))
    assert (now.results_today, later.results_today) == (40, 0)
