"""The pages on which operators write, test, send and stop letters."""

from __future__ import annotations

import re

import pytest
from allauth.account.models import EmailAddress
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.urls import reverse

from scheduler.config import MailConfig, MailSecurity
from scheduler.messages import letters
from scheduler.models import AuditEntry, Letter, OutboxMessage
from tests.conftest import NOON
from tests.faces.admin.test_credit_grants import staff_with
from tests.rows import an_account

pytestmark = pytest.mark.django_db

DRAFT = {"subject": "News <b>", "text": "Dear all,\nthanks <i>.", "recipients": "1"}


@pytest.fixture(autouse=True)
def mail(settings):
    settings.MAIL = MailConfig(host="127.0.0.1", port=25, security=MailSecurity.NONE)


@pytest.fixture
def client() -> Client:
    return staff_with("operator")[1]


def a_reader() -> None:
    reader = an_account(receive_letters=True)
    EmailAddress.objects.filter(user=reader).update(verified=True)


def a_letter() -> Letter:
    draft = letters.Draft("News", "Dear all.", Letter.Recipients.ALL)
    return letters.write(draft, author=None, now=NOON)


def path_of(letter: Letter) -> str:
    return f"/admin/scheduler/letter/{letter.pk}/send/"


def press(client: Client, letter: Letter, action: str):
    seen = re.search(r'name="seen" value="(\w+)"', client.get(path_of(letter)).content.decode())
    data = {"action": action, "seen": seen[1] if seen else ""}
    return client.post(path_of(letter), data, follow=True)


def test_operator_writes_previews_and_sends_a_letter(client):
    for _ in range(3):
        a_reader()
    answer = client.post(reverse("admin:scheduler_letter_add"), DRAFT, follow=True)
    letter = Letter.objects.get()
    assert answer.redirect_chain[-1][0] == path_of(letter)
    text = answer.content.decode()
    assert "<b>3</b> accounts would get" in text
    assert "thanks &lt;i&gt;." in text
    assert "/letters/unsubscribe/" in text
    assert not re.search(r"<style|style=|onclick|<i>\.", text)
    assert letter.author.email == "operator@example.org"
    answer = press(client, letter, "send")
    assert "Being sent" in answer.content.decode()
    assert letters.send_due(now=NOON) == 3
    assert OutboxMessage.objects.count() == 3
    assert letters.send_due(now=NOON) == 0
    text = client.get(path_of(letter)).content.decode()
    assert "waiting there for delivery</th><td>3</td>" in text
    entry = AuditEntry.objects.get(event="letter_changed", details__change="started")
    assert (entry.actor, entry.subject) == ("operator@example.org", f"letter {letter.pk}")


def test_draft_is_changed_on_its_page_and_read_only_after_its_start(client):
    letter = a_letter()
    url = reverse("admin:scheduler_letter_change", args=[letter.pk])
    assert path_of(letter) in client.get(url).content.decode()
    client.post(url, DRAFT)
    letter.refresh_from_db()
    assert letter.subject == "News <b>"
    press(client, letter, "send")
    assert client.post(url, {**DRAFT, "subject": "Other"}).status_code == 403
    letter.refresh_from_db()
    assert letter.subject == "News <b>"
    assert 'name="subject"' not in client.get(url).content.decode()


def test_bad_draft_is_shown_with_its_error(client):
    url = reverse("admin:scheduler_letter_add")
    answer = client.post(url, {**DRAFT, "recipients": "3"})
    assert "Hint: give 1 to 365 credit days" in answer.content.decode()
    assert not Letter.objects.exists()


def test_test_goes_to_the_operator_alone_if_the_address_is_confirmed(client):
    a_reader()
    letter = a_letter()
    EmailAddress.objects.filter(email="operator@example.org").update(verified=False)
    answer = press(client, letter, "test")
    assert answer.status_code == 422
    assert "is not confirmed" in answer.content.decode()
    EmailAddress.objects.filter(email="operator@example.org").update(verified=True)
    press(client, letter, "test")
    message = OutboxMessage.objects.get()
    assert (message.recipient, message.subject) == ("operator@example.org", "[Test] News")
    letter.refresh_from_db()
    assert letter.started_at is None


def test_operator_stops_a_letter(client):
    a_reader()
    letter = a_letter()
    press(client, letter, "send")
    letters.send_due(now=NOON)
    answer = press(client, letter, "stop")
    assert "1 copies that waited in the outbox were dropped" in answer.content.decode()
    assert not OutboxMessage.objects.exists()
    assert "Stop for good" not in answer.content.decode()
    assert press(client, letter, "stop").status_code == 422


def test_unknown_buttons_and_letters_change_nothing(client):
    letter = a_letter()
    assert press(client, letter, "burn").status_code == 422
    for number in ("999", "9" * 30):
        assert client.get(f"/admin/scheduler/letter/{number}/send/").status_code == 404
    letter.refresh_from_db()
    assert letter.started_at is None


@pytest.mark.parametrize("role", ["moderator", "publisher", "read-only"])
def test_other_staff_neither_see_nor_send_letters(role):
    letter = a_letter()
    client = staff_with(role)[1]
    seen = letters.fingerprint(letter)
    assert client.get(path_of(letter)).status_code == 403
    assert client.post(path_of(letter), {"action": "send", "seen": seen}).status_code == 403
    assert client.get(reverse("admin:scheduler_letter_add")).status_code == 403
    letter.refresh_from_db()
    assert letter.started_at is None


def test_a_form_without_its_csrf_token_is_refused(client):
    letter = a_letter()
    strict = Client(enforce_csrf_checks=True)
    strict.cookies = client.cookies
    data = {"action": "send", "seen": letters.fingerprint(letter)}
    assert strict.post(path_of(letter), data).status_code == 403


def test_page_without_mail_offers_no_button(client, settings):
    letter = a_letter()
    settings.MAIL = None
    text = client.get(path_of(letter)).content.decode()
    assert "This project sends no mail" in text
    assert 'value="send"' not in text


def test_number_of_statements_does_not_depend_on_the_recipients(client):
    letter = a_letter()

    def statements() -> int:
        with CaptureQueriesContext(connection) as captured:
            assert client.get(path_of(letter)).status_code == 200
        return len(captured)

    few = statements()
    for _ in range(30):
        a_reader()
    assert statements() == few
