"""Actions of staff show what will change, and wait for a confirmation."""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import timedelta
from html import unescape
from typing import Any

import pytest
from django.db.models import Model
from django.test import Client
from django.urls import reverse
from django.utils import timezone

from scheduler.admin import people
from scheduler.lifecycle import ReleaseState
from scheduler.models import (
    Account,
    ApiToken,
    AppVersion,
    AuditEntry,
    Batch,
    Host,
    News,
    Outage,
    OutboxMessage,
    Platform,
    ScienceFailure,
    Submitter,
    Team,
    TrickleUp,
    Workunit,
)
from scheduler.people import api_tokens, submitters
from tests.conftest import NOON
from tests.faces.admin.test_credit_grants import hidden, path_of, preview, staff_with
from tests.faces.admin.test_revalidation_pages import numbers
from tests.rows import (
    a_host,
    a_result,
    a_workunit,
    an_account,
    an_app,
    an_app_version,
    settled,
    update,
)
from tests.scientists import a_batch, done_in

pytestmark = pytest.mark.django_db


def list_of(row: Model) -> str:
    return reverse(f"admin:scheduler_{row._meta.model_name}_changelist")


def act(client: Client, action: str, *rows: Model, status: int = 200, **more: str) -> str:
    chosen = {"action": action, "_selected_action": [row.pk for row in rows]}
    answer = client.post(list_of(rows[0]), chosen | more, follow=True)
    assert answer.status_code == status
    text = answer.content.decode()
    assert not re.search(r"<style|style=|onclick", text[text.index("<body") :])
    return unescape(text)


def newest_entry(event: str = "action_taken") -> AuditEntry:
    return AuditEntry.objects.filter(event=event).latest("pk")


@pytest.fixture
def operator() -> Client:
    return staff_with("operator")[1]


# Hosts


def test_denial_of_hosts_shows_the_lost_results_and_needs_a_reason():
    chief, client = staff_with("operator")
    owner = an_account("ada")
    hosts = [a_host(owner, domain_name="mill"), a_host(owner, denied=True)]
    for _ in range(2):
        a_result(a_workunit(), "sent", host=hosts[0])
    a_result(a_workunit(), "success", host=hosts[0])
    a_result(a_workunit(), "sent", host=a_host())
    text = act(client, "deny", *hosts)
    assert "Really deny work to these hosts?" in text
    assert numbers(text) == {
        "hosts": "1",
        "denied already": "1",
        "results in progress that are lost": "2",
    }
    assert f"mill #{hosts[0].pk} of ada" in text
    text = act(client, "deny", *hosts, confirmed="yes", reason=" ", status=422)
    assert "This field is required" in text
    assert not AuditEntry.objects.filter(event="host_changed").exists()
    assert Host.objects.filter(denied=True).count() == 1

    text = act(client, "deny", *hosts, confirmed="yes", reason="wrong <results>")
    assert "1 hosts will get no more work." in text
    hosts[0].refresh_from_db()
    assert (hosts[0].denied, hosts[0].deny_reason) == (True, "wrong <results>")
    entry = newest_entry("host_changed")
    assert (entry.account_id, entry.subject) == (chief.pk, f"host {hosts[0].pk}")
    assert entry.details == {
        "denied": True,
        "hosts": [hosts[0].pk],
        "reason": "wrong <results>",
    }
    assert "The selected hosts are denied already" in act(client, "deny", *hosts)


def test_admission_of_hosts_shows_the_results_that_continue(operator):
    host = a_host(denied=True, deny_reason="broken")
    a_result(a_workunit(), "sent", host=host)
    text = act(operator, "admit", host)
    assert numbers(text)["results in progress that continue"] == "1"
    act(operator, "admit", host, confirmed="yes", reason="repaired")
    host.refresh_from_db()
    assert (host.denied, host.deny_reason) == (False, "")
    assert newest_entry("host_changed").details["reason"] == "repaired"


def test_page_of_a_host_shows_why_and_has_the_actions(operator):
    host = a_host(last_decisions=[{"refused": {"memory": 3}}])
    path = reverse("admin:scheduler_host_change", args=[host.pk])
    text = operator.get(path).content.decode()
    assert '<a href="#decisions">Why?</a>' in text
    assert "refused 3 for memory" in text
    assert 'value="deny"' in text
    update(host, denied=True, deny_reason="broken")
    text = operator.get(path).content.decode()
    assert "The host is denied: broken." in text
    assert 'value="admit"' in text
    text = staff_with("read-only")[1].get(path).content.decode()
    assert "refused 3 for memory" in text
    assert 'value="admit"' not in text


# Accounts


@pytest.fixture
def moderator() -> tuple[Account, Client]:
    return staff_with("moderator")


def a_volunteer() -> Account:
    ada = an_account("ada")
    for _ in range(2):
        a_result(a_workunit(), "sent", host=a_host(ada))
    now = timezone.now()
    api_tokens.create(account=ada, name="t", scopes=["read"], now=now)
    api_tokens.create(
        account=ada, name="u", scopes=["read"], expire_at=now + timedelta(days=1), now=now
    )
    ApiToken.objects.filter(name="u").update(expire_at=now - timedelta(days=1))
    a_batch(submitter=ada)
    return ada


def test_block_of_accounts_shows_what_stops_and_needs_a_reason(moderator):
    chief, client = moderator
    ada = a_volunteer()
    text = act(client, "block", ada)
    assert "Really block these accounts?" in text
    assert numbers(text) == {
        "accounts": "1",
        "blocked already": "0",
        "computers": "2",
        "results in progress that are lost": "2",
        "API tokens that stop working": "1",
        "unfinished batches, which continue": "1",
    }
    act(client, "block", ada, confirmed="yes", status=422)
    ada.refresh_from_db()
    assert ada.is_active

    text = act(client, "block", ada, confirmed="yes", reason="fake results")
    assert "1 accounts are blocked." in text
    ada.refresh_from_db()
    assert not ada.is_active
    entry = newest_entry("rights_changed")
    assert (entry.account_id, entry.actor, entry.subject) == (chief.pk, chief.email, ada.email)
    assert entry.details == {
        "is_active": {"from": True, "to": False},
        "reason": "fake results",
    }
    assert "are blocked already" in act(client, "block", ada)

    text = act(client, "unblock", ada)
    assert numbers(text)["API tokens that work again"] == "1"
    act(client, "unblock", ada, confirmed="yes", reason="mistake")
    ada.refresh_from_db()
    assert ada.is_active


def test_too_many_accounts_are_refused(moderator, monkeypatch):
    monkeypatch.setattr(people, "_MAX_BLOCKED", 1)
    accounts = [an_account(), an_account()]
    text = act(moderator[1], "block", *accounts, confirmed="yes", reason="x")
    assert "More than 1 accounts are selected" in text
    assert not Account.objects.filter(is_active=False).exists()


def test_page_of_an_account_has_the_action_that_fits(moderator):
    ada = an_account("ada")
    path = reverse("admin:scheduler_account_change", args=[ada.pk])
    assert 'value="block"' in moderator[1].get(path).content.decode()
    update(ada, is_active=False)
    assert 'value="unblock"' in moderator[1].get(path).content.decode()


# App versions


@pytest.fixture
def publisher() -> Client:
    return staff_with("publisher")[1]


def test_withdrawal_of_a_version_shows_its_work_and_the_version_instead(publisher):
    app = an_app("sums")
    old, new = an_app_version(app, version_num=100), an_app_version(app, version_num=101)
    bound, fixed = a_workunit(app, app_version=new), a_workunit(app, app_version_num=101)
    for workunit in (bound, fixed, a_workunit(app)):
        a_result(workunit)
    a_result(a_workunit(app), "sent", app_version=new)
    text = act(publisher, "deprecate", new)
    assert numbers(text) == {
        "versions": "1",
        "unsent workunits that no other version can compute": "0",
        "unsent workunits that are bound to them": "2",
        "hosts that compute with them": "1",
        "results in progress": "1",
        "results of the last 24 hours": "0",
    }
    assert f"{new}; instead: {old}" in text
    assert "These workunits wait" not in text
    assert not AppVersion.objects.filter(deprecated=True).exists()

    text = act(publisher, "deprecate", new, confirmed="yes")
    assert "1 versions are deprecated." in text
    entry = newest_entry("version_changed")
    assert (entry.subject, entry.details) == (f"app version {new}", {"deprecated": True})
    assert entry.actor == "publisher@example.org"
    assert "are deprecated already" in act(publisher, "deprecate", new)

    text = act(publisher, "restore", new)
    assert numbers(text)["unsent workunits that only these versions can compute"] == "0"
    act(publisher, "restore", new, confirmed="yes")
    assert not AppVersion.objects.filter(deprecated=True).exists()


def test_last_version_of_an_app_leaves_all_its_work_without_a_version(publisher):
    version = an_app_version(an_app("sums"))
    a_result(a_workunit(version.app))
    text = act(publisher, "deprecate", version)
    assert numbers(text)["unsent workunits that no other version can compute"] == "1"
    assert "instead: no version for this platform and class" in text
    assert "These workunits wait until a version is published or restored" in text
    act(publisher, "deprecate", version, confirmed="yes")
    text = act(publisher, "restore", version)
    assert numbers(text)["unsent workunits that only these versions can compute"] == "1"


def test_programs_of_volunteers_are_not_withdrawn(publisher):
    anonymous = Platform.objects.create(name="anonymous")
    version = an_app_version(an_app("sums"), platform=anonymous)
    text = act(publisher, "deprecate", version, confirmed="yes")
    assert "or are programs of volunteers" in text
    assert not AppVersion.objects.filter(deprecated=True).exists()


# Outages

OUTAGE = {"began_at": "2026-01-10T10:00", "ended_at": "2026-01-10T12:30", "reason": "router <1>"}


def test_outage_is_recorded_after_a_preview_with_the_affected_results():
    chief, client = staff_with("operator")
    path = reverse("admin:scheduler_outage_add")
    Outage.objects.create(
        began_at="2026-01-10T11:00Z", ended_at="2026-01-10T11:10Z", reason="power"
    )
    deadline = {"sent_at": "2026-01-10T09:00Z", "report_deadline": "2026-01-20T09:00Z"}
    a_result(a_workunit(), "sent", **deadline)
    a_result(a_workunit(), "sent", **deadline | {"report_deadline": "2026-01-09T09:00Z"})
    a_result(a_workunit(), "sent", **deadline | {"sent_at": "2026-01-11T09:00Z"})
    assert "Show what will change" in client.get(path).content.decode()
    answer = client.post(path, OUTAGE)
    text = unescape(answer.content.decode())
    assert "Really record this outage?" in text
    assert numbers(text) == {
        "results in progress whose deadlines move": "1",
        "later by at most": "2 h 30 min",
    }
    assert "router &lt;1&gt;" in answer.content.decode()
    assert "2026-01-10 11:00 to 2026-01-10 11:10 UTC: power" in text
    assert Outage.objects.count() == 1

    sent = {name: unescape(value) for name, value in hidden(answer.content.decode()).items()}
    answer = client.post(path, {**sent, "confirmed": "yes"}, follow=True)
    assert "is recorded" in answer.content.decode()
    outage = Outage.objects.latest("pk")
    assert (outage.reason, outage.ended_at - outage.began_at) == (
        "router <1>",
        timedelta(hours=2.5),
    )
    entry = newest_entry()
    assert (entry.account_id, entry.subject) == (chief.pk, f"outage {outage.pk}")
    assert entry.details["action"] == "add"


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"ended_at": "2026-01-10T09:00"}, "not after its start"),
        ({"ended_at": "2999-01-10T09:00"}, "in the future"),
        ({"began_at": "yesterday"}, "Enter a valid date/time."),
        ({"reason": "x" * 201}, "at most 200 characters"),
    ],
)
def test_impossible_outage_is_an_error_of_the_form(operator, change, words):
    path = reverse("admin:scheduler_outage_add")
    answer = operator.post(path, OUTAGE | change | {"confirmed": "yes"})
    assert answer.status_code == 422
    assert words in unescape(answer.content.decode())
    assert not Outage.objects.exists()


# Parked science


def parked(stage: int, subject_id: int, app: Any, *, at: Any = NOON) -> ScienceFailure:
    return ScienceFailure.objects.create(
        stage=stage,
        subject_id=subject_id,
        app=app,
        failures=5,
        error="Traceback\nKeyError: <sum>",
        failed_at=NOON,
        parked_at=at,
    )


def test_parked_subjects_are_named_before_they_are_tried_again(operator):
    app = an_app("sums")
    failures = [parked(1, a_workunit(app, name="first").pk, app)]
    failures.append(parked(2, settled(a_workunit(app)).pk, app, at=None))
    text = act(operator, "retry", *failures)
    assert numbers(text) == {
        "subjects": "2",
        "of these parked": "1",
        "of these to assimilate": "1",
        "of these to validate": "1",
    }
    assert "first of sums: KeyError: <sum>" in text
    assert ScienceFailure.objects.count() == 2
    assert "2 will be tried again." in act(operator, "retry", *failures, confirmed="yes")
    assert not ScienceFailure.objects.exists()
    assert newest_entry().details["action"] == "retry"


def test_effects_of_giving_up_parked_subjects_are_shown_by_stage(operator):
    app = an_app("sums")
    workunit = a_workunit(app, name="first")
    answered = a_workunit(app)
    settled(answered, a_result(answered, "valid"))
    trickle = TrickleUp.objects.create(
        app=app, host=a_host(), result_id=1, said_at=NOON, received_at=NOON
    )
    failures = [
        parked(1, workunit.pk, app),
        parked(1, answered.pk, app),
        parked(3, trickle.pk, app),
        parked(4, app.pk, app),
    ]
    text = act(operator, "drop", *failures)
    assert numbers(text) == {
        "workunits that are cancelled": "1",
        "answers that are not assimilated": "0",
        "trickles that are not handled": "1",
        "subjects that stay parked": "2",
    }
    assert "1 workunits have an answer already" in text
    assert ScienceFailure.objects.count() == 4
    assert Workunit.objects.get(pk=workunit.pk).cancel_requested_at is None
    text = act(operator, "drop", *failures, confirmed="yes")
    assert "2 were given up; 2 cannot be given up and stay parked." in text


def test_subject_that_is_not_parked_is_refused_before_the_preview(operator):
    app = an_app("sums")
    failure = parked(1, a_workunit(app).pk, app, at=None)
    assert "No parked subject has the id" in act(operator, "drop", failure)


# Batches and workunits


def test_acceleration_shows_the_unsent_results_and_batches_that_are_over(operator):
    batch, over = a_batch(name="one"), a_batch(name="two", state=Batch.State.COMPLETE)
    a_result(a_workunit(batch.app, batch=batch))
    text = act(operator, "accelerate", batch, over)
    counted = numbers(text)
    assert counted["batches that change"] == "1"
    assert (counted["not finished"], counted["unsent results"]) == ("1", "1")
    assert "1 of the batches are over, and cannot change." in text
    assert "<li>one</li>" in text
    assert not Batch.objects.get(pk=batch.pk).accelerate
    act(operator, "accelerate", batch, confirmed="yes")
    assert Batch.objects.get(pk=batch.pk).accelerate
    text = act(operator, "accelerate", batch)
    assert "1 of the batches do not change: they have it already." in text
    assert "Really stop accelerating?" in act(operator, "slow_down", batch)
    assert Batch.objects.get(pk=batch.pk).accelerate


def test_retirement_shows_the_outputs_that_are_released(operator):
    batch = a_batch(name="first", state=Batch.State.COMPLETE)
    update(done_in(batch), outputs_kept=True)
    text = act(operator, "retire", batch)
    assert numbers(text) == {"batches": "1", "workunits with kept outputs": "1"}
    assert "This cannot be undone." in text
    assert Batch.objects.get(pk=batch.pk).state == Batch.State.COMPLETE
    text = act(operator, "retire", batch, confirmed="yes")
    assert "First is retired." in text


def test_hold_keeps_its_code_through_the_preview(operator):
    workunit = a_workunit()
    a_result(workunit)
    text = act(operator, "hold", workunit, hold_code="-7")
    assert "Hold with the code -7." in text
    assert hidden(text)["hold_code"] == "-7"
    assert numbers(text)["unsent results"] == "1"
    assert Workunit.objects.get().release_state == ReleaseState.RELEASED
    act(operator, "hold", workunit, hold_code="-7", confirmed="yes")
    workunit.refresh_from_db()
    assert (workunit.release_state, workunit.hold_code) == (ReleaseState.HELD, -7)
    text = act(operator, "release_again", workunit)
    assert numbers(text)["held workunits"] == "1"
    act(operator, "release_again", workunit, confirmed="yes")
    workunit.refresh_from_db()
    assert workunit.release_state == ReleaseState.RELEASED


@pytest.mark.parametrize("kind", ["workunit", "batch"])
def test_cancellation_of_more_than_the_preview_showed_is_previewed_again(operator, kind):
    batch = a_batch()
    a_result(a_workunit(batch.app, batch=batch))
    row: Any = batch if kind == "batch" else Workunit.objects.get()
    path = list_of(row) + ("" if kind == "batch" else "?answer=OPEN")
    sent = {"action": "cancel", "_selected_action": [row.pk], "index": "0", "select_across": "1"}
    text = operator.post(path, sent).content.decode()
    previewed = hidden(text)["previewed"]
    assert previewed == "1"
    a_workunit(batch.app, batch=batch)
    confirmed = sent | {"confirmed": "yes", "previewed": previewed}
    text = operator.post(path, confirmed).content.decode()
    assert "The number of workunits has changed since the preview." in text
    assert hidden(text)["previewed"] == "2"
    assert not Workunit.objects.exclude(cancel_requested_at=None).exists()
    assert not AuditEntry.objects.filter(event="action_taken").exists()
    operator.post(path, confirmed | {"previewed": "2"})
    assert Workunit.objects.exclude(cancel_requested_at=None).count() == 2


def _a_team() -> Team:
    return Team.objects.create(name=f"team {Team.objects.count()}", created_at=NOON)


def _a_message() -> OutboxMessage:
    return OutboxMessage.objects.create(
        recipient="a@example.org", subject="Welcome", text="", created_at=NOON, parked_at=NOON
    )


def _a_token() -> ApiToken:
    number = ApiToken.objects.count()
    return ApiToken.objects.create(
        account=an_account(), name=f"t{number}", token_hash=str(number), created_at=NOON
    )


def _a_submitter() -> Submitter:
    return submitters.allow(an_account(), apps=[an_app()], now=timezone.now())


def _a_parked_workunit() -> ScienceFailure:
    workunit = a_workunit()
    return parked(1, workunit.pk, workunit.app)


#: Actions whose number of rows can grow after the preview: the role of the user, the action, a
#: function that creates a row on which it acts, and the row's state that it changes.
GROWING: dict[str, tuple[str, str, Callable[[], Model], dict[str, Any]]] = {
    "hosts": ("operator", "deny", a_host, {"denied": False}),
    "accounts": ("moderator", "block", an_account, {"is_active": True}),
    "versions": ("publisher", "deprecate", lambda: an_app_version(an_app()), {"deprecated": False}),
    "news": (
        "operator",
        "withdraw",
        lambda: News.objects.create(title="Hello", text="x", published_at=NOON),
        {"withdrawn_at": None},
    ),
    "tokens": ("operator", "revoke", _a_token, {"revoked_at": None}),
    "people": ("operator", "forbid", _a_submitter, {"apps__isnull": False}),
    "teams": ("moderator", "delete_teams", _a_team, {"deleted_at": None}),
    "messages": ("operator", "drop", _a_message, {"sent_at": None}),
    "subjects": ("operator", "drop", _a_parked_workunit, {"failures": 5}),
}


@pytest.mark.parametrize("noun", GROWING)
def test_confirmation_of_a_selection_that_has_grown_shows_a_new_preview(noun):
    role, action, create, unchanged = GROWING[noun]
    client = staff_with(role)[1]
    first = create()
    mine = type(first)._base_manager.filter(pk__gte=first.pk, **unchanged)
    sent = {"action": action, "_selected_action": [first.pk], "index": "0", "select_across": "1"}
    # Without the user, who cannot block their own account.
    path = list_of(first) + ("?is_staff__exact=0" if noun == "accounts" else "")
    previewed = hidden(client.post(path, sent).content.decode())["previewed"]
    create()
    confirmed = sent | {"confirmed": "yes", "reason": "x", "previewed": previewed}
    text = client.post(path, confirmed).content.decode()
    assert "has changed since the preview. This is the new preview." in text
    assert int(hidden(text)["previewed"]) > int(previewed)
    assert mine.count() == 2
    act(client, action, first, confirmed="yes", reason="x", previewed=previewed)
    assert mine.count() == 1


# News, tokens, submitters, credit


def test_withdrawal_of_news_names_them(operator):
    rows = [
        News.objects.create(title=title, text="x", published_at=NOON, withdrawn_at=at)
        for title, at in (("Hello <b>", None), ("Old", NOON))
    ]
    text = act(operator, "withdraw", *rows)
    assert numbers(text) == {"news": "1", "withdrawn before": "1"}
    assert "<li>Hello <b></li>" in text
    assert News.objects.filter(withdrawn_at=None).count() == 1
    assert "1 withdrawn." in act(operator, "withdraw", *rows, confirmed="yes")


def test_revocation_of_tokens_counts_those_that_were_made_with_them(operator):
    now, ada = timezone.now(), an_account("ada")
    api_tokens.create(account=ada, name="first", scopes=["read"], now=now)
    parent = ApiToken.objects.get()
    child = ApiToken.objects.create(
        account=ada, name="second", token_hash="2", parent=parent, created_at=now
    )
    ApiToken.objects.create(account=ada, name="third", token_hash="3", parent=child, created_at=now)
    text = act(operator, "revoke", parent)
    assert numbers(text) == {"tokens": "1", "valid tokens that were made with them": "2"}
    assert "first of ada (read)" in text
    assert not ApiToken.objects.exclude(revoked_at=None).exists()
    act(operator, "revoke", parent, confirmed="yes")
    assert ApiToken.objects.exclude(revoked_at=None).count() == 3


def test_submitters_are_named_before_they_are_forbidden(operator):
    ada = an_account("ada")
    submitter = submitters.allow(ada, apps=[an_app("sums")], now=timezone.now())
    a_batch(submitter=ada)
    text = act(operator, "forbid", submitter)
    assert numbers(text) == {"people who may submit": "1", "open batches of these people": "1"}
    assert "ada: sums" in text
    assert submitter.apps.exists()
    act(operator, "forbid", submitter, confirmed="yes")
    assert not submitter.apps.exists()


def test_grant_for_other_totals_than_the_preview_showed_is_previewed_again(operator):
    ada = an_account("ada")
    text = preview(operator, ada)
    update(ada, team=Team.objects.create(name="New", created_at=NOON))
    sent = {**hidden(text), "confirmed": "yes"}
    text = operator.post(path_of(ada), sent).content.decode()
    assert "The totals that change are not those of the preview" in text
    ada.refresh_from_db()
    assert ada.total_credit == 0
    update(ada, total_credit=3)
    answer = operator.post(path_of(ada), {**hidden(text), "confirmed": "yes"})
    assert answer.status_code == 302
    ada.refresh_from_db()
    assert ada.total_credit == 15.5
