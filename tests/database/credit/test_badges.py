"""Badges: who earns them by which rule, awards by hand, withdrawal and erasure."""

from __future__ import annotations

from datetime import timedelta
from decimal import Decimal
from io import StringIO
from typing import Any

import pytest
from django.core.management import call_command
from django.db import IntegrityError, connection, transaction
from django.test.utils import CaptureQueriesContext

from daemons import housekeeper
from scheduler.apps import hygiene
from scheduler.credit import badge_awards, badges
from scheduler.credit.badge_awards import BadgeRefused, Earners
from scheduler.models import Account, AccountBadge, AuditEntry, Badge, Team, TeamBadge
from scheduler.people import audit
from scheduler.people.personal_data import erasure, own_data
from tests.conftest import NOON
from tests.database.passes import a_pass
from tests.rows import an_account, update

pytestmark = pytest.mark.django_db

DAY = timedelta(days=1)


def a_badge(rule: str = "by_hand", threshold: float | None = None, **fields: Any) -> Badge:
    fields = {"name": "b", "title": "B", "is_published": True, "created_at": NOON} | fields
    amount = None if threshold is None else Decimal(str(threshold))
    return Badge.objects.create(rule=rule, threshold=amount, **fields)


def a_volunteer(name: str, total: float, recent: float = 0, **fields: Any) -> Account:
    return an_account(name, total_credit=Decimal(str(total)), expavg_credit=recent, **fields)


def a_team(name: str, total: float, recent: float = 0, **fields: Any) -> Team:
    fields = {"created_at": NOON} | fields
    return Team.objects.create(name=name, total_credit=total, expavg_credit=recent, **fields)


def holders(badge: Badge) -> list[str]:
    names = AccountBadge.objects.filter(badge=badge).values_list("account__name", flat=True)
    return sorted(names)


def teams_with(badge: Badge) -> list[str]:
    return sorted(TeamBadge.objects.filter(badge=badge).values_list("team__name", flat=True))


# Rules


def test_credit_at_or_above_the_threshold_earns_a_badge_which_stays():
    badge = a_badge("total_credit", 100)
    above, at = a_volunteer("above", 100.5), a_volunteer("at", 100)
    a_volunteer("below", 99.999999)
    a_volunteer("inactive", 500, is_active=False)
    assert badge_awards.assign(badge.pk, now=NOON) == 2
    assert holders(badge) == ["above", "at"]
    assert AccountBadge.objects.get(account=above).created_at == NOON
    update(at, total_credit=1)
    assert badge_awards.assign(badge.pk, now=NOON + DAY) == 0
    assert holders(badge) == ["above", "at"]
    assert AccountBadge.objects.get(account=above).created_at == NOON


def test_award_ends_when_the_account_becomes_inactive():
    badge = a_badge("total_credit", 100)
    ada = a_volunteer("ada", 100)
    badge_awards.assign(badge.pk, now=NOON)
    update(ada, is_active=False)
    assert badge_awards.assign(badge.pk, now=NOON) == 1
    assert holders(badge) == []


def test_top_percentage_is_awarded_and_withdrawn_again():
    badge = a_badge("recent_percentage", 40, for_teams=True)
    first, *_ = [a_volunteer(f"v{number}", 1, 10 - number) for number in range(5)]
    a_volunteer("idle", 9, 0)
    a_team("reds", 1, 5)
    a_team("blues", 1, 4)
    assert badge_awards.assign(badge.pk, now=NOON) == 3
    assert holders(badge) == ["v0", "v1"]
    assert teams_with(badge) == ["reds"]
    update(first, expavg_credit=0.5)
    assert badge_awards.assign(badge.pk, now=NOON) == 2
    assert holders(badge) == ["v1", "v2"]
    Account.objects.update(expavg_credit=0)
    badge_awards.assign(badge.pk, now=NOON)
    assert holders(badge) == []


def test_top_percentage_keeps_those_who_are_left_if_others_end_meanwhile(monkeypatch):
    badge = a_badge("recent_percentage", 100)
    a_volunteer("v1", 1, 3)
    badge_awards.assign(badge.pk, now=NOON)
    # Another participant was counted, and is gone in the next statement.
    monkeypatch.setattr(badge_awards, "count_within", lambda _percentage, total: total + 1)
    badge_awards.assign(badge.pk, now=NOON)
    assert holders(badge) == ["v1"]


def test_top_percentage_includes_all_with_the_last_average():
    badge = a_badge("recent_percentage", 20)
    for number in range(5):
        a_volunteer(f"v{number}", 1, 3)
    badge_awards.assign(badge.pk, now=NOON)
    assert len(holders(badge)) == 5


def test_years_count_from_the_creation_and_need_credit():
    badge = a_badge("years", 2, for_teams=True)
    two_years_ago = NOON.replace(year=NOON.year - 2)
    a_volunteer("old", 1, created_at=two_years_ago)
    a_volunteer("young", 1, created_at=two_years_ago + timedelta(seconds=1))
    a_volunteer("unused", 0, created_at=two_years_ago)
    a_team("reds", 1, created_at=two_years_ago)
    a_team("blues", 0, created_at=two_years_ago)
    badge_awards.assign(badge.pk, now=NOON)
    assert holders(badge) == ["old"]
    assert teams_with(badge) == ["reds"]


def test_badge_of_teams_is_not_awarded_to_accounts():
    badge = a_badge("total_credit", 1, for_accounts=False, for_teams=True)
    a_volunteer("ada", 5)
    a_team("reds", 5)
    badge_awards.assign(badge.pk, now=NOON)
    assert (holders(badge), teams_with(badge)) == ([], ["reds"])


def test_preview_counts_who_earns_a_badge_without_awarding_it():
    badge = a_badge("recent_percentage", 50, for_teams=True, is_published=False)
    for number in range(4):
        a_volunteer(f"v{number}", 1, number + 1)
    assert badge_awards.preview(badge, now=NOON) == Earners(accounts=2, teams=0)
    credit = a_badge("total_credit", 1, name="c")
    assert badge_awards.preview(credit, now=NOON) == Earners(accounts=4, teams=None)
    assert not AccountBadge.objects.exists()


def test_counts_of_holders_omit_accounts_that_do_not_share_statistics():
    badge = a_badge("total_credit", 1, for_teams=True)
    a_volunteer("ada", 5)
    a_volunteer("shy", 5, share_statistics=False)
    a_team("reds", 5)
    badge_awards.assign(badge.pk, now=NOON)
    badge.refresh_from_db()
    assert holders(badge) == ["ada", "shy"]
    assert (badge.account_count, badge.team_count) == (1, 1)


@pytest.mark.parametrize(
    ("rule", "threshold"),
    [
        ("by_hand", 1),
        ("total_credit", None),
        ("total_credit", 0),
        ("recent_percentage", 100.5),
        ("years", 101),
        ("years", -1),
    ],
)
def test_thresholds_that_do_not_fit_the_rule_are_refused(rule, threshold):
    amount = None if threshold is None else Decimal(str(threshold))
    facts = {"rule": rule, "threshold": amount, "for_accounts": True, "color": "#000000"}
    with pytest.raises(BadgeRefused, match="Hint"):
        badges.check(facts)
    with pytest.raises(IntegrityError, match="badge_threshold"), transaction.atomic():
        a_badge(rule, threshold)


# The housekeeper


def test_housekeeper_assigns_published_badges_once_a_day():
    badge, draft = a_badge("total_credit", 1), a_badge("years", 1, name="d", is_published=False)
    a_volunteer("ada", 5, created_at=NOON - 500 * DAY)
    assert a_pass(housekeeper).done["badges awarded or withdrawn"] == 1
    assert (holders(badge), holders(draft)) == (["ada"], [])
    a_volunteer("bob", 5)
    a_pass(housekeeper, now=NOON + DAY / 2)
    assert holders(badge) == ["ada"]
    a_pass(housekeeper, now=NOON + DAY)
    assert holders(badge) == ["ada", "bob"]


@pytest.mark.parametrize("rule", ["total_credit", "recent_percentage", "years"])
def test_number_of_statements_does_not_depend_on_the_number_of_accounts(rule):
    badge = a_badge(rule, 100, for_teams=True)

    def statements() -> int:
        with CaptureQueriesContext(connection) as captured:
            badge_awards.assign(badge.pk, now=NOON)
        return len(captured)

    a_volunteer("ada", 500, 1)
    a_team("reds", 500, 1)
    few = statements()
    for number in range(9):
        a_volunteer(f"v{number}", 500, 1)
        a_team(f"t{number}", 500, 1)
    assert statements() == few <= 15


# By hand


def test_badge_is_awarded_and_withdrawn_by_hand_with_entries_in_the_audit_log():
    badge, ada, eve = a_badge(for_teams=True), an_account("ada"), an_account("eve")
    reds = a_team("reds", 0)
    with audit.acting(account_id=eve.pk, name=eve.email):
        award = badge_awards.award_account(badge.pk, ada.pk, now=NOON)
        badge_awards.award_team(badge.pk, reds.pk, now=NOON)
        badge.refresh_from_db()
        assert (badge.account_count, badge.team_count) == (1, 1)
        assert badge_awards.assign(badge.pk, now=NOON) == 0
        assert badge_awards.withdraw(award, now=NOON)
        assert not badge_awards.withdraw(award, now=NOON)
    badge.refresh_from_db()
    assert (badge.account_count, badge.team_count) == (0, 1)
    entries = AuditEntry.objects.filter(event__startswith="badge_").order_by("pk")
    assert [(row.event, row.actor, row.subject, row.details) for row in entries] == [
        ("badge_awarded", eve.email, "badge b", {"account": ada.pk}),
        ("badge_awarded", eve.email, "badge b", {"team": reds.pk}),
        ("badge_withdrawn", eve.email, "badge b", {"account": ada.pk}),
    ]


def test_awards_by_hand_that_do_not_fit_are_refused():
    badge, rule = a_badge(), a_badge("total_credit", 1, name="rule")
    ada, gone = an_account("ada"), an_account("gone", is_active=False)
    reds = a_team("reds", 0)
    of_teams = a_badge(name="teams", for_accounts=False, for_teams=True)
    badge_awards.award_account(badge.pk, ada.pk, now=NOON)
    for badge_id, account_id in (
        (badge.pk, ada.pk),
        (badge.pk, gone.pk),
        (badge.pk, 2**40),
        (rule.pk, ada.pk),
        (of_teams.pk, ada.pk),
        (2**40, ada.pk),
    ):
        with pytest.raises(BadgeRefused, match="Hint"):
            badge_awards.award_account(badge_id, account_id, now=NOON)
    for badge_id, team_id in ((badge.pk, reds.pk), (of_teams.pk, 2**40), (rule.pk, reds.pk)):
        with pytest.raises(BadgeRefused, match="Hint"):
            badge_awards.award_team(badge_id, team_id, now=NOON)
    assert AccountBadge.objects.count() == 1
    assert AuditEntry.objects.filter(event="badge_awarded").count() == 1


def test_deleted_badge_is_gone_with_its_awards():
    badge, ada = a_badge(), an_account("ada")
    badge_awards.award_account(badge.pk, ada.pk, now=NOON)
    badge.refresh_from_db()
    badge_awards.delete(badge, now=NOON)
    assert not Badge.objects.exists()
    assert not AccountBadge.objects.exists()
    entry = AuditEntry.objects.get(event="badge_changed")
    assert entry.details == {"deleted": True, "accounts": 1, "teams": 0}
    assert badge_awards.assign(badge.pk, now=NOON) == 0


# Personal data


def test_erasure_deletes_awards_of_the_account():
    badge, ada, bob = a_badge(), a_volunteer("ada", 5), a_volunteer("bob", 5)
    for account in (ada, bob):
        badge_awards.award_account(badge.pk, account.pk, now=NOON)
    credit = a_badge("total_credit", 1, name="c")
    badge_awards.assign(credit.pk, now=NOON)
    erasure.erase(ada, now=NOON)
    assert (holders(badge), holders(credit)) == (["bob"], ["bob"])
    badge_awards.assign(credit.pk, now=NOON)
    assert holders(credit) == ["bob"]


def test_export_of_personal_data_has_the_badges():
    badge, ada = a_badge(is_published=False), an_account("ada")
    badge_awards.award_account(badge.pk, ada.pk, now=NOON)
    [(rows, columns)] = [
        (rows, columns) for name, rows, columns in own_data._tables(ada) if name == "badges"
    ]
    assert [row["badge__name"] for row in rows.values(*columns)] == ["b"]


def test_hygiene_keeps_an_account_with_a_badge():
    kept, _empty = an_account("kept"), an_account("empty")
    badge_awards.award_account(a_badge().pk, kept.pk, now=NOON)
    hygiene.sweep(hygiene.Rules(), now=NOON + 1000 * DAY)
    assert list(Account.objects.values_list("name", flat=True)) == ["kept"]


# Examples


def test_project_has_no_badges_until_the_command_creates_unpublished_examples():
    assert not Badge.objects.exists()
    out = StringIO()
    call_command("example_badges", stdout=out)
    assert out.getvalue().startswith("Created credit-10000, top-5-percent, year-1.")
    assert not Badge.objects.filter(is_published=True).exists()
    assert AuditEntry.objects.filter(event="badge_changed").count() == 3
    Badge.objects.filter(name="year-1").update(title="Mine")
    out = StringIO()
    call_command("example_badges", stdout=out)
    assert out.getvalue() == "All example badges exist already.\n"
    assert Badge.objects.get(name="year-1").title == "Mine"
    for badge in Badge.objects.all():
        badges.check(vars(badge))
