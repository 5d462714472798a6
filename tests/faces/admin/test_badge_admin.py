"""Admin pages of badges: changes, previews, awards by hand and withdrawals."""

from __future__ import annotations

from decimal import Decimal
from html import unescape
from typing import Any

import pytest
from django.test import Client
from django.utils import timezone

from scheduler.admin.badges import BadgeForm
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
PUBLISHED = FORM | {"is_published": "on", "for_teams": "on", "_save": "Save"}
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


def award(client: Client, path: str, **form: Any) -> Any:
    """Award a badge by hand: confirm the preview of the form."""
    text = client.post(f"{path}add/", form).content.decode()
    return client.post(f"{path}add/", hidden(text) | {"confirmed": "yes"})


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


def test_new_badge_is_published_once_after_a_preview(operator):
    for name, credit in (("ada", 200), ("eve", 100), ("joe", 99)):
        an_account(name, total_credit=Decimal(credit))
    Team.objects.create(name="Reds", total_credit=300, created_at=NOON)
    text = unescape(operator.post(f"{BADGES}add/", PUBLISHED).content.decode())
    assert "Really publish this badge?" in text
    assert numbers(text) == {"accounts that earn it now": "2", "teams that earn it now": "1"}
    for line in ("Title: Gold", "Color: #c9a227", "Rule: total credit", "Threshold: 100"):
        assert f"<li>{line}</li>" in text
    assert "Description:" not in text
    assert "The housekeeper awards it once a day" in text
    assert not Badge.objects.exists()
    assert not events()
    confirmed = hidden(text) | {"confirmed": "yes"}
    answer = operator.post(f"{BADGES}add/", confirmed)
    assert (answer.status_code, answer["Location"]) == (302, BADGES)
    badge = Badge.objects.get()
    assert (badge.name, badge.is_published, badge.threshold) == ("gold", True, 100)
    assert (badge.for_accounts, badge.for_teams, badge.level) == (True, True, 1)
    answer = operator.post(f"{BADGES}add/", confirmed)
    assert answer.status_code == 200
    assert "Badge with this Name already exists." in answer.content.decode()
    assert Badge.objects.count() == 1
    assert events() == [("badge_changed", "operator@example.org", {"added": True})]
    assert not AccountBadge.objects.exists()


def test_new_badge_whose_confirmation_is_sent_twice_at_once_is_saved_once(operator, monkeypatch):
    confirmed = PUBLISHED | {"confirmed": "yes"}
    operator.post(f"{BADGES}add/", confirmed)
    # The other request saved the badge after the form was checked.
    monkeypatch.setattr(BadgeForm, "validate_unique", lambda _form: None)
    answer = operator.post(f"{BADGES}add/", confirmed, follow=True)
    assert answer.redirect_chain == [(BADGES, 302)]
    assert "A badge with this name exists already." in answer.content.decode()
    assert Badge.objects.count() == 1
    assert len(events()) == 1


def test_preview_of_a_new_badge_by_hand_shows_that_nobody_gets_it_by_a_rule(operator):
    an_account("ada", total_credit=Decimal(200))
    sent = PUBLISHED | {"rule": "by_hand", "threshold": "", "for_teams": ""}
    text = operator.post(f"{BADGES}add/", sent).content.decode()
    assert numbers(text) == {"accounts that earn it now": "0", "teams that earn it now": "0"}
    assert "Only operators award it, by hand." in text
    assert "Threshold:" not in text


def test_new_badge_in_a_popup_window_is_still_in_it_after_the_preview(operator):
    popup = f"{BADGES}add/?_popup=1&_to_field=id"
    text = operator.post(popup, PUBLISHED | {"_popup": "1", "_to_field": "id"}).content.decode()
    answer = operator.post(popup, hidden(text) | {"confirmed": "yes"})
    assert answer.status_code == 200
    assert "data-popup-response" in answer.content.decode()
    assert Badge.objects.get().is_published


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
    for form in (FORM, PUBLISHED):
        answer = operator.post(f"{BADGES}add/", form | {"for_teams": ""} | changed)
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
    award(operator, OF_ACCOUNTS, badge=badge.pk, account=ada.pk)
    award(operator, OF_TEAMS, badge=badge.pk, team=reds.pk)
    of_ada = AccountBadge.objects.get()
    assert (of_ada.account, TeamBadge.objects.get().team) == (ada, reds)
    answer = operator.get(f"{OF_ACCOUNTS}{of_ada.pk}/delete/")
    assert answer.status_code == 200
    operator.post(f"{OF_ACCOUNTS}{of_ada.pk}/delete/", {"post": "yes"})
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


@pytest.mark.parametrize(
    ("path", "holder", "is_published", "explanation"),
    [
        (OF_ACCOUNTS, "account", True, "Pages show the badge of this holder at once."),
        (OF_TEAMS, "team", False, "The badge is not published"),
    ],
)
def test_badge_is_awarded_once_by_hand_after_a_preview(
    operator, path, holder, is_published, explanation
):
    badge = a_badge(for_teams=True, is_published=is_published)
    AccountBadge.objects.create(badge=badge, account=an_account("eve"), created_at=NOON)
    reds = Team.objects.create(name="Reds", created_at=NOON)
    row = an_account("ada") if holder == "account" else reds
    rows = {"account": AccountBadge, "team": TeamBadge}[holder].objects.filter(**{holder: row})
    sent = {"badge": badge.pk, holder: row.pk}
    text = operator.post(f"{path}add/", sent).content.decode()
    assert "Really award this badge?" in text
    assert numbers(text) == {"accounts that have it": "1", "teams that have it": "0"}
    assert f"<li>Badge {badge.pk}: helper</li>" in text
    assert f"<li>{holder.capitalize()} {row.pk}: {row}</li>" in text
    assert explanation in text
    assert not rows.exists()
    assert not events()
    confirmed = hidden(text) | {"confirmed": "yes"}
    answer = operator.post(f"{path}add/", confirmed)
    assert (answer.status_code, answer["Location"]) == (302, path)
    answer = operator.post(f"{path}add/", confirmed)
    assert answer.status_code == 200
    assert "already exists." in answer.content.decode()
    assert rows.count() == 1
    assert events() == [("badge_awarded", "operator@example.org", {holder: row.pk})]


def test_award_of_a_badge_that_changed_after_the_preview_is_previewed_again(operator):
    badge, ada = a_badge(), an_account("ada")
    sent = {"badge": badge.pk, "account": ada.pk}
    text = operator.post(f"{OF_ACCOUNTS}add/", sent).content.decode()
    Badge.objects.update(is_published=True)
    confirmed = hidden(text) | {"confirmed": "yes"}
    text = operator.post(f"{OF_ACCOUNTS}add/", confirmed).content.decode()
    assert "has changed since the preview. This is the new preview." in text
    assert "Pages show the badge of this holder at once." in text
    assert not AccountBadge.objects.exists()
    assert not events()
    operator.post(f"{OF_ACCOUNTS}add/", hidden(text) | {"confirmed": "yes"})
    assert AccountBadge.objects.get().account == ada


def test_awards_that_do_not_fit_are_refused_with_a_message(operator):
    badge, gone = a_badge(), an_account("gone", is_active=False)
    reds = Team.objects.create(name="Reds", created_at=NOON)
    answer = operator.post(f"{OF_ACCOUNTS}add/", {"badge": badge.pk, "account": gone.pk})
    assert "is not active" in answer.content.decode()
    answer = operator.post(f"{OF_TEAMS}add/", {"badge": badge.pk, "team": reds.pk})
    assert "is for accounts" in answer.content.decode()
    ada = an_account("ada")
    award(operator, OF_ACCOUNTS, badge=badge.pk, account=ada.pk)
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
        (f"{BADGES}add/", PUBLISHED),
        (f"{BADGES}add/", PUBLISHED | {"confirmed": "yes"}),
        (f"{BADGES}{badge.pk}/delete/", {"post": "yes"}),
        (f"{BADGES}{badge.pk}/change/", FORM),
        (f"{OF_ACCOUNTS}add/", {"badge": badge.pk, "account": ada.pk}),
        (f"{OF_ACCOUNTS}{award.pk}/delete/", {"post": "yes"}),
    ):
        assert client.post(path, form).status_code == 403
    assert Badge.objects.get().name == "helper"
    assert AccountBadge.objects.count() == 1
