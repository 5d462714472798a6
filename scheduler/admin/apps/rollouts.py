"""The page on which operators change the staged roll-out of an app version."""

from __future__ import annotations

from http import HTTPStatus
from typing import TYPE_CHECKING, Any

from django import forms
from django.contrib import messages
from django.core.exceptions import PermissionDenied
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseRedirect
from django.template.response import TemplateResponse
from django.urls import reverse
from django.utils import timezone

from scheduler.admin.base import has_right
from scheduler.admin.confirm import is_confirmed
from scheduler.apps import rollouts
from scheduler.apps.rollouts import BadRollout, Preview, Rollout
from scheduler.models import AppVersion
from scheduler.rights import Right

if TYPE_CHECKING:
    from django.contrib.admin import ModelAdmin

_MAX_ID = 2**63 - 1


def max_error_percent_field() -> forms.IntegerField:
    return forms.IntegerField(
        required=False,
        min_value=0,
        max_value=99,
        label="Roll back above",
        help_text="In percent of the results of the last 24 hours. Above it, the share becomes 0, "
        "and an alert reports it. Empty: no automatic roll-back.",
    )


class RolloutForm(forms.Form):
    """The form of a roll-out; the page that asks for a confirmation repeats its hidden values."""

    required_css_class = "required"
    rollout_percent = forms.IntegerField(
        min_value=0,
        max_value=100,
        label="Share of hosts",
        help_text="In percent. A larger share contains all hosts of a smaller one. 100 ends the "
        "roll-out: every host may get the version. 0 sends it to no host.",
    )
    max_error_percent = max_error_percent_field()
    min_rollback_results = forms.IntegerField(
        min_value=1,
        max_value=1_000_000,
        label="After results",
        help_text="With fewer results, the version is not rolled back.",
    )

    def rollout(self) -> Rollout:
        """Return the roll-out of a valid form."""
        return Rollout(**self.cleaned_data)


def may_roll_out(request: HttpRequest) -> bool:
    """Return whether the user may change roll-outs."""
    return has_right(request, Right.MANAGE_APPS)


def page(site_page: ModelAdmin[Any], request: HttpRequest, version_id: int) -> HttpResponse:
    """Return the form, the preview of a sent form, or a redirect after its confirmation.

    Raises `PermissionDenied` for users without the right, and `Http404` for an unknown version.
    """
    if not (may_roll_out(request) and site_page.has_view_permission(request)):
        raise PermissionDenied
    versions = AppVersion.objects.select_related("app", "platform")
    version = versions.filter(pk=version_id).first() if version_id <= _MAX_ID else None
    if version is None:
        raise Http404
    is_sent = request.method == "POST"
    form = RolloutForm(
        request.POST if is_sent else None,
        initial={name: getattr(version, name) for name in RolloutForm.base_fields},
    )
    preview = None
    if is_sent and form.is_valid():
        now = timezone.now()
        try:
            if is_confirmed(request):
                changed = rollouts.change(version.pk, form.rollout(), now=now)
                text = f"{changed} is sent to {changed.rollout_percent} % of the hosts."
                site_page.message_user(request, text, messages.SUCCESS)
                url = reverse("admin:scheduler_appversion_change", args=[version.pk])
                return HttpResponseRedirect(url)
            preview = rollouts.preview(version, form.rollout(), now=now)
        except BadRollout as refusal:
            form.add_error(None, str(refusal))
    return _shown(site_page, request, version, form, preview)


def _shown(
    site_page: ModelAdmin[Any],
    request: HttpRequest,
    version: AppVersion,
    form: RolloutForm,
    preview: Preview | None,
) -> HttpResponse:
    context = {
        **site_page.admin_site.each_context(request),
        "opts": site_page.opts,
        "version": version,
        "form": form,
        "title": f"Roll-out of {version}",
        "preview": preview,
    }
    if preview is not None:
        percent = form.cleaned_data["rollout_percent"]
        context |= {
            "title": f"Really send {version} to {percent} % of the hosts?",
            "button": f"Yes, send it to {percent} %",
            "rollout": form.rollout(),
        }
    status = HTTPStatus.UNPROCESSABLE_ENTITY if form.errors else HTTPStatus.OK
    return TemplateResponse(request, "scheduler/admin/rollout.html", context, status=status)
