"""Public texts and links need a confirmed address where the project sends mail."""

from __future__ import annotations

import pytest
from allauth.account.models import EmailAddress
from django.conf import settings as project_settings
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext

from scheduler.config import MailConfig
from scheduler.models import Account, AuditEntry, Team
from scheduler.people import accounts, teams
from scheduler.people.personal_data.consents import Chosen
from scheduler.people.public_texts import confirmed_addresses
from scheduler.people.public_texts.confirmed_addresses import UnconfirmedAddress
from scheduler.people.teams import TeamProfile
from tests.conftest import NOON
from tests.faces.apis import a_program
from tests.faces.pages import comparable
from tests.rows import an_account, update

pytestmark = pytest.mark.django_db

SPAM = "https://spam.example.org/"
PAGE = f"{project_settings.PROJECT.master_url}account/"
HINT = f"follow the link in our mail; the page {PAGE} sends it again."


@pytest.fixture(autouse=True)
def _mail_server(settings) -> None:
    settings.MAIL = MailConfig(host="mail.example.org", port=587)


@pytest.fixture
def eve() -> Account:
    return an_account("eve")


def confirm(account: Account) -> None:
    EmailAddress.objects.filter(user=account).update(verified=True)


def a_team(founder: Account) -> Team:
    confirm(founder)
    team = teams.create(
        founder, TeamProfile(name="The primes", description="We count.", url=SPAM), now=NOON
    )
    EmailAddress.objects.filter(user=founder).update(verified=False)
    return team


def browser_of(account: Account) -> Client:
    client = Client()
    client.force_login(account)
    return client


# Teams


def test_unconfirmed_account_creates_no_team_until_it_confirms_its_address(eve):
    for _ in range(9):
        with pytest.raises(UnconfirmedAddress, match="need a confirmed e-mail address"):
            teams.create(eve, TeamProfile(name="Buy here", url=SPAM), now=NOON)
    assert not Team.objects.exists()
    # The refused attempts are not charged to the limit of new teams.
    confirm(eve)
    assert teams.create(eve, TeamProfile(name="Buy here"), now=NOON).founder_id == eve.pk


@pytest.mark.parametrize(
    "fields",
    [{"name": "Buy here"}, {"url": f"{SPAM}2"}, {"description": SPAM}, {"country": "Buy here"}],
)
def test_unconfirmed_founder_changes_no_text_of_a_team(eve, fields):
    team = a_team(eve)
    with pytest.raises(UnconfirmedAddress):
        teams.change(team.pk, {"joinable": False, **fields}, by=eve, now=NOON)
    [name] = fields
    team.refresh_from_db()
    assert (getattr(team, name), team.joinable) == (getattr(a_copy(team), name), True)
    confirm(eve)
    teams.change(team.pk, fields, by=eve, now=NOON)
    team.refresh_from_db()
    assert getattr(team, name) == fields[name]


def a_copy(team: Team) -> Team:
    """Return the values with which `a_team` created the team."""
    return Team(name="The primes", description="We count.", url=SPAM, country="", pk=team.pk)


def test_unconfirmed_administrator_changes_no_text_of_a_team(eve):
    ada = an_account("ada")
    team = a_team(ada)
    teams.join(eve, team.pk)
    teams.name_administrator(team.pk, eve.pk, by=ada, now=NOON)
    with pytest.raises(UnconfirmedAddress):
        teams.change(team.pk, {"description": SPAM}, by=eve, now=NOON)


def test_unconfirmed_founder_removes_texts_and_closes_the_team(eve):
    team = a_team(eve)
    fields = {"name": "The primes", "url": "", "description": "", "joinable": False, "kind": 2}
    teams.change(team.pk, fields, by=eve, now=NOON)
    team.refresh_from_db()
    assert (team.url, team.description, team.joinable, team.kind) == ("", "", False, 2)


def test_unconfirmed_account_joins_and_leaves_teams(eve):
    team = a_team(an_account("ada"))
    teams.join(eve, team.pk)
    eve.refresh_from_db()
    assert eve.team_id == team.pk
    teams.leave(eve)


def test_forms_and_api_of_teams_show_what_to_do(eve):
    browser, program = browser_of(eve), a_program(eve)
    page = browser.post("/teams/new/", {"name": "Buy here", "kind": "1", "description": SPAM})
    assert page.status_code == 200
    assert HINT in comparable(page).decode()
    assert SPAM in comparable(page).decode()
    reply = program.send("post", "/me/team", {"name": "Buy here"})
    assert (reply.status_code, reply.json()["code"]) == (403, "unconfirmed_address")
    assert reply.json()["hint"] == HINT
    team = a_team(eve)
    form = {"name": "Buy here", "kind": "1", "url": SPAM, "joinable": "on"}
    assert HINT in comparable(browser.post(f"/teams/{team.pk}/edit/", form)).decode()
    reply = program.send("patch", "/me/team", {"description": SPAM})
    assert (reply.status_code, reply.json()["code"]) == (403, "unconfirmed_address")
    team.refresh_from_db()
    assert (team.name, team.description) == ("The primes", "We count.")


def test_refusal_is_german_on_a_german_page(eve):
    browser = browser_of(eve)
    form = {"name": "Buy here", "kind": "1"}
    page = browser.post("/teams/new/", form, headers={"Accept-Language": "de"})
    assert "bestätigte E-Mail-Adresse" in comparable(page).decode()


# Home pages


def test_unconfirmed_account_sets_no_home_page_and_keeps_its_other_values(eve):
    chosen = Chosen(share_statistics=False, show_hosts=True, receive_letters=True)
    fields = {"name": "Eve 2", "url": SPAM}
    with pytest.raises(UnconfirmedAddress):
        accounts.change_profile(eve, fields, chosen=chosen, now=NOON)
    eve.refresh_from_db()
    assert (eve.name, eve.url, eve.share_statistics) == ("eve", "", True)
    assert not AuditEntry.objects.exists()
    confirm(eve)
    accounts.change_profile(eve, fields, chosen=chosen, now=NOON)
    eve.refresh_from_db()
    assert (eve.name, eve.url, eve.share_statistics) == ("Eve 2", SPAM, False)


def test_unconfirmed_account_changes_its_name_and_keeps_or_removes_its_home_page(eve):
    update(eve, url=SPAM)
    accounts.change_profile(eve, {"name": "Eve 2", "country": "Peru", "url": SPAM}, now=NOON)
    accounts.change_profile(eve, {"url": ""}, now=NOON)
    eve.refresh_from_db()
    assert (eve.name, eve.country, eve.url) == ("Eve 2", "Peru", "")


def test_form_and_api_of_the_account_show_what_to_do(eve):
    browser = browser_of(eve)
    form = {"name": "Eve 2", "url": SPAM}
    page = browser.post("/account/", form)
    assert page.status_code == 200
    assert HINT in comparable(page).decode()
    assert "Send the mail again" in comparable(page).decode()
    reply = a_program(eve).send("patch", "/me", {"home_page": SPAM})
    assert (reply.status_code, reply.json()["code"]) == (403, "unconfirmed_address")
    assert reply.json()["hint"] == HINT
    eve.refresh_from_db()
    assert (eve.name, eve.url) == ("eve", "")
    confirm(eve)
    assert browser.post("/account/", form).status_code == 302


# Without a mail server


def test_project_without_mail_asks_for_no_confirmation(eve, settings):
    settings.MAIL = None
    team = teams.create(eve, TeamProfile(name="The primes", url=SPAM), now=NOON)
    teams.change(team.pk, {"description": SPAM}, by=eve, now=NOON)
    accounts.change_profile(eve, {"url": SPAM}, now=NOON)
    eve.refresh_from_db()
    assert eve.url == SPAM


@pytest.mark.parametrize("sends_mail", [True, False])
def test_check_takes_one_statement_and_none_without_mail(eve, settings, sends_mail):
    confirm(eve)
    if not sends_mail:
        settings.MAIL = None
    with CaptureQueriesContext(
        connection,
    ) as queries:
        confirmed_addresses.require(eve)
    assert len(queries) == sends_mail
