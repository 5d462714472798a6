"""The API's twins of pages disclose and permit no more than the pages."""

from __future__ import annotations

from dataclasses import replace
from decimal import Decimal
from typing import Any

import pytest
from allauth.mfa.models import Authenticator
from allauth.socialaccount.models import SocialAccount
from django.core import mail

from scheduler.config import LoginProvider
from scheduler.models import Account, AuditEntry
from scheduler.people.personal_data import erasure
from tests.conftest import NOON
from tests.faces.api_schema import operations, schema
from tests.faces.apis import Program, a_program
from tests.rows import a_host, an_account, update

pytestmark = pytest.mark.django_db

STATEMENTS = "/me/ownership-statements"
#: Operations whose bodies have the password itself.
BY_PASSWORD = {"create_token", "read_weak_key", "create_my_key", "revoke_my_key"}


@pytest.fixture
def ada() -> Account:
    return an_account("ada")


def with_second_factor(account: Account, kind: str = "totp") -> None:
    Authenticator.objects.create(user=account, type=kind, data={"secret": ""})


def a_log_in(account: Account, settings: Any) -> SocialAccount:
    """Connect a site to an account that also has a password."""
    lab = LoginProvider(
        id="lab", name="The Lab", server="https://lab.example", client_id="i", client_secret="s"
    )
    settings.PROJECT = replace(settings.PROJECT, login_providers=(lab,))
    account.set_password("correct horse")
    account.save()
    return SocialAccount.objects.create(user=account, provider="lab", uid="1")


# Tokens neither take an account over nor erase it (decision 38)


def test_no_operation_changes_a_password_an_address_or_a_second_factor():
    """A stolen token must not take an account over."""
    for operation in operations():
        content = operation.says.get("requestBody", {}).get("content", {})
        for described in content.values():
            reference = described.get("schema", {}).get("$ref", "").rpartition("/")[2]
            body = schema()["components"]["schemas"].get(reference, {})
            secrets = {"email", "password", "passwd_hash", "code"} & body.get(
                "properties", {}
            ).keys()
            assert not secrets or operation.name in BY_PASSWORD, (operation.name, secrets)


@pytest.mark.parametrize("field", ["email", "password", "is_staff", "is_superuser", "rights"])
def test_profile_has_no_field_of_credentials_or_rights(ada, field):
    program = a_program(ada, "read", "submit")
    answer = program.send("patch", "/me", {field: "eve@example.org"})
    assert answer.status_code == 400
    before = (ada.email, ada.password, ada.is_staff, ada.is_superuser)
    ada.refresh_from_db()
    assert (ada.email, ada.password, ada.is_staff, ada.is_superuser) == before


def test_token_cannot_erase_the_account(ada):
    assert a_program(ada, "read", "submit").send("delete", "/me").status_code == 405
    ada.refresh_from_db()
    assert ada.is_active


@pytest.mark.parametrize(
    ("method", "path", "body"),
    [
        ("patch", "/me", {"name": "Eve"}),
        ("post", STATEMENTS, {"text": "42"}),
        ("delete", "/me/log-ins/1", None),
        ("post", "/me/team/delete", None),
    ],
)
def test_token_that_only_reads_changes_and_signs_nothing(ada, method, path, body):
    answer = a_program(ada, "read").send(method, path, body)
    assert (answer.status_code, answer.json()["code"]) == (403, "permission_denied")
    ada.refresh_from_db()
    assert ada.name == "ada"
    assert not AuditEntry.objects.filter(event="key_used").exists()


# The second factor, and mails to the owner


@pytest.mark.parametrize("kind", ["totp", "webauthn"])
def test_token_does_not_replace_the_second_factor(ada, settings, kind):
    log_in = a_log_in(ada, settings)
    # A token that was created before the second factor.
    program = a_program(ada)
    with_second_factor(ada, kind)
    for method, path, body, page in (
        ("post", STATEMENTS, {"text": "42"}, "/account/ownership/"),
        ("delete", f"/me/log-ins/{log_in.pk}", None, "/account/log-ins/"),
    ):
        answer = program.send(method, path, body)
        assert (answer.status_code, answer.json()["code"]) == (403, "second_factor_needed")
        assert page in answer.json()["hint"]
    assert SocialAccount.objects.filter(pk=log_in.pk).exists()
    assert not AuditEntry.objects.filter(event="key_used").exists()
    assert mail.outbox == []


def test_owner_gets_a_mail_about_a_log_in_that_a_token_removed(ada, settings):
    program = a_program(ada)
    assert program.send("delete", f"/me/log-ins/{a_log_in(ada, settings).pk}").status_code == 204
    [message] = mail.outbox
    assert message.to == [ada.email]
    assert "The Lab was removed from the account of ada@example.org" in message.body
    assert "127.0.0.1" in message.body


def test_log_in_of_another_account_is_neither_listed_nor_removed(ada, settings):
    log_in = a_log_in(ada, settings)
    eve = an_account("eve", is_superuser=True)
    program = a_program(eve)
    assert program.send("get", "/me/log-ins").json()["results"] == []
    assert program.send("delete", f"/me/log-ins/{log_in.pk}").status_code == 404
    assert SocialAccount.objects.filter(pk=log_in.pk).exists()
    assert mail.outbox == []


def test_ids_of_persons_at_other_sites_are_not_shown(ada, settings):
    SocialAccount.objects.filter(pk=a_log_in(ada, settings).pk).update(uid="secret-id-1")
    assert "secret-id-1" not in a_program(ada).send("get", "/me/log-ins").content.decode()


# Pages that everybody sees


def hide(account: Account, state: str) -> None:
    if state == "unshared":
        update(account, share_statistics=False)
    elif state == "banned":
        update(account, is_active=False)
    else:
        erasure.erase(account, now=NOON)


@pytest.mark.parametrize("state", ["unshared", "banned", "erased"])
def test_account_without_consent_is_neither_found_nor_certified(ada, state):
    update(ada, name="secretname", total_credit=Decimal("777.5"))
    paths = ("/accounts?name=secret", f"/accounts/{ada.pk}/certificate")
    for path in paths:
        assert "secretname" in Program().send("get", path).content.decode()
    hide(ada, state)
    answers = [Program().send("get", path) for path in paths]
    assert answers[0].json() == {"next": None, "results": []}
    assert answers[1].status_code == 404
    assert b"777" not in answers[0].content + answers[1].content


def test_search_discloses_no_address_and_no_computer(ada):
    a_host(ada, domain_name="secret-computer", last_ip_addr="203.0.113.77")
    text = Program().send("get", "/accounts?name=ada").content.decode()
    assert '"name":"ada"' in text
    for part in ("@example.org", "secret-computer", "203.0.113"):
        assert part not in text


@pytest.mark.parametrize("state", ["hidden", "banned", "erased"])
def test_computer_that_is_not_shown_is_missing(ada, state):
    update(ada, show_hosts=True)
    host = a_host(ada, domain_name="secret-computer", last_ip_addr="203.0.113.77")
    paths = (f"/computers/{host.pk}", f"/computers/{host.pk}/credit-history")
    for path in paths:
        answer = Program().send("get", path)
        assert answer.status_code == 200
        for part in (b"secret-computer", b"203.0.113", b"@example.org"):
            assert part not in answer.content
    if state == "hidden":
        update(ada, show_hosts=False)
    else:
        hide(ada, state)
    # Also the owner and staff see what everybody sees.
    chief = a_program(an_account("chief", is_superuser=True), "read", "administer")
    for program in (Program(), a_program(ada) if state == "hidden" else Program(), chief):
        assert [program.send("get", path).status_code for path in paths] == [404, 404]


def test_owner_who_does_not_share_statistics_is_not_named(ada):
    update(ada, name="secretname", show_hosts=True, share_statistics=False)
    host = a_host(ada)
    shown = Program().send("get", f"/computers/{host.pk}")
    assert (shown.json()["owner"], shown.json()["owner_name"]) == (None, None)
    assert b"secretname" not in shown.content
    assert Program().send("get", f"/computers/{host.pk}/credit-history").status_code == 404


def test_deleting_a_team_over_the_api_needs_its_founder(ada):
    eve = an_account("eve")
    team = a_program(ada).send("post", "/me/team", {"name": "The primes"}).json()
    update(eve, team_id=team["id"])
    assert a_program(eve).send("post", "/me/team/delete").status_code == 403
    assert a_program(an_account("bob")).send("post", "/me/team/delete").status_code == 404
    assert a_program(ada).send("get", "/me/team").json()["id"] == team["id"]
