"""The public list of news, and the page of each piece of news."""

from __future__ import annotations

from typing import Final

from django.http import Http404, HttpRequest
from django.http.response import HttpResponseBase
from django.template.response import TemplateResponse
from django.urls import path
from django.utils import timezone
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_safe

from scheduler.messages import news
from scheduler.messages.rules import plain_text
from scheduler.web import fragments, lists
from scheduler.web.volunteers.shown import time_of

#: News on a page.
NEWS_PER_PAGE: Final = 20
_MAX_ID: Final = 2**63 - 1


@require_safe
@never_cache
def news_list(request: HttpRequest) -> HttpResponseBase:
    """Return the list of news, newest first.

    The parameter `before` is the id of the last news on the previous page.  An invalid one selects
    the first page.
    """
    before = lists.number(request.GET.get("before", ""))
    listed = news.page(below=before, count=NEWS_PER_PAGE)
    now = timezone.now()
    context = {
        "items": [
            (row, news.beginning(row.text), time_of(row.published_at, now=now))
            for row in listed.rows
        ],
        "newest": lists.link() if before is not None else "",
        "older": lists.link(before=listed.older_than) if listed.older_than else "",
    }
    return fragments.list_page(request, "scheduler/news_list.html", context)


@require_safe
@never_cache
def news_item(request: HttpRequest, news_id: int) -> HttpResponseBase:
    """Return the page of news, or 404 for withdrawn and unknown ones."""
    item = news.find(news_id) if news_id <= _MAX_ID else None
    if item is None:
        raise Http404
    context = {
        "item": item,
        "time": time_of(item.news.published_at, now=timezone.now()),
        "paragraphs": plain_text.paragraphs(item.news.text),
        "beginning": news.beginning(item.news.text),
    }
    return TemplateResponse(request, "scheduler/news.html", context)


urlpatterns = [
    path(news.PATH, news_list, name="news_list"),
    path(f"{news.PATH}<int:news_id>/", news_item, name="news"),
]
