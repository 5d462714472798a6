"""OpenID Connect logs in only the person whom the provider names."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import replace

import pytest
from allauth.account.authentication import AUTHENTICATION_METHODS_SESSION_KEY
from allauth.account.models import EmailAddress
from allauth.socialaccount.models import SocialAccount, SocialToken
from django.core import mail
from django.core.cache import cache
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.utils import timezone
from joserfc.jwk import RSAKey

from scheduler.config import AccountCreation, LoginProvider
from scheduler.models import Account, AuditEntry
from scheduler.people import account_keys, accounts
from scheduler.people.personal_data import erasure
from tests.conftest import NOON
from tests.openid_provider import CLIENT, SECRET, Provider, serving
from tests.story.project import ROOT

pytestmark = pytest.mark.django_db

SITE, EMAIL, PASSWORD = "http://testserver/", "ada@example.org", "correct horse"
ADA = {"sub": "ada-1", "name": "Ada", "email": EMAIL, "email_verified": True}
START, NEW, OWN = "/account/with/lab/", "/account/log-ins/new/", "/account/log-ins/"


@pytest.fixture
def provider(settings):
    cache.clear()
    with serving() as provider:
        provider.claims = dict(ADA)
        lab = LoginProvider(
            id="lab", name="The Lab", server=provider.url, client_id=CLIENT, client_secret=SECRET
        )
        config = replace(settings.PROJECT, login_providers=(lab,), master_url=SITE)
        settings.PROJECT = config
        yield provider


@pytest.fixture
def ada() -> Account:
    return accounts.create_staff(
        email=EMAIL,
        password=PASSWORD,
        name="Ada",
        is_staff=False,
        is_superuser=False,
        now=timezone.now(),
    )


def start(client: Client, **fields: str) -> str:
    """Press the provider's button; return where the browser is sent."""
    return client.post(START, {"process": "login", **fields})["Location"]


def go(client: Client, provider: Provider, **fields: str):
    """Log in at the provider; return the answer of the site."""
    return client.get(provider.authorize(start(client, **fields)))


def sign_up(client: Client, provider: Provider, **fields: str):
    assert go(client, provider)["Location"] == NEW
    return client.post(NEW, {"email": EMAIL, "name": "Ada", **fields})


def with_password() -> Client:
    client = Client()
    client.post("/account/login/", {"login": EMAIL, "password": PASSWORD})
    return client


def is_in(client: Client) -> bool:
    return client.get("/account/").status_code == 200


# Sign-up and log-in


def test_person_of_a_provider_signs_up_and_logs_in(provider, client):
    page = go(client, provider, next="/teams/")
    assert page["Location"] == NEW
    shown = client.get(NEW).content.decode()
    assert f'value="{EMAIL}"' in shown
    assert 'value="Ada"' in shown
    assert client.post(NEW, {"email": EMAIL, "name": "Ada"})["Location"] == "/teams/"
    account = Account.objects.get()
    assert (account.email, account.name) == (EMAIL, "Ada")
    assert not account.has_usable_password()
    assert is_in(client)
    later = Client()
    assert go(later, provider)["Location"] == "/account/"
    assert is_in(later)
    assert Account.objects.count() == 1


def test_verified_address_is_confirmed_without_a_mail(provider, client):
    sign_up(client, provider)
    assert EmailAddress.objects.get().verified
    assert mail.outbox == []


@pytest.mark.parametrize(
    ("claims", "typed"),
    [
        ({"email_verified": False}, EMAIL),
        ({"email_verified": None}, EMAIL),
        ({}, "other@example.org"),
    ],
)
def test_address_that_the_provider_does_not_verify_is_not_confirmed(
    provider, client, claims, typed
):
    provider.claims |= claims
    sign_up(client, provider, email=typed)
    assert not EmailAddress.objects.get(email=typed).verified
    assert [each.to for each in mail.outbox] == [[typed]]


def test_nothing_of_the_provider_but_the_id_is_stored(provider, client):
    provider.claims |= {"picture": "https://example.org/ada.png"}
    sign_up(client, provider)
    go(Client(), provider)
    identity = SocialAccount.objects.get()
    assert (identity.provider, identity.uid, identity.extra_data) == ("lab", "ada-1", {})
    assert not SocialToken.objects.exists()


def test_information_of_another_person_is_refused(provider, client):
    del provider.claims["email"]
    provider.userinfo = {"sub": "eve-1", "email": EMAIL, "email_verified": True}
    assert go(client, provider).status_code == 401
    provider.userinfo["sub"] = "ada-1"
    assert go(client, provider)["Location"] == NEW


def test_existing_account_with_the_address_is_never_joined(provider, ada, client):
    answer = sign_up(client, provider)
    assert "connect this log-in on the account page" in answer.content.decode()
    assert not is_in(client)
    assert not SocialAccount.objects.exists()
    assert Account.objects.count() == 1


def test_terms_and_invitations_are_needed_as_in_the_sign_up(provider, client, settings):
    settings.PROJECT = replace(settings.PROJECT, terms_of_use="Be kind.")
    answer = sign_up(client, provider)
    assert "Accept the terms of use" in answer.content.decode()
    settings.PROJECT = replace(settings.PROJECT, account_creation=AccountCreation.INVITATION)
    answer = sign_up(client, provider, accepts_terms="on", invite_code="guess")
    assert "invitation code is unknown" in answer.content.decode()
    assert not Account.objects.exists()
    settings.PROJECT = replace(settings.PROJECT, account_creation=AccountCreation.OPEN)
    sign_up(client, provider, accepts_terms="on")
    assert Account.objects.get().terms_accepted_at is not None


def test_closed_project_creates_no_account(provider, client, settings):
    settings.PROJECT = replace(settings.PROJECT, account_creation=AccountCreation.CLOSED)
    assert go(client, provider).status_code == 200
    client.post(NEW, {"email": EMAIL, "name": "Ada"})
    assert not Account.objects.exists()


def test_sign_up_without_a_provider_is_refused(provider, client):
    assert client.post(NEW, {"email": EMAIL, "name": "Ada"})["Location"] == "/account/login/"


def test_inactive_account_does_not_log_in(provider, client):
    sign_up(client, provider)
    Account.objects.update(is_active=False)
    later = Client()
    go(later, provider)
    assert not is_in(later)


# Forged answers


def test_answer_for_another_browser_is_refused(provider, client):
    link = provider.authorize(start(Client()))
    assert client.get(link).status_code == 401
    client.post(START, {"process": "login"})
    assert client.get(link).status_code == 401


def test_answer_is_accepted_once(provider, client):
    link = provider.authorize(start(client))
    assert client.get(link)["Location"] == NEW
    assert client.get(link).status_code == 401


def test_code_of_another_log_in_is_refused(provider, client):
    stolen = provider.authorize(start(Client())).split("code=")[1].split("&")[0]
    own = provider.authorize(start(client))
    mine = own.split("code=")[1].split("&")[0]
    assert client.get(own.replace(mine, stolen)).status_code == 401


def test_token_of_another_key_is_refused(provider, client):
    provider.signing_key = RSAKey.generate_key(2048, {"kid": "first"})
    assert go(client, provider).status_code == 401


@pytest.mark.parametrize("method", ["HS256", "none", "None", ""])
def test_token_without_a_signature_by_the_private_key_is_refused(provider, client, method):
    provider.forged_header = {"alg": method, "kid": "first"}
    assert go(client, provider).status_code == 401


@pytest.mark.parametrize(
    "claims",
    [
        {"nonce": "of another log-in"},
        {"nonce": ""},
        {"nonce": None},
        {"aud": "another site"},
        {"iss": "https://another.example"},
        {"exp": 1_000_000_000},
        {"sub": ""},
        {"sub": 17},
        {"sub": "x" * 192},
        {"sub": "a\0b"},
    ],
)
def test_token_with_a_wrong_claim_is_refused(provider, client, claims):
    provider.claims |= claims
    assert go(client, provider).status_code == 401
    assert not is_in(client)


@pytest.mark.parametrize("content", [None, [], {}, {"issuer": 5}, "text"])
def test_provider_with_a_malformed_configuration_is_an_error_page(
    provider, client, content, monkeypatch
):
    monkeypatch.setattr(provider, "answer", lambda _path, _form: content)
    assert client.post(START, {"process": "login"}).status_code == 401


@pytest.mark.parametrize(
    "token", [None, {}, {"access_token": "x"}, {"access_token": "x", "id_token": "a.b"}]
)
def test_malformed_token_is_an_error_page(provider, client, token, monkeypatch):
    link = provider.authorize(start(client))
    monkeypatch.setattr(provider, "token", lambda _form: token)
    assert client.get(link).status_code == 401


def test_unreachable_provider_is_an_error_page(provider, client, settings):
    [lab] = settings.PROJECT.login_providers
    dead = replace(lab, server="http://127.0.0.1:9")
    settings.PROJECT = replace(settings.PROJECT, login_providers=(dead,))
    answer = client.post(START, {"process": "login"})
    assert answer.status_code == 401
    assert "The log-in failed" in answer.content.decode()


def test_log_in_starts_only_with_a_form(provider, client):
    page = client.get(START)
    assert (page.status_code, provider.requests) == (200, [])
    strict = Client(enforce_csrf_checks=True)
    assert strict.post(START, {"process": "login"}).status_code == 403


def test_visitor_does_not_choose_parameters_or_the_host_of_the_callback(provider, client):
    path = f"{START}?scope=admin&auth_params=nonce%3Dx"
    location = client.post(path, {"process": "login"}, headers={"host": "localhost"})["Location"]
    assert "admin" not in location
    assert "nonce=x&" not in f"{location}&"
    assert "redirect_uri=http%3A%2F%2Ftestserver%2Faccount%2Fwith%2Flab%2Fcallback%2F" in location


def test_unknown_provider_is_not_found(provider, client):
    for path in (
        "/account/with/other/",
        "/account/with/other/callback/",
        "/account/with/openid_connect/",
    ):
        assert client.get(path).status_code == 404


# Connect and remove


def test_owner_connects_and_removes_a_provider(provider, ada):
    client = with_password()
    assert go(client, provider, process="connect")["Location"] == OWN
    assert "The Lab" in client.get(OWN).content.decode()
    later = Client()
    go(later, provider)
    assert is_in(later)
    pk = SocialAccount.objects.get().pk
    assert client.get(f"{OWN}{pk}/remove/").status_code == 200
    client.post(f"{OWN}{pk}/remove/")
    assert not SocialAccount.objects.exists()
    details = AuditEntry.objects.filter(event="account_changed").order_by("pk")
    assert [each.details for each in details] == [{"connected": "lab"}, {"disconnected": "lab"}]


def test_owner_gets_a_mail_when_a_log_in_is_connected_and_removed(provider, ada):
    client = with_password()
    go(client, provider, process="connect")
    go(client, provider, process="connect")
    [connected] = mail.outbox
    assert (connected.to, "A log-in was connected" in connected.subject) == ([EMAIL], True)
    assert f"The log-in with The Lab was connected to the account of {EMAIL}" in connected.body
    assert "127.0.0.1" in connected.body
    assert "change your password" in connected.body
    path = f"{OWN}{SocialAccount.objects.get().pk}/remove/"
    client.get(path)
    assert len(mail.outbox) == 1
    client.post(path)
    assert (mail.outbox[-1].to, len(mail.outbox)) == ([EMAIL], 2)
    assert "A log-in was removed" in mail.outbox[-1].subject
    assert "The log-in with The Lab was removed" in mail.outbox[-1].body


def test_refused_change_of_log_ins_sends_no_mail(provider, client):
    sign_up(client, provider)
    client.post(f"{OWN}{SocialAccount.objects.get().pk}/remove/")
    assert SocialAccount.objects.exists()
    assert mail.outbox == []


def test_notices_are_sent_when_the_limit_of_mails_is_used_up(provider, ada):
    client = with_password()
    for _ in range(20):
        client.post("/account/password/reset/", {"email": EMAIL})
    go(client, provider, process="connect")
    assert "A log-in was connected" in mail.outbox[-1].subject


def test_connecting_changes_nothing_else_of_the_account(provider, ada):
    client = with_password()
    link = provider.authorize(start(client, process="connect"))
    Account.objects.update(total_credit=17)
    client.get(link)
    assert Account.objects.get().total_credit == 17
    assert Account.objects.get().has_usable_password()


def test_identity_of_another_account_is_not_connected(provider, ada, client):
    provider.claims |= {"email": "eve@example.org"}
    sign_up(client, provider, email="eve@example.org")
    answer = with_password()
    page = answer.get(provider.authorize(start(answer, process="connect")), follow=True)
    assert "belongs to another account" in page.content.decode()
    assert SocialAccount.objects.get().user.email == "eve@example.org"


def test_connecting_needs_a_recent_password(provider, ada):
    client = with_password()
    link = provider.authorize(start(client, process="connect"))
    session = client.session
    session[AUTHENTICATION_METHODS_SESSION_KEY] = []
    session.save()
    client.get(link)
    assert not SocialAccount.objects.exists()
    assert client.get(OWN)["Location"].startswith("/account/reauthenticate/")


def test_visitor_without_a_log_in_connects_nothing(provider, client):
    assert go(client, provider, process="connect")["Location"] == "/account/login/"
    assert not SocialAccount.objects.exists()


def test_last_way_to_log_in_cannot_be_removed(provider, client):
    sign_up(client, provider)
    pk = SocialAccount.objects.get().pk
    page = client.post(f"{OWN}{pk}/remove/", follow=True)
    assert "the only way to log in" in page.content.decode()
    assert SocialAccount.objects.exists()
    account = Account.objects.get()
    digest = accounts.password_digest(email=EMAIL, password=PASSWORD)
    accounts.change_password(account=account, passwd_hash=digest, now=timezone.now())
    client = with_password()
    client.post(f"{OWN}{pk}/remove/")
    assert not SocialAccount.objects.exists()


def test_identity_of_a_provider_that_was_removed_does_not_count(provider, client, settings):
    sign_up(client, provider)
    account = Account.objects.get()
    SocialAccount.objects.create(user=account, provider="gone", uid="1")
    pk = SocialAccount.objects.get(provider="lab").pk
    assert "gone" in client.get(OWN).content.decode()
    client.post(f"{OWN}{pk}/remove/")
    assert SocialAccount.objects.filter(pk=pk).exists()


def test_log_in_of_another_account_cannot_be_removed(provider, ada, client):
    provider.claims |= {"email": "eve@example.org"}
    sign_up(client, provider, email="eve@example.org")
    pk = SocialAccount.objects.get().pk
    assert with_password().post(f"{OWN}{pk}/remove/").status_code == 404
    assert SocialAccount.objects.exists()


# Accounts without a password


def new_password(client: Client, email: str) -> None:
    """Use the link that is mailed for a forgotten password."""
    client.post("/account/password/reset/", {"email": email})
    link = "/account" + mail.outbox[-1].body.split("/account", 1)[1].split()[0]
    form = client.get(link)["Location"]
    client.post(form, {"password1": PASSWORD, "password2": PASSWORD})


def test_owner_of_an_address_gets_the_account_without_the_identity_of_its_creator(provider, client):
    """Mallory signs up with the address of Ada, who then finds that the account exists."""
    provider.claims |= {"email": "mallory@example.org", "email_verified": False}
    sign_up(client, provider, email=EMAIL)
    new_password(Client(), EMAIL)
    assert not SocialAccount.objects.exists()
    subjects = [each.subject for each in mail.outbox if each.to == [EMAIL]]
    assert sum("A log-in was removed" in subject for subject in subjects) == 1
    assert EmailAddress.objects.get(email=EMAIL).verified
    assert is_in(with_password())
    go(client, provider)
    assert not is_in(client)


def test_new_password_keeps_the_identities_of_a_confirmed_account(provider, client):
    sign_up(client, provider)
    new_password(Client(), EMAIL)
    assert SocialAccount.objects.exists()


def test_answers_of_providers_are_limited_by_network(provider, client, settings):
    settings.PROJECT = replace(settings.PROJECT, login_attempts_per_network=2)
    answers = [client.get("/account/with/lab/callback/").status_code for _ in range(4)]
    assert answers[0] < 429
    assert answers[-1] == 429


def lookup(password: str) -> str:
    """Return the answer to a BOINC client that looks up Ada's account."""
    digest = accounts.password_digest(email=EMAIL, password=password)
    query = {"email_addr": EMAIL, "passwd_hash": digest}
    return Client().get("/lookup_account.php", query).content.decode()


def test_account_without_a_password_sets_one_that_is_valid_for_clients(provider, client):
    provider.claims["email"] = "Ada@Example.org"
    sign_up(client, provider, email="Ada@Example.org")
    assert "<error_num>-206<" in lookup(PASSWORD)
    assert "Set one" in client.get("/account/").content.decode()
    assert client.get("/account/password/")["Location"] == "/account/password/reset/"
    assert client.get("/account/email/")["Location"] == "/account/password/reset/"
    new_password(client, EMAIL)
    assert is_in(with_password())
    key = account_keys.login_key(Account.objects.get())
    assert f"<authenticator>{key}</authenticator>" in lookup(PASSWORD)
    assert "<error_num>-206<" in lookup("wrong")


def test_sensitive_page_asks_for_a_new_log_in_with_the_provider(provider, client):
    sign_up(client, provider)
    assert client.get("/account/keys/").status_code == 200
    session = client.session
    session[AUTHENTICATION_METHODS_SESSION_KEY] = []
    session.save()
    led_to = client.get("/account/keys/")["Location"]
    assert led_to.startswith(f"{OWN}again/?")
    assert "Continue with The Lab" in client.get(led_to).content.decode()
    assert go(client, provider, next="/account/keys/")["Location"] == "/account/keys/"
    assert client.get("/account/keys/").status_code == 200


def test_staff_with_a_provider_need_a_second_factor(provider, client, settings):
    settings.PROJECT = replace(settings.PROJECT, staff_second_factor=True)
    sign_up(client, provider)
    Account.objects.update(is_staff=True, is_superuser=True)
    page = client.get("/admin/", follow=True)
    assert page.redirect_chain[-1][0].startswith("/account/two-factor/totp/activate/")


def test_export_and_erasure_include_the_identities(provider, client):
    sign_up(client, provider)
    exported = json.loads(b"".join(client.get("/account/data/").streaming_content))
    [identity] = exported["login_providers"]
    assert (identity["provider"], identity["uid"]) == ("lab", "ada-1")
    erasure.erase(Account.objects.get(), now=NOON)
    assert not SocialAccount.objects.exists()
    later = Client()
    assert go(later, provider)["Location"] == NEW


# Pages


def test_pages_show_no_provider_where_none_is_configured(ada, client):
    for path in ("/account/login/", "/account/signup/"):
        assert "With another site" not in client.get(path).content.decode()
    assert "Other sites" not in with_password().get("/account/").content.decode()


@pytest.mark.parametrize("path", ["/account/login/", "/account/signup/"])
def test_pages_offer_the_providers(provider, client, path):
    page = client.get(f"{path}?next=/teams/").content.decode()
    assert "Continue with The Lab" in page
    assert 'name="next" value="/teams/"' in page


def test_number_of_statements_does_not_grow_with_the_identities(provider, ada):
    client = with_password()
    counts = []
    for number in range(3):
        SocialAccount.objects.create(user=ada, provider="lab", uid=str(number))
        with CaptureQueriesContext(connection) as captured:
            assert client.get(OWN).status_code == 200
        counts.append(len(captured))
    assert len(set(counts)) == 1


def test_page_leaves_no_open_redirect(provider, client):
    go(client, provider, next="https://evil.example/")
    answer = client.post(NEW, {"email": EMAIL, "name": "Ada"})
    assert answer["Location"] == "/account/"


def test_web_process_without_providers_does_not_load_the_package_requests(tmp_path):
    program = (
        "import sys; sys.modules['requests'] = None; import django; django.setup(); "
        "import project.urls"
    )
    environment = {"VAR_DIR": str(tmp_path), "DATABASE_URL": "postgresql://nobody@127.0.0.1:9/no"}
    environment["DJANGO_SETTINGS_MODULE"] = "project.settings"
    subprocess.run(
        [sys.executable, "-c", program], env=os.environ | environment, cwd=ROOT, check=True
    )
