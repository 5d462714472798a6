"""Keys are created and revoked only by their owners, after a recent proof."""

from __future__ import annotations

from dataclasses import replace

import pytest
from allauth.account.authentication import AUTHENTICATION_METHODS_SESSION_KEY
from allauth.mfa.models import Authenticator
from django.test import Client

from scheduler.models import Account, AccountKey, AuditEntry
from scheduler.people import account_keys, accounts
from tests.conftest import NOON
from tests.faces.apis import Program, a_program
from tests.faces.pages import comparable
from tests.rows import update

pytestmark = pytest.mark.django_db

EMAIL, PASSWORD = "ada@example.org", "correct horse"
PAGE = "/account/keys/"


def a_person(email: str) -> Account:
    digest = accounts.password_digest(email=email, password=PASSWORD)
    name = email.partition("@")[0]
    return accounts.create_account(email=email, passwd_hash=digest, name=name, now=NOON).account


@pytest.fixture
def ada() -> Account:
    return a_person(EMAIL)


@pytest.fixture
def key(ada: Account) -> AccountKey:
    return account_keys.create_key(account=ada, name="adas-lab", now=NOON)[0]


def logged_in(email: str = EMAIL) -> Client:
    client = Client()
    client.post("/account/login/", {"login": email, "password": PASSWORD})
    return client


def state(ada: Account) -> set[tuple[int, str, bool]]:
    return {(row.pk, row.name, row.revoked_at is None) for row in ada.keys.all()}


# Other accounts


@pytest.mark.parametrize("staff", [False, True])
def test_keys_of_other_accounts_are_not_found(ada, key, staff):
    eve = a_person("eve@example.org")
    update(eve, is_staff=staff, is_superuser=staff)
    browser, program = logged_in(eve.email), a_program(eve, "read", "submit")
    before = state(ada)
    pages = [browser.get(f"{PAGE}{number}/") for number in (key.pk, 10**15, 10**19)]
    assert {answer.status_code for answer in pages} == {404}
    assert len({comparable(answer) for answer in pages}) == 1
    for action in ("revoke", "rename"):
        answer = browser.post(f"{PAGE}{key.pk}/", {"action": action, "name": "eves"})
        assert answer.status_code == 404
    path = f"/me/keys/{key.pk}"
    answers = [
        program.send("get", path),
        program.send("patch", path, {"name": "eves"}),
        program.send("post", f"{path}/revoke", {"password": PASSWORD}),
    ]
    assert [answer.status_code for answer in answers] == [404] * 3
    assert "adas-lab" not in program.send("get", "/me/keys").content.decode()
    assert state(ada) == before


def test_visitors_without_a_log_in_reach_no_key(ada, key):
    for path in (PAGE, f"{PAGE}{key.pk}/"):
        for answer in (Client().get(path), Client().post(path, {"name": "x", "action": "revoke"})):
            assert answer.status_code == 302
            assert answer["Location"].startswith("/account/login/?next=")
    for method, path in (("get", "/me/keys"), ("get", f"/me/keys/{key.pk}")):
        assert Program().send(method, path).status_code == 401
    body = {"kind": "host", "name": "x", "password": PASSWORD}
    assert Program().send("post", "/me/keys", body).status_code == 401
    assert len(state(ada)) == 3


# The password


@pytest.mark.parametrize("name", ["", "{key}/"])
def test_pages_ask_for_the_password_again_before_they_show_or_change_a_key(ada, key, name):
    browser = logged_in()
    path = PAGE + name.format(key=key.pk)
    assert browser.get(path).status_code == 200
    session = browser.session
    for record in session[AUTHENTICATION_METHODS_SESSION_KEY]:
        record["at"] -= 301
    session.save()
    before = state(ada)
    for answer in (browser.get(path), browser.post(path, {"name": "x", "action": "revoke"})):
        assert answer.status_code == 302
        assert answer["Location"].startswith("/account/reauthenticate/")
    assert state(ada) == before


def test_forms_need_their_csrf_tokens(ada, key):
    browser = Client(enforce_csrf_checks=True)
    browser.force_login(ada)
    before = state(ada)
    for path in (PAGE, f"{PAGE}{key.pk}/"):
        assert browser.post(path, {"name": "x", "action": "revoke"}).status_code == 403
    assert state(ada) == before


def test_stolen_token_can_neither_create_nor_revoke_a_key(ada, key):
    """A key outlives the token: a thief could keep access, or detach all computers."""
    program = a_program(ada, "read", "submit")
    before = state(ada)
    for password in ("", "wrong", ada.password, key.key_hash):
        for path, fields in (
            ("/me/keys", {"kind": "host", "name": "x"}),
            (f"/me/keys/{key.pk}/revoke", {}),
        ):
            answer = program.send("post", path, {**fields, "password": password})
            assert answer.status_code == (401 if password else 400), answer.content
            assert program.send("post", path, fields).status_code == 400
    assert state(ada) == before


def test_wrong_passwords_are_throttled_and_recorded(ada, settings):
    settings.PROJECT = replace(settings.PROJECT, login_attempts_per_account_and_network=2)
    program = a_program(ada, "submit")
    body = {"kind": "host", "name": "x", "password": "wrong"}
    statuses = [program.send("post", "/me/keys", body).status_code for _ in range(3)]
    assert statuses == [401, 401, 429]
    # A correct password would otherwise tell that the guesses were near.
    assert program.send("post", "/me/keys", body | {"password": PASSWORD}).status_code == 429
    assert AuditEntry.objects.filter(event="login_failed", subject=EMAIL).count() == 2


def test_token_with_the_scope_read_cannot_change_keys(ada, key):
    program = a_program(ada, "read")
    before = state(ada)
    assert program.send("patch", f"/me/keys/{key.pk}", {"name": "x"}).status_code == 403
    for path, fields in (
        ("/me/keys", {"kind": "host", "name": "x", "password": PASSWORD}),
        (f"/me/keys/{key.pk}/revoke", {"password": PASSWORD}),
    ):
        assert program.send("post", path, fields).status_code == 403
    assert state(ada) == before


def test_password_does_not_replace_the_second_factor(ada, key):
    program = a_program(ada, "submit")
    Authenticator.objects.create(user=ada, type=Authenticator.Type.TOTP, data={"secret": "x"})
    before = state(ada)
    for path, fields in (
        ("/me/keys", {"kind": "host", "name": "x"}),
        (f"/me/keys/{key.pk}/revoke", {}),
    ):
        answer = program.send("post", path, {**fields, "password": PASSWORD})
        assert (answer.status_code, answer.json()["code"]) == (403, "second_factor_needed")
        assert PAGE in answer.json()["hint"]
    browser = Client()
    browser.force_login(ada)
    for path in (PAGE, f"{PAGE}{key.pk}/"):
        answer = browser.post(path, {"name": "x", "action": "revoke"})
        assert answer.status_code == 302
        assert "reauthenticate" in answer["Location"]
    assert state(ada) == before


def test_account_without_a_password_is_directed_to_the_page(ada, key):
    program = a_program(ada, "submit")
    ada.set_password(None)
    ada.save()
    answer = program.send("post", f"/me/keys/{key.pk}/revoke", {"password": "!"})
    assert (answer.status_code, answer.json()["code"]) == (403, "password_needed")
    assert PAGE in answer.json()["hint"]
    assert account_keys.find_live(ada, key.pk) == key


def test_staff_without_the_required_second_factor_cannot_create_keys(ada, settings):
    settings.PROJECT = replace(settings.PROJECT, staff_second_factor=True)
    update(ada, is_staff=True)
    browser = logged_in()
    answer = browser.post(PAGE, {"name": "x"})
    assert (answer.status_code, answer["Location"]) == (302, "/account/two-factor/totp/activate/")
    body = {"kind": "host", "name": "x", "password": PASSWORD}
    answer = a_program(ada, "submit").send("post", "/me/keys", body)
    assert (answer.status_code, answer.json()["code"]) == (403, "second_factor_needed")
    assert ada.keys.count() == 2


def test_key_cannot_be_created_with_a_password_that_was_changed_meanwhile(ada):
    """The change has revoked what was created with the old password."""
    before = Account.objects.get(pk=ada.pk)
    digest = accounts.password_digest(email=EMAIL, password="battery staple")
    accounts.change_password(account=ada, passwd_hash=digest, now=NOON)
    for kind in (AccountKey.Kind.STRONG, AccountKey.Kind.SUBMISSION):
        with pytest.raises(account_keys.KeyRefused, match="was changed meanwhile"):
            account_keys.create_key(account=before, name="late", kind=kind, now=NOON)
    assert not ada.keys.filter(name="late").exists()


def test_pages_of_keys_are_not_cached_and_have_no_text_of_a_further_key(ada, key):
    _row, text = account_keys.create_key(account=ada, name="other", now=NOON)
    browser = logged_in()
    for path in (PAGE, f"{PAGE}{key.pk}/"):
        answer = browser.get(path)
        assert "no-store" in answer["Cache-Control"]
        assert text not in answer.content.decode()
        assert key.key_hash not in answer.content.decode()
