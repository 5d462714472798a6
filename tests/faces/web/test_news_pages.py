"""News on the front page, in a list, and on pages of their own."""

from __future__ import annotations

import re
from dataclasses import replace
from datetime import timedelta

import pytest
from django.conf import settings as django_settings
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext

from scheduler.health import status
from scheduler.messages import news
from scheduler.models import News
from scheduler.web import news_pages
from tests.conftest import NOON
from tests.faces.pages import HTMX, INLINE, comparable

pytestmark = pytest.mark.django_db

FEED = '<link rel="alternate" type="application/rss+xml" href="/rss_main.php"'


def publish(title: str, text: str = "Text.", days: int = 0) -> News:
    return news.publish(title, text, author=None, now=NOON + timedelta(days=days))


def page(client: Client, path: str, status_code: int = 200, **headers: str) -> str:
    answer = client.get(path, headers=headers)
    assert answer.status_code == status_code
    text = comparable(answer).decode()
    assert not INLINE.search(text)
    return text


def titles(text: str) -> list[str]:
    """Return the titles of the news in the list of a page, in order."""
    return re.findall(r'<h2><a href="/news/\d+/">(.*?)</a></h2>', text)


def test_list_shows_the_newest_first_with_their_beginnings(client):
    publish("First", "One\nline.\n\nA second paragraph.", days=-2)
    publish("R & D", "Two.")
    text = page(client, "/news/")
    assert titles(text) == ["R &amp; D", "First"]
    assert "One line.</p>" in text
    assert "second paragraph" not in text
    assert f'title="{NOON:%Y-%m-%d %H:%M:%S} UTC"' in text
    assert 'href="/rss_main.php"' in text


def test_list_without_news_shows_where_news_appears(client):
    text = page(client, "/news/")
    assert "There is no news yet." in text
    assert "Older news" not in text


def test_older_news_are_on_the_next_page(client, monkeypatch):
    monkeypatch.setattr(news_pages, "NEWS_PER_PAGE", 2)
    rows = [publish(f"N{number}") for number in range(5)]
    text = page(client, "/news/")
    assert titles(text) == ["N4", "N3"]
    assert f'href="?before={rows[3].pk}" rel="next"' in text
    text = page(client, f"/news/?before={rows[3].pk}")
    assert titles(text) == ["N2", "N1"]
    assert "Latest news" in text
    text = page(client, f"/news/?before={rows[1].pk}")
    assert titles(text) == ["N0"]
    assert "Older news" not in text
    assert "There is no older news." in page(client, f"/news/?before={rows[0].pk}")
    for before in ("x", "-1", "9" * 40, "1²", ""):
        assert titles(client.get("/news/", {"before": before}).content.decode()) == ["N4", "N3"]


def test_htmx_gets_only_the_list(client):
    publish("Hello")
    text = page(client, "/news/", **{name.lower(): value for name, value in HTMX.items()})
    assert text.lstrip().startswith('<div id="list"')
    assert "<html" not in text


def test_page_of_news_has_links_to_its_neighbors(client):
    first, second, third = publish("First"), publish("Second"), publish("Third")
    text = page(client, f"/news/{second.pk}/")
    assert "<h1>Second</h1>" in text
    assert re.search(rf'<a href="/news/{first.pk}/" rel="prev">.*First</a>', text)
    assert re.search(rf'<a href="/news/{third.pk}/" rel="next">.*Third</a>', text)
    news.withdraw([first.pk, third.pk], now=NOON)
    text = page(client, f"/news/{second.pk}/")
    assert 'rel="prev"' not in text
    assert 'rel="next"' not in text


def test_page_of_news_has_its_paragraphs_lines_and_links(client):
    row = publish("Hello", "a < b\r\nc\r\n\r\nSee https://example.org/x?a=1&b=2.")
    text = page(client, f"/news/{row.pk}/")
    assert "<p>a &lt; b<br>\nc</p>" in text
    link = "https://example.org/x?a=1&amp;b=2"
    assert f'<p>See <a href="{link}" rel="nofollow noopener noreferrer">{link}</a>.</p>' in text


def test_withdrawn_and_unknown_news_are_on_no_page(client):
    kept, gone = publish("Kept"), publish("Gone")
    news.withdraw([gone.pk], now=NOON)
    status.forget()
    assert "There is no such page" in page(client, f"/news/{gone.pk}/", 404)
    for number in (gone.pk + 1, 0, 2**63, 10**30):
        page(client, f"/news/{number}/", 404)
    for path in ("/", "/news/", f"/news/{kept.pk}/"):
        assert "Gone" not in page(client, path)


def test_front_page_shows_the_three_newest(client):
    rows = [publish(f"Title {number}", "x" * 400) for number in range(4)]
    status.forget()
    text = page(client, "/")
    shown = re.findall(r'<li><a href="/news/(\d+)/">', text)
    assert shown == [str(row.pk) for row in reversed(rows[1:])]
    assert "x" * 159 + "…" in text
    assert "x" * 160 not in text
    lines = client.get("/status.json").json()["news"]
    assert [line["title"] for line in lines] == ["Title 3", "Title 2", "Title 1"]
    assert lines[0]["url"] == f"{django_settings.PROJECT.master_url}news/{rows[3].pk}/"


def test_front_page_without_news_has_no_heading_for_them(client):
    assert 'id="news"' not in page(client, "/")


@pytest.mark.parametrize("path", ["/", "/news/", "/teams/", "/account/login/", "/no/such/page"])
def test_every_page_names_the_feed(client, settings, path):
    settings.PROJECT = replace(settings.PROJECT, name="R & D")
    text = client.get(path).content.decode()
    assert text.count(FEED) == 1
    assert 'title="R &amp; D: News"' in text
    assert '<a href="/news/">News</a>' in text.replace("'", '"')


def test_number_of_statements_does_not_depend_on_the_number_of_news(client):
    counts = []
    for size in (1, 7):
        rows = [publish(f"N{number}") for number in range(size)]
        for path in ("/news/", f"/news/{rows[0].pk}/"):
            with CaptureQueriesContext(connection) as statements:
                page(client, path)
            counts.append(len(statements))
    assert counts == [1, 3, 1, 3]


def test_news_are_read_by_an_index_from_an_empty_table():
    options = re.findall(r"-c (\w+)=(\w+)", django_settings.WEB_PLANS)
    rows = news.published()
    with connection.cursor() as cursor:
        cursor.execute("TRUNCATE news")
        for option, value in options:
            cursor.execute(f"SET LOCAL {option} = {value}")
        for each in (
            rows.order_by("-pk")[:21],
            rows.filter(pk__lt=7).order_by("-pk")[:21],
            rows.filter(pk__gt=7).order_by("pk")[:1],
        ):
            plan = each.explain()
            assert "Index Scan" in plan, plan
            assert "Sort" not in plan, plan
