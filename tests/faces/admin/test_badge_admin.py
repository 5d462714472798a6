"""Admin pages of badges: changes, previews, awards by hand and withdrawals."""

from __future__ import annotations

from decimal import Decimal
from html import unescape
from typing import Any

import pytest
from django.test import Client
from django.utils import timezone

from scheduler.credit import badge_awards
from scheduler.credit.badge_awards import HolderCounts
from scheduler.models import Account, AccountBadge, AuditEntry, Badge, Team, TeamBadge
from scheduler.people import accounts, roles
from tests.conftest import NOON
from tests.faces.admin.test_credit_grants import hidden
from tests.faces.admin.test_revalidation_pages import numbers
from tests.rows import an_account

pytestmark = pytest.mark.django_db

BADGES, OF_ACCOUNTS, OF_TEAMS = (
    f"/admin/scheduler/{name}/" for name in ("badge", "accountbadge", "teambadge")
)
FORM = {
    "name": "gold",
    "title": "Gold",
    "description": "",
    "level": "1",
    "color": "#C9A227",
    "rule": "total_credit",
    "threshold": "100",
    "for_accounts": "on",
}
EDITED = FORM | {
    "color": "#c9a227",
    "is_published": "on",
    "threshold": "50",
    # Not in the form of an existing badge.
    "rule": "years",
}


def staff_of(role: str) -> Client:
    email = f"{role}@example.org"
    account = accounts.create_staff(
        email=email, password="a first password", name=role, now=timezone.now(), is_superuser=False
    )
    roles.give(account, role, now=timezone.now())
    client = Client()
    client.force_login(Account.objects.get(pk=account.pk))
    return client


@pytest.fixture
def operator() -> Client:
    return staff_of("operator")


def a_badge(**fields: Any) -> Badge:
    fields = {"name": "helper", "title": "Helper", "created_at": NOON} | fields
    return Badge.objects.create(**fields)


def events() -> list[tuple[str, str, Any]]:
    rows = AuditEntry.objects.filter(event__startswith="badge_").order_by("pk")
    return [(row.event, row.actor, row.details) for row in rows]


def test_operator_creates_previews_publishes_and_assigns_a_badge(operator):
    an_account("ada", total_credit=Decimal(200))
    answer = operator.post(f"{BADGES}add/", FORM)
    assert answer.status_code == 302
    badge = Badge.objects.get()
    assert (badge.color, badge.is_published, badge.rule) == ("#c9a227", False, "total_credit")
    path = f"{BADGES}{badge.pk}/change/"
    text = operator.get(path).content.decode()
    assert "accounts: 1" in text
    assert "<svg" in text
    assert 'value="100"' in text
    text = unescape(operator.post(path, EDITED).content.decode())
    assert "Really change this badge?" in text
    assert numbers(text) == {
        "accounts that have it": "0",
        "teams that have it": "0",
        "new awards": "1",
        "withdrawn awards": "0",
    }
    assert "<li>Threshold: 100 → 50</li>" in text
    assert "<li>Is published: False → True</li>" in text
    badge.refresh_from_db()
    assert (badge.is_published, badge.threshold) == (False, 100)
    operator.post(path, hidden(text) | {"confirmed": "yes"})
    badge.refresh_from_db()
    assert (badge.is_published, badge.rule, badge.threshold) == (True, "total_credit", 50)
    action = {"action": "assign", "_selected_action": [badge.pk]}
    text = operator.post(BADGES, action).content.decode()
    assert "gold: 1 new, 0 withdrawn" in text
    assert not AccountBadge.objects.exists()
    operator.post(BADGES, action | {"confirmed": "yes"})
    assert AccountBadge.objects.get().account.name == "ada"
    assert events() == [
        ("badge_changed", "operator@example.org", {"added": True}),
        (
            "badge_changed",
            "operator@example.org",
            {
                "before": {"is_published": False, "threshold": "100"},
                "is_published": True,
                "threshold": "50",
            },
        ),
    ]
    entry = AuditEntry.objects.get(event="action_taken")
    assert (entry.actor, entry.details["action"]) == ("operator@example.org", "assign")


@pytest.mark.parametrize(
    "changed",
    [
        {"threshold": ""},
        {"rule": "by_hand"},
        {"rule": "recent_percentage", "threshold": "101"},
        {"rule": "years", "threshold": "1.5"},
        {"threshold": "NaN"},
        {"color": "red"},
        {"color": "#12345g"},
        {"name": "a b"},
        {"for_accounts": ""},
        {"level": "99999"},
    ],
)
def test_bad_badges_are_refused(operator, changed):
    answer = operator.post(f"{BADGES}add/", FORM | changed)
    assert answer.status_code == 200
    assert answer.context["errors"]
    assert not Badge.objects.exists()


def test_confirmation_of_an_older_state_of_a_badge_shows_a_new_preview(operator):
    badge = a_badge(title="First")
    path = f"{BADGES}{badge.pk}/change/"
    sent = FORM | {"name": "helper", "title": "Third", "threshold": ""}
    preview = hidden(operator.post(path, sent).content.decode()) | {"confirmed": "yes"}
    Badge.objects.update(title="Second")
    text = operator.post(path, preview).content.decode()
    assert "has changed since the preview. This is the new preview." in text
    assert "<li>Title: Second → Third</li>" in text
    badge.refresh_from_db()
    assert badge.title == "Second"
    assert not events()
    assert operator.post(path, sent | {"confirmed": "yes"}).status_code == 200
    operator.post(path, hidden(text) | {"confirmed": "yes"})
    badge.refresh_from_db()
    assert badge.title == "Third"


def test_bad_threshold_of_an_existing_badge_is_refused(operator):
    badge = a_badge(rule="years", threshold=1)
    answer = operator.post(f"{BADGES}{badge.pk}/change/", FORM | {"threshold": "200"})
    assert "Hint: give a whole number" in answer.content.decode()
    badge.refresh_from_db()
    assert badge.threshold == 1


def test_badge_is_awarded_and_withdrawn_by_hand(operator):
    ada, badge = an_account("ada"), a_badge(for_teams=True)
    reds = Team.objects.create(name="Reds", created_at=NOON)
    operator.post(f"{OF_ACCOUNTS}add/", {"badge": badge.pk, "account": ada.pk})
    operator.post(f"{OF_TEAMS}add/", {"badge": badge.pk, "team": reds.pk})
    award = AccountBadge.objects.get()
    assert (award.account, TeamBadge.objects.get().team) == (ada, reds)
    answer = operator.get(f"{OF_ACCOUNTS}{award.pk}/delete/")
    assert answer.status_code == 200
    operator.post(f"{OF_ACCOUNTS}{award.pk}/delete/", {"post": "yes"})
    operator.post(
        OF_TEAMS,
        {
            "action": "delete_selected",
            "_selected_action": [TeamBadge.objects.get().pk],
            "post": "yes",
        },
    )
    assert not AccountBadge.objects.exists()
    assert not TeamBadge.objects.exists()
    name = "operator@example.org"
    assert events() == [
        ("badge_awarded", name, {"account": ada.pk}),
        ("badge_awarded", name, {"team": reds.pk}),
        ("badge_withdrawn", name, {"account": ada.pk}),
        ("badge_withdrawn", name, {"team": reds.pk}),
    ]


def test_awards_that_do_not_fit_are_refused_with_a_message(operator):
    badge, gone = a_badge(), an_account("gone", is_active=False)
    reds = Team.objects.create(name="Reds", created_at=NOON)
    answer = operator.post(f"{OF_ACCOUNTS}add/", {"badge": badge.pk, "account": gone.pk})
    assert "is not active" in answer.content.decode()
    answer = operator.post(f"{OF_TEAMS}add/", {"badge": badge.pk, "team": reds.pk})
    assert "is for accounts" in answer.content.decode()
    ada = an_account("ada")
    for _ in range(2):
        answer = operator.post(f"{OF_ACCOUNTS}add/", {"badge": badge.pk, "account": ada.pk})
    assert "already exists" in answer.content.decode()
    for bad in ("x", "", "9" * 30):
        form = {"badge": badge.pk, "account": bad}
        assert operator.post(f"{OF_ACCOUNTS}add/", form).status_code == 200
    assert AccountBadge.objects.count() == 1


def test_badge_is_deleted_with_its_awards(operator):
    badge = a_badge()
    AccountBadge.objects.create(badge=badge, account=an_account("ada"), created_at=NOON)
    path = f"{BADGES}{badge.pk}/delete/"
    assert "helper" in operator.get(path).content.decode()
    operator.post(path, {"post": "yes"})
    assert not Badge.objects.exists()
    assert not AccountBadge.objects.exists()
    assert [event for event, _, _ in events()] == ["badge_changed"]


def test_deletion_shows_how_many_accounts_and_teams_lose_each_badge(
    operator, django_assert_max_num_queries
):
    helper, unused = a_badge(for_teams=True), a_badge(name="unused")
    for name in ("ada", "eve"):
        AccountBadge.objects.create(badge=helper, account=an_account(name), created_at=NOON)
    reds = Team.objects.create(name="Reds", created_at=NOON)
    TeamBadge.objects.create(badge=helper, team=reds, created_at=NOON)
    # The stored numbers leave out accounts that do not share their statistics.
    assert (helper.account_count, helper.team_count) == (0, 0)
    with django_assert_max_num_queries(1):
        counts = badge_awards.count_holders([helper.pk, unused.pk])
    assert counts == {helper.pk: HolderCounts(2, 1), unused.pk: HolderCounts(0, 0)}
    lines = ("helper: accounts that lose it 2, teams that lose it 1", "Badges of accounts: 2")
    text = operator.get(f"{BADGES}{helper.pk}/delete/").content.decode()
    for line in (*lines, "Badges of teams: 1"):
        assert line in text
    action = {"action": "delete_selected", "_selected_action": [helper.pk, unused.pk]}
    text = operator.post(BADGES, action).content.decode()
    for line in (*lines, "unused: accounts that lose it 0, teams that lose it 0", "Badges: 2"):
        assert line in text
    assert Badge.objects.count() == 2


@pytest.mark.parametrize("role", ["read-only", "moderator", "publisher"])
def test_other_roles_cannot_change_badges_or_awards(role):
    badge, ada = a_badge(), an_account("ada")
    award = AccountBadge.objects.create(badge=badge, account=ada, created_at=NOON)
    client = staff_of(role)
    for path, form in (
        (f"{BADGES}add/", FORM),
        (f"{BADGES}{badge.pk}/delete/", {"post": "yes"}),
        (f"{BADGES}{badge.pk}/change/", FORM),
        (f"{OF_ACCOUNTS}add/", {"badge": badge.pk, "account": ada.pk}),
        (f"{OF_ACCOUNTS}{award.pk}/delete/", {"post": "yes"}),
    ):
        assert client.post(path, form).status_code == 403
    assert Badge.objects.get().name == "helper"
    assert AccountBadge.objects.count() == 1
