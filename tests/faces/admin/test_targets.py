"""The list of targeted workunits, and the action that changes targets."""

from __future__ import annotations

import re
from html import unescape
from typing import Any

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext

from scheduler.lifecycle import Target
from scheduler.models import AuditEntry, Team, Workunit
from tests.conftest import NOON
from tests.database.work.test_retarget import one
from tests.faces.admin.test_credit_grants import staff_with
from tests.rows import a_host, a_result, an_account, an_app, update
from tests.scripted_client import a_client
from tests.work import an_app as a_published_app
from tests.work import workunits as published_workunits

pytestmark = pytest.mark.django_db

LIST = "/admin/scheduler/workunit/"


@pytest.fixture
def operator() -> Client:
    return staff_with("operator")[1]


def act(client: Client, *workunits: Workunit, **more: Any) -> Any:
    selected = {"_selected_action": [each.pk for each in workunits], "index": "0"}
    return client.post(LIST, {"action": "retarget"} | selected | more, follow=True)


def text_of(answer: Any) -> str:
    return unescape(answer.content.decode())


def names(client: Client, query: str) -> set[str]:
    answer = client.get(f"{LIST}?{query}")
    assert answer.status_code == 200
    return {workunit.name for workunit in answer.context["cl"].result_list}


# The list


def test_list_is_filtered_by_the_kind_of_target_and_by_one_target(operator):
    app, host, account = an_app(), a_host(), an_account()
    team = Team.objects.create(name="t", founder=account, created_at=NOON)
    rows = {
        "host": {"target_host": host},
        "account": {"target_account": account},
        "team": {"target_team": team},
        "free": {},
    }
    for name, fields in rows.items():
        one(app=app, name=name, **fields)
    one(app=app, name="other", target_host=a_host())
    assert names(operator, "target=any") == {"host", "account", "team", "other"}
    assert names(operator, "target=host") == {"host", "other"}
    assert names(operator, "target=account") == {"account"}
    assert names(operator, "target=team") == {"team"}
    assert "column-target" not in operator.get(LIST).content.decode()
    text = operator.get(f"{LIST}?target=any").content.decode()
    assert "column-target" in text
    link = f"?target_host__exact={host.pk}"
    assert f'<a href="{link}">host {host.pk}</a>' in text
    assert names(operator, link[1:]) == {"host"}
    assert f"?target_team__exact={team.pk}" in text
    assert f"{LIST}?target=any" in operator.get("/admin/").content.decode()


@pytest.mark.parametrize("kind", ["any", "host", "account", "team"])
def test_lists_of_targets_read_partial_indexes(operator, kind):
    one(target_host=a_host())
    with CaptureQueriesContext(connection) as captured:
        operator.get(f"{LIST}?target={kind}")
    reads = [
        query["sql"]
        for query in captured
        if '"target_' in query["sql"].partition("WHERE")[2] and query["sql"].startswith("SELECT")
    ]
    assert len(reads) >= 2
    with connection.cursor() as cursor:
        # As with many workunits: a scan of the whole table, or of its key, is out of the question.
        cursor.execute("SET LOCAL enable_seqscan = off")
        for read in reads:
            cursor.execute(f"EXPLAIN {read}")
            plan = "\n".join(row[0] for row in cursor.fetchall())
            assert re.search(r"targeted_workunits|workunits_for_|retarget_workunits", plan), plan


# The action


def test_target_is_set_after_a_form_and_a_preview(operator):
    host, free, sent = a_host(domain_name="mill"), one(), one()
    a_result(sent, "sent", host=a_host())
    text = text_of(act(operator, free, sent))
    assert "2 workunits selected" in text
    assert text.count('name="_selected_action"') == 2
    fields = {"target_kind": Target.HOST.value, "target_id": host.pk}
    text = text_of(act(operator, free, sent, **fields))
    assert f"Really send these workunits to host {host.pk}?" in text
    assert "mill" in text
    assert "<dt>workunits change</dt><dd>1</dd>" in text
    assert "<dt>sent before</dt><dd>1</dd>" in text
    assert free.name in text
    assert not re.search(r"<style|style=|onclick", text)
    assert not Workunit.objects.filter(target_host=host).exists()
    assert not AuditEntry.objects.filter(event="action_taken").exists()
    text = text_of(act(operator, free, sent, **fields, confirmed="yes"))
    assert f"1 workunits are now for host {host.pk}; 1 unchanged (sent before)." in text
    assert list(Workunit.objects.filter(target_host=host)) == [free]
    entry = AuditEntry.objects.get(event="action_taken")
    assert (entry.actor, entry.details["target"]) == ("operator@example.org", f"host {host.pk}")


def test_target_is_cleared(operator):
    workunit = one(target_host=a_host())
    fields = {"target_kind": Target.EVERYBODY.value, "target_id": ""}
    text = text_of(act(operator, workunit, **fields))
    assert "sent to every host that can run them" in text
    act(operator, workunit, **fields, confirmed="yes")
    workunit.refresh_from_db()
    assert workunit.target_host_id is None


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({"target_kind": "1"}, "The number of the host is missing. Hint: enter it"),
        ({"target_kind": "1", "target_id": "987654321"}, "There is no host 987654321. Hint: look"),
        ({"target_kind": "3", "target_id": "987654321"}, "There is no team 987654321."),
        ({"target_kind": "0", "target_id": "3"}, "Hint: choose what the number is of"),
        ({"target_kind": "4", "target_id": "3"}, "4 is not one of the available choices"),
        ({"target_kind": "x", "target_id": "3"}, "x is not one of the available choices"),
        ({"target_kind": "1", "target_id": "9" * 30}, "less than or equal to 9223372036854775807"),
        ({"target_kind": "1", "target_id": "-1"}, "greater than or equal to 1"),
        ({"target_kind": "1", "target_id": "1\0"}, "Enter a whole number"),
    ],
)
@pytest.mark.parametrize("confirmed", [{}, {"confirmed": "yes"}])
def test_bad_target_is_refused_with_a_hint(operator, fields, expected, confirmed):
    workunit = one()
    answer = act(operator, workunit, **fields, **confirmed)
    assert answer.status_code == 422
    assert expected in text_of(answer)
    workunit.refresh_from_db()
    assert workunit.target_host_id is None


def test_without_a_change_there_is_nothing_to_confirm(operator):
    workunit = one()
    update(workunit, cancel_requested_at=NOON)
    text = text_of(act(operator, workunit, target_kind="1", target_id=a_host().pk))
    assert "Nothing would change" in text
    assert 'name="confirmed"' not in text


def test_staff_who_may_only_look_cannot_change_targets():
    _, client = staff_with("read-only")
    workunit, host = one(), a_host()
    act(client, workunit, target_kind="1", target_id=host.pk, confirmed="yes")
    workunit.refresh_from_db()
    assert workunit.target_host_id is None
    assert 'value="retarget"' not in client.get(LIST).content.decode()


def test_retargeted_work_is_sent_only_to_its_new_target(operator):
    app = a_published_app()
    workunit = published_workunits(app, 1)[0]
    chosen = a_client("ada@example.org", "ada")
    other = a_client("bob@example.org", "bob")
    for client in (chosen, other):
        client.ask()
    fields = {"target_kind": "1", "target_id": chosen.hostid, "confirmed": "yes"}
    act(operator, workunit, **fields)
    other.ask_for_work(seconds=1e6)
    assert other.held == []
    chosen.ask_for_work(seconds=1e6)
    assert chosen.held == [f"{workunit.name}_0"]
