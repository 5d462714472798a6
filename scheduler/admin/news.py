"""Admin page on which operators publish and withdraw news."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from django import forms
from django.contrib import admin
from django.db.models import QuerySet
from django.http import HttpRequest
from django.utils import timezone

from scheduler.admin.base import StaffAdmin
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
    """The page of news.  Published news can be withdrawn, but not changed: clients have them."""

    change_right = Right.ADMINISTER_PROJECT
    form = NewNewsForm
    list_display = ("title", "author", "published_at", "withdrawn_at")
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
        """Return the fields; new news have only those of the form."""
        return ("title", "text") if obj is None else self.fields

    def get_readonly_fields(self, request: HttpRequest, obj: Any = None) -> Any:
        """Return the read-only fields, which are all fields of published news."""
        return self.readonly_fields if obj is None else self.fields

    def save_model(self, request: HttpRequest, obj: Any, form: Any, change: bool) -> None:
        """Publish new news; published news are not changed."""
        if change:
            return
        author = request.user if isinstance(request.user, Account) else None
        published = news.publish(obj.title, obj.text, author=author, now=timezone.now())
        obj.__dict__.update(published.__dict__)

    @admin.action(description="Withdraw the selected news", permissions=["change"])
    def withdraw(self, request: HttpRequest, queryset: QuerySet[News]) -> None:
        """Withdraw news, so that feeds omit them."""
        ids = queryset.values_list("pk", flat=True)
        count = news.withdraw(list(ids), now=timezone.now())
        self.message_user(request, f"{count} withdrawn.")
