"""The pages on which owners create, name, renew and revoke their keys."""

from __future__ import annotations

import html
import re

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext

from scheduler.models import Account, AccountKey, AuditEntry
from scheduler.people import account_keys, accounts, submitters
from tests.conftest import NOON
from tests.faces.pages import INLINE
from tests.rows import a_host, a_result, a_workunit, update

pytestmark = pytest.mark.django_db

EMAIL, PASSWORD = "ada@example.org", "correct horse"
PAGE = "/account/keys/"
Kind = AccountKey.Kind


@pytest.fixture
def ada() -> Account:
    digest = accounts.password_digest(email=EMAIL, password=PASSWORD)
    return accounts.create_account(email=EMAIL, passwd_hash=digest, name="Ada", now=NOON).account


@pytest.fixture
def browser(client: Client, ada: Account) -> Client:
    """A browser in which Ada has just logged in."""
    client.post("/account/login/", {"login": EMAIL, "password": PASSWORD})
    return client


def page(browser: Client, path: str = PAGE, status: int = 200) -> str:
    answer = browser.get(path)
    assert answer.status_code == status
    text = answer.content.decode()
    assert not INLINE.search(text)
    return " ".join(html.unescape(text).split())


def sent(browser: Client, path: str = PAGE, **fields: str) -> str:
    answer = browser.post(path, fields, follow=True)
    assert answer.status_code == 200
    return " ".join(html.unescape(answer.content.decode()).split())


def secrets_of(text: str) -> list[str]:
    return re.findall(r'<code class="secret">(\w+)</code>', text)


def test_named_key_is_created_and_shown_once(browser, ada):
    text = sent(browser, name="computers of the school")
    assert "Copy the key “computers of the school” now" in text
    [key, strong, weak] = secrets_of(text)
    assert (strong, weak) == (account_keys.login_key(ada), account_keys.weak_key(ada))
    row = account_keys.find_account_by_key(key).key
    assert (row.name, row.kind) == ("computers of the school", Kind.STRONG)
    assert f"boinccmd --project_attach http://127.0.0.1:8000/ \\ {key}" in text
    text = page(browser)
    assert "computers of the school" in text
    assert secrets_of(text) == [strong, weak]
    entry = AuditEntry.objects.get(event="key_created")
    assert (entry.account_id, entry.actor) == (ada.pk, EMAIL)


def test_name_that_is_missing_or_too_long_is_an_error_of_the_form(browser):
    for name in ("", "x" * 101, " "):
        assert 'class="wrong"' in sent(browser, name=name)
    assert AccountKey.objects.count() == 2


def test_refusal_is_an_error_of_the_form(browser, monkeypatch):
    monkeypatch.setattr(account_keys, "MAX_KEYS", 2)
    text = sent(browser, name="third")
    assert "The account has 2 keys, which is the limit. Hint: revoke one first." in text
    assert AccountKey.objects.count() == 2


def test_only_submitters_can_create_submission_keys(browser, ada):
    assert 'name="kind"' not in page(browser)
    sent(browser, name="cluster", kind=str(Kind.SUBMISSION.value))
    assert not ada.keys.filter(kind=Kind.SUBMISSION).exists()
    submitters.allow(ada, apps=None, now=NOON)
    assert 'name="kind"' in page(browser)
    text = sent(browser, name="cluster", kind=str(Kind.SUBMISSION.value))
    row = ada.keys.get(kind=Kind.SUBMISSION)
    assert account_keys.find_account_by_key(secrets_of(text)[0]).key == row
    assert secrets_of(text)[0] not in text.partition("boinccmd")[2]


def test_further_keys_are_listed_with_their_use_and_their_times(browser, ada):
    assert "You have no further keys." in page(browser)
    for name, kind in (("lab", Kind.STRONG), ("cluster", Kind.SUBMISSION)):
        account_keys.create_key(account=ada, name=name, kind=kind, now=NOON)
    text = page(browser)
    assert text.index(">cluster<") < text.index(">lab<")
    for part in ("attaches computers", "submits work", "never"):
        assert part in text
    assert 'title="2026-01-01 12:00:00 UTC"' in text
    account_keys.record_use(ada, ada.keys.get(name="cluster"), now=NOON)
    text = page(browser)
    assert '<time datetime="2026-01-01">2026-01-01</time>' in text
    assert "never" not in text


def test_number_of_statements_does_not_depend_on_the_number_of_keys(browser, ada):
    def statements() -> int:
        with CaptureQueriesContext(connection) as captured:
            page(browser)
        return len(captured)

    account_keys.create_key(account=ada, name="k", now=NOON)
    few = statements()
    for number in range(8):
        account_keys.create_key(account=ada, name=f"k{number}", now=NOON)
    assert statements() == few


def test_key_is_renamed_on_its_page(browser, ada):
    row, _text = account_keys.create_key(account=ada, name="lab", now=NOON)
    path = f"{PAGE}{row.pk}/"
    assert 'value="lab"' in page(browser, path)
    text = sent(browser, path, action="rename", name="<b>school</b>")
    assert "The key is renamed." in text
    assert "&lt;b&gt;school" in browser.get(PAGE).content.decode()
    assert 'class="wrong"' in sent(browser, path, action="rename", name="")
    assert "without line breaks" in sent(browser, path, action="rename", name="a\nb")
    row.refresh_from_db()
    assert row.name == "<b>school</b>"


def test_key_is_revoked_after_a_page_that_shows_what_happens(browser, ada):
    row, text = account_keys.create_key(account=ada, name="lab", now=NOON)
    host = a_host(ada)
    a_result(a_workunit(), "sent", host=host)
    path = f"{PAGE}{row.pk}/"
    preview = page(browser, path)
    assert "You have 1 computer, with 1 result in progress." in preview
    assert "This cannot be undone." in preview
    assert account_keys.find_account_by_key(text) is not None
    assert "The key is revoked." in sent(browser, path, action="revoke")
    assert account_keys.find_account_by_key(text) is None
    page(browser, path, status=404)
    entry = AuditEntry.objects.get(event="key_revoked")
    assert (entry.account_id, entry.details["name"]) == (ada.pk, "lab")


def test_current_keys_are_renewed_and_cannot_be_renamed(browser, ada):
    strong, weak = account_keys.login_key(ada), account_keys.weak_key(ada)
    current = {Kind(key.kind): key for key in account_keys.live_keys(ada)}
    path = f"{PAGE}{current[Kind.WEAK].pk}/"
    assert "A new weak key replaces the present one." in page(browser, path)
    assert 'value="rename"' not in page(browser, path)
    text = sent(browser, path, action="revoke")
    assert "The weak key is renewed." in text
    renewed = account_keys.weak_key(ada)
    assert renewed != weak
    assert secrets_of(text) == [strong, renewed]
    path = f"{PAGE}{current[Kind.STRONG].pk}/"
    assert "A new account key and a new weak key replace the present ones." in page(browser, path)
    text = sent(browser, path, action="revoke")
    assert "The account key and the weak key are renewed." in text
    assert account_keys.login_key(ada) != strong
    assert account_keys.weak_key(ada) != renewed
    assert secrets_of(text) == [account_keys.login_key(ada), account_keys.weak_key(ada)]
    for key in (strong, weak, renewed):
        assert account_keys.find_account_by_key(key) is None


def test_submission_key_page_describes_programs(browser, ada):
    row, _text = account_keys.create_key(
        account=ada, name="cluster", kind=Kind.SUBMISSION, now=NOON
    )
    text = page(browser, f"{PAGE}{row.pk}/")
    assert "Programs that use this key" in text
    assert "You have" not in text


def test_unknown_action_changes_nothing(browser, ada):
    row, text = account_keys.create_key(account=ada, name="lab", now=NOON)
    for fields in ({}, {"action": "delete"}):
        assert browser.post(f"{PAGE}{row.pk}/", fields).status_code == 404
    assert account_keys.find_account_by_key(text) is not None


def test_key_that_was_revoked_in_another_window_is_an_error(browser, ada, monkeypatch):
    row, _text = account_keys.create_key(account=ada, name="lab", now=NOON)
    revoke = account_keys.revoke_key

    def twice(**arguments: object) -> str | None:
        revoke(**arguments)
        return revoke(**arguments)

    monkeypatch.setattr(account_keys, "revoke_key", twice)
    text = sent(browser, f"{PAGE}{row.pk}/", action="revoke")
    assert f"The account has no unrevoked key {row.pk}. Hint: list its keys." in text


def test_page_of_an_account_links_the_keys(browser, ada):
    update(ada, share_statistics=False)
    assert f'href="{PAGE}"' in page(browser, "/account/")
