"""The page of migrations, checks and chores, and the desk's navigation."""

from __future__ import annotations

import re
from datetime import timedelta
from typing import Any

import pytest
from django.db import connection
from django.db.migrations.recorder import MigrationRecorder
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.urls import reverse
from django.utils import timezone

from daemons import housekeeper
from scheduler.health.checks import check_runs
from scheduler.health.invariants import statement_names
from scheduler.models import AuditEntry, CheckRun, Heartbeat
from tests.faces.admin.test_credit_grants import staff_with
from tests.rows import a_result, a_workunit, an_account

pytestmark = pytest.mark.django_db

PAGE = "/admin/upkeep/"


def read(client: Client) -> str:
    answer = client.get(PAGE)
    assert answer.status_code == 200
    return answer.content.decode()


def test_page_shows_whether_migrations_are_pending():
    _, client = staff_with("read-only")
    assert "All migrations are applied." in read(client)
    migrations = MigrationRecorder(connection).migration_qs
    names = sorted(migrations.filter(app="scheduler").values_list("name", flat=True))
    migrations.filter(app="scheduler", name=names[-1]).delete()
    text = read(client)
    assert "1 migration is not applied." in text
    assert f"<code>scheduler.{names[-1]}</code>" in text
    assert "manage.py project upgrade" in text


def test_page_shows_chores_with_those_that_are_late():
    _, client = staff_with("operator")
    now = timezone.now()
    for name, age in (("chore badges", timedelta(days=3)), ("chore letters", timedelta())):
        Heartbeat.objects.create(name=name, seen_at=now - age)
    Heartbeat.objects.create(name="web", seen_at=now)
    Heartbeat.objects.create(
        name="chore samples", seen_at=now + timedelta(minutes=4), failed_passes=3
    )
    text = read(client)
    assert (
        text.index(">samples<")
        < text.index('lamp-bad">failed 3 times in a row')
        < text.index(">badges<")
    )
    badges, letters = text.index(">badges<"), text.index(">letters<")
    assert badges < text.index('lamp-bad">late') < letters < text.index('lamp-good">in time')
    assert ">web<" not in text


def test_page_names_the_commands_that_check_more():
    text = read(staff_with("operator")[1])
    for command in ("fsck", "fsck --digests", "recompute_credit --apply", "doctor"):
        assert f"<code>manage.py {command}</code>" in text
    assert "No chore has run yet." in text
    assert "No check has run yet." in text


def a_run(kind: str = "fsck", *, age: timedelta = timedelta(), **fields: Any) -> CheckRun:
    """Create a run from a shell that took 90 seconds and ended some time ago."""
    ended_at = timezone.now() - age
    times = {"started_at": ended_at - timedelta(seconds=90), "ended_at": ended_at}
    return CheckRun.objects.create(kind=kind, **(times | fields))


def a_finding(*names: str, count: int = 0, **texts: str) -> dict[str, Any]:
    """Return the stored form of a finding whose rows have these names."""
    rows = [[name, "is <b>wrong</b>"] for name in names]
    texts = {"name": "sums", "sentence": "No sum is <i>wrong</i>.", "hint": "Hint: repair."} | texts
    return {**texts, "count": count or len(rows), "rows": rows}


def page_of(client: Client, run: CheckRun) -> str:
    answer = client.get(reverse("admin:scheduler_checkrun_change", args=[run.pk]))
    assert answer.status_code == 200
    return answer.content.decode()


def test_operator_requests_a_check_and_follows_its_progress():
    operator, client = staff_with("operator")
    answer = client.post(PAGE, {"check": "fsck"}, follow=True)
    assert answer.redirect_chain == [(f"{PAGE}#checks", 302)]
    text = answer.content.decode()
    assert "The check of invariants was requested." in text
    assert "waits for the housekeeper</span>" in text
    assert f"<td>{operator.email}</td>" in text
    assert ">Check now</button>" not in text
    assert ">Compare sums of credit</button>" in text
    entry = AuditEntry.objects.get(event="action_taken")
    run = CheckRun.objects.get()
    assert (entry.actor, entry.account_id) == (operator.email, operator.pk)
    assert entry.subject == f"check run {run.pk}"

    for _ in range(3):
        check_runs.advance(housekeeper.CHECKERS, now=timezone.now())
    total = len(statement_names())
    assert f'<td class="number">3 of {total}</td>' in read(client)
    assert "is running</span>" in read(client)
    while check_runs.advance(housekeeper.CHECKERS, now=timezone.now()):
        pass
    text = read(client)
    assert f'<td class="number">{total}</td>' in text
    assert 'lamp-good">none</span>' in text
    assert ">Check now</button>" in text
    assert not re.search(r"<style|style=|onclick", text)


def test_a_second_request_is_refused_with_its_reason():
    _, client = staff_with("operator")
    client.post(PAGE, {"check": "credit"})
    answer = client.post(PAGE, {"check": "credit"})
    assert answer.status_code == 422
    assert "A check of sums of credit was requested already" in answer.content.decode()
    assert client.post(PAGE, {"check": "everything"}).status_code == 422
    assert CheckRun.objects.count() == AuditEntry.objects.filter(event="action_taken").count() == 1


@pytest.mark.parametrize(
    ("fields", "tone", "outcome"),
    [
        ({}, "good", "none"),
        ({"violations": 1200, "unresolved": 1200}, "bad", "1,200 found"),
        ({"unresolved": 2}, "bad", "none new, 2 of earlier runs"),
        ({"skipped": 3}, "uneasy", "none, but 3 not checked"),
        (
            {"kind": "credit", "violations": 4, "options": {"applied": True}},
            "good",
            "4 corrected",
        ),
    ],
)
def test_newest_runs_have_a_light_and_their_time(fields, tone, outcome):
    run = a_run(age=timedelta(hours=3), checked=37, **fields)
    text = read(staff_with("read-only")[1])
    assert f'lamp-{tone}">{outcome}</span>' in text
    assert f'title="{run.ended_at:%Y-%m-%d %H:%M:%S} UTC">3 h ago</time>' in text
    assert "<td>from a shell</td>" in text
    assert '<td class="when">1 min 30 s</td><td class="number">37</td>' in text
    assert f'href="{reverse("admin:scheduler_checkrun_change", args=[run.pk])}"' in text
    assert "</button></form>" not in text[text.index('id="checks"') :]


def test_runs_of_several_people_take_no_statement_each():
    _, client = staff_with("operator")

    def statements() -> int:
        with CaptureQueriesContext(connection) as queries:
            read(client)
        return len(queries)

    before = statements()
    for number in range(5):
        a_run(requested_at=timezone.now(), requested_by=an_account(), checked=number)
    assert statements() == before


def test_page_of_a_run_shows_findings_with_links_to_the_rows():
    workunit = a_workunit()
    result = a_result(workunit)
    names = [workunit.name, result.name, "host 5", "account 7, app 3", "task list 9", "upload_1"]
    names += ["workunit 4, result 8", "workunit 4"]
    run = a_run(violations=30, unresolved=30, findings=[a_finding(*names, count=30)])
    client = staff_with("read-only")[1]
    text = page_of(client, run)
    for name, model, number in (
        (workunit.name, "workunit", workunit.pk),
        (result.name, "result", result.pk),
        ("host 5", "host", 5),
        ("account 7, app 3", "account", 7),
        ("task list 9", "bundle", 9),
        ("workunit 4, result 8", "result", 8),
        ("workunit 4", "workunit", 4),
    ):
        url = reverse(f"admin:scheduler_{model}_change", args=[number])
        assert f'<a href="{url}">{name}</a>' in text
    assert '<th scope="row">upload_1</th>' in text
    assert "… and 22 more." in text
    assert "Hint: repair." in text
    assert 'lamp-bad">30 found</span>' in text


def test_page_of_a_run_shows_what_was_not_checked_and_what_earlier_runs_found():
    part = {"name": "moves", "sentence": "Moves are legal.", "reason": "It was cancelled."}
    run = a_run(
        skipped=1,
        unresolved=1,
        not_checked=[{**part, "count": 1}],
        carried=[a_finding("lost.txt", sentence="Files exist.")],
    )
    text = page_of(staff_with("operator")[1], run)
    assert "<b>Moves are legal.</b> It was cancelled." in text
    assert "<code>manage.py fsck</code> has no time limit." in text
    assert "Found by earlier runs" in text
    assert "Broken: Files exist." in text


def test_page_of_differing_sums_names_the_command_that_corrects_them():
    command = "<code>manage.py recompute_credit --apply</code>"
    client = staff_with("operator")[1]
    run = a_run("credit", violations=1, unresolved=1, findings=[a_finding("host 5")])
    assert command in page_of(client, run)
    done = a_run("credit", violations=1, options={"applied": True}, findings=[a_finding("host 5")])
    assert command not in page_of(client, done)


def test_staff_who_may_view_heartbeats_see_the_page(client):
    _, moderator = staff_with("moderator")
    assert moderator.get(PAGE).status_code == 403
    assert PAGE not in moderator.get("/admin/").content.decode()
    assert client.get(PAGE).status_code == 302


def test_pages_of_the_desk_are_in_the_groups_of_their_nouns():
    _, client = staff_with("operator")
    groups = {
        group["name"]: [model["admin_url"] for model in group["models"]]
        for group in client.get("/admin/").context["app_list"]
    }
    assert reverse("admin:host_classes") in groups["Hosts"]
    assert {reverse("admin:failures"), reverse("admin:upkeep")} <= set(groups["Troubles"])
