"""The public endpoints of news."""

from __future__ import annotations

from typing import TYPE_CHECKING

from django.http import Http404
from rest_framework import serializers

from scheduler.api.http.body import Shown
from scheduler.api.http.endpoint import Endpoint
from scheduler.api.http.openapi_operation import Access, operation
from scheduler.messages import news

if TYPE_CHECKING:
    from rest_framework.request import Request
    from rest_framework.response import Response

    from scheduler.models import News


class NewsShown(Shown):
    """News of the project."""

    id = serializers.IntegerField()
    title = serializers.CharField()
    text = serializers.CharField(help_text="Plain text; an empty line separates paragraphs.")
    published_at = serializers.DateTimeField()
    url = serializers.URLField(help_text="The address of the page of the news.")

    def read_url(self, row: News) -> str:
        return news.page_url(row.pk)


class NewsList(Endpoint):
    @operation("List news", name="list_news", answer=NewsShown, listed=True, access=Access.PUBLIC)
    def get(self, request: Request) -> Response:
        """Returns the news that is not withdrawn, newest first."""
        return self.page(news.published())


class OneNews(Endpoint):
    @operation(
        "Read news",
        name="read_news",
        answer=NewsShown,
        access=Access.PUBLIC,
        conditional=True,
        problems=(404,),
    )
    def get(self, request: Request, news_id: int) -> Response:
        """Returns news; 404 if it is withdrawn."""
        row = news.published().filter(pk=news_id).first()
        if row is None:
            raise Http404
        return self.reply(row)
