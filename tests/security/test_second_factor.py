"""A second factor cannot be bypassed, guessed or replayed."""

from __future__ import annotations

import io
import json
from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from types import SimpleNamespace

import pytest
from allauth.account.models import EmailAddress
from allauth.mfa.models import Authenticator
from allauth.mfa.totp.internal import auth
from django.core import mail
from django.core.cache import cache
from django.core.management import CommandError, call_command
from django.test import Client
from django.urls import reverse
from django.utils import timezone

from scheduler.config import MailConfig
from scheduler.models import Account, ApiToken, AuditEntry
from scheduler.people import account_keys, accounts, roles, throttle
from tests.conftest import NOON

pytestmark = pytest.mark.django_db

EMAIL, PASSWORD = "ada@example.org", "correct horse"
ENROL, STEP = "/account/two-factor/totp/activate/", "/account/two-factor/authenticate/"


@pytest.fixture
def ada() -> Account:
    return accounts.create_staff(email=EMAIL, password=PASSWORD, name="Ada", now=timezone.now())


@pytest.fixture
def counter(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The clock of the codes: the next code is valid when the number in the list is increased."""
    now = [1_000_000]
    monkeypatch.setattr(auth, "yield_hotp_counters_from_time", lambda: iter(now))
    return now


@pytest.fixture
def code(counter: list[int], ada: Account) -> Callable[[], str]:
    """Enrol an authenticator app for Ada; return a function that returns its next code."""
    enrolled = log_in(Client())
    secret = enrol(enrolled)

    def next_code() -> str:
        counter[0] += 1
        return code_of(secret)

    return next_code


def code_of(secret: str) -> str:
    value = auth.hotp_value(secret, next(auth.yield_hotp_counters_from_time()))
    return auth.format_hotp_value(value)


@pytest.mark.parametrize(("steps", "accepted"), [(-2, 0), (-1, 1), (0, 1), (1, 1), (2, 0)])
def test_codes_of_the_periods_before_and_after_are_accepted(
    monkeypatch: pytest.MonkeyPatch, steps: int, accepted: int
) -> None:
    secret = auth.generate_totp_secret()
    shown = auth.format_hotp_value(auth.hotp_value(secret, 1_000_000 + steps))
    monkeypatch.setattr(auth, "time", SimpleNamespace(time=lambda: 1_000_000 * 30.0 + 29.9))
    assert auth.validate_totp_code(secret, shown) == bool(accepted)


def test_a_used_code_is_refused_as_long_as_it_is_valid(ada, settings):
    periods = 2 * settings.MFA_TOTP_TOLERANCE + 1
    throttle.use_code(account=ada, code="123456", now=NOON)
    for seconds in (0, 30 * periods):
        with pytest.raises(throttle.UsedCode):
            throttle.use_code(account=ada, code="123456", now=NOON + timedelta(seconds=seconds))


def log_in(client: Client, password: str = PASSWORD) -> Client:
    client.post("/account/login/", {"login": EMAIL, "password": password})
    return client


def enrol(client: Client) -> str:
    """Set up an authenticator app in a logged-in browser, and return its secret."""
    client.post(f"/account/reauthenticate/?next={ENROL}", {"password": PASSWORD})
    secret = client.get(ENROL).context["form"].secret
    assert client.post(ENROL, {"code": code_of(secret)}).status_code == 302
    return secret


def is_in(client: Client) -> bool:
    return client.get("/account/").status_code == 200


def events(name: str) -> list[AuditEntry]:
    return list(AuditEntry.objects.filter(event=name).order_by("pk"))


# Log-in


def test_password_alone_does_not_log_in(code):
    client = log_in(Client())
    assert client.get("/account/")["Location"].startswith("/account/login/")
    assert not is_in(client)
    assert client.post(STEP, {"code": code()}).status_code == 302
    assert is_in(client)


def test_wrong_code_does_not_log_in(code):
    client = log_in(Client())
    assert "Incorrect code" in client.post(STEP, {"code": "000000"}).content.decode()
    assert not is_in(client)


def test_code_of_another_process_cannot_be_used_twice(code):
    used = code()
    client = log_in(Client())
    client.post(STEP, {"code": used})
    assert is_in(client)
    for text in (used, f"{used[:3]} {used[3:]}"):
        cache.clear()  # allauth's own memory of used codes, which each process has for itself
        second = log_in(Client())
        answer = second.post(STEP, {"code": text})
        assert "was used before" in answer.content.decode()
        assert not is_in(second)


def test_code_of_the_enrolment_cannot_be_used_to_log_in(code, counter, ada):
    secret_row = Authenticator.objects.get(type="totp")
    secret = auth.decrypt(secret_row.data["secret"])
    cache.clear()
    client = log_in(Client())
    client.post(STEP, {"code": code_of(secret)})
    assert not is_in(client)


def test_recovery_code_works_once(code):
    codes = Authenticator.objects.get(type="recovery_codes").wrap().get_unused_codes()
    first, second = log_in(Client()), log_in(Client())
    first.post(STEP, {"code": codes[0]})
    second.post(STEP, {"code": codes[0]})
    assert (is_in(first), is_in(second)) == (True, False)


def test_guesses_of_codes_are_throttled_across_networks(code):
    for number in range(10):
        client = log_in(Client(REMOTE_ADDR=f"198.51.{number}.1"))
        assert client.post(STEP, {"code": "000000"}).status_code == 200
    client = log_in(Client(REMOTE_ADDR="203.0.113.1"))
    answer = client.post(STEP, {"code": code()})
    assert answer.status_code == 429
    assert int(answer["Retry-After"]) > 0
    assert "Too many wrong codes" in answer.content.decode()
    assert not is_in(client)


def test_wrong_codes_are_in_the_audit_log(code):
    AuditEntry.objects.all().delete()
    client = log_in(Client(REMOTE_ADDR="192.0.2.7"))
    client.post(STEP, {"code": "000000"})
    [entry] = events("login_failed")
    assert (entry.address, entry.details) == ("192.0.2.7", {"door": "second_factor"})
    assert not events("login_succeeded")


def test_reset_of_the_password_does_not_bypass_the_second_factor(code):
    client = Client()
    client.post("/account/password/reset/", {"email": EMAIL})
    link = next(word for word in mail.outbox[-1].body.split() if "/reset/" in word)
    form = client.get(link.removeprefix("http://127.0.0.1:8000"))["Location"]
    client.post(form, {"password1": "battery staple", "password2": "battery staple"})
    assert not is_in(log_in(client, "battery staple"))
    client.post(STEP, {"code": code()})
    assert is_in(client)


def test_sign_up_with_the_password_of_an_account_does_not_bypass_its_second_factor(code):
    client = Client()
    body = {"email": EMAIL, "name": "x", "password1": PASSWORD, "password2": PASSWORD}
    assert client.post("/account/signup/", body)["Location"] == STEP
    assert not is_in(client)


def test_password_alone_creates_no_token_of_an_account_with_a_second_factor(code):
    body = {"email": EMAIL, "password": PASSWORD, "name": "x", "scopes": ["administer"]}
    answer = Client().post("/api/v1/tokens", body, "application/json")
    assert answer.status_code == 403
    assert "has a second factor" in answer.json()["detail"]


SENSITIVE = [
    "/account/keys/",
    "/account/tokens/",
    "/account/data/",
    "/account/erase/",
    "/account/two-factor/",
    "/account/two-factor/totp/deactivate/",
    "/account/two-factor/recovery-codes/",
    "/account/two-factor/recovery-codes/generate/",
    "/account/two-factor/recovery-codes/download/",
]
REAUTHENTICATE = "/account/two-factor/reauthenticate/"


@pytest.mark.parametrize("page", SENSITIVE)
def test_sensitive_page_needs_the_second_factor_and_not_the_password(code, ada, page):
    client = Client()
    client.force_login(ada)
    assert client.get(page)["Location"].startswith(REAUTHENTICATE)
    by_password = f"/account/reauthenticate/?next={page}"
    for send in (client.get, client.post):
        assert send(by_password, {"password": PASSWORD})["Location"].startswith(REAUTHENTICATE)
    assert client.get(page)["Location"].startswith(REAUTHENTICATE)
    client = Client()
    client.force_login(ada)
    answer = client.post(f"{REAUTHENTICATE}?next={page}", {"code": code()})
    assert answer["Location"] == page
    assert client.get(page).status_code == 200


def test_password_entered_before_the_enrolment_does_not_prove_the_second_factor(counter, ada):
    other = log_in(Client())
    other.post("/account/reauthenticate/?next=/account/tokens/", {"password": PASSWORD})
    assert other.get("/account/tokens/").status_code == 200
    enrol(log_in(Client()))
    for page in SENSITIVE:
        assert other.get(page)["Location"].startswith(REAUTHENTICATE)
    other.post("/account/two-factor/totp/deactivate/")
    other.post("/account/tokens/", {"name": "x", "scopes": ["read"]})
    assert Authenticator.objects.filter(type="totp").exists()
    assert not ApiToken.objects.exists()


def test_weak_key_of_an_account_with_a_second_factor_is_on_the_page_of_its_keys(code):
    body = {"email": EMAIL, "password": PASSWORD}
    answer = Client().post("/api/v1/weak-key", body, "application/json")
    assert answer.status_code == 403
    assert answer.json()["code"] == "second_factor_needed"
    hint = answer.json()["hint"].lower()
    assert hint == "log in to the project's site with a code, and use the page /account/keys/."


def test_clients_look_up_an_account_with_a_second_factor_by_its_password(code, ada):
    digest = accounts.password_digest(email=EMAIL, password=PASSWORD)
    query = {"email_addr": EMAIL, "passwd_hash": digest}
    answer = Client().get("/lookup_account.php", query).content.decode()
    assert account_keys.login_key(ada) in answer


# Enrolment


def test_secret_is_stored_encrypted(counter, ada):
    secret = enrol(log_in(Client()))
    for row in Authenticator.objects.all():
        assert secret not in json.dumps(row.data)
    assert auth.decrypt(Authenticator.objects.get(type="totp").data["secret"]) == secret


def test_unconfirmed_address_gets_no_second_factor(counter):
    # Otherwise a stranger could sign up with the address and keep its owner out for ever.
    digest = accounts.password_digest(email=EMAIL, password=PASSWORD)
    accounts.create_account(email=EMAIL, passwd_hash=digest, name="Ada", now=timezone.now())
    client = log_in(Client())
    client.post(f"/account/reauthenticate/?next={ENROL}", {"password": PASSWORD})
    assert client.get(ENROL)["Location"] == "/account/two-factor/"
    EmailAddress.objects.update(verified=True)
    assert client.get(ENROL).status_code == 200


def an_unconfirmed_account() -> Account:
    digest = accounts.password_digest(email=EMAIL, password=PASSWORD)
    fields = {"email": EMAIL, "passwd_hash": digest, "name": "Ada", "now": timezone.now()}
    return accounts.create_account(**fields).account


def may_enrol() -> bool:
    client = log_in(Client())
    client.post(f"/account/reauthenticate/?next={ENROL}", {"password": PASSWORD})
    return client.get(ENROL).status_code == 200


@pytest.mark.parametrize("role", ["publisher", "operator", "moderator", "read-only"])
def test_member_of_a_role_of_the_administration_can_set_up_a_second_factor_without_mail(role):
    account = an_unconfirmed_account()
    assert not may_enrol()
    roles.give(account, role, now=timezone.now())
    assert may_enrol()
    assert [entry.subject for entry in events("email_confirmed")] == [EMAIL]


def test_role_that_had_an_unconfirmed_address_is_given_again_to_confirm_it():
    account = an_unconfirmed_account()
    roles.give(account, "operator", now=timezone.now())
    EmailAddress.objects.update(verified=False)
    assert not roles.give(account, "operator", now=timezone.now())
    assert may_enrol()


def test_role_outside_of_the_administration_does_not_confirm_the_address():
    roles.give(an_unconfirmed_account(), "submitter", now=timezone.now())
    assert not may_enrol()


def test_rights_given_in_the_administration_confirm_the_address(admin_client):
    account = an_unconfirmed_account()
    url = reverse("admin:scheduler_account_change", args=[account.pk])
    form = {"name": "Ada", "is_active": "on", "is_staff": "on", "venue": ""}
    assert admin_client.post(url, form).status_code == 302
    assert may_enrol()


def test_enrolment_needs_the_password_and_removal_a_code_and_both_are_recorded(
    counter, ada, django_capture_on_commit_callbacks
):
    with django_capture_on_commit_callbacks(execute=True):
        secret = enrol(log_in(Client()))
    client = Client()
    client.force_login(ada)
    remove = "/account/two-factor/totp/deactivate/"
    assert client.post(remove).status_code == 302
    assert Authenticator.objects.filter(type="totp").exists()
    client.post(f"/account/reauthenticate/?next={remove}", {"password": PASSWORD})
    client.post(remove)
    assert Authenticator.objects.filter(type="totp").exists()
    counter[0] += 1
    client.post(f"{REAUTHENTICATE}?next={remove}", {"code": code_of(secret)})
    client.post(remove)
    assert not Authenticator.objects.exists()
    for event in ("factor_added", "factor_removed"):
        assert [(entry.actor, entry.details["type"]) for entry in events(event)] == [
            (EMAIL, "totp"),
            (EMAIL, "recovery_codes"),
        ]
    subjects = [message.subject for message in mail.outbox]
    assert subjects == [
        "Manyhands: A second factor was set up",
        "Manyhands: The second factor was removed",
    ]


# Staff


@pytest.fixture
def required(settings):
    settings.PROJECT = replace(settings.PROJECT, staff_second_factor=True)


def test_staff_without_a_second_factor_is_led_to_the_enrolment(required, counter, ada):
    client = log_in(Client())
    answer = client.get("/admin/scheduler/account/", follow=True)
    assert [url.partition("?")[0] for url, _status in answer.redirect_chain] == [
        "/admin/login/",
        ENROL,
    ]
    enrol(client)
    assert client.get("/admin/").status_code == 200


def test_staff_session_without_a_code_is_asked_for_one(required, code, ada):
    client = Client()
    client.force_login(ada)
    answer = client.get("/admin/", follow=True)
    page = "/account/two-factor/reauthenticate/"
    assert answer.redirect_chain[-1][0].startswith(page)
    answer = client.post(f"{page}?next=/admin/", {"code": code()})
    assert answer["Location"] == "/admin/"
    assert client.get("/admin/").status_code == 200


def test_staff_log_in_with_password_and_code(required, code):
    client = log_in(Client())
    assert client.get("/admin/").status_code == 302
    client.post(STEP, {"code": code()})
    assert client.get("/admin/").status_code == 200


def test_staff_that_removes_the_second_factor_leaves_the_administration(required, code):
    client = log_in(Client())
    client.post(STEP, {"code": code()})
    Authenticator.objects.all().delete()
    assert client.get("/admin/").status_code == 302


def test_staff_without_a_second_factor_creates_no_token(required, counter, ada):
    body = {"email": EMAIL, "password": PASSWORD, "name": "x", "scopes": ["administer"]}
    answer = Client().post("/api/v1/tokens", body, "application/json")
    assert answer.status_code == 403
    assert "one up on the page /account/two-factor/" in answer.json()["hint"]
    client = log_in(Client())
    client.post("/account/reauthenticate/?next=/account/", {"password": PASSWORD})
    for send in (client.get, client.post):
        assert send("/account/tokens/", {"name": "x", "scopes": ["read"]})["Location"] == ENROL
    assert not ApiToken.objects.exists()
    secret = client.get(ENROL).context["form"].secret
    client.post(ENROL, {"code": code_of(secret)})
    client.post("/account/tokens/", {"name": "x", "scopes": ["read"]})
    assert ApiToken.objects.count() == 1


def test_other_posts_to_the_administration_need_the_second_factor_too(required, ada):
    client = Client()
    client.force_login(ada)
    url = reverse("admin:auth_user_password_change", args=[ada.pk])
    client.post(url, {"password1": "battery staple", "password2": "battery staple"})
    ada.refresh_from_db()
    assert ada.check_password(PASSWORD)


def test_password_is_enough_for_staff_where_the_rule_is_off(ada):
    client = log_in(Client())
    assert client.get("/admin/").status_code == 200


def test_https_projects_require_the_second_factor_by_default(monkeypatch):
    import importlib

    from project import settings as module

    for url, required in (("https://example.org/", True), ("http://127.0.0.1:8000/", False)):
        monkeypatch.setenv("MASTER_URL", url)
        assert importlib.reload(module).PROJECT.staff_second_factor is required
    monkeypatch.undo()
    importlib.reload(module)


# The operator's way out


def test_command_removes_the_second_factor_of_a_locked_out_owner(code):
    out = io.StringIO()
    call_command("second_factor", "list", stdout=out)
    assert out.getvalue() == f"{EMAIL}\n"
    call_command("second_factor", "remove", EMAIL, stdout=(out := io.StringIO()))
    assert out.getvalue() == f"{EMAIL} no longer has a second factor.\n"
    assert is_in(log_in(Client()))
    assert {entry.actor[:6] for entry in events("factor_removed")} == {"shell:"}
    call_command("second_factor", "remove", EMAIL, "--json", stdout=(out := io.StringIO()))
    assert json.loads(out.getvalue())["removed"] is False


def test_command_reports_an_unknown_address():
    with pytest.raises(CommandError, match="No account has the e-mail address"):
        call_command("second_factor", "remove", "nobody@example.org")


def test_role_does_not_confirm_the_address_if_its_owner_can_confirm_it_by_mail(settings):
    settings.MAIL = MailConfig(host="127.0.0.1", port=25)
    roles.give(an_unconfirmed_account(), "operator", now=timezone.now())
    assert events("email_confirmed") == []
