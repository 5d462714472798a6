"""The admin site: its name, its log-in by e-mail, its front page with live counts."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any, cast

from django import forms
from django.contrib.admin import AdminSite
from django.contrib.auth import authenticate
from django.contrib.auth.forms import PasswordChangeForm
from django.contrib.auth.views import PasswordChangeView
from django.core.exceptions import ValidationError
from django.http import HttpRequest, HttpResponse
from django.template.response import TemplateResponse
from django.urls import reverse
from django.utils import timezone

from scheduler.models import Account
from scheduler.operations import accounts, audit
from scheduler.queries import alerts, status


class OwnPasswordForm(PasswordChangeForm):
    """Asks for the old password and the new one twice; keeps BOINC's digest of it."""

    required_css_class = "required"

    def clean_old_password(self) -> str:
        """Check the old password as log-in does."""
        old: str = self.cleaned_data["old_password"]
        if authenticate(username=self.user.get_username(), password=old) != self.user:
            raise ValidationError(
                self.error_messages["password_incorrect"], code="password_incorrect"
            )
        return old

    def save(self, commit: bool = True) -> Account:
        """Change the password through the one door for it."""
        return set_password(self.user, self.cleaned_data["new_password1"])


class StaffSite(AdminSite):
    """Manyhands' administration."""

    site_title = "Manyhands administration"
    site_header = "Manyhands administration"
    index_title = "The project now"
    index_template = "scheduler/admin/index.html"
    empty_value_display = "–"

    def admin_view(
        self, view: Callable[..., HttpResponse], cacheable: bool = False
    ) -> Callable[..., HttpResponse]:
        """Attribute what a page changes, in the audit log, to the account that is logged in."""

        @wraps(view)
        def attributed(request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponse:
            if isinstance(request.user, Account):
                audit.identify(request.user)
            return view(request, *args, **kwargs)

        return super().admin_view(attributed, cacheable)

    def index(
        self, request: HttpRequest, extra_context: dict[str, Any] | None = None
    ) -> TemplateResponse:
        """Show the alerts and the live counts above the list of tables."""
        live = status.current(now=timezone.now())
        rows = (("workunits", live.workunits), ("results", live.results), ("people", live.people))
        counts = {
            title: [(status.words(name), count.label) for name, count in found.items()]
            for title, found in rows
        }
        more = {"counts": counts, "alerts": alerts.current(now=timezone.now())}
        return super().index(request, {**(extra_context or {}), **more})

    def password_change(
        self, request: HttpRequest, extra_context: dict[str, Any] | None = None
    ) -> TemplateResponse:
        """Let members of staff change their own password."""
        view = PasswordChangeView.as_view(
            form_class=OwnPasswordForm,
            success_url=reverse("admin:password_change_done", current_app=self.name),
            extra_context={**self.each_context(request), **(extra_context or {})},
        )
        request.current_app = self.name
        return cast(TemplateResponse, view(request))


def set_password(account: Account, password: str) -> Account:
    """Store a new password as BOINC's clients compute it."""
    digest = accounts.password_digest(email=account.email, password=password)
    accounts.change_password(account=account, passwd_hash=digest, now=timezone.now())
    return account


def refuse(form: forms.BaseForm, refusal: Exception) -> None:
    """Show an operation's refusal on the form instead of failing."""
    form.add_error(None, str(refusal))


#: The one site; ``project/urls.py`` mounts it at ``/admin/``.
staff = StaffSite(name="admin")
