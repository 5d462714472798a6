"""The import of BOINC-wide teams creates and updates teams, and changes no others."""

from __future__ import annotations

import codecs
import io
import json
from html import escape

import pytest
from allauth.account.models import EmailAddress
from django.core import mail
from django.core.management import CommandError, call_command
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext

from scheduler.boinc.team_import import team_imports
from scheduler.boinc.team_import.team_imports import BadTeamFile, Line, State, import_teams
from scheduler.models import Account, AccountKey, AuditEntry, Team
from scheduler.people import teams
from scheduler.people.teams import TeamProfile
from tests.conftest import NOON
from tests.rows import an_account, update

pytestmark = pytest.mark.django_db

EMAIL = "founder@example.org"


def record(**fields: object) -> str:
    """Return a team as BOINC's `team_export.php` writes it."""
    fields = {
        "name": "The primes",
        "url": "example.org/primes",
        "type": 6,
        "description": "We like\nprimes & co",
        "country": "Malta",
        "id": 17,
        "email": EMAIL,
        "user_name": "Grace",
    } | fields
    texts = {name: escape(str(value), quote=False) for name, value in fields.items()}
    return (
        "<team>\n"
        f"   <name>{texts['name']}</name>\n"
        f"   <url>{texts['url']}</url>\n"
        f"   <type>{texts['type']}</type>\n"
        "   <name_html>&lt;b&gt;The primes&lt;/b&gt;</name_html>\n"
        f"   <description>\n{texts['description']}\n    </description>\n"
        f"   <country>{texts['country']}</country>\n"
        f"   <id>{texts['id']}</id>\n"
        f"   <user_email_munged>{codecs.encode(texts['email'], 'rot13')}</user_email_munged>\n"
        f"   <user_name>{texts['user_name']}</user_name>\n"
        "   <user_country>Malta</user_country>\n"
        "   <user_postal_code></user_postal_code>\n"
        "   <user_url></user_url>\n"
        "</team>\n"
    )


def document(*records: str) -> bytes:
    return f'<?xml version="1.0" encoding="utf-8"?>\n<teams>\n{"".join(records)}</teams>\n'.encode()


def imported(*records: str, dry_run: bool = False) -> list[Line]:
    return import_teams(document(*records), dry_run=dry_run, now=NOON)


def outcome(*records: str) -> tuple[State, str]:
    [line] = imported(*records)
    return line.state, line.reason


def a_founder(*, is_confirmed: bool = True, **fields: object) -> Account:
    account = an_account("founder", **fields)
    EmailAddress.objects.filter(user=account).update(verified=is_confirmed)
    return account


# Creating


def test_team_is_created_with_a_founder_who_has_no_password():
    assert imported(record()) == [Line("The primes", State.CREATED)]
    team = Team.objects.get()
    assert (team.boinc_wide_id, team.kind, team.country) == (17, Team.Kind.UNIVERSITY, "Malta")
    assert (team.url, team.description) == ("http://example.org/primes", "We like\nprimes & co")
    assert team.joinable
    founder = Account.objects.get()
    assert (team.founder, founder.team) == (founder, team)
    assert (founder.email, founder.name, founder.is_active) == (EMAIL, "Grace", True)
    assert not founder.has_usable_password()
    assert not founder.share_statistics
    assert not EmailAddress.objects.get().verified
    assert AccountKey.objects.filter(account=founder).exists()
    assert mail.outbox == []
    events = AuditEntry.objects.order_by("pk").values_list("event", "details__boinc_wide_id")
    assert list(events) == [("account_created", None), ("team_changed", 17)]


def test_founder_sets_a_password_with_a_mailed_link_and_leads_the_team():
    imported(record())
    client = Client()
    client.post("/account/password/reset/", {"email": EMAIL})
    link = "/account" + mail.outbox[-1].body.split("/account", 1)[1].split()[0]
    form = client.get(link)["Location"]
    client.post(form, {"password1": "correct horse", "password2": "correct horse"})
    client.post("/account/login/", {"login": EMAIL, "password": "correct horse"})
    assert "You lead this team." in client.get(f"/teams/{Team.objects.get().pk}/").content.decode()


def test_second_import_changes_nothing():
    imported(record())
    with CaptureQueriesContext(connection) as queries:
        assert outcome(record()) == (State.UNCHANGED, "")
    assert not [query for query in queries if not query["sql"].startswith("SELECT")]


def test_existing_account_without_a_team_becomes_the_founder():
    founder = a_founder()
    assert outcome(record()) == (State.CREATED, "")
    founder.refresh_from_db()
    assert founder.team == Team.objects.get(founder=founder)


@pytest.mark.parametrize(
    ("is_confirmed", "fields", "reason"),
    [
        (False, {}, "has not confirmed its address"),
        (True, {"is_active": False}, "not active"),
    ],
)
def test_founder_who_cannot_be_made_one_is_reported(is_confirmed, fields, reason):
    a_founder(is_confirmed=is_confirmed, **fields)
    state, text = outcome(record())
    assert (state, reason in text) == (State.SKIPPED, True)
    assert not Team.objects.exists()


def test_founder_is_not_moved_out_of_another_team():
    founder = a_founder()
    own = teams.create(founder, TeamProfile(name="own"), now=NOON)
    state, reason = outcome(record())
    assert (state, reason) == (State.SKIPPED, "Its founder is a member of another team here.")
    founder.refresh_from_db()
    assert founder.team == own


@pytest.mark.parametrize("dry_run", [True, False])
def test_founder_of_two_teams_of_the_file_leads_the_first(dry_run):
    lines = imported(record(), record(id=18, name="other"), dry_run=dry_run)
    assert [line.state for line in lines] == [State.CREATED, State.SKIPPED]
    assert Team.objects.count() == (0 if dry_run else 1)


# Updating


def test_boinc_wide_team_gets_the_changes_of_the_file():
    imported(record())
    line = record(description="New", country="None", type=99, url="")
    assert outcome(line) == (State.UPDATED, "kind, url, description, country")
    team = Team.objects.get()
    assert (team.kind, team.url, team.description, team.country) == (0, "", "New", "")
    update(team, joinable=False)
    imported(record())
    team.refresh_from_db()
    assert not team.joinable


@pytest.mark.parametrize("is_confirmed", [True, False])
def test_team_of_the_same_founder_becomes_boinc_wide_if_the_address_is_confirmed(is_confirmed):
    founder = a_founder(is_confirmed=is_confirmed)
    profile = TeamProfile(
        name="The primes",
        kind=6,
        url="http://example.org/primes",
        description="We like\nprimes & co",
        country="Malta",
    )
    team = teams.create(founder, profile, now=NOON)
    state, reason = outcome(record())
    team.refresh_from_db()
    if is_confirmed:
        assert (state, reason, team.boinc_wide_id) == (State.UPDATED, "boinc_wide_id", 17)
    else:
        # Another person may have created the account, and the team, with the founder's address.
        assert (state, team.boinc_wide_id) == (State.SKIPPED, None)
        assert "has not confirmed its address" in reason


def test_team_of_another_founder_does_not_change():
    other = teams.create(an_account("other"), TeamProfile(name="The primes"), now=NOON)
    assert outcome(record()) == (State.SKIPPED, "The team here has another founder.")
    a_founder()
    assert outcome(record()) == (State.SKIPPED, "The team here has another founder.")
    other.refresh_from_db()
    assert (other.boinc_wide_id, other.description) == (None, "")


def test_ids_and_names_that_do_not_fit_are_reported():
    imported(record())
    assert outcome(record(name="new name")) == (
        State.SKIPPED,
        "Its id belongs to The primes here. Hint: rename that team.",
    )
    assert outcome(record(id=18)) == (
        State.SKIPPED,
        "The team here has the BOINC-wide id 17.",
    )
    lines = imported(record(), record(), record(name="x", id=17))
    assert [line.state for line in lines] == [State.UNCHANGED, State.SKIPPED, State.SKIPPED]


def test_deleted_team_is_not_created_again():
    imported(record())
    teams.delete(Team.objects.get().pk, by=Account.objects.get(), now=NOON)
    assert outcome(record()) == (State.SKIPPED, "It was deleted here.")
    assert not Team.objects.exists()


# Hostile and malformed files


@pytest.mark.parametrize(
    "fields",
    [
        {"name": ""},
        {"name": "<b>"},
        {"name": "x" * 255},
        {"id": 0},
        {"id": -5},
        {"id": "x"},
        {"email": ""},
        {"email": "a b@example.org"},
        {"email": "x" * 300 + "@example.org"},
        {"user_name": "<i>"},
    ],
)
def test_invalid_record_is_skipped_and_the_others_are_imported(fields):
    lines = imported(record(**fields), record(id=18, name="other"))
    assert [line.state for line in lines] == [State.SKIPPED, State.CREATED]
    assert lines[0].reason


def test_long_and_invalid_texts_are_cut():
    values = {"description": "ä" * 50_000, "country": "c" * 500, "id": 2**70, "type": 10**30}
    assert outcome(record(url="javascript:alert(1)", **values))[0] is State.CREATED
    team = Team.objects.get()
    assert (len(team.description), len(team.country)) == (10_000, 64)
    assert (team.url, team.kind, team.boinc_wide_id) == ("", 0, 2**63 - 1)


def test_markup_of_founders_is_text():
    raw = record().replace("We like", "<p>We <br> <unclosed>like</p>\n<script>")
    assert outcome(raw)[0] is State.CREATED
    assert "<script>" in Team.objects.get().description
    text = Client().get(f"/teams/{Team.objects.get().pk}/").content.decode()
    assert "&lt;script&gt;" in text


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"<html></html>",
        b"\0" * 100,
        document(record())[:-20],
        b"<!DOCTYPE teams [<!ENTITY a 'b'>]>" + document(record()),
        b"<teams><!ENTITY a 'b'></teams>",
        b"<teams>" + b"<team>" * 100 + b"</teams>",
        b"<teams>" + b"<team></team>" * 500_000 + b"</teams>",
    ],
)
def test_anything_but_a_whole_list_of_teams_is_refused_before_any_change(body):
    with pytest.raises(BadTeamFile, match="Hint:"):
        import_teams(body, dry_run=False, now=NOON)
    assert not Account.objects.exists()


def test_sizes_are_bounded(monkeypatch):
    monkeypatch.setattr(team_imports, "MAX_TEAMS", 1)
    with pytest.raises(BadTeamFile, match="has 2 teams"):
        imported(record(), record(id=18))
    monkeypatch.setattr(team_imports, "MAX_BYTES", 10)
    with pytest.raises(BadTeamFile, match="longer than 10 bytes"):
        imported(record())


def test_number_of_statements_does_not_depend_on_unchanged_teams():
    numbers = []
    for count in (1, 40):
        records = [
            record(id=n, name=f"team {n}", email=f"founder{n}@example.org")
            for n in range(1, count + 1)
        ]
        imported(*records)
        with CaptureQueriesContext(connection) as queries:
            imported(*records)
        numbers.append(len(queries))
    assert numbers[0] == numbers[1]


# The command


def run(*words: object) -> str:
    out = io.StringIO()
    call_command("import_boinc_teams", *map(str, words), stdout=out)
    return out.getvalue().strip()


def test_command_previews_and_reports(tmp_path):
    path = tmp_path / "boinc_teams.xml"
    path.write_bytes(document(record(), record(id=18, name="<x>")))
    preview = run(path, "--dry-run")
    assert "'The primes': would be created" in preview
    assert "2 teams: 1 would be created, 0 would be updated, 0 unchanged, 1 skipped." in preview
    assert not Team.objects.exists()
    assert not Account.objects.exists()
    assert "'The primes': created" in run(path)
    facts = json.loads(run(path, "--json"))
    assert (facts["unchanged"], facts["skipped"]) == (1, 1)
    assert facts["teams"][1]["reason"]


def test_command_names_a_file_that_cannot_be_read(tmp_path):
    with pytest.raises(CommandError, match=r"cannot be read.*Hint"):
        run(tmp_path / "missing.xml")
    with pytest.raises(CommandError, match=r"cannot be read.*Hint"):
        run(tmp_path)
    (tmp_path / "wrong.xml").write_text("<html></html>")
    with pytest.raises(CommandError, match=r"not a file of BOINC-wide teams.*Hint"):
        run(tmp_path / "wrong.xml")
