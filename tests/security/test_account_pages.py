"""The pages of accounts reveal nothing, load nothing foreign, and cannot be raced."""

from __future__ import annotations

import logging
from dataclasses import replace
from datetime import timedelta

import pytest
from allauth.account.models import EmailAddress
from django.contrib.auth.hashers import make_password
from django.core import mail
from django.test import Client
from django.urls import reverse
from django.utils import timezone

from scheduler.config import MailConfig
from scheduler.models import Account, AuditEntry, OutboxMessage
from scheduler.people import account_keys, accounts, email_changes
from tests.conftest import NOON
from tests.faces.pages import comparable
from tests.rows import an_account

pytestmark = pytest.mark.django_db

EMAIL, NEW_EMAIL, PASSWORD, NEW = "ada@example.org", "new@example.org", "correct horse", "a b c d e"
HERE = "192.0.2.7"


@pytest.fixture
def ada() -> Account:
    digest = accounts.password_digest(email=EMAIL, password=PASSWORD)
    return accounts.create_account(email=EMAIL, passwd_hash=digest, name="Ada", now=NOON).account


def requested(ada: Account, email: str = NEW_EMAIL) -> email_changes.Requested:
    return email_changes.request(
        account=ada, email=email, password=PASSWORD, address=HERE, now=NOON
    )


# Passwords


def test_methods_of_the_account_take_the_password_and_store_the_digest(ada):
    ada.set_password(NEW)
    assert ada.check_password(NEW)
    assert ada.has_digest(accounts.password_digest(email=EMAIL, password=NEW))
    assert not ada.check_password(accounts.password_digest(email=EMAIL, password=NEW))
    assert not ada.check_password(None)
    ada.set_password(None)
    assert not ada.has_usable_password()


def test_digest_is_not_accepted_as_a_password_by_the_log_in_page(ada):
    # A person who read the digest on its way could otherwise log in without the password.
    digest = accounts.password_digest(email=EMAIL, password=PASSWORD)
    client = Client()
    client.post("/account/login/", {"login": EMAIL, "password": digest})
    assert "_auth_user_id" not in client.session


def test_outdated_hash_does_not_overwrite_a_password_that_was_changed_meanwhile(ada, settings):
    settings.PASSWORD_HASHERS = [
        "django.contrib.auth.hashers.PBKDF2PasswordHasher",
        "django.contrib.auth.hashers.MD5PasswordHasher",
    ]
    stale = Account.objects.get(pk=ada.pk)
    changed = make_password(accounts.password_digest(email=EMAIL, password=NEW))
    Account.objects.filter(pk=ada.pk).update(password=changed)
    assert stale.check_password(PASSWORD)
    ada.refresh_from_db()
    assert ada.password == changed


# Forgotten passwords


def test_page_for_a_forgotten_password_is_the_same_for_an_unknown_address(ada):
    pages = []
    for email in (EMAIL, "unknown@example.org"):
        answer = Client().post("/account/password/reset/", {"email": email}, follow=True)
        pages.append((answer.redirect_chain, comparable(answer)))
    assert pages[0] == pages[1]
    assert [message.to for message in mail.outbox] == [[EMAIL], ["unknown@example.org"]]


@pytest.mark.parametrize("email", [EMAIL, "unknown@example.org"])
def test_mails_to_one_address_are_limited_from_all_networks(ada, email):
    statuses = [
        Client(REMOTE_ADDR=f"198.51.{number}.1")
        .post("/account/password/reset/", {"email": email})
        .status_code
        for number in range(7)
    ]
    assert statuses == [302] * 6 + [429]
    assert len(mail.outbox) == 6


@pytest.fixture
def outbox_is_on(settings):
    settings.EMAIL_BACKEND = "project.mail_backend.OutboxBackend"
    settings.MAIL = MailConfig(host="mail.example.org", port=587)


def test_sign_ups_send_few_mails_to_one_address(caplog):
    sign_up = {"email": EMAIL, "name": "Ada", "password1": PASSWORD, "password2": PASSWORD}
    with caplog.at_level(logging.WARNING):
        answers = [
            Client(REMOTE_ADDR=f"198.51.{number}.1").post("/account/signup/", sign_up)
            for number in range(7)
        ]
    assert [answer.status_code for answer in answers] == [302] * 7
    assert [message.to for message in mail.outbox] == [[EMAIL]] * 6
    (record,) = [record for record in caplog.records if record.message == "mail_dropped"]
    assert record.reason == "too many mails to this address"
    assert EMAIL not in str(record.__dict__)


def test_mails_of_sign_ups_are_not_charged_to_the_network_of_a_classroom(settings):
    settings.PROJECT = replace(settings.PROJECT, login_attempts_per_network=1)
    sign_up = {"name": "Ada", "password1": PASSWORD, "password2": PASSWORD}
    for number in range(3):
        email = f"pupil{number}@example.org"
        answer = Client(REMOTE_ADDR=HERE).post("/account/signup/", sign_up | {"email": email})
        assert answer.status_code == 302
    assert len(mail.outbox) == 3


def test_notices_to_the_owner_are_sent_after_the_limit_of_requested_mails(ada):
    for number in range(7):
        client = Client(REMOTE_ADDR=f"198.51.{number}.1")
        client.post("/account/password/reset/", {"email": EMAIL})
    client = Client()
    client.force_login(ada)
    mail.outbox.clear()
    form = {"oldpassword": PASSWORD, "password1": NEW, "password2": NEW}
    assert client.post("/account/password/", form).status_code == 302
    assert [message.to for message in mail.outbox] == [[EMAIL]]


#: Addresses that Django's validator accepts, and to which the outbox sends no mail.
UNDELIVERABLE = ['"x"@example.org', "ada@bücher.example", "a@[127.0.0.1]"]


@pytest.mark.parametrize("email", UNDELIVERABLE)
def test_address_to_which_no_mail_can_be_sent_is_an_error_of_the_form(ada, outbox_is_on, email):
    client = Client()
    client.force_login(ada)
    sign_up = {"email": email, "name": "Ada", "password1": PASSWORD, "password2": PASSWORD}
    answers = [
        Client().post("/account/password/reset/", {"email": email}),
        Client().post("/account/signup/", sign_up),
        client.post("/account/email/", {"email": email, "password": PASSWORD}),
    ]
    for answer in answers:
        assert answer.status_code == 200
        assert "is not an e-mail address that mail can be sent to" in answer.content.decode()
    assert not OutboxMessage.objects.exists()
    assert Account.objects.get() == ada


@pytest.mark.parametrize("email", UNDELIVERABLE)
def test_address_to_which_no_mail_can_be_sent_is_refused_by_every_interface(email, admin_client):
    digest = accounts.password_digest(email=email, password=PASSWORD)
    query = {"email_addr": email, "passwd_hash": digest, "user_name": "Ada"}
    assert "<error_num>-205<" in Client().get("/create_account.php", query).content.decode()
    with pytest.raises(accounts.BadEmail):
        accounts.create_staff(email=email, password=PASSWORD, now=NOON)
    form = {"email": email, "name": "Ada", "password1": PASSWORD, "password2": PASSWORD}
    answer = admin_client.post(reverse("admin:scheduler_account_add"), form)
    assert "that mail can be sent to" in answer.content.decode()
    assert not Account.objects.filter(email=email).exists()


def test_stored_address_to_which_no_mail_can_be_sent_fails_no_page(ada, outbox_is_on, caplog):
    Account.objects.update(email=UNDELIVERABLE[0])
    EmailAddress.objects.update(email=UNDELIVERABLE[0])
    client = Client()
    client.force_login(Account.objects.get())
    with caplog.at_level(logging.WARNING):
        assert client.post("/account/email/send/").status_code == 302
    (record,) = [record for record in caplog.records if record.message == "mail_dropped"]
    assert record.reason == "refused by the outbox"
    assert UNDELIVERABLE[0] not in str(record.__dict__)
    assert not OutboxMessage.objects.exists()


def test_mail_to_an_unknown_address_ignores_the_host_that_the_request_names(settings):
    settings.ALLOWED_HOSTS = ["*"]
    client = Client(SERVER_NAME="evil.example")
    client.post("/account/password/reset/", {"email": "unknown@example.org"})
    assert "evil.example" not in mail.outbox[0].body
    assert "http://127.0.0.1:8000/account/signup/" in mail.outbox[0].body


def test_links_in_mails_ignore_the_host_that_the_request_names(ada, settings):
    settings.ALLOWED_HOSTS = ["*"]
    Client(SERVER_NAME="evil.example").post("/account/password/reset/", {"email": EMAIL})
    assert "evil.example" not in mail.outbox[0].body
    assert "http://127.0.0.1:8000/account/password/reset/" in mail.outbox[0].body


def test_address_in_a_link_to_the_next_page_stays_on_the_site(ada):
    body = {"login": EMAIL, "password": PASSWORD, "next": "https://evil.example/"}
    assert Client().post("/account/login/", body)["Location"] == "/account/"


# Changes of the address


def test_pending_change_does_not_bring_back_an_old_password(ada):
    change = requested(ada)
    digest = accounts.password_digest(email=EMAIL, password=NEW)
    accounts.change_password(account=ada, passwd_hash=digest, now=NOON)
    with pytest.raises(email_changes.BadLink):
        email_changes.confirm(change.token, now=NOON)


def test_password_hashed_for_the_old_address_is_not_stored_after_the_change(ada):
    before = Account.objects.get(pk=ada.pk)
    email_changes.confirm(requested(ada).token, now=NOON)
    digest = accounts.password_digest(email=EMAIL, password=NEW)
    with pytest.raises(accounts.EmailChanged):
        accounts.change_password(account=before, passwd_hash=digest, now=NOON)
    ada.refresh_from_db()
    assert ada.check_password(PASSWORD)


def test_address_that_another_account_took_meanwhile_is_refused(ada):
    change = requested(ada)
    an_account(email=NEW_EMAIL)
    weak = account_keys.weak_key(ada)
    with pytest.raises(accounts.EmailTaken):
        email_changes.confirm(change.token, now=NOON)
    ada.refresh_from_db()
    assert (ada.email, account_keys.weak_key(ada)) == (EMAIL, weak)
    assert EmailAddress.objects.get(user=ada).email == EMAIL


def test_newer_request_replaces_the_link_of_the_older_one(ada):
    older, newer = requested(ada), requested(ada, "newer@example.org")
    with pytest.raises(email_changes.BadLink):
        email_changes.confirm(older.token, now=NOON)
    assert email_changes.confirm(newer.token, now=NOON).email == "newer@example.org"


def test_link_is_refused_after_its_day(ada):
    change = requested(ada)
    with pytest.raises(email_changes.BadLink):
        email_changes.confirm(change.token, now=NOON + timedelta(days=1))


def test_link_that_confirms_the_old_address_does_not_confirm_the_new_one(ada):
    client = Client()
    client.force_login(ada)
    client.post("/account/email/send/")
    link = next(word for word in mail.outbox[-1].body.split() if "/email/confirm/" in word)
    email_changes.confirm(requested(ada).token, now=NOON)
    EmailAddress.objects.update(verified=False)
    client.post(link.removeprefix("http://127.0.0.1:8000"))
    assert not EmailAddress.objects.get(user=ada).verified


def test_wrong_password_at_a_change_of_the_address_is_in_the_audit_log(ada):
    client = Client(REMOTE_ADDR=HERE)
    client.force_login(ada)
    client.post("/account/email/", {"email": NEW_EMAIL, "password": "wrong"})
    (entry,) = AuditEntry.objects.filter(event="login_failed")
    assert (entry.subject, entry.address) == (EMAIL, HERE)
    assert entry.details == {"door": "email_change"}


def test_token_of_a_link_is_stored_only_as_a_hash(ada):
    change = requested(ada)
    row = email_changes.find(change.token, now=NOON)
    assert change.token not in (row.token_hash, row.password)
    details = AuditEntry.objects.get(event="email_change_requested").details
    assert details == {"to": NEW_EMAIL}


# Other people's rows, and foreign content


def test_owner_cannot_revoke_the_token_of_another_account(ada):
    from scheduler.people import api_tokens

    other = an_account("bob")
    row, _text = api_tokens.create(account=other, name="b", scopes=["read"], now=timezone.now())
    client = Client()
    client.force_login(ada)
    for number in (row.pk, 2**70):
        assert client.post(f"/account/tokens/{number}/revoke/").status_code == 302
    row.refresh_from_db()
    assert row.revoked_at is None


@pytest.mark.parametrize(
    "path",
    ["/", "/account/login/", "/account/signup/", "/stats/", "/account_finish.php", "/no/such/page"],
)
def test_pages_allow_only_files_of_this_server(path):
    answer = Client().get(path)
    policy = dict(
        part.strip().partition(" ")[::2] for part in answer["Content-Security-Policy"].split(";")
    )
    assert policy["default-src"] == "'none'"
    assert policy["script-src"] == "'self'"
    assert policy["frame-ancestors"] == policy["base-uri"] == "'none'"
    assert policy["style-src"].startswith("'self'")
    assert "unsafe-inline" not in answer["Content-Security-Policy"]
    text = answer.content.decode()
    assert " style=" not in text
    assert "<script>" not in text


def test_pages_of_the_administration_allow_only_files_of_this_server(admin_client):
    for path in ("/admin/", "/admin/scheduler/account/", "/admin/scheduler/app/add/"):
        policy = admin_client.get(path)["Content-Security-Policy"]
        # The order of the directives differs between processes.
        assert "script-src 'self'" in policy.split("; ")


def test_reply_to_a_client_has_no_policy():
    answer = Client().get("/lookup_account.php", {"email_addr": EMAIL})
    assert "Content-Security-Policy" not in answer
