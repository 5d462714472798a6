"""Staff wake workunits, and reset their classes of computers."""

from __future__ import annotations

import re

import pytest
from django.test import Client
from django.urls import reverse

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
