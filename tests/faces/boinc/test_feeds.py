"""News for everybody and for BOINC clients, published in the admin."""

from __future__ import annotations

import hashlib
import re
from dataclasses import replace
from datetime import timedelta
from urllib.parse import parse_qs, urlsplit
from xml.etree import ElementTree as ET

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.urls import reverse
from django.utils import timezone

from scheduler.boinc import compose
from scheduler.messages import news
from scheduler.messages.news import NewsOutdated, NewsRefused
from scheduler.models import Account, AuditEntry, News
from scheduler.people import accounts, feed_keys, roles
from tests import rows
from tests.conftest import NOON
from tests.scripted_client import a_client

pytestmark = pytest.mark.django_db


def items(page: str = "rss_main.php", **params: object) -> list[ET.Element]:
    answer = Client().get(f"/{page}", params)
    assert answer["Content-Type"] == "application/rss+xml; charset=utf-8"
    root = ET.fromstring(answer.content)
    assert (root.tag, root.attrib) == ("rss", {"version": "2.0"})
    return root.findall("channel/item")


def test_feed_without_news_is_an_empty_channel(settings):
    settings.PROJECT = replace(settings.PROJECT, name="R & D")
    root = ET.fromstring(Client().get("/rss_main.php").content)
    assert root.findtext("channel/title") == "R & D"
    assert root.findall("channel/item") == []


def test_news_are_items_newest_first_with_a_date_that_clients_parse(settings):
    now = timezone.now().replace(microsecond=0)
    news.publish("First", "One.", author=None, now=now - timedelta(days=2))
    second = news.publish("R & D", "Two\nlines\n\nand more", author=None, now=now)
    assert [item.findtext("title") for item in items()] == ["R &amp; D", "First"]
    newest = items()[0]
    assert newest.findtext("description") == "<p>Two<br>lines</p><p>and more</p>"
    assert newest.findtext("pubDate") == f"{now:%a, %d %b %Y %H:%M:%S} GMT"
    # Clients that read the feed before news had pages recognize the guid.
    assert newest.findtext("guid") == f"{settings.PROJECT.master_url}news/{second.pk}"
    assert newest.findtext("link") == f"{settings.PROJECT.master_url}news/{second.pk}/"
    [page] = re.findall(r"/news/.*", newest.findtext("link", ""))
    assert "<h1>R &amp; D</h1>" in Client().get(page).content.decode()


def test_changed_news_keep_guid_address_and_date_and_renew_the_date_of_the_feed():
    now = timezone.now().replace(microsecond=0)
    first = news.publish("Frist", "One.", author=None, now=now - timedelta(days=2))
    news.publish("Second", "Two.", author=None, now=now - timedelta(days=1))
    before = items()[1]
    seen = news.fingerprint(first)
    news.change(first.pk, "First", "One\r\nmore.", seen=seen, now=now)
    root = ET.fromstring(Client().get("/rss_main.php").content)
    assert root.findtext("channel/lastBuildDate") == f"{now:%a, %d %b %Y %H:%M:%S} GMT"
    after = root.findall("channel/item")[1]
    assert (after.findtext("title"), after.findtext("description")) == (
        "First",
        "<p>One<br>more.</p>",
    )
    for name in ("guid", "link", "pubDate"):
        assert after.findtext(name) == before.findtext(name)


def test_change_of_an_older_state_and_of_withdrawn_news_is_refused():
    now = timezone.now()
    row = news.publish("A", "x", author=None, now=now)
    seen = news.fingerprint(row)
    row = news.change(row.pk, "B", "x", seen=seen, now=now)
    with pytest.raises(NewsOutdated, match="has changed since"):
        news.change(row.pk, "C", "x", seen=seen, now=now)
    with pytest.raises(NewsRefused, match="as they were"):
        news.change(row.pk, "B", "x", seen=news.fingerprint(row), now=now)
    news.withdraw([row.pk], now=now)
    with pytest.raises(NewsOutdated):
        news.change(row.pk, "C", "x", seen=news.fingerprint(row), now=now)
    row.refresh_from_db()
    with pytest.raises(NewsRefused, match="is withdrawn"):
        news.change(row.pk, "C", "x", seen=news.fingerprint(row), now=now)
    row.refresh_from_db()
    assert (row.title, row.changed_at) == ("B", now)
    assert AuditEntry.objects.filter(details__title="B").count() == 1


def test_withdrawn_and_old_news_are_left_out():
    now = timezone.now()
    old = now - timedelta(days=40)
    news.publish("Old", "x", author=None, now=old)
    kept = news.publish("New", "x", author=None, now=now)
    gone = news.publish("Wrong", "x", author=None, now=now)
    assert news.withdraw([gone.pk], now=now) == 1
    assert news.withdraw([gone.pk], now=now) == 0
    assert [item.findtext("title") for item in items()] == [kept.title]
    assert [item.findtext("title") for item in items(ndays=60)] == ["New", "Old"]
    for wrong in ("x", "-1", "0", "9" * 30, "\u0663"):
        assert len(items(ndays=wrong)) == 1
    details = AuditEntry.objects.filter(event="news_changed").values_list("details", flat=True)
    assert list(details)[-1] == {"withdrawn": True}


def test_withdrawal_of_several_news_takes_as_many_statements_as_of_one():
    now, counts = timezone.now(), []
    for size in (1, 5):
        published = [news.publish(f"N {n}", "x", author=None, now=now) for n in range(size)]
        with CaptureQueriesContext(connection) as statements:
            assert news.withdraw([row.pk for row in published], now=now) == size
        counts.append(len(statements))
    assert counts[0] == counts[1]
    entries = AuditEntry.objects.filter(event="news_changed", details={"withdrawn": True})
    assert len({entry.subject for entry in entries}) == 6


@pytest.mark.parametrize(
    ("title", "text"),
    [("", "x"), ("x" * 256, "x"), ("<" * 64, "x"), ("a\nb", "x"), ("t", " "), ("t", "x" * 20_001)],
)
def test_title_or_text_that_clients_cannot_show_is_refused(title, text):
    with pytest.raises(NewsRefused, match="Hint:"):
        news.publish(title, text, author=None, now=NOON)
    assert not News.objects.exists()


def test_scheduler_reply_has_the_address_of_the_accounts_feed():
    news.publish("Hello", "x", author=None, now=timezone.now())
    client = a_client()
    [feed] = client.ask().rss_feeds
    assert feed.poll_interval == compose.FEED_POLL_SECONDS
    url = urlsplit(feed.url)
    query = {name: values[0] for name, values in parse_qs(url.query).items()}
    assert url.path == "/notices.php"
    assert query["userid"] == str(Account.objects.get().pk)
    assert query["auth"].startswith(f"{query['userid']}_")
    [notice] = items("notices.php", **query)
    assert notice.findtext("title") == "Hello"
    assert notice.findtext("link", "").endswith(f"/news/{News.objects.get().pk}/")
    assert client.ask().rss_feeds == (feed,)


def test_feed_with_an_address_that_clients_cannot_read_is_left_out(settings):
    client = a_client()
    client.ask()
    settings.PROJECT = replace(settings.PROJECT, master_url=f"https://example.org/{'x' * 200}/")
    assert client.ask().rss_feeds is None


def test_secret_of_a_feed_differs_between_installations(settings):
    account = rows.an_account()
    digest = hashlib.md5(account.password.encode()).hexdigest()
    first = feed_keys.feed_key(account.pk, digest)
    settings.SECRET_KEY = "another"
    assert feed_keys.feed_key(account.pk, digest) != first


# The admin


@pytest.fixture
def operator() -> Account:
    account = accounts.create_staff(
        email="op@example.org", password="a long one 7", is_superuser=False, now=NOON
    )
    roles.give(account, "operator", now=NOON)
    return account


def test_operator_publishes_and_withdraws_news_in_the_admin(operator):
    web = Client()
    web.force_login(operator)
    sent = {"title": "Hello", "text": "All is well.", "confirmed": "yes"}
    assert web.post(reverse("admin:scheduler_news_add"), sent).status_code == 302
    published = News.objects.get()
    assert (published.author, published.withdrawn_at) == (operator, None)
    assert [item.findtext("title") for item in items()] == ["Hello"]
    page = reverse("admin:scheduler_news_change", args=[published.pk])
    assert "All is well." in web.get(page).content.decode()
    web.post(
        reverse("admin:scheduler_news_changelist"),
        {"action": "withdraw", "_selected_action": [published.pk], "confirmed": "yes"},
    )
    published.refresh_from_db()
    assert published.title == "Hello"
    assert published.withdrawn_at is not None
    assert items() == []
    assert "All is well." in web.get(page).content.decode()
    assert 'name="title"' not in web.get(page).content.decode()
    seen = news.fingerprint(published)
    sent = {"title": "Changed", "text": "x", "confirmed": "yes", "seen": seen}
    answer = web.post(page, sent, follow=True)
    assert "is withdrawn, and cannot be changed" in answer.content.decode()
    published.refresh_from_db()
    assert published.title == "Hello"


def test_admin_shows_why_news_are_refused(operator):
    web = Client()
    web.force_login(operator)
    page = web.post(reverse("admin:scheduler_news_add"), {"title": "&" * 100, "text": "x"})
    assert "Hint: give 1 to 255" in page.content.decode()
    assert not News.objects.exists()


def test_only_operators_and_superusers_publish_news(operator):
    roles.take(operator, "operator", now=NOON)
    roles.give(operator, "read-only", now=NOON)
    web = Client()
    web.force_login(Account.objects.get(pk=operator.pk))
    sent = {"title": "x", "text": "x", "confirmed": "yes"}
    assert web.post(reverse("admin:scheduler_news_add"), sent).status_code == 403
    assert not News.objects.exists()
    row = news.publish("Hello", "x", author=None, now=NOON)
    page = reverse("admin:scheduler_news_change", args=[row.pk])
    assert "Hello" in web.get(page).content.decode()
    assert web.post(page, {**sent, "seen": news.fingerprint(row)}).status_code == 403
    row.refresh_from_db()
    assert row.title == "Hello"
