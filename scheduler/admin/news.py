"""Admin page on which operators publish and withdraw news."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from django import forms
from django.contrib import admin
from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse
from django.utils import timezone

from scheduler.admin.base import StaffAdmin
from scheduler.admin.confirm import confirmation_page_with, is_confirmed_as_shown, shown_names
from scheduler.admin.site import staff
from scheduler.messages import news
from scheduler.models import Account, News
from scheduler.rights import Right

if TYPE_CHECKING:
    NewsForm = forms.ModelForm[News]
else:
    NewsForm = forms.ModelForm


class NewNewsForm(NewsForm):
    """The form that publishes news with `news.publish`."""

    class Meta:
        model = News
        fields = ("title", "text")

    def clean(self) -> dict[str, Any]:
        """Add the error of `news.check`, if any."""
        cleaned = super().clean() or {}
        try:
            news.check(cleaned.get("title", ""), cleaned.get("text", ""))
        except news.NewsRefused as refusal:
            raise forms.ValidationError(str(refusal)) from refusal
        return cleaned


@admin.register(News, site=staff)
class NewsAdmin(StaffAdmin):
    """The page of news.  Published news can be withdrawn, but not changed: clients have it."""

    change_right = Right.ADMINISTER_PROJECT
    form = NewNewsForm
    list_display = ("title", "author", "published_at", "withdrawn_at")
    is_small = True
    list_filter = (("withdrawn_at", admin.EmptyFieldListFilter),)
    search_fields = ("title",)
    fields = ("title", "text", "author", "published_at", "withdrawn_at")
    readonly_fields = ("author", "published_at", "withdrawn_at")
    helps = {
        "title": "One line of plain text.",
        "text": "Plain text; an empty line separates paragraphs. BOINC clients show it as a notice "
        "for 30 days.",
    }
    actions = ("withdraw",)

    def get_fields(self, request: HttpRequest, obj: Any = None) -> Any:
        """Return the fields; a new item has only those of the form."""
        return ("title", "text") if obj is None else self.fields

    def get_readonly_fields(self, request: HttpRequest, obj: Any = None) -> Any:
        """Return the read-only fields, which are all fields of published news."""
        return self.readonly_fields if obj is None else self.fields

    def save_model(self, request: HttpRequest, obj: Any, form: Any, change: bool) -> None:
        """Publish a new item; published items are not changed."""
        if change:
            return
        author = request.user if isinstance(request.user, Account) else None
        published = news.publish(obj.title, obj.text, author=author, now=timezone.now())
        obj.__dict__.update(published.__dict__)

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
