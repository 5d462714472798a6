"""Admin page on which operators publish, change and withdraw news."""

from __future__ import annotations

from typing import Any

from django.contrib import admin
from django.contrib.admin.utils import unquote
from django.db.models import Model, QuerySet
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.utils import timezone

from scheduler.admin.base import StaffAdmin
from scheduler.admin.confirm import confirmation_page_with, is_confirmed_as_shown, shown_names
from scheduler.admin.previews import news_page
from scheduler.admin.site import staff
from scheduler.messages import news
from scheduler.models import News
from scheduler.rights import Right


@admin.register(News, site=staff)
class NewsAdmin(StaffAdmin):
    """The page of news.  Published news can be changed and withdrawn; withdrawn news cannot."""

    change_right = Right.ADMINISTER_PROJECT
    list_display = ("title", "author", "published_at", "changed_at", "withdrawn_at")
    is_small = True
    list_filter = (("withdrawn_at", admin.EmptyFieldListFilter),)
    search_fields = ("title",)
    fields = ("title", "text", "author", "published_at", "changed_at", "withdrawn_at")
    actions = ("withdraw",)

    def has_change_permission(self, request: HttpRequest, obj: Model | None = None) -> bool:
        """Return whether the user may change news; withdrawn news is read-only."""
        is_withdrawn = isinstance(obj, News) and obj.withdrawn_at is not None
        return super().has_change_permission(request, obj) and not is_withdrawn

    def add_view(
        self, request: HttpRequest, form_url: str = "", extra_context: dict[str, Any] | None = None
    ) -> HttpResponse:
        """Return the page that publishes news, with a preview."""
        return news_page.page(self, request, None)

    def change_view(
        self,
        request: HttpRequest,
        object_id: str,
        form_url: str = "",
        extra_context: dict[str, Any] | None = None,
    ) -> HttpResponse:
        """Return the page that changes news, with a preview, or Django's page without a form."""
        row = self.get_object(request, unquote(object_id))
        if row is not None and self.has_change_permission(request, row):
            return news_page.page(self, request, row)
        if row is not None and request.method == "POST" and self.has_change_permission(request):
            self.refuse(request, f"The news “{row}” is withdrawn, and cannot be changed.")
            return HttpResponseRedirect(request.path)
        return super().change_view(request, object_id, form_url, extra_context)

    @admin.action(description="Withdraw the selected news", permissions=["change"])
    def withdraw(self, request: HttpRequest, queryset: QuerySet[News]) -> HttpResponse | None:
        """Withdraw news, so that feeds omit it, after the user confirmed it."""
        rows = list(queryset.order_by("pk"))
        published = [row for row in rows if row.withdrawn_at is None]
        if is_confirmed_as_shown(self, request, len(published), "news items"):
            count = news.withdraw([row.pk for row in rows], now=timezone.now())
            self.message_user(request, f"{count} withdrawn.")
            return None
        return confirmation_page_with(
            self,
            request,
            "withdraw",
            counts=(
                ("news", len(published)),
                ("withdrawn before", len(rows) - len(published)),
            ),
            explanation=(
                "This cannot be undone. The news disappears from the feeds at once, and from "
                "clients at their next request. Readers of the feeds may keep it."
            ),
            previewed=len(published),
            **shown_names(published),
        )
