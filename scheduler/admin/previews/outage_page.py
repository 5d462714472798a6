"""The page on which operators record an outage, with a preview."""

from __future__ import annotations

from http import HTTPStatus
from typing import TYPE_CHECKING, Any

from django import forms
from django.contrib import messages
from django.core.exceptions import PermissionDenied
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.template.response import TemplateResponse
from django.urls import reverse
from django.utils import timezone

from scheduler.admin.base import duration_label
from scheduler.admin.confirm import is_confirmed
from scheduler.results import outages
from scheduler.results.outages import BadOutage

if TYPE_CHECKING:
    from scheduler.admin.base import StaffAdmin

_MAX_REASON = 200


def _time_field(help_text: str) -> forms.DateTimeField:
    widget = forms.DateTimeInput(attrs={"type": "datetime-local"}, format="%Y-%m-%dT%H:%M")
    return forms.DateTimeField(help_text=help_text, widget=widget)


class OutageForm(forms.Form):
    """The form of an outage; the page that asks for a confirmation repeats its hidden values."""

    required_css_class = "required"
    began_at = _time_field("UTC. The time from which hosts could not reach the server.")
    ended_at = _time_field("UTC. The time at which hosts could reach it again.")
    reason = forms.CharField(
        required=False,
        max_length=_MAX_REASON,
        help_text="For example the name of the router that failed.",
        widget=forms.TextInput(attrs={"class": "vTextField"}),
    )

    def clean(self) -> dict[str, Any]:
        """Check the times with `outages.check`, and add its error to the form."""
        cleaned: dict[str, Any] = super().clean() or {}
        began_at, ended_at = cleaned.get("began_at"), cleaned.get("ended_at")
        if began_at and ended_at:
            try:
                outages.check(began_at, ended_at, now=timezone.now())
            except BadOutage as refusal:
                self.add_error(None, str(refusal))
        return cleaned


def page(site_page: StaffAdmin, request: HttpRequest) -> HttpResponse:
    """Return the form, the preview of a sent form, or a redirect after its confirmation.

    Raises `PermissionDenied` for users who may not record outages.
    """
    if not site_page.has_add_permission(request):
        raise PermissionDenied
    form = OutageForm(request.POST if request.method == "POST" else None)
    is_valid = form.is_valid()
    if is_valid and is_confirmed(request):
        outage = outages.add(**form.cleaned_data, now=timezone.now())
        site_page.log_addition(request, outage, [{"added": {}}])
        text = f"The outage {outage} is recorded. The timeout checker moves the deadlines."
        site_page.message_user(request, text, messages.SUCCESS)
        return HttpResponseRedirect(reverse("admin:scheduler_outage_changelist"))
    return _shown(site_page, request, form, is_preview=is_valid)


def _shown(
    site_page: StaffAdmin, request: HttpRequest, form: OutageForm, *, is_preview: bool
) -> HttpResponse:
    context: dict[str, Any] = {
        **site_page.admin_site.each_context(request),
        "opts": site_page.opts,
        "title": "Record an outage",
        "form": form,
        "is_preview": is_preview,
    }
    if is_preview:
        began_at, ended_at = form.cleaned_data["began_at"], form.cleaned_data["ended_at"]
        context |= {
            "title": "Really record this outage?",
            "began_at": began_at,
            "ended_at": ended_at,
            "length": duration_label(ended_at - began_at),
            "results": outages.concerned(began_at, ended_at),
            "covered": outages.covered(began_at, ended_at),
        }
    status = HTTPStatus.UNPROCESSABLE_ENTITY if form.errors else HTTPStatus.OK
    return TemplateResponse(request, "scheduler/admin/outage.html", context, status=status)
