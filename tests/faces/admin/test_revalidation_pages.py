"""Operators let results be validated again, after a preview."""

from __future__ import annotations

import re
from datetime import timedelta

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.urls import reverse

from scheduler.admin import workunits as workunit_pages
from scheduler.models import App, AuditEntry, Workunit, WorkunitWakeup
from scheduler.results import revalidate
from tests.conftest import NOON
from tests.faces.admin.test_credit_grants import hidden, staff_with
from tests.rows import a_result, a_workunit, an_app, settled, update

pytestmark = pytest.mark.django_db

LIST = reverse("admin:scheduler_workunit_changelist")


def judged(app: App, *words: str, **fields) -> Workunit:
    """Create a workunit that waits for assimilation, whose results have these verdicts."""
    workunit = a_workunit(app, transition_at=None)
    words = words or ("valid", "valid", "invalid")
    results = [a_result(workunit, word, **fields) for word in words]
    return settled(workunit, results[0], assimilate_state=1)


def act(client: Client, *workunits: Workunit, **more: str) -> str:
    chosen = {"action": "validate_again", "_selected_action": [row.pk for row in workunits]}
    return client.post(LIST, chosen | more, follow=True).content.decode()


def requested() -> list[int]:
    rows = Workunit.objects.exclude(revalidate_requested_at=None).order_by("pk")
    return list(rows.values_list("pk", flat=True))


def numbers(text: str) -> dict[str, str]:
    """Return the counts of a preview, by their words."""
    return dict(re.findall(r"<dt>(.*?)</dt><dd>(.*?)</dd>", text))


def path_of(app: App) -> str:
    return f"/admin/scheduler/app/{app.pk}/revalidate/"


# The action of the list of workunits


def test_selected_workunits_are_validated_again_after_a_preview():
    chief, client = staff_with("operator")
    app = an_app("sums")
    workunits = [judged(app, granted_credit=5), judged(app, "valid", "valid")]
    late = settled(a_workunit(app))
    WorkunitWakeup.objects.all().delete()
    text = act(client, *workunits, late)
    assert "Really validate again?" in text
    assert numbers(text) == {
        "workunits": "2",
        "answers withdrawn": "2",
        "verdicts withdrawn": "5",
        "results with credit": "3",
    }
    assert "1 workunit cannot be validated again: a failure is final." in text
    assert "The validator then compares" in text
    assert requested() == []
    text = act(client, *workunits, late, confirmed="yes")
    assert "2 workunits will be validated again." in text
    ids = [workunit.pk for workunit in workunits]
    assert requested() == ids
    assert sorted(WorkunitWakeup.objects.values_list("workunit_id", flat=True)) == ids
    entry = AuditEntry.objects.get(event="action_taken")
    assert (entry.account_id, entry.actor) == (chief.pk, chief.email)
    assert (entry.details["action"], entry.details["ids"]) == ("validate_again", ids)


def test_workunits_that_cannot_be_validated_again_are_refused_with_the_reasons():
    _, client = staff_with("operator")
    app = an_app()
    done = update_of(judged(app), assimilate_state=2)
    text = act(client, done, a_workunit(app))
    assert "1 workunit cannot be validated again: the answer is already assimilated." in text
    assert "no result has been validated yet" in text
    assert "Really" not in text


def update_of(workunit: Workunit, **fields) -> Workunit:
    update(workunit, **fields)
    return workunit


def test_too_many_selected_workunits_are_refused(monkeypatch):
    monkeypatch.setattr(workunit_pages, "MAX_ACTION_ROWS", 1)
    _, client = staff_with("operator")
    app = an_app()
    text = act(client, judged(app), judged(app), confirmed="yes")
    assert "More than 1 workunits are selected" in text
    assert requested() == []


def test_page_of_a_workunit_has_the_action():
    _, client = staff_with("operator")
    workunit = judged(an_app())
    url = reverse("admin:scheduler_workunit_change", args=[workunit.pk])
    assert 'name="action" value="validate_again"' in client.get(url).content.decode()
    sent = {"_selected_action": workunit.pk, "index": "0", "action": "validate_again"}
    text = client.post(LIST, sent).content.decode()
    client.post(LIST, {**hidden(text), "confirmed": "yes"})
    assert requested() == [workunit.pk]


# The page of an app


def preview(client: Client, app: App, **fields: object) -> str:
    answer = client.post(path_of(app), {"at_most": "1000"} | fields)
    assert answer.status_code == 200
    return answer.content.decode()


def test_workunits_of_an_app_are_validated_again_after_a_preview():
    chief, client = staff_with("operator")
    app = an_app("sums")
    assert path_of(app) in client.get(path_of(app).replace("revalidate", "change")).content.decode()
    assert client.get(path_of(app)).status_code == 200
    with_invalid = judged(app)
    judged(app, "valid", "valid")
    judged(an_app("other"))
    text = preview(client, app, only_invalid="on")
    assert "Really validate 1 workunit of sums again?" in text
    assert numbers(text)["verdicts withdrawn"] == "3"
    assert "3 workunits that wait for assimilation" in text
    assert not re.search(r"<style|style=|onclick", text)
    assert requested() == []
    answer = client.post(path_of(app), {**hidden(text), "confirmed": "yes"}, follow=True)
    assert "1 workunit will be validated again." in answer.content.decode()
    assert requested() == [with_invalid.pk]
    entry = AuditEntry.objects.get(event="action_taken")
    assert (entry.actor, entry.details["app"]) == (chief.email, "sums")
    assert entry.details["only_invalid"] is True


def test_workunits_that_came_after_the_preview_are_shown_before_they_change():
    _, client = staff_with("operator")
    app = an_app("sums")
    seen = judged(app)
    text = preview(client, app)
    later = judged(app)
    answer = client.post(path_of(app), {**hidden(text), "confirmed": "yes"})
    text = answer.content.decode()
    assert "The number of workunits has changed since the preview." in text
    assert "Really validate 2 workunits of sums again?" in text
    assert requested() == []
    client.post(path_of(app), {**hidden(text), "confirmed": "yes"})
    assert requested() == [seen.pk, later.pk]


def test_period_and_maximum_limit_the_workunits_of_an_app():
    _, client = staff_with("operator")
    app = an_app("sums")
    old, new, newer = (judged(app, received_at=NOON + timedelta(days=days)) for days in (0, 2, 3))
    since = f"{NOON + timedelta(days=1):%Y-%m-%dT%H:%M}"
    text = preview(client, app, since=since, at_most="1")
    assert "Left out by the maximum of workunits: 1." in text
    client.post(path_of(app), {**hidden(text), "confirmed": "yes"})
    assert requested() == [new.pk]
    assert old.pk < new.pk < newer.pk


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"at_most": "0"}, "greater than or equal to 1"),
        ({"at_most": "10001"}, "less than or equal to 10000"),
        ({"since": "soon"}, "Enter a valid date/time"),
        ({"since": "2026-02-02T00:00", "until": "2026-02-01T00:00"}, "is empty. Hint: give an end"),
        ({"only_invalid": "on"}, "No workunit of sums can be validated again"),
    ],
)
def test_bad_fields_are_shown_with_the_reason(fields, words):
    _, client = staff_with("operator")
    app = an_app("sums")
    judged(app, "valid", "valid")
    answer = client.post(path_of(app), {"at_most": "10", "confirmed": "yes"} | fields)
    assert answer.status_code == 422
    assert words in answer.content.decode()
    assert requested() == []


def test_page_shows_that_not_all_rows_were_read(monkeypatch):
    monkeypatch.setattr(revalidate, "MAX_READ", 2)
    _, client = staff_with("operator")
    app = an_app("sums")
    for _ in range(3):
        judged(app)
    text = preview(client, app)
    assert "Not all rows were read." in text
    assert "manage.py revalidate sums" in text
    assert numbers(text)["workunits"] == "2"


def test_page_takes_the_same_statements_for_any_number_of_workunits():
    _, client = staff_with("operator")

    def statements(count: int) -> int:
        app = an_app()
        for _ in range(count):
            judged(app)
        with CaptureQueriesContext(connection) as captured:
            preview(client, app)
        return len(captured)

    assert statements(1) == statements(20)


@pytest.mark.parametrize("role", ["read-only", "publisher", "moderator"])
def test_only_staff_who_may_change_work_have_the_page_and_the_action(role):
    _, client = staff_with(role)
    app = an_app("sums")
    workunit = judged(app)
    assert client.get(path_of(app)).status_code == 403
    assert client.post(path_of(app), {"at_most": "9", "confirmed": "yes"}).status_code == 403
    act(client, workunit, confirmed="yes")
    assert requested() == []
    page = client.get(reverse("admin:scheduler_app_change", args=[app.pk]))
    assert path_of(app) not in page.content.decode()


@pytest.mark.parametrize("number", [2**62, 2**70])
def test_unknown_app_gets_404(number):
    _, client = staff_with("operator")
    assert client.get(f"/admin/scheduler/app/{number}/revalidate/").status_code == 404
