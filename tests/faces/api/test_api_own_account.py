"""The own profile, log-ins, statements of ownership and credit by hand in the API."""

from __future__ import annotations

from dataclasses import replace
from decimal import Decimal
from uuid import uuid4

import pytest
from allauth.socialaccount.models import SocialAccount
from django.test import Client

from scheduler import signing
from scheduler.api.http import matching
from scheduler.config import LoginProvider
from scheduler.credit import manual_grants
from scheduler.credit.manual_grants import GrantRequest
from scheduler.models import Account, AuditEntry, Team
from scheduler.people.rules.ownership_statements import MAX_TEXT
from tests.conftest import NOON
from tests.faces.apis import Program, a_program
from tests.rows import an_account, update

pytestmark = pytest.mark.django_db

STATEMENTS, VERIFICATIONS = "/me/ownership-statements", "/ownership-verifications"


@pytest.fixture
def ada() -> Account:
    return an_account("ada", country="Peru", url="https://ada.example/")


@pytest.fixture
def program(ada) -> Program:
    return a_program(ada)


# The profile


def test_account_reads_and_changes_its_profile(program, ada):
    shown = program.send("get", "/me").json()["account"]
    assert (shown["name"], shown["country"]) == ("ada", "Peru")
    assert shown["home_page"] == "https://ada.example/"
    body = {"name": " Ada L. ", "country": "England", "home_page": "https://new.example/"}
    changed = program.send("patch", "/me", body).json()["account"]
    assert changed == shown | body | {"name": "Ada L."}
    ada.refresh_from_db()
    assert (ada.name, ada.country, ada.url) == ("Ada L.", "England", "https://new.example/")
    entry = AuditEntry.objects.get(event="account_changed")
    assert entry.details == {"fields": ["name", "country", "url"]}
    assert (entry.account_id, entry.subject) == (ada.pk, ada.email)


def test_omitted_fields_and_consents_stay(program, ada):
    update(ada, share_statistics=False, show_hosts=True, receive_letters=True)
    assert program.send("patch", "/me", {"country": ""}).status_code == 200
    ada.refresh_from_db()
    assert (ada.name, ada.country, ada.url) == ("ada", "", "https://ada.example/")
    assert (ada.share_statistics, ada.show_hosts, ada.receive_letters) == (False, True, True)
    assert program.send("patch", "/me", {"home_page": ""}).json()["account"]["home_page"] == ""


def test_unchanged_profile_makes_no_audit_entry(program):
    assert program.send("patch", "/me", {"name": "ada", "country": "Peru"}).status_code == 200
    assert program.send("patch", "/me", {}).status_code == 200
    assert not AuditEntry.objects.filter(event="account_changed").exists()


@pytest.mark.parametrize(
    ("body", "status", "code"),
    [
        ({"name": "<b>"}, 422, "bad_name"),
        ({"name": " "}, 422, "bad_name"),
        ({"name": ""}, 400, "invalid"),
        ({"name": "x" * 255}, 400, "invalid"),
        ({"country": "x" * 65}, 400, "invalid"),
        ({"home_page": "javascript:alert(1)"}, 422, "bad_home_page"),
        ({"home_page": "ada.example"}, 422, "bad_home_page"),
        ({"home_page": "https://ada.example/" + "x" * 200}, 400, "invalid"),
    ],
)
def test_bad_profile_is_refused_and_changes_nothing(program, ada, body, status, code):
    refused = program.send("patch", "/me", {"country": "Chile", **body})
    assert (refused.status_code, refused.json()["code"]) == (status, code)
    ada.refresh_from_db()
    assert (ada.name, ada.country, ada.url) == ("ada", "Peru", "https://ada.example/")


@pytest.mark.parametrize("text", ["<b>", "x>y", "\u202e", "a\nb"])
def test_page_and_api_refuse_the_same_names(program, ada, text):
    browser = Client()
    browser.force_login(ada)
    browser.post("/account/", {"name": text})
    assert program.send("patch", "/me", {"name": text}).status_code == 422
    ada.refresh_from_db()
    assert ada.name == "ada"


def test_change_after_the_check_of_the_token_is_noticed(program, ada, monkeypatch):
    lock, etag = matching._lock, program.send("get", "/me")["ETag"]

    def change_and_lock(rows):
        update(ada, name="changed meanwhile")
        lock(rows)

    monkeypatch.setattr(matching, "_lock", change_and_lock)
    answer = program.send("patch", "/me", {"country": "Chile"}, headers={"If-Match": etag})
    assert answer.status_code == 412
    ada.refresh_from_db()
    assert ada.country == "Peru"


def test_rights_in_the_reply_are_those_of_the_token(db):
    chief = an_account("chief", is_superuser=True)
    program = a_program(chief, "read", "submit")
    read = program.send("get", "/me").json()["account"]["rights"]
    changed = program.send("patch", "/me", {"country": "Chile"}).json()["account"]["rights"]
    assert changed == read
    assert "administer_project" not in changed


# Log-ins with other sites


def with_lab(settings) -> None:
    lab = LoginProvider(
        id="lab", name="The Lab", server="https://lab.example", client_id="i", client_secret="s"
    )
    settings.PROJECT = replace(settings.PROJECT, login_providers=(lab,))


def a_log_in(account: Account, provider: str = "lab") -> SocialAccount:
    return SocialAccount.objects.create(user=account, provider=provider, uid=f"{account.pk}")


def test_log_ins_are_listed_with_the_names_of_their_sites(program, ada, settings):
    with_lab(settings)
    first, second = a_log_in(ada), a_log_in(ada, "gone")
    a_log_in(an_account("eve"))
    reply = program.send("get", "/me/log-ins").json()
    assert [(row["id"], row["provider"], row["name"]) for row in reply["results"]] == [
        (first.pk, "lab", "The Lab"),
        (second.pk, "gone", "gone"),
    ]
    assert reply["results"][0]["connected_at"].endswith("Z")
    assert not reply["has_password"]
    ada.set_password("correct horse")
    ada.save()
    assert program.send("get", "/me/log-ins").json()["has_password"]


def test_log_in_is_removed_once(program, ada, settings):
    with_lab(settings)
    ada.set_password("correct horse")
    ada.save()
    path = f"/me/log-ins/{a_log_in(ada).pk}"
    assert program.send("delete", path).status_code == 204
    assert program.send("delete", path).status_code == 404
    assert program.send("get", "/me/log-ins").json()["results"] == []
    entry = AuditEntry.objects.get(event="account_changed")
    assert (entry.details, entry.account_id) == ({"disconnected": "lab"}, ada.pk)


def test_only_way_to_log_in_is_not_removed(program, ada, settings):
    with_lab(settings)
    kept, gone = a_log_in(ada), a_log_in(ada, "gone")
    refused = program.send("delete", f"/me/log-ins/{kept.pk}")
    assert (refused.status_code, refused.json()["code"]) == (409, "last_log_in")
    assert refused.json()["hint"] == "set a password first."
    # The site of the other one is not in the settings, so it cannot be used to log in.
    assert program.send("delete", f"/me/log-ins/{gone.pk}").status_code == 204
    assert SocialAccount.objects.get() == kept


# Statements of ownership


def test_statement_is_signed_and_verified(program, ada):
    proof = program.send("post", STATEMENTS, {"text": "site.example 42"}).json()
    lines = proof["statement"].splitlines()
    assert lines[1] == f"Account: {ada.pk}"
    assert lines[4] == "Text: site.example 42"
    assert proof["key_url"].endswith("/ownership/key.pem")
    sent = {name: proof[name] for name in ("statement", "signature")}
    assert Program().send("post", VERIFICATIONS, sent).json() == {"valid": True}
    changed = sent | {"statement": sent["statement"].replace("42", "43")}
    assert Program().send("post", VERIFICATIONS, changed).json() == {"valid": False}
    page = Client().post("/ownership/", sent).content.decode()
    assert ">Valid:" in page
    entry = AuditEntry.objects.get(event="key_used")
    assert (entry.account_id, entry.subject) == (ada.pk, "ownership key")


@pytest.mark.parametrize(
    ("text", "status"),
    [("", 400), ("x" * (MAX_TEXT + 1), 400), ("a\nAccount: 1", 422), ("a\u202eb", 422)],
)
def test_text_that_is_not_one_printable_line_is_refused(program, text, status):
    assert program.send("post", STATEMENTS, {"text": text}).status_code == status
    assert not AuditEntry.objects.filter(event="key_used").exists()


@pytest.mark.parametrize(
    ("body", "status"),
    [
        ({"statement": "x", "signature": "ä"}, 200),
        ({"statement": "x" * 2001, "signature": "x"}, 400),
        ({"statement": "x", "signature": "x" * 201}, 400),
        ({"statement": "x"}, 400),
    ],
)
def test_verification_takes_bounded_texts_without_a_statement(
    body, status, django_assert_num_queries
):
    with django_assert_num_queries(0):
        answer = Program().send("post", VERIFICATIONS, body)
    assert answer.status_code == status
    assert status != 200 or answer.json() == {"valid": False}


def test_missing_key_is_reported_without_its_path(program, settings, tmp_path):
    settings.KEYS_DIR = tmp_path / "keys"
    signing.ensure_keys()
    for half in ("ownership_private", "ownership_public"):
        (settings.KEYS_DIR / half).unlink()
    first_line = f"{signing.ownership_first_line()}\nx\n"
    sent = {"statement": first_line, "signature": "A" * 86 + "=="}
    for path, body in ((STATEMENTS, {"text": "42"}), (VERIFICATIONS, sent)):
        answer = program.send("post", path, body)
        assert (answer.status_code, answer.json()["code"]) == (409, "no_ownership_key")
        assert str(tmp_path) not in answer.content.decode()


# Credit and teams


def test_credit_by_hand_is_listed_with_its_reason(program, ada):
    for amount in ("5", "-2"):
        request = GrantRequest(
            request_id=uuid4(), account_id=ada.pk, amount=Decimal(amount), reason=f"for {amount}"
        )
        manual_grants.grant(request, granted_by=None, now=NOON)
    rows = program.send("get", "/me/credit-grants").json()["results"]
    assert [(row["amount"], row["reason"]) for row in rows] == [(-2.0, "for -2"), (5.0, "for 5")]
    assert rows[0]["granted_at"] == "2026-01-01T12:00:00Z"
    assert a_program(an_account("eve")).send("get", "/me/credit-grants").json() == {"results": []}


def test_founder_deletes_the_team_as_its_only_member(program, ada):
    assert program.send("post", "/me/team/delete").status_code == 404
    team = program.send("post", "/me/team", {"name": "The primes"}).json()
    eve = an_account("eve")
    update(eve, team_id=team["id"])
    refused = a_program(eve).send("post", "/me/team/delete")
    assert (refused.status_code, refused.json()["code"]) == (403, "not_founder")
    refused = program.send("post", "/me/team/delete")
    assert (refused.status_code, refused.json()["code"]) == (409, "team_refused")
    update(eve, team=None)
    assert program.send("post", "/me/team/delete").status_code == 204
    assert not Team.objects.filter(pk=team["id"]).exists()
    assert program.send("get", "/me/team").status_code == 404
