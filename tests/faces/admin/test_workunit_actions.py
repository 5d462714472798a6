"""Staff cancel and wake workunits, and reset their classes of computers."""

from __future__ import annotations

import re
from typing import Any

import pytest
from django.test import Client
from django.urls import reverse

from scheduler.admin import workunits as workunit_pages
from scheduler.lifecycle import ReleaseState
from scheduler.models import AuditEntry, Workunit, WorkunitWakeup
from scheduler.work import control
from tests.conftest import NOON
from tests.database.waiting import change_during_claim
from tests.faces.admin.test_credit_grants import staff_with
from tests.rows import a_host, a_result, a_workunit, an_app, an_app_version, settled, update

LIST = reverse("admin:scheduler_workunit_changelist")


def act(client: Client, action: str, *workunits: Workunit, **more: str) -> str:
    chosen = {"action": action, "_selected_action": [workunit.pk for workunit in workunits]}
    return client.post(LIST, chosen | more, follow=True).content.decode()


def woken() -> list[int]:
    return sorted(WorkunitWakeup.objects.values_list("workunit_id", flat=True))


def act_on_all(client: Client, query: str, action: str = "cancel", **more: str) -> str:
    """Act on all workunits that match the filter; return the page that follows."""
    first = Workunit.objects.earliest("pk")
    sent = {"action": action, "_selected_action": first.pk, "index": "0", "select_across": "1"}
    return client.post(f"{LIST}?{query}", sent | more, follow=True).content.decode()


def cancelled() -> list[int]:
    rows = Workunit.objects.exclude(cancel_requested_at=None)
    return sorted(rows.values_list("pk", flat=True))


def entries() -> list[dict[str, Any]]:
    taken = AuditEntry.objects.filter(event="action_taken").order_by("pk")
    return [entry.details for entry in taken]


def a_bound_workunit(**fields) -> Workunit:
    version = an_app_version(an_app())
    return a_workunit(version.app, transition_at=None, hr_class=7, app_version=version, **fields)


@pytest.mark.django_db
def test_confirmed_workunits_are_due_for_the_transitioner():
    chief, client = staff_with("operator")
    workunits = [a_workunit(transition_at=None), settled(a_workunit(transition_at=None))]
    WorkunitWakeup.objects.all().delete()
    assert "Really look again at?" in act(client, "look_again", *workunits)
    assert woken() == []
    text = act(client, "look_again", *workunits, confirmed="yes")
    assert "2 are being looked at again." in text
    assert woken() == [workunit.pk for workunit in workunits]
    entry = AuditEntry.objects.filter(event="action_taken").latest("id")
    assert (entry.account_id, entry.details["action"]) == (chief.pk, "look_again")


@pytest.mark.django_db
def test_reset_class_unbinds_only_workunits_without_results_of_their_class():
    _, client = staff_with("operator")
    free, busy, compared, late = (a_bound_workunit() for _ in range(4))
    finished = settled(a_bound_workunit())
    failed = a_bound_workunit()
    a_result(failed, "error", host=a_host())
    a_result(busy, "sent", host=a_host())
    a_result(compared, "success", host=a_host())
    a_result(late, "noreply", host=a_host())
    WorkunitWakeup.objects.all().delete()
    chosen = (free, busy, compared, late, finished, failed)
    assert "Really reset the class of?" in act(client, "reset_class", *chosen)
    text = act(client, "reset_class", *chosen, confirmed="yes")
    assert (
        "2 can be sent to any class, 1 are finished and unchanged, "
        "3 have results of their class and are unchanged."
    ) in text
    left = Workunit.objects.exclude(hr_class=0, app_version=None).order_by("pk")
    assert list(left) == [busy, compared, late, finished]
    assert woken() == [free.pk, failed.pk]


@pytest.mark.django_db
def test_staff_who_may_only_look_have_neither_action():
    _, client = staff_with("read-only")
    workunit = a_bound_workunit()
    WorkunitWakeup.objects.all().delete()
    for action in ("look_again", "reset_class"):
        act(client, action, workunit, confirmed="yes")
    assert woken() == []
    assert Workunit.objects.get(pk=workunit.pk).hr_class == 7


@pytest.mark.django_db
def test_more_workunits_than_an_action_changes_are_cancelled_in_chunks(monkeypatch):
    monkeypatch.setattr(workunit_pages, "MAX_ACTION_ROWS", 2)
    monkeypatch.setattr(control, "_CHUNK", 2)
    _, client = staff_with("operator")
    app = an_app()
    chosen = [a_workunit(app) for _ in range(5)]
    a_result(chosen[4])
    settled(a_workunit(app))
    a_workunit()
    query = f"answer=OPEN&app__id__exact={app.pk}"
    text = act_on_all(client, query)
    for words, count in (("workunits", 5), ("not finished", 5), ("unsent results", 1)):
        assert f"<dt>{words}</dt><dd>{count}</dd>" in text
    assert "More than 2 workunits are selected" in act_on_all(client, query, "hold")
    assert cancelled() == []

    text = act_on_all(client, query, confirmed="yes", previewed="5")
    assert "5 are being cancelled." in text
    ids = [workunit.pk for workunit in chosen]
    assert cancelled() == ids
    assert entries()[1:] == [
        {"action": "cancel", "ids": ids, "more": False, "total": 5, "filter": query}
    ]
    text = act_on_all(client, query, confirmed="yes", previewed="5")
    assert "0 are being cancelled, 5 already were." in text


@pytest.mark.django_db
def test_repeated_cancellation_continues_after_an_interruption(monkeypatch):
    monkeypatch.setattr(control, "_CHUNK", 2)
    _, client = staff_with("operator")
    ids = [a_workunit().pk for _ in range(5)]
    fetch = control.fetch

    def interrupted(statement, params):
        if ids[2] in params["ids"]:
            raise OSError
        return fetch(statement, params)

    with monkeypatch.context() as patch:
        patch.setattr(control, "fetch", interrupted)
        with pytest.raises(OSError):
            act_on_all(client, "answer=OPEN", confirmed="yes", previewed="5")
    assert cancelled() == ids[:2]
    text = act_on_all(client, "answer=OPEN", confirmed="yes", previewed="5")
    assert "3 are being cancelled, 2 already were." in text
    assert cancelled() == ids
    assert [(entry["filter"], entry["total"]) for entry in entries()] == [("answer=OPEN", 5)] * 2


@pytest.mark.django_db
def test_cancellation_of_too_many_workunits_is_refused_before_the_preview(monkeypatch):
    monkeypatch.setattr(workunit_pages, "MAX_CANCELLED_ROWS", 2)
    _, client = staff_with("operator")
    for _ in range(3):
        a_workunit()
    for more in ({}, {"confirmed": "yes", "previewed": "3"}):
        text = act_on_all(client, "answer=OPEN", **more)
        assert "More than 2 workunits are selected. Hint: narrow the filter" in text
    assert cancelled() == []
    assert [entry["refused"] for entry in entries()] == [True, True]


@pytest.mark.django_db(transaction=True)
def test_a_claim_during_the_reset_keeps_the_class(other):
    """The reset waits for the claim's lock, and then sees the claimed result."""
    workunit = a_bound_workunit()
    result, host = a_result(workunit), a_host()
    ids = [workunit.pk]
    outcome = change_during_claim(
        other, result, host, lambda: control.reset_class(ids=ids, now=NOON)
    )
    assert outcome == control.Outcome(changed=0, already=0, finished=0, impossible=1)
    assert Workunit.objects.get(pk=workunit.pk).hr_class == 7


@pytest.mark.django_db
def test_bound_workunit_without_results_is_counted_once():
    workunit = a_bound_workunit()
    update(workunit, hr_class=0, app_version=None)
    outcome = control.reset_class(ids=[workunit.pk], now=NOON)
    assert (outcome.changed, outcome.already) == (0, 1)


@pytest.mark.django_db
def test_held_workunits_are_filtered_by_their_codes():
    _, client = staff_with("operator")
    codes = (-9, -7, -7, None)
    workunits = [a_workunit(release_state=ReleaseState.HELD, hold_code=code) for code in codes]
    a_workunit()
    text = client.get(LIST).content.decode()
    assert re.findall(r"\?hold_code=(-?\d+)", text) == ["-7", "-9"]
    listed = client.get(LIST, {"hold_code": "-7"}).context["cl"].result_list
    assert {workunit.pk for workunit in listed} == {workunits[1].pk, workunits[2].pk}
    assert len(client.get(LIST, {"hold_code": "x"}).context["cl"].result_list) == len(workunits) + 1
    assert client.get(LIST, {"hold_code": "9" * 40}).status_code == 200
