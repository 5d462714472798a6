"""The page on which operators publish or change news, with a preview."""

from __future__ import annotations

from datetime import datetime
from http import HTTPStatus
from typing import TYPE_CHECKING, Any, Final

from django import forms
from django.contrib import messages
from django.core.exceptions import PermissionDenied
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.template.response import TemplateResponse
from django.urls import reverse
from django.utils import timezone

from scheduler.admin.confirm import is_confirmed
from scheduler.health import counts
from scheduler.messages import news
from scheduler.messages.news import NewsOutdated, NewsRefused
from scheduler.messages.rules import plain_text
from scheduler.models import Account, News

if TYPE_CHECKING:
    from scheduler.admin.base import StaffAdmin

#: The button of the preview that leads back to the form.
_EDIT: Final = "edit"
#: The hidden field of the preview with the `fingerprint` of the news that it shows.
_SEEN: Final = "seen"


class NewsForm(forms.Form):
    """The form of news; the page that asks for a confirmation repeats its hidden values."""

    required_css_class = "required"
    title = forms.CharField(
        help_text="One line of plain text.", widget=forms.TextInput({"class": "vTextField"})
    )
    text = forms.CharField(
        help_text="Plain text; an empty line separates paragraphs. BOINC clients show it as a "
        "notice for 30 days.",
        widget=forms.Textarea({"class": "vLargeTextField", "rows": 12}),
    )

    def clean(self) -> dict[str, Any]:
        """Return title and text in their stored form; add the error of `news.check`, if any."""
        cleaned: dict[str, Any] = super().clean() or {}
        if not self.errors:
            try:
                cleaned["title"], cleaned["text"] = news.check(cleaned["title"], cleaned["text"])
            except NewsRefused as refusal:
                self.add_error(None, str(refusal))
        return cleaned


def page(site_page: StaffAdmin, request: HttpRequest, row: News | None) -> HttpResponse:
    """Return the form, the preview of a sent form, or a redirect after its confirmation.

    `row` is the news to change; None publishes a new item.  Raises `PermissionDenied` for users
    who may not do this.
    """
    user = request.user
    is_permitted = (
        site_page.has_add_permission(request)
        if row is None
        else site_page.has_change_permission(request, row)
    )
    if not is_permitted or not isinstance(user, Account):
        raise PermissionDenied
    initial = None if row is None else {"title": row.title, "text": row.text}
    form = NewsForm(request.POST if request.method == "POST" else None, initial=initial)
    if _EDIT in request.POST or not form.is_valid():
        return _form_page(site_page, request, form, row)
    now = timezone.now()
    try:
        if is_confirmed(request):
            return _stored(site_page, request, form, row, user, now=now)
    except NewsOutdated:
        text = "The news has changed since the preview. This is the new preview."
        site_page.message_user(request, text, messages.WARNING)
        if row is not None:
            row.refresh_from_db()
    except NewsRefused as refusal:
        form.add_error(None, str(refusal))
        return _form_page(site_page, request, form, row)
    return _preview(site_page, request, form, row, now=now)


def _stored(
    site_page: StaffAdmin,
    request: HttpRequest,
    form: NewsForm,
    row: News | None,
    author: Account,
    *,
    now: datetime,
) -> HttpResponse:
    """Publish or change the news of a confirmed form; raises `NewsRefused`."""
    values = form.cleaned_data
    if row is None:
        stored = news.publish(values["title"], values["text"], author=author, now=now)
        site_page.log_addition(request, stored, [{"added": {}}])
        text = f"The news “{stored}” is published."
    else:
        seen = request.POST.get(_SEEN, "")
        stored = news.change(row.pk, values["title"], values["text"], seen=seen, now=now)
        names = [name for name in ("title", "text") if getattr(stored, name) != getattr(row, name)]
        site_page.log_change(request, stored, [{"changed": {"fields": names}}])
        text = f"The news “{stored}” is changed."
    site_page.message_user(request, text, messages.SUCCESS)
    return HttpResponseRedirect(reverse("admin:scheduler_news_changelist"))


def _form_page(
    site_page: StaffAdmin, request: HttpRequest, form: NewsForm, row: News | None
) -> HttpResponse:
    title = "Publish news" if row is None else "Change news"
    status = HTTPStatus.UNPROCESSABLE_ENTITY if form.errors else HTTPStatus.OK
    context = {"title": title, "form": form, "row": row}
    return _response(site_page, request, context, status)


def _preview(
    site_page: StaffAdmin, request: HttpRequest, form: NewsForm, row: News | None, *, now: datetime
) -> HttpResponse:
    """Return the preview, or the form with an error if nothing would change."""
    title, text = form.cleaned_data["title"], form.cleaned_data["text"]
    versions = [("As volunteers will see it", title, plain_text.paragraphs(text))]
    if row is not None:
        try:
            news.check_change(row, title, text)
        except NewsRefused as refusal:
            form.add_error(None, str(refusal))
            return _form_page(site_page, request, form, row)
        before = ("Before", row.title, plain_text.paragraphs(row.text))
        versions = [before, ("After", title, plain_text.paragraphs(text))]
    context = {
        "title": f"Really {'publish' if row is None else 'change'} this news?",
        "form": form,
        "row": row,
        "is_preview": True,
        "versions": versions,
        "people": counts.current(now=now).people,
        "days": news.SHOWN_FOR.days,
        "is_in_feeds": row is None or row.published_at > now - news.SHOWN_FOR,
        "seen": "" if row is None else news.fingerprint(row),
    }
    return _response(site_page, request, context, HTTPStatus.OK)


def _response(
    site_page: StaffAdmin, request: HttpRequest, content: dict[str, Any], status: HTTPStatus
) -> HttpResponse:
    context = {
        **site_page.admin_site.each_context(request),
        "opts": site_page.opts,
        "news_path": f"/{news.PATH}",
        **content,
    }
    return TemplateResponse(request, "scheduler/admin/news.html", context, status=status)
