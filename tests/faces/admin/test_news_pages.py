"""The pages on which operators publish and change news, with their previews."""

from __future__ import annotations

import re
from html import unescape

import pytest
from django.contrib.admin.models import LogEntry
from django.test import Client
from django.urls import reverse
from django.utils import timezone

from scheduler.messages import news
from scheduler.models import AuditEntry, News
from tests.conftest import NOON
from tests.faces.admin.test_credit_grants import hidden, staff_with
from tests.rows import a_host

pytestmark = pytest.mark.django_db

ADD = "/admin/scheduler/news/add/"
ITEM = {"title": "R & D <b>", "text": "One <i>\r\ntwo.\r\n\r\nSee https://example.org/a."}
SHOWN = "<p>One &lt;i&gt;<br>\ntwo.</p>"
LINK = '<a href="https://example.org/a" rel="nofollow noopener noreferrer">https://example.org/a'


@pytest.fixture
def client() -> Client:
    return staff_with("operator")[1]


def path_of(row: News) -> str:
    return reverse("admin:scheduler_news_change", args=[row.pk])


def send(client: Client, path: str, status: int = 200, **values: str) -> str:
    answer = client.post(path, values, follow=True)
    assert answer.status_code == status
    text = answer.content.decode()
    assert not re.search(r"<style|style=|onclick", text[text.index("<body") :])
    return text


def confirmed(client: Client, path: str, preview: str, button: str = "confirmed") -> str:
    """Press a button of a preview, which repeats its hidden values; return the next page."""
    values = {name: unescape(value) for name, value in hidden(preview).items()}
    values.pop("csrfmiddlewaretoken", None)
    return send(client, path, **values, **{button: "yes"})


def articles(text: str) -> list[tuple[str, str]]:
    """Return name and title of each version of the news in a preview."""
    return re.findall(r"<article>\s*<h2>(.*?)</h2>\s*<h3>(.*?)</h3>", text)


def entries() -> list[AuditEntry]:
    return list(AuditEntry.objects.filter(event="news_changed").order_by("pk"))


def test_new_item_is_shown_as_on_the_site_before_it_is_published(client):
    a_host()
    text = send(client, ADD, **ITEM)
    assert "Really publish this news?" in text
    assert articles(text) == [("As volunteers will see it", "R &amp; D &lt;b&gt;")]
    assert SHOWN in text
    assert LINK in text
    assert "of 1 computer of 2 accounts." in text
    assert all(place in text for place in ("/news/", "/rss_main.php", "notice in BOINC clients"))
    assert not News.objects.exists()
    assert not entries()
    assert "is published." in confirmed(client, ADD, text)
    row = News.objects.get()
    assert (row.title, row.text) == (ITEM["title"], ITEM["text"].replace("\r\n", "\n"))
    page = Client().get(f"/news/{row.pk}/").content.decode()
    assert SHOWN in page
    assert LINK in page
    [entry] = entries()
    assert (entry.actor, entry.details) == ("operator@example.org", {"published": True})


def test_form_keeps_the_text_after_a_return_from_the_preview(client):
    text = confirmed(client, ADD, send(client, ADD, **ITEM), button="edit")
    assert "Publish news" in text
    assert 'value="R &amp; D &lt;b&gt;"' in text
    assert "two.\n\nSee https://example.org/a.</textarea>" in text.replace("\r\n", "\n")
    assert not News.objects.exists()


@pytest.mark.parametrize("wrong", [{"title": "&" * 100}, {"text": " "}, {"title": "a\nb"}])
def test_item_that_clients_cannot_show_has_no_preview(client, wrong):
    for button in ({}, {"confirmed": "yes"}):
        text = send(client, ADD, status=422, **{**ITEM, **wrong, **button})
        assert "Yes, publish it" not in text
    assert not News.objects.exists()


def test_published_item_is_changed_after_a_preview_of_before_and_after(client):
    row = news.publish("Frist", "One.", author=None, now=NOON)
    form = client.get(path_of(row)).content.decode()
    assert 'value="Frist"' in form
    assert "One.</textarea>" in form
    text = send(client, path_of(row), title="First", text="One.")
    assert articles(text) == [("Before", "Frist"), ("After", "First")]
    assert f"/news/{row.pk}/" in text
    row.refresh_from_db()
    assert (row.title, row.changed_at) == ("Frist", None)
    assert "is changed." in confirmed(client, path_of(row), text)
    row.refresh_from_db()
    assert (row.title, row.text, row.published_at) == ("First", "One.", NOON)
    assert row.changed_at is not None
    entry = entries()[-1]
    assert (entry.actor, entry.subject) == ("operator@example.org", f"news {row.pk} First")
    assert entry.details == {"before": {"title": "Frist"}, "title": "First"}
    assert "title" in LogEntry.objects.get().change_message


def test_preview_of_a_change_names_the_clients_that_keep_the_former_text(client):
    old = news.publish("Old", "One.", author=None, now=NOON)
    new = news.publish("New", "One.", author=None, now=timezone.now())
    text = send(client, path_of(new), title="New", text="Two.")
    assert "keep the text that they have" in text
    text = send(client, path_of(old), title="Old", text="Two.")
    assert "Not in feeds and BOINC clients" in text


def test_confirmation_of_an_older_state_shows_a_new_preview(client):
    row = news.publish("A", "One.", author=None, now=NOON)
    preview = send(client, path_of(row), title="C", text="One.")
    news.change(row.pk, "B", "One.", seen=news.fingerprint(row), now=NOON)
    again = confirmed(client, path_of(row), preview)
    assert "has changed since the preview. This is the new preview." in again
    assert articles(again) == [("Before", "B"), ("After", "C")]
    row.refresh_from_db()
    assert row.title == "B"
    confirmed(client, path_of(row), again)
    row.refresh_from_db()
    assert row.title == "C"
    assert send(client, path_of(row), title="D", text="x", confirmed="yes").count("<article>") == 2
    row.refresh_from_db()
    assert row.title == "C"


def test_form_without_a_change_has_no_preview(client):
    row = news.publish("A", "One\n\ntwo.", author=None, now=NOON)
    # Stored as in earlier versions.
    News.objects.update(text="One\r\n\r\ntwo.")
    text = send(client, path_of(row), status=422, title="A", text="One\r\n\r\ntwo.")
    assert "Title and text are as they were" in text
    assert not AuditEntry.objects.filter(details__has_key="before").exists()


def test_withdrawn_item_is_read_only(client):
    row = news.publish("A", "One.", author=None, now=NOON)
    preview = send(client, path_of(row), title="B", text="One.")
    news.withdraw([row.pk], now=NOON)
    assert "is withdrawn, and cannot be changed" in confirmed(client, path_of(row), preview)
    text = client.get(path_of(row)).content.decode()
    assert 'name="title"' not in text
    row.refresh_from_db()
    assert row.title == "A"
