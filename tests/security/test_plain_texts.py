"""Texts that staff write cannot add markup to pages, feeds or notices."""

from __future__ import annotations

import re
from dataclasses import replace
from html.parser import HTMLParser

import pytest
from django.test import Client
from django.utils import timezone

from scheduler.health import status
from scheduler.messages import news
from scheduler.messages.rules import plain_text
from tests.conftest import NOON
from tests.faces.pages import INLINE
from tests.rows import an_account, an_app

pytestmark = pytest.mark.django_db

#: Texts with markup, each with its mark.
EVIL = (
    "<script>evil()</script>",
    '"><img src=x onerror=evil()>',
    "<a href='javascript:evil()'>evil</a>",
    "javascript:evil()",
    "data:text/html,evil",
    'https://evil.example/"onmouseover="evil()',
    "https://evil.example/'><script>evil()</script>",
    "https://evil.example/<svg/onload=evil()>",
    "]]><script>evil()</script>",
    "{{ project }}{% evil %}",
)


class Tags(HTMLParser):
    """Collects the tags of a page with their attributes, as a browser reads them."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.handle_starttag = lambda tag, attrs: self.tags.append((tag, dict(attrs)))
        self.feed(text)


def checked(path: str) -> str:
    """Return a page without markup of the texts; every link leads to this site or by https."""
    answer = Client().get(path)
    assert answer.status_code == 200
    assert "script-src 'self'" in answer["Content-Security-Policy"]
    text = answer.content.decode()
    assert not INLINE.search(text)
    for tag, attributes in Tags(text).tags:
        assert not any(name.startswith("on") for name in attributes), (tag, attributes)
        assert tag != "img", attributes
        addresses = [str(attributes.get(name) or "") for name in ("href", "src")]
        for address in addresses:
            assert "evil" not in address or address.startswith("https://evil.example/"), address
    return text


def test_a_tag_of_a_text_would_be_noticed():
    [(tag, attributes)] = Tags("<p>&lt;b&gt;".replace("<p>", EVIL[1].removeprefix('">'))).tags
    assert (tag, attributes["onerror"]) == ("img", "evil()")


def test_markup_in_news_is_text_on_every_page():
    row = news.publish("<b>evil</b>" + EVIL[1], "\n\n".join(EVIL), author=None, now=NOON)
    assert "&lt;script&gt;evil()&lt;/script&gt;" in checked(f"/news/{row.pk}/")
    assert "{{ project }}{% evil %}" in checked(f"/news/{row.pk}/")
    for text in EVIL:
        news.publish(text, text, author=None, now=NOON)
        status.forget()
        for path in ("/", "/news/", f"/news/{row.pk}/"):
            assert "evil" in checked(path)


def test_markup_in_descriptions_is_text_on_the_front_page(settings):
    settings.PROJECT = replace(settings.PROJECT, description="\n".join(EVIL))
    an_app("primes", user_friendly_name="<b>evil</b>", description="\n\n".join(EVIL))
    text = checked("/")
    assert text.count("&lt;script&gt;evil()&lt;/script&gt;") >= 2
    assert "&lt;b&gt;evil&lt;/b&gt;" in text


@pytest.mark.parametrize("path", ["/rss_main.php", "/notices.php"])
def test_markup_in_news_is_escaped_in_feeds(path, monkeypatch):
    monkeypatch.setattr("scheduler.people.feed_keys.check", lambda *_: an_account())
    for text in EVIL:
        news.publish(text, text, author=None, now=timezone.now())
    feed = Client().get(path, {"userid": 1, "auth": "x"}).content.decode()
    parts = re.findall(r"<!\[CDATA\[(.*?)\]\]>", feed, re.DOTALL)
    assert sum("evil" in part for part in parts) == 2 * len(EVIL)
    assert all(re.findall(r"<(?!/?p>|br>)", part) == [] for part in parts)


@pytest.mark.parametrize(
    ("text", "address"),
    [
        ("see https://example.org/a.", "https://example.org/a"),
        ("(https://example.org/a)", "https://example.org/a"),
        ("https://example.org/a_(b)", "https://example.org/a_(b)"),
        ("https://example.org/a>b", "https://example.org/a"),
        ("http://example.org/", None),
        ("HTTPS://example.org/", None),
        ("javascript:alert(1)//https:/x", None),
        ("https://", None),
    ],
)
def test_only_https_addresses_become_links(text, address):
    [[parts]] = plain_text.paragraphs(text)
    assert [part.text for part in parts if part.is_address] == ([address] if address else [])
    assert "".join(part.text for part in parts) == text
