"""The pages of teams: a list with a search, and the tools of members."""

from __future__ import annotations

import re
from datetime import timedelta

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.utils import timezone
from lxml.html import document_fromstring

from scheduler import sealed_positions
from scheduler.models import Account, AuditEntry, Team
from scheduler.people import teams
from scheduler.people.teams import TeamProfile, administrators
from scheduler.web.teams import views
from tests.conftest import NOON
from tests.faces.pages import comparable
from tests.rows import an_account, update

pytestmark = pytest.mark.django_db


@pytest.fixture
def ada() -> Account:
    return an_account("ada", country="Peru", total_credit=1234)


@pytest.fixture
def team(ada: Account) -> Team:
    profile = TeamProfile(
        name="The primes",
        kind=Team.Kind.UNIVERSITY,
        country="Malta",
        url="https://example.org/primes",
        description="We like\n\nprimes.",
    )
    made = teams.create(ada, profile, now=NOON)
    update(made, total_credit=98765, expavg_credit=12.5)
    return made


def browser_of(account: Account) -> Client:
    client = Client()
    client.force_login(account)
    return client


def page(browser: Client, path: str, status: int = 200) -> str:
    answer = browser.get(path)
    assert answer.status_code == status
    return comparable(answer).decode()


def sent(browser: Client, path: str, **fields: object) -> str:
    """Return the page that follows a form."""
    answer = browser.post(path, fields)
    assert answer.status_code == 302, answer.content.decode()
    return browser.get(answer["Location"]).content.decode()


# Visitors


def test_list_shows_the_teams_with_their_credit(client, team):
    text = page(client, "/teams/")
    for part in (f"/teams/{team.pk}/", "The primes", "university", "Malta", "98,765", "12.5"):
        assert part in text


def test_list_is_sorted_by_its_columns_and_keeps_the_search(client, team, monkeypatch):
    monkeypatch.setattr(views, "TEAMS_PER_PAGE", 1)
    teams.create(an_account(), TeamProfile(name="the second"), now=NOON)
    teams.create(an_account(), TeamProfile(name="other"), now=NOON)
    text = page(client, "/teams/?q=THE&sort=name")
    assert "The primes" in text
    assert "the second" not in text
    assert 'href="?q=THE&amp;sort=-name"' in text
    assert 'aria-sort="ascending"' in text
    [link] = re.findall(r'href="([^"]*)" rel="next"', text)
    assert link.startswith("?q=THE&amp;sort=name&amp;after=")
    text = page(client, "/teams/" + link.replace("&amp;", "&"))
    assert "the second" in text
    assert "Next page" not in text
    assert "First page" in text


def test_wrong_parameters_select_the_default(client, team):
    for query in ("sort=x", "sort=--name", "after=x", "after=-1", "after=1²", "after=" + "9" * 40):
        text = page(client, f"/teams/?{query}")
        assert "The primes" in text
        assert ("The link to this page is not valid any more" in text) is ("after" in query)


def test_empty_lists_tell_what_to_do(client):
    assert "Create the first team" in page(client, "/teams/")
    assert "begins with “x”" in page(client, "/teams/?q=x")
    after = sealed_positions.seal("teams, -recent", 0.0, 1)
    assert "no more teams" in page(client, f"/teams/?after={after}")


def test_page_of_a_team_shows_its_profile_and_its_members(client, ada, team):
    text = page(client, f"/teams/{team.pk}/")
    for part in (
        "98,765",
        "<p>We like</p>",
        'href="https://example.org/primes" rel="nofollow ugc noopener noreferrer"',
        "university",
        "Malta",
        "Peru",
        "1,234",
        f"/account/login/?next=/teams/{team.pk}/",
    ):
        assert part in text
    assert text.count("ada") == 2
    assert text.count(f'<a href="/accounts/{ada.pk}/">ada</a>') == 2
    assert "Manage" not in text


def test_members_are_read_page_by_page(client, team, monkeypatch):
    monkeypatch.setattr(views, "MEMBERS_PER_PAGE", 2)
    for number in range(3):
        update(an_account(f"member-{number}", total_credit=number), team=team)
    text = page(client, f"/teams/{team.pk}/?sort=total")
    assert "member-0" in text
    assert "member-2" not in text
    [link] = re.findall(r'href="([^"]*)#members" rel="next"', text)
    assert link.startswith("?sort=total&amp;after=")
    text = page(client, f"/teams/{team.pk}/" + link.replace("&amp;", "&"))
    assert "member-2" in text
    assert "The link to this page is not valid" not in text
    Account.objects.filter(name__in=("member-2", "ada")).update(team=None)
    text = page(client, f"/teams/{team.pk}/" + link.replace("&amp;", "&"))
    assert "no more members" in text


def test_pages_take_a_constant_number_of_statements(ada, team):
    browser = browser_of(ada)
    counts = []
    for _ in range(2):
        for path in ("/teams/", f"/teams/{team.pk}/"):
            with CaptureQueriesContext(connection) as statements:
                page(browser, path)
            counts.append(len(statements))
        for number in range(10):
            update(an_account(), team=team)
            Team.objects.create(name=f"team {len(counts)} {number}", created_at=NOON)
    assert counts[:2] == counts[2:]
    assert max(counts) <= 8


def test_addresses_of_boinc_lead_to_the_pages(client, team):
    answer = client.get("/team_display.php", {"teamid": team.pk})
    assert answer["Location"] == f"/teams/{team.pk}/"
    for path, target in (
        ("/team_display.php?teamid=x", "/teams/"),
        ("/top_teams.php", "/teams/"),
        ("/top_users.php", "/leaderboards/"),
        ("/top_hosts.php", "/leaderboards/computers/"),
        ("/team_search.php", "/teams/"),
        ("/team_create_form.php", "/teams/new/"),
    ):
        assert client.get(path)["Location"] == target


# Members


def test_account_creates_a_team(ada):
    browser = browser_of(ada)
    page(browser, "/teams/new/")
    text = sent(
        browser,
        "/teams/new/",
        name="The primes",
        kind="1",
        country="Peru",
        url="example.org",
        description="a\r\nb",
        joinable="on",
    )
    team = Team.objects.get()
    ada.refresh_from_db()
    assert (team.founder_id, ada.team_id) == (ada.pk, team.pk)
    assert (team.kind, team.url, team.description) == (1, "https://example.org", "a\nb")
    assert team.joinable
    assert "You lead it" in text
    entry = AuditEntry.objects.get(event="team_changed")
    assert entry.account_id == ada.pk


@pytest.mark.parametrize(
    ("fields", "part"),
    [
        ({"name": ""}, "This field is required"),
        ({"name": "The primes"}, "There is a team The primes already"),
        ({"name": "<b>"}, "Hint:"),
        ({"url": "javascript:alert(1)"}, "Enter a valid URL"),
        ({"url": "ftp://example.org"}, "not a web address"),
        ({"kind": "8"}, "not one of the available choices"),
        ({"description": "x" * 10_001}, "at most 10000 characters"),
    ],
)
def test_wrong_fields_are_explained_in_the_form(team, fields, part):
    eve = an_account("eve")
    answer = browser_of(eve).post("/teams/new/", {"name": "new", "kind": "0"} | fields)
    assert answer.status_code == 200
    assert part in answer.content.decode()
    assert Team.objects.count() == 1


def test_account_joins_and_leaves_a_team(team):
    eve = an_account("eve")
    browser = browser_of(eve)
    assert "Join the team" in page(browser, f"/teams/{team.pk}/")
    assert "You are a member of The primes" in sent(browser, f"/teams/{team.pk}/join/")
    eve.refresh_from_db()
    assert eve.team_id == team.pk
    assert "Your credit stays with it" in sent(browser, f"/teams/{team.pk}/leave/")
    eve.refresh_from_db()
    assert eve.team_id is None


def test_page_names_the_team_that_the_visitor_would_leave(team):
    eve = an_account("eve")
    teams.create(eve, TeamProfile(name="composites"), now=NOON)
    assert "You are a member of composites" in page(browser_of(eve), f"/teams/{team.pk}/")


def test_closed_team_is_not_joined(team):
    update(team, joinable=False)
    eve = an_account("eve")
    assert "accepts no new members" in page(browser_of(eve), f"/teams/{team.pk}/")
    assert "accepts no members" in sent(browser_of(eve), f"/teams/{team.pk}/join/")
    eve.refresh_from_db()
    assert eve.team_id is None


def test_leaving_from_the_page_of_a_former_team_changes_nothing(team):
    eve = an_account("eve")
    other = teams.create(eve, TeamProfile(name="composites"), now=NOON)
    assert browser_of(eve).post(f"/teams/{team.pk}/leave/").status_code == 404
    eve.refresh_from_db()
    assert eve.team_id == other.pk


def test_member_requests_and_assumes_the_foundership(ada, team):
    eve = an_account("eve")
    teams.join(eve, team.pk)
    browser = browser_of(eve)
    path = f"/teams/{team.pk}/foundership/"
    assert "Request the foundership" in page(browser, f"/teams/{team.pk}/")
    assert "can answer your request" in sent(browser, path, action="request")
    assert "If the founder does not answer" in page(browser, f"/teams/{team.pk}/")
    assert "has time to answer" in sent(browser, path, action="assume")
    assert "eve has requested the foundership" in page(browser_of(ada), f"/teams/{team.pk}/")
    update(team, requested_at=timezone.now() - timedelta(days=61))
    assert "has not answered your request" in page(browser, f"/teams/{team.pk}/")
    assert "You lead the team" in sent(browser, path, action="assume")
    team.refresh_from_db()
    assert team.founder_id == eve.pk


def test_member_of_a_team_without_a_founder_leads_it(team):
    eve = an_account("eve")
    teams.join(eve, team.pk)
    update(team, founder=None)
    assert "The team has no founder" in page(browser_of(eve), f"/teams/{team.pk}/")
    sent(browser_of(eve), f"/teams/{team.pk}/foundership/", action="request")
    team.refresh_from_db()
    assert team.founder_id == eve.pk


# Founders


def test_founder_edits_the_team(ada, team):
    browser = browser_of(ada)
    assert "We like" in page(browser, f"/teams/{team.pk}/edit/")
    fields = {"name": "Primes", "kind": "2", "country": "", "url": "", "description": ""}
    assert "changes are saved" in sent(browser, f"/teams/{team.pk}/edit/", **fields)
    team.refresh_from_db()
    assert (team.name, team.kind, team.description, team.joinable) == ("Primes", 2, "", False)
    assert "Write one" in page(browser, f"/teams/{team.pk}/")
    refused = browser.post(f"/teams/{team.pk}/edit/", fields | {"name": ""})
    assert "required" in refused.content.decode()


def form_of(text: str) -> dict[str, str]:
    """Return the values that a browser would send from the form of a page with a description."""
    [form] = document_fromstring(text).xpath("//form[.//textarea]")
    # Browsers drop the first line end of a textarea, and send CRLF.
    form.fields["description"] = form.fields["description"].removeprefix("\n")
    return {name: value.replace("\n", "\r\n") for name, value in form.form_values()}


def test_refused_edits_are_shown_again(ada, team):
    teams.create(an_account("eve"), TeamProfile(name="taken"), now=NOON)
    browser, path = browser_of(ada), f"/teams/{team.pk}/edit/"
    edits = {"name": "taken", "kind": "2", "country": "Peru", "url": "https://new.example/"}
    edits |= {"description": "Typed\r\ntext", "joinable": "on"}
    shown = form_of(page(browser, path))
    for fault in ({}, {"url": "no address", "name": "free"}, {"country": "x" * 65, "name": ""}):
        answer = browser.post(path, shown | edits | fault)
        assert answer.status_code == 200
        text = answer.content.decode()
        again = form_of(text)
        assert {name: again.get(name, "") for name in edits} == edits | fault
        assert 'class="wrong"' in text
    team.refresh_from_db()
    assert (team.name, team.description) == ("The primes", "We like\n\nprimes.")
    # The values that the first page showed are kept, so that the corrected form saves all edits.
    sent(browser, path, **again | edits | {"name": "free"})
    team.refresh_from_db()
    assert (team.name, team.country, team.description) == ("free", "Peru", "Typed\ntext")


def test_edits_do_not_overwrite_changes_in_between(ada, team):
    browser, path = browser_of(ada), f"/teams/{team.pk}/edit/"
    shown = form_of(page(browser, path))
    teams.change(
        team.pk, {"description": "By a\nprogram", "joinable": False}, by=ada, now=timezone.now()
    )
    sent(browser, path, **shown | {"country": "Peru"})
    team.refresh_from_db()
    assert (team.country, team.description, team.joinable) == ("Peru", "By a\nprogram", False)


def test_line_ends_of_a_browser_are_no_edit_and_do_not_count(ada, team):
    browser, path = browser_of(ada), f"/teams/{team.pk}/edit/"
    with CaptureQueriesContext(connection) as statements:
        sent(browser, path, **form_of(page(browser, path)))
    assert not [each for each in statements if each["sql"].startswith('UPDATE "team"')]
    text = "x\n" * 4_999 + "x"
    sent(
        browser, path, **form_of(page(browser, path)) | {"description": text.replace("\n", "\r\n")}
    )
    team.refresh_from_db()
    assert team.description == text
    teams.change(team.pk, {"description": "a\r\nb\rc"}, by=ada, now=timezone.now())
    team.refresh_from_db()
    assert team.description == "a\nb\nc"


def test_founder_declines_a_request(ada, team):
    eve = an_account("eve")
    teams.join(eve, team.pk)
    teams.request_foundership(eve, now=timezone.now())
    browser = browser_of(ada)
    text = sent(browser, f"/teams/{team.pk}/foundership/", action="decline")
    assert "The request is declined" in text
    team.refresh_from_db()
    assert team.requested_by_id is None
    assert "It was requested a short time ago" in page(browser_of(eve), f"/teams/{team.pk}/")


def test_founder_removes_a_member(ada, team):
    eve = an_account("eve")
    teams.join(eve, team.pk)
    browser = browser_of(ada)
    path = f"/teams/{team.pk}/members/{eve.pk}/"
    assert path in page(browser, f"/teams/{team.pk}/")
    assert "Remove from the team" in page(browser, path)
    assert "eve is not a member any more" in sent(browser, path, action="remove")
    eve.refresh_from_db()
    assert eve.team_id is None
    assert browser.post(path, {"action": "remove"}).status_code == 404


def test_founder_hands_the_team_over(ada, team):
    eve = an_account("eve")
    teams.join(eve, team.pk)
    browser = browser_of(ada)
    path = f"/teams/{team.pk}/members/{eve.pk}/"
    assert "eve leads the team now" in sent(browser, path, action="transfer")
    team.refresh_from_db()
    assert team.founder_id == eve.pk
    assert browser.post(path, {"action": "remove"}).status_code == 404


def test_founder_leaves_as_the_last_member(ada, team):
    browser = browser_of(ada)
    assert "You are its only member" in page(browser, f"/teams/{team.pk}/")
    sent(browser, f"/teams/{team.pk}/leave/")
    ada.refresh_from_db()
    team.refresh_from_db()
    assert (ada.team_id, team.founder_id) == (None, None)


def test_founder_with_members_is_told_to_hand_over_first(ada, team):
    teams.join(an_account("eve"), team.pk)
    browser = browser_of(ada)
    assert "Hand over the foundership before you leave" in page(browser, f"/teams/{team.pk}/")
    assert "transfer the foundership first" in sent(browser, f"/teams/{team.pk}/leave/")


def test_account_page_leads_to_the_team(ada, team):
    text = page(browser_of(ada), "/account/")
    assert f'href="/teams/{team.pk}/"' in text
    assert "Find or create one" in page(browser_of(an_account("eve")), "/account/")


# Administrators


@pytest.fixture
def eve(team: Team) -> Account:
    """A member of the team."""
    return an_account("eve", team=team)


def test_founder_names_an_administrator_after_a_question(ada, eve, team):
    browser = browser_of(ada)
    member = f"/teams/{team.pk}/members/{eve.pk}/"
    path = f"{member}administrator/"
    assert f'href="{path}"' in page(browser, member)
    text = page(browser, path)
    assert "Make eve an administrator" in text
    assert "see all members, also those who do not share their statistics" in text
    assert not team.administrators.exists()
    assert "eve is an administrator now." in sent(browser, path, action="name")
    assert team.administrators.get().account == eve
    text = page(Client(), f"/teams/{team.pk}/")
    assert "Administrators" in text
    assert text.count(f'<a href="/accounts/{eve.pk}/">eve</a>') == 2
    assert text.count('<span class="tag">administrator</span>') == 1


def test_founder_dismisses_an_administrator_after_a_question(ada, eve, team):
    teams.name_administrator(team.pk, eve.pk, by=ada, now=NOON)
    browser = browser_of(ada)
    member = f"/teams/{team.pk}/members/{eve.pk}/"
    path = f"{member}administrator/"
    assert "eve is an administrator, who edits the team" in page(browser, member)
    assert "Dismiss eve as an administrator" in page(browser, path)
    assert team.administrators.exists()
    assert "eve is not an administrator any more." in sent(browser, path, action="dismiss")
    assert not team.administrators.exists()
    text = sent(browser, path, action="dismiss")
    assert f"Account {eve.pk} is not an administrator of The primes." in text
    assert browser.post(path, {"action": "x"}).status_code == 404
    eve.refresh_from_db()
    assert eve.team_id == team.pk


def test_limit_of_administrators_is_shown(ada, eve, team, monkeypatch):
    monkeypatch.setattr(administrators, "MAX_ADMINISTRATORS", 0)
    path = f"/teams/{team.pk}/members/{eve.pk}/administrator/"
    text = sent(browser_of(ada), path, action="name")
    assert "The primes has 0 administrators, which is the limit. Hint: dismiss" in text
    assert not team.administrators.exists()


def test_administrator_edits_the_team_sees_all_members_and_removes_one(ada, eve, team):
    teams.name_administrator(team.pk, eve.pk, by=ada, now=NOON)
    bob = an_account("bob", team=team, share_statistics=False)
    browser = browser_of(eve)
    text = page(browser, f"/teams/{team.pk}/")
    assert "You are an administrator" in text
    assert "<dd>3</dd>" in text
    assert "hidden from others" in text
    fields = {"name": "Primes", "kind": "2", "country": "", "url": "", "description": ""}
    assert "changes are saved" in sent(browser, f"/teams/{team.pk}/edit/", **fields)
    team.refresh_from_db()
    assert (team.name, team.founder_id) == ("Primes", ada.pk)
    assert "Write one" in page(browser, f"/teams/{team.pk}/")
    path = f"/teams/{team.pk}/members/{bob.pk}/"
    assert path in text
    text = page(browser, path)
    assert "Remove from the team" in text
    assert "foundership" not in text
    assert "bob is not a member any more" in sent(browser, path, action="remove")
    bob.refresh_from_db()
    assert bob.team_id is None
    entry = AuditEntry.objects.filter(event="team_changed").latest("pk")
    assert (entry.account_id, entry.details) == (eve.pk, {"removed": bob.pk})


def test_administrator_resigns(ada, eve, team):
    teams.name_administrator(team.pk, eve.pk, by=ada, now=NOON)
    browser = browser_of(eve)
    path = f"/teams/{team.pk}/resign/"
    assert f'action="{path}"' in page(browser, f"/teams/{team.pk}/")
    text = sent(browser, path)
    assert "You are not an administrator any more." in text
    assert f'action="{path}"' not in text
    assert "is not an administrator of The primes" in sent(browser, path)
    teams.leave(eve)
    assert browser.post(path).status_code == 404


def test_pages_of_administrators_are_in_the_language_of_the_visitor(ada, eve, team):
    teams.name_administrator(team.pk, eve.pk, by=ada, now=NOON)
    headers = {"accept-language": "de"}
    for path, part in (
        ("", "Administratoren"),
        (f"members/{eve.pk}/", "eve ist Administrator, bearbeitet also das Team"),
        (f"members/{eve.pk}/administrator/", "eve als Administrator abberufen"),
    ):
        answer = browser_of(ada).get(f"/teams/{team.pk}/{path}", headers=headers)
        assert part in answer.content.decode()


def test_member_who_is_not_listed_sees_who_sees_them(eve, team):
    update(eve, share_statistics=False)
    text = page(browser_of(eve), f"/teams/{team.pk}/")
    assert "Only the founder and the administrators see you in the list" in text


# Deleting


def test_founder_deletes_the_team_after_a_question(ada, team):
    browser = browser_of(ada)
    path = f"/teams/{team.pk}/delete/"
    assert f'href="{path}"' in page(browser, f"/teams/{team.pk}/")
    assert "98,765 credits" in page(browser, path)
    assert Team.objects.exists()
    assert "The team The primes is deleted." in sent(browser, path)
    assert not Team.objects.exists()
    assert browser.get(f"/teams/{team.pk}/").status_code == 404
    assert page(browser, "/teams/").count("The primes") == 0


def test_team_with_other_members_is_not_deleted(ada, team):
    update(an_account("bob"), team=team)
    browser = browser_of(ada)
    path = f"/teams/{team.pk}/delete/"
    assert path not in page(browser, f"/teams/{team.pk}/")
    text = page(browser, path)
    assert "has other active members" in text
    assert "danger" not in text
    assert "The primes has other active members." in sent(browser, path)
    assert Team.objects.exists()


def test_boinc_wide_team_shows_its_number(client, team):
    assert "BOINC-wide" not in page(client, f"/teams/{team.pk}/")
    update(team, boinc_wide_id=17)
    assert "team 17 of all projects" in page(client, f"/teams/{team.pk}/")
