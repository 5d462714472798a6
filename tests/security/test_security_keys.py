"""A security key is a second factor that no other site, key or answer can replace."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
from allauth.account.models import EmailAddress
from allauth.mfa.models import Authenticator
from django.core import mail
from django.core.management import call_command
from django.test import Client
from django.utils import timezone

from scheduler.models import Account, AuditEntry
from scheduler.people import accounts
from tests.security_key import SecurityKey

pytestmark = pytest.mark.django_db

EMAIL, PASSWORD = "ada@example.org", "correct horse"
SITE, HOST = "https://project.example", "project.example"
FACTORS = "/account/two-factor/"
ADD, STEP, AGAIN = (
    f"{FACTORS}keys/add/",
    f"{FACTORS}authenticate/",
    f"{FACTORS}keys/reauthenticate/",
)


@pytest.fixture(autouse=True)
def site(settings) -> None:
    """The project at an https address, whose staff needs no second factor."""
    settings.PROJECT = replace(settings.PROJECT, master_url=f"{SITE}/", staff_second_factor=False)
    settings.MFA_SUPPORTED_TYPES = ["totp", "recovery_codes", "webauthn"]


@pytest.fixture
def ada() -> Account:
    return accounts.create_staff(email=EMAIL, password=PASSWORD, name="Ada", now=timezone.now())


@pytest.fixture
def key() -> SecurityKey:
    return SecurityKey(SITE, HOST)


@pytest.fixture
def enrolled(ada: Account, key: SecurityKey) -> Client:
    """The browser in which Ada has added the key."""
    client = log_in(Client())
    assert add(client, key).status_code == 302
    return client


def log_in(client: Client) -> Client:
    client.post("/account/login/", {"login": EMAIL, "password": PASSWORD})
    return client


def add(client: Client, key: SecurityKey, **fields: str):
    options = client.get(ADD).context["js_data"]["creation_options"]
    return client.post(ADD, {"name": "Blue", "credential": key.register(options), **fields})


def sign(client: Client, key: SecurityKey, path: str = STEP) -> str:
    return key.sign(client.get(path).context["js_data"]["request_options"])


def is_in(client: Client) -> bool:
    return client.get("/account/").status_code == 200


def events(name: str) -> list[AuditEntry]:
    return list(AuditEntry.objects.filter(event=name).order_by("pk"))


def test_key_is_needed_to_log_in(enrolled, key):
    client = log_in(Client())
    assert not is_in(client)
    assert client.post(STEP, {"credential": sign(client, key)}).status_code == 302
    assert is_in(client)


def test_added_key_is_listed_recorded_and_mailed(enrolled):
    page = enrolled.get(FACTORS).content.decode()
    assert "Blue, added" in page
    assert "10 codes are left" in page
    kinds = [entry.details["type"] for entry in events("factor_added")]
    assert kinds == ["webauthn", "recovery_codes"]
    assert {entry.actor for entry in events("factor_added")} == {EMAIL}
    assert "A security key was added" in mail.outbox[0].subject


def test_recovery_code_replaces_a_lost_key(enrolled):
    codes = Authenticator.objects.get(type="recovery_codes").wrap().get_unused_codes()
    client = log_in(Client())
    client.post(STEP, {"code": codes[0]})
    assert is_in(client)


def test_key_of_another_account_is_refused(enrolled, key):
    client, other = log_in(Client()), SecurityKey(SITE, HOST)
    other.id = key.id
    answer = client.post(STEP, {"credential": sign(client, other)})
    assert "is not valid" in answer.content.decode()
    assert not is_in(client)


@pytest.mark.parametrize(
    ("origin", "host"), [("https://phish.example", HOST), (SITE, "phish.example")]
)
def test_answer_for_another_site_is_refused(enrolled, key, origin, host):
    client = log_in(Client())
    key.origin, key.host = origin, host
    client.post(STEP, {"credential": sign(client, key)})
    assert not is_in(client)


def test_answer_is_accepted_once(enrolled, key):
    first, second = log_in(Client()), log_in(Client())
    answer = sign(first, key)
    first.post(STEP, {"credential": answer})
    second.get(STEP)
    second.post(STEP, {"credential": answer})
    assert (is_in(first), is_in(second)) == (True, False)


def test_host_of_the_key_is_that_of_the_project_whatever_the_request_names(enrolled):
    options = enrolled.get(ADD, headers={"host": "127.0.0.1"}).context["js_data"]
    assert options["creation_options"]["publicKey"]["rp"]["id"] == HOST


def test_wrong_answers_are_throttled_and_recorded(enrolled, key):
    stranger = SecurityKey(SITE, HOST)
    client = log_in(Client())
    for _ in range(10):
        client.post(STEP, {"credential": sign(client, stranger)})
    answer = client.post(STEP, {"credential": sign(client, key)})
    assert "Too many wrong codes" in answer.content.decode()
    assert not is_in(client)
    assert len(events("login_failed")) == 10


@pytest.mark.parametrize(
    "answer",
    [
        *("", "x", "[]", "null", "17", '"text"', "[" * 10_000, "{}", '{"id": "\\u0000"}'),
        '{"id": 1, "rawId": [], "type": {}, "response": 5}',
        '{"id": "YQ", "rawId": "YQ", "type": "public-key", "response": {}}',
        json.dumps(
            {
                "id": "YQ",
                "rawId": "YQ",
                "type": "public-key",
                "response": {
                    "clientDataJSON": "e30",
                    "attestationObject": "oA",
                    "authenticatorData": "YQ",
                    "signature": "YQ",
                },
            }
        ),
        "9" * 5_000,
        "x" * 30_000,
    ],
)
def test_malformed_answer_is_refused_with_a_message(enrolled, answer):
    client = log_in(Client())
    client.get(STEP)
    for browser, path in ((client, STEP), (enrolled, ADD)):
        response = browser.post(path, {"credential": answer})
        assert response.status_code == 200
        assert 'class="problem" role="alert"><p>' in response.content.decode()
    assert not is_in(client)
    assert Authenticator.objects.filter(type="webauthn").count() == 1


def test_only_the_needed_parts_of_the_answer_are_stored(ada, key):
    client = log_in(Client())
    options = client.get(ADD).context["js_data"]["creation_options"]
    answer = json.loads(key.register(options)) | {"padding": "\0", "authenticatorAttachment": "\0"}
    assert client.post(ADD, {"name": "a\u202eb" + "c" * 99, "credential": json.dumps(answer)})
    stored = Authenticator.objects.get(type="webauthn").data
    assert stored["name"] == "ab" + "c" * 58
    assert set(stored["credential"]) == {"id", "rawId", "type", "response"}


def test_account_has_at_most_twenty_keys(enrolled, key):
    row = Authenticator.objects.get(type="webauthn")
    Authenticator.objects.bulk_create(
        [Authenticator(user=row.user, type="webauthn", data=row.data) for _ in range(19)]
    )
    answer = add(enrolled, SecurityKey(SITE, HOST))
    assert "at most 20 security keys" in answer.content.decode()
    assert Authenticator.objects.filter(type="webauthn").count() == 20


def test_password_alone_adds_and_removes_no_key(enrolled, key):
    row = Authenticator.objects.get(type="webauthn")
    with_password = Client()
    with_password.force_login(row.user)
    for path in (ADD, f"{FACTORS}keys/{row.pk}/remove/"):
        assert with_password.get(path)["Location"].startswith(f"{FACTORS}reauthenticate/")
        assert with_password.post(path)["Location"].startswith(f"{FACTORS}reauthenticate/")
    page = with_password.get(f"{FACTORS}reauthenticate/").content.decode()
    assert AGAIN in page
    wrong = with_password.post(AGAIN, {"credential": "{}"}, follow=True)
    assert "is not valid" in wrong.content.decode()
    with_password.post(AGAIN, {"credential": sign(with_password, key, AGAIN)})
    assert with_password.get(ADD).status_code == 200


def test_unconfirmed_address_gets_no_key(ada, key):
    EmailAddress.objects.update(verified=False)
    client = log_in(Client())
    assert client.get(ADD)["Location"] == FACTORS


def test_key_of_another_account_cannot_be_removed(enrolled):
    pk = Authenticator.objects.get(type="webauthn").pk
    accounts.create_staff(email="eve@example.org", password=PASSWORD, now=timezone.now())
    client = Client()
    client.post("/account/login/", {"login": "eve@example.org", "password": PASSWORD})
    assert client.post(f"{FACTORS}keys/{pk}/remove/").status_code == 404
    assert Authenticator.objects.filter(pk=pk).exists()


def test_removing_the_last_key_removes_the_recovery_codes(enrolled):
    pk = Authenticator.objects.get(type="webauthn").pk
    assert "Blue no longer opens" in enrolled.get(f"{FACTORS}keys/{pk}/remove/").content.decode()
    assert enrolled.post(f"{FACTORS}keys/{pk}/remove/")["Location"] == FACTORS
    assert not Authenticator.objects.exists()
    assert is_in(log_in(Client()))
    assert "A security key was removed" in mail.outbox[-1].subject


def test_staff_enter_the_administration_with_a_key(ada, key, settings):
    settings.PROJECT = replace(settings.PROJECT, staff_second_factor=True)
    client = log_in(Client())
    assert ADD in client.get("/admin/", follow=True).content.decode()
    add(client, key)
    assert client.get("/admin/").status_code == 200
    later = log_in(Client())
    assert later.get("/admin/").status_code == 302
    later.post(STEP, {"credential": sign(later, key)})
    assert later.get("/admin/").status_code == 200


def test_account_with_a_key_gets_no_token_by_password(enrolled, client):
    body = {"email": EMAIL, "password": PASSWORD, "name": "x"}
    answer = client.post("/api/v1/tokens", body, content_type="application/json")
    assert answer.json()["code"] == "second_factor_needed"


def test_operator_removes_the_keys_of_an_account(enrolled, capsys):
    call_command("second_factor", "list")
    assert capsys.readouterr().out.splitlines() == [EMAIL]
    call_command("second_factor", "remove", EMAIL)
    assert is_in(log_in(Client()))


def test_keys_are_not_offered_where_browsers_refuse_them(ada, settings):
    settings.MFA_SUPPORTED_TYPES = ["totp", "recovery_codes"]
    client = log_in(Client())
    assert ADD not in client.get(FACTORS).content.decode()
    assert client.get(ADD).status_code == 404
    assert client.post(ADD, {"credential": "{}"}).status_code == 404


@pytest.mark.parametrize("path", [ADD, FACTORS])
def test_pages_run_no_inline_script(enrolled, path):
    page = enrolled.get(path)
    scripts = page.content.decode().split("<script")[1:]
    assert all('src="/static/' in each or 'type="application/json"' in each for each in scripts)
    assert "'unsafe" not in page["Content-Security-Policy"]
