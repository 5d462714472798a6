"""The pages of accounts: log-in, passwords, addresses, keys, tokens, data."""

from __future__ import annotations

import html
import json
import re
from dataclasses import replace
from datetime import timedelta
from decimal import Decimal
from uuid import uuid4

import pytest
from allauth.account.authentication import AUTHENTICATION_METHODS_SESSION_KEY
from allauth.account.models import EmailAddress
from django.core import mail
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from scheduler.config import AccountCreation, MailConfig
from scheduler.credit import manual_grants
from scheduler.credit.manual_grants import GrantRequest
from scheduler.models import Account, AccountKey, ApiToken, EmailChange, OutboxMessage
from scheduler.people import account_keys, accounts, invitations, roles, teams
from scheduler.people.personal_data import own_data
from scheduler.people.teams import TeamProfile
from tests.conftest import NOON
from tests.rows import a_host, an_account

pytestmark = pytest.mark.django_db

EMAIL, PASSWORD, NEW = "ada@example.org", "correct horse", "battery staple"
OUTBOX = "project.mail_backend.OutboxBackend"
SIGN_UP = {"email": EMAIL, "name": "Ada", "password1": PASSWORD, "password2": PASSWORD}


@pytest.fixture
def ada() -> Account:
    digest = accounts.password_digest(email=EMAIL, password=PASSWORD)
    return accounts.create_account(email=EMAIL, passwd_hash=digest, name="Ada", now=NOON).account


@pytest.fixture
def browser(client: Client, ada: Account) -> Client:
    """A browser in which Ada has logged in."""
    answer = client.post("/account/login/", {"login": EMAIL, "password": PASSWORD})
    assert answer.status_code == 302
    return client


@pytest.fixture
def trusted(browser: Client) -> Client:
    """A browser in which Ada has just entered her password again."""
    answer = browser.post("/account/reauthenticate/?next=/account/", {"password": PASSWORD})
    assert answer["Location"] == "/account/"
    return browser


def text_of(answer) -> str:
    return answer.content.decode()


def link_in(message) -> str:
    """Return the path of the link in a mail."""
    return re.search(r"http://127\.0\.0\.1:8000(/account/\S+)", message.body)[1]


def lookup(client: Client, password: str, email: str = EMAIL) -> str:
    digest = accounts.password_digest(email=email, password=password)
    query = {"email_addr": email, "passwd_hash": digest}
    return text_of(client.get("/lookup_account.php", query))


# Sign-up


def test_account_signed_up_on_the_web_can_attach_a_client(client):
    answer = client.post("/account/signup/", SIGN_UP)
    assert (answer.status_code, answer["Location"]) == (302, "/account/")
    assert "Ada" in text_of(client.get("/account/"))
    key = account_keys.login_key(Account.objects.get(email=EMAIL))
    assert key in lookup(client, PASSWORD)


def test_sign_up_mails_a_link_that_confirms_the_address(client):
    client.post("/account/signup/", SIGN_UP)
    (message,) = mail.outbox
    assert message.to == [EMAIL]
    link = link_in(message)
    assert EMAIL in text_of(client.get(link))
    assert not EmailAddress.objects.get().verified
    assert "Your address is confirmed" in text_of(client.post(link, follow=True))
    assert EmailAddress.objects.get().verified
    assert "is not valid" in text_of(client.get(link))


def test_account_pages_work_in_a_project_without_a_mail_server(client, settings):
    settings.EMAIL_BACKEND = OUTBOX
    assert settings.MAIL is None
    client.post("/account/signup/", SIGN_UP)
    page = text_of(client.get("/account/"))
    assert "not confirmed" in page
    assert "Send the mail again" not in page
    for address in ("/account/email/", "/account/password/reset/"):
        for answer in (client.get(address), client.post(address, {"email": EMAIL})):
            assert answer.status_code == 200
            assert "This project sends no mail" in text_of(answer)
    assert not OutboxMessage.objects.exists()


def test_sign_up_needs_consent_to_the_terms_of_use(client, settings):
    settings.PROJECT = replace(settings.PROJECT, terms_of_use="Be kind.")
    assert "Be kind." in text_of(client.get("/account/signup/"))
    assert "Accept the terms of use" in text_of(client.post("/account/signup/", SIGN_UP))
    assert not Account.objects.exists()
    client.post("/account/signup/", SIGN_UP | {"accepts_terms": "on"})
    assert Account.objects.get().terms_accepted_at is not None


def test_mails_of_account_pages_wait_in_the_outbox(client, settings):
    settings.EMAIL_BACKEND = OUTBOX
    settings.MAIL = MailConfig(host="mail.example.org", port=587)
    client.post("/account/signup/", SIGN_UP)
    message = OutboxMessage.objects.get()
    assert message.recipient == EMAIL
    assert "/account/" in message.text
    assert not mail.outbox


def test_sign_up_with_the_address_of_another_account_shows_how_to_log_in(client, ada):
    answer = client.post("/account/signup/", SIGN_UP | {"password1": NEW, "password2": NEW})
    assert "log in with its password, or use another address" in text_of(answer)
    assert Account.objects.count() == 1
    assert "_auth_user_id" not in client.session


def test_sign_up_with_an_existing_address_and_its_password_logs_in(client, ada):
    client.post("/account/signup/", SIGN_UP)
    assert client.session["_auth_user_id"] == str(ada.pk)


def test_sign_up_refuses_a_common_password_and_an_invalid_name(client):
    answer = client.post("/account/signup/", SIGN_UP | {"password1": "password", "password2": "x"})
    assert "too common" in text_of(answer)
    answer = client.post("/account/signup/", SIGN_UP | {"name": "<b>"})
    assert "is not a name" in text_of(answer)
    assert not Account.objects.exists()


def test_sign_up_needs_an_invitation_where_accounts_are_by_invitation(client, settings):
    settings.PROJECT = replace(settings.PROJECT, account_creation=AccountCreation.INVITATION)
    _row, code = invitations.make(now=timezone.now())
    assert "Invitation code" in text_of(client.get("/account/signup/"))
    answer = client.post("/account/signup/", SIGN_UP | {"invite_code": "wrong"})
    assert "is unknown, expired or used up" in text_of(answer)
    client.post("/account/signup/", SIGN_UP | {"invite_code": code})
    assert Account.objects.get().email == EMAIL


def test_sign_up_is_closed_where_no_accounts_are_accepted(client, settings):
    settings.PROJECT = replace(settings.PROJECT, account_creation=AccountCreation.CLOSED)
    assert "accepts no new accounts" in text_of(client.get("/account/signup/"))
    client.post("/account/signup/", SIGN_UP)
    assert not Account.objects.exists()


# Log-in and passwords


def test_account_pages_lead_to_the_log_in_and_back(client, ada):
    answer = client.get("/account/")
    assert answer["Location"] == "/account/login/?next=/account/"
    answer = client.post(answer["Location"], {"login": EMAIL.upper(), "password": PASSWORD})
    assert answer["Location"] == "/account/"


def test_wrong_password_shows_what_to_do(client, ada):
    answer = client.post("/account/login/", {"login": EMAIL, "password": "wrong"})
    assert "Hint: check both" in text_of(answer)
    assert "_auth_user_id" not in client.session


def test_log_out_needs_a_button(browser):
    assert "stay attached" in text_of(browser.get("/account/logout/"))
    assert "_auth_user_id" in browser.session
    assert browser.post("/account/logout/")["Location"] == "/"
    assert "_auth_user_id" not in browser.session


def test_changed_password_is_valid_for_clients_and_keeps_this_session(browser, ada):
    weak, strong = account_keys.weak_key(ada), account_keys.login_key(ada)
    other = Client()
    other.force_login(ada)
    form = {"oldpassword": PASSWORD, "password1": NEW, "password2": NEW}
    assert browser.post("/account/password/", form)["Location"] == "/account/"
    assert browser.get("/account/").status_code == 200
    assert other.get("/account/").status_code == 302
    assert strong in lookup(browser, NEW)
    assert "-206" in lookup(browser, PASSWORD)
    assert account_keys.weak_key(ada) != weak
    assert [message.subject for message in mail.outbox] == ["Manyhands: Your password was changed"]


def test_password_change_can_revoke_the_keys_of_computers(browser, ada):
    strong = account_keys.login_key(ada)
    form = {"oldpassword": PASSWORD, "password1": NEW, "password2": NEW, "revoke_host_keys": "on"}
    browser.post("/account/password/", form)
    assert account_keys.login_key(ada) != strong


def test_password_change_needs_the_current_password(browser):
    form = {"oldpassword": "wrong", "password1": NEW, "password2": NEW}
    assert "current password is wrong" in text_of(browser.post("/account/password/", form))
    assert "authenticator" in lookup(browser, PASSWORD)


def test_forgotten_password_is_replaced_by_a_mailed_link(client, ada):
    weak, strong = account_keys.weak_key(ada), account_keys.login_key(ada)
    answer = client.post("/account/password/reset/", {"email": EMAIL.upper()})
    assert answer["Location"] == "/account/password/reset/sent/"
    link = link_in(mail.outbox[-1])
    form = client.get(link)["Location"]
    answer = client.post(form, {"password1": NEW, "password2": NEW})
    assert answer["Location"] == "/account/password/reset/done/"
    assert f"<authenticator>{strong}</authenticator>" in lookup(client, NEW)
    assert "-206" in lookup(client, PASSWORD)
    assert account_keys.weak_key(ada) != weak
    assert "_auth_user_id" not in client.session
    assert "is not valid" in text_of(client.get(link))


# The e-mail address


def requested(browser: Client, email: str = "ada@new.example.org") -> str:
    """Request another address, and return the link that was mailed to it."""
    mail.outbox.clear()
    answer = browser.post("/account/email/", {"email": email, "password": PASSWORD})
    assert answer.status_code == 302, text_of(answer)
    assert [message.to for message in mail.outbox] == [[email], [EMAIL]]
    return link_in(mail.outbox[0])


def test_link_to_the_new_address_swaps_address_hash_and_weak_key(browser, ada):
    weak, strong = account_keys.weak_key(ada), account_keys.login_key(ada)
    link = requested(browser)
    assert "authenticator" in lookup(browser, PASSWORD)
    assert "ada@new.example.org" in text_of(browser.get(link))
    assert browser.post(link)["Location"] == "/account/"
    assert browser.get("/account/").status_code == 200
    assert strong in lookup(browser, PASSWORD, "ada@new.example.org")
    assert "-136" in lookup(browser, PASSWORD)
    assert account_keys.weak_key(ada) != weak
    (address,) = EmailAddress.objects.all()
    assert (address.email, address.verified, address.primary) == ("ada@new.example.org", True, True)


def test_old_address_is_warned_of_the_change_before_it_happens(browser):
    requested(browser)
    warning = mail.outbox[1]
    assert "ada@new.example.org" in warning.body
    assert "/account/email/new/" not in warning.body


def test_link_works_without_a_log_in(browser):
    link = requested(browser)
    stranger = Client()
    assert stranger.post(link)["Location"] == "/account/"
    assert "authenticator" in lookup(stranger, PASSWORD, "ada@new.example.org")


def test_second_use_of_a_link_is_refused_with_a_page(browser):
    link = requested(browser)
    browser.post(link)
    for answer in (browser.get(link), browser.post(link)):
        assert answer.status_code == 410
        assert "was used before" in text_of(answer)


def test_link_expires_after_a_day(browser):
    link = requested(browser)
    EmailChange.objects.update(expire_at=timezone.now() - timedelta(seconds=1))
    assert browser.post(link).status_code == 410
    assert Account.objects.get().email == EMAIL


def test_change_of_the_address_needs_the_password(browser):
    answer = browser.post("/account/email/", {"email": "x@example.org", "password": "wrong"})
    assert "The password is wrong" in text_of(answer)
    assert not EmailChange.objects.exists()


def test_address_of_another_account_is_refused(browser):
    an_account("bob")
    form = {"email": "bob@example.org", "password": PASSWORD}
    assert "bob@example.org exists" in text_of(browser.post("/account/email/", form))


def test_pending_change_is_shown_and_can_be_cancelled(browser):
    link = requested(browser)
    assert "ada@new.example.org" in text_of(browser.get("/account/"))
    browser.post("/account/email/cancel/")
    assert browser.post(link).status_code == 410


# The account page


def test_profile_and_consents_are_saved(browser, ada):
    form = {"name": "Ada L.", "country": "England", "url": "https://ada.example.org/"}
    assert browser.post("/account/", form | {"share_statistics": "on"}).status_code == 302
    ada.refresh_from_db()
    assert (ada.name, ada.country, ada.url) == ("Ada L.", "England", "https://ada.example.org/")
    assert (ada.share_statistics, ada.show_hosts) == (True, False)


def test_consent_to_show_computers_names_the_pages_that_it_causes(browser, ada):
    text = " ".join(text_of(browser.get("/account/")).split())
    assert "your name is at your computers on the leaderboard" in text
    assert f"your public page /accounts/{ada.pk}/ lists them" in text


def test_account_page_executes_a_constant_number_of_statements(
    browser, ada, django_assert_max_num_queries
):
    for number in range(3):
        accounts_token(ada, f"token {number}")
    with django_assert_max_num_queries(8):
        assert browser.get("/account/").status_code == 200


def accounts_token(account: Account, name: str) -> None:
    ApiToken.objects.create(
        account=account, name=name, token_hash=name, may_read=True, created_at=NOON
    )


def age_proofs(client: Client, seconds: float) -> None:
    """Move the log-in of a client, and its repeated proofs, into the past."""
    session = client.session
    for record in session[AUTHENTICATION_METHODS_SESSION_KEY]:
        record["at"] -= seconds
    session.save()


@pytest.mark.parametrize("page", ["keys", "tokens", "data", "erase"])
def test_secret_pages_ask_for_the_password_five_minutes_after_the_log_in(browser, page):
    age_proofs(browser, 290)
    assert browser.get(f"/account/{page}/").status_code == 200
    age_proofs(browser, 11)
    answer = browser.get(f"/account/{page}/")
    assert answer["Location"].startswith("/account/reauthenticate/?next=")
    answer = browser.post(answer["Location"], {"password": "wrong"})
    assert "The password is wrong" in text_of(answer)
    answer = browser.post(f"/account/reauthenticate/?next=/account/{page}/", {"password": PASSWORD})
    assert browser.get(answer["Location"]).status_code == 200


def test_keys_page_shows_the_strong_and_the_weak_key(trusted, ada):
    page = text_of(trusted.get("/account/keys/"))
    assert account_keys.login_key(ada) in page
    assert account_keys.weak_key(ada) in page


def test_keys_page_shows_the_file_that_attaches_a_computer_with_the_weak_key(trusted, ada):
    page = html.unescape(text_of(trusted.get("/account/keys/")))
    _, name, rest = page.partition("account_127.0.0.1_8000.xml")
    assert name
    parts = [
        "<account>",
        "<master_url>http://127.0.0.1:8000/</master_url>",
        f"<authenticator>{account_keys.weak_key(ada)}</authenticator>",
        "</account>",
    ]
    places = [rest.index(part) for part in parts]
    assert places == sorted(places)
    assert account_keys.login_key(ada) not in rest


def test_token_is_made_shown_once_and_revoked(trusted, ada):
    page = text_of(trusted.post("/account/tokens/", {"name": "notebook", "scopes": ["read"]}))
    token = re.search(r"mh_[\w-]+", page)[0]
    assert token not in text_of(trusted.get("/account/tokens/"))
    bearer = {"HTTP_AUTHORIZATION": f"Bearer {token}"}
    assert Client().get("/api/v1/batches", **bearer).status_code == 200
    trusted.post(f"/account/tokens/{ApiToken.objects.get().pk}/revoke/")
    assert Client().get("/api/v1/batches", **bearer).status_code == 401


def test_token_form_offers_only_scopes_that_the_account_may_give(trusted):
    answer = trusted.post("/account/tokens/", {"name": "x", "scopes": ["administer"]})
    assert "administer is not one of the available choices" in text_of(answer)
    assert not ApiToken.objects.exists()


def test_export_holds_the_account_without_secrets(trusted, ada):
    a_host(ada, domain_name="my-computer")
    answer = trusted.get("/account/data/")
    assert "attachment" in answer["Content-Disposition"]
    text = b"".join(answer.streaming_content).decode()
    data = json.loads(text)
    assert data["account"]["email"] == EMAIL
    assert [host["domain_name"] for host in data["computers"]] == ["my-computer"]
    assert {key["kind"] for key in data["keys"]} == {1, 2}
    for key in AccountKey.objects.all():
        assert key.key_hash not in text
    ada.refresh_from_db()
    assert ada.password not in text
    assert account_keys.login_key(ada) not in text


def exported(browser: Client) -> dict:
    answer = browser.get("/account/data/")
    return json.loads(b"".join(answer.streaming_content))


#: Tables that refer to an account and are not exported, with the reason.
NOT_EXPORTED = {
    "Result": "summed in the credit",
    "CreditEntry": "summed in the credit",
    "Workunit": "work of the project, for one account",
    "IdempotencyKey": "replies of the API, kept for a week",
    "LogEntry": "also in the audit log",
}


def test_every_table_that_refers_to_an_account_is_exported_or_listed_here(ada):
    fields = Account._meta.get_fields(include_hidden=True)
    relations = [field for field in fields if field.is_relation and field.auto_created]
    referring = {relation.related_model.__name__ for relation in relations}
    tables = {rows.model.__name__ for _name, rows, _columns in own_data._tables(ada)}
    assert referring - tables == set(NOT_EXPORTED)


def test_export_holds_the_scopes_of_tokens_the_roles_and_the_team(trusted, ada):
    accounts_token(ada, "notebook")
    roles.give(ada, "submitter", now=NOON)
    teams.create(ada, TeamProfile(name="The primes"), now=NOON)
    data = exported(trusted)
    (token,) = data["api_tokens"]
    scopes = {name for name, value in token.items() if name.startswith("may_") and value}
    assert (token["name"], scopes) == ("notebook", {"may_read"})
    assert [role["group__name"] for role in data["roles"]] == ["submitter"]
    assert [team["name"] for team in data["founded_teams"]] == ["The primes"]
    assert data["administered_teams"] == []
    assert data["truncated"] == []


def test_export_holds_the_team_that_the_account_administers(trusted, ada):
    founder = an_account("founder")
    team = teams.create(founder, TeamProfile(name="The primes"), now=NOON)
    teams.join(ada, team.pk)
    teams.name_administrator(team.pk, ada.pk, by=founder, now=NOON)
    [row] = exported(trusted)["administered_teams"]
    assert (row["team_id"], row["team__name"]) == (team.pk, "The primes")
    assert row["named_at"] == NOON.isoformat().replace("+00:00", "Z")


def test_export_lists_the_tables_of_which_only_the_newest_rows_are_exported(
    trusted, ada, monkeypatch
):
    monkeypatch.setattr(own_data, "MAX_ROWS", 2)
    monkeypatch.setattr(own_data, "_PAGE", 1)
    hosts = [a_host(ada) for _number in range(3)]
    for number in range(2):
        accounts_token(ada, f"token {number}")
    data = exported(trusted)
    assert [host["id"] for host in data["computers"]] == [hosts[2].pk, hosts[1].pk]
    assert [token["name"] for token in data["api_tokens"]] == ["token 1", "token 0"]
    assert "computers" in data["truncated"]
    assert "api_tokens" not in data["truncated"]


def test_account_page_describes_the_consents_and_the_export_completely(browser):
    page = text_of(browser.get("/account/"))
    for name in ("country", "home page", "team", "credit"):
        assert name in re.search(r"Everybody can see[^<]*", page)[0]
    assert "Everybody can open a page of each of your computers" in page
    assert "Everything about you" not in page
    assert "the newest 10,000 entries of each kind" in page


def test_erasure_page_shows_how_long_the_security_log_is_kept(trusted, settings):
    settings.AUDIT_KEPT_DAYS = 42
    page = text_of(trusted.get("/account/erase/"))
    assert "for 42 days" in page
    assert "your team gets another founder" in page


def test_erased_account_keeps_its_row_without_personal_data(trusted, ada):
    host = a_host(ada, domain_name="my-computer", last_ip_addr="192.0.2.7")
    assert "erased" in text_of(trusted.post("/account/erase/", {"sure": "on"}))
    ada.refresh_from_db()
    host.refresh_from_db()
    assert (ada.name, ada.is_active, ada.share_statistics) == ("", False, False)
    assert EMAIL not in ada.email
    assert (host.domain_name, host.last_ip_addr) == ("", "")
    assert not ada.keys.exists()
    assert trusted.get("/account/").status_code == 302
    assert "-136" in lookup(trusted, PASSWORD)


def test_address_of_an_erased_account_can_be_used_again(trusted):
    trusted.post("/account/erase/", {"sure": "on"})
    trusted.post("/account/signup/", SIGN_UP)
    assert Account.objects.get(email=EMAIL).name == "Ada"


def test_erasure_needs_the_check_mark(trusted, ada):
    trusted.post("/account/erase/", {})
    ada.refresh_from_db()
    assert ada.is_active


def test_staff_cannot_erase_their_accounts(trusted, ada):
    roles.give(ada, "operator", now=NOON)
    answer = trusted.post("/account/erase/", {"sure": "on"})
    assert "member of the project" in text_of(answer)
    ada.refresh_from_db()
    assert ada.is_active


def test_confirmation_mail_is_sent_again(browser):
    browser.post("/account/email/send/")
    assert mail.outbox[-1].to == [EMAIL]
    assert "/account/email/confirm/" in mail.outbox[-1].body


def test_form_without_a_csrf_token_shows_what_to_do(ada):
    answer = Client(enforce_csrf_checks=True).post("/account/login/", {"login": EMAIL})
    assert answer.status_code == 403
    assert "reload the page, and send the form again" in text_of(answer)
    assert "Content-Security-Policy" in answer


# Pages that do not exist


@pytest.mark.parametrize("path", ["email/add/", "social/", "login/code/", "reauthenticate/code/"])
def test_pages_of_allauth_that_change_addresses_alone_do_not_exist(browser, path):
    assert browser.get(f"/account/{path}").status_code == 404


# Credit by hand, and accounts without a password


def test_account_page_shows_credit_that_was_granted_by_hand(browser, ada):
    assert "by hand" not in text_of(browser.get("/account/"))
    for amount, reason in (("1234.5", "A prize <i>"), ("-0.5", "Counted twice")):
        request = GrantRequest(uuid4(), ada.pk, Decimal(amount), reason)
        manual_grants.grant(request, granted_by=None, now=NOON)
    text = text_of(browser.get("/account/"))
    assert "1,234.5 granted by hand: A prize &lt;i&gt;" in text
    assert "<dd>0.5 revoked by hand: Counted twice" in text
    assert "1,234" in text


def test_grants_by_hand_need_a_constant_number_of_statements(browser, ada):
    counts = []
    for _ in range(2):
        for _ in range(3):
            request = GrantRequest(uuid4(), ada.pk, Decimal(1), "x")
            manual_grants.grant(request, granted_by=None, now=NOON)
        with CaptureQueriesContext(connection) as captured:
            browser.get("/account/")
        counts.append(len(captured))
    assert counts[0] == counts[1]


@pytest.mark.parametrize("method", ["get", "post"])
def test_account_without_a_password_is_led_to_the_page_that_mails_a_link(client, method):
    visitor = an_account("bob")
    client.force_login(visitor)
    answer = getattr(client, method)("/account/password/")
    assert answer.status_code == 302
    assert answer["Location"] == "/account/password/reset/"
    text = text_of(client.get(answer["Location"]))
    assert "Your account has no password." in text
    client.post("/account/password/reset/", {"email": visitor.email})
    [message] = mail.outbox
    answer = client.get(link_in(message), follow=True)
    sent = {"password1": NEW, "password2": NEW}
    client.post(answer.redirect_chain[-1][0], sent)
    visitor.refresh_from_db()
    assert visitor.has_usable_password()
