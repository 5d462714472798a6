"""The admin site: log-in, password change, and an index page with live counts."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any, TypeVar, cast

from django import forms
from django.contrib.admin import AdminSite
from django.contrib.admin.forms import AdminAuthenticationForm
from django.contrib.auth import authenticate
from django.contrib.auth.forms import PasswordChangeForm
from django.contrib.auth.views import PasswordChangeView
from django.core.exceptions import ValidationError
from django.http import HttpRequest, HttpResponse
from django.http.response import HttpResponseBase
from django.template.response import TemplateResponse
from django.urls import reverse
from django.utils import timezone

from scheduler.health import alerts, status
from scheduler.models import Account
from scheduler.people import accounts, audit
from scheduler.people.hashing import RETRY_AFTER_SECONDS, HashQueueFull
from scheduler.people.throttle import TooManyAttempts

View = TypeVar("View", bound=Callable[..., HttpResponseBase])


class RefusableForm(forms.BaseForm):
    """A form that checks a password, and stores the exception if the attempt is refused.

    An attempt is refused if the throttle blocks it or if the hash queue is full.  `_with_status`
    sets the HTTP status of the page according to `refusal`.
    """

    refusal: TooManyAttempts | HashQueueFull | None = None

    def refuse_attempt(self, refusal: TooManyAttempts | HashQueueFull) -> ValidationError:
        """Store the exception in `refusal`, and return a form error with its text."""
        self.refusal = refusal
        return ValidationError(str(refusal), code="throttled")


class LogInForm(RefusableForm, AdminAuthenticationForm):
    """The log-in form, which shows the reason if an attempt is refused."""

    def clean(self) -> dict[str, Any]:
        """Check the password; raise `ValidationError` if it is wrong or the attempt is refused."""
        try:
            return super().clean()
        except (TooManyAttempts, HashQueueFull) as refusal:
            raise self.refuse_attempt(refusal) from refusal


class RevokesKeysForm(forms.Form):
    """A form with the option to revoke the keys of attached computers."""

    revoke_host_keys = forms.BooleanField(
        required=False,
        label="Revoke the keys of attached computers, too",
        help_text=(
            "If set, every computer must be attached again, and stock BOINC clients lose the work "
            "they hold. "
            "API tokens, submission keys, the weak key and other sessions are revoked in any case."
        ),
    )

    def set_password(self, account: Account, password: str) -> Account:
        """Change the password; if `revoke_host_keys` is set, revoke the keys of computers."""
        accounts.change_password(
            account=account,
            passwd_hash=accounts.password_digest(email=account.email, password=password),
            revoke_host_keys=self.cleaned_data["revoke_host_keys"],
            now=timezone.now(),
        )
        return account


class OwnPasswordForm(RefusableForm, RevokesKeysForm, PasswordChangeForm):
    """The form with which users change their own password."""

    required_css_class = "required"
    request: HttpRequest | None = None
    field_order = ("old_password", "new_password1", "new_password2", "revoke_host_keys")

    def clean_old_password(self) -> str:
        """Check the old password; raise `ValidationError` if it is wrong or the attempt is refused.

        The log-in throttle counts wrong passwords.
        """
        old: str = self.cleaned_data["old_password"]
        try:
            account = authenticate(self.request, username=self.user.get_username(), password=old)
        except (TooManyAttempts, HashQueueFull) as refusal:
            raise self.refuse_attempt(refusal) from refusal
        if account != self.user:
            raise ValidationError(
                self.error_messages["password_incorrect"], code="password_incorrect"
            )
        return old

    def save(self, commit: bool = True) -> Account:
        return self.set_password(self.user, self.cleaned_data["new_password1"])


class OwnPasswordView(PasswordChangeView):
    """The page on which users change their own password."""

    form_class = OwnPasswordForm
    template_name = "scheduler/admin/own_password.html"

    def get_form(self, form_class: type[Any] | None = None) -> Any:
        """Return the form with the request, from which the throttle reads the client address."""
        form: Any = super().get_form(form_class)
        form.request = self.request
        return form


class StaffSite(AdminSite):
    """The admin site of Manyhands."""

    site_title = "Manyhands administration"
    site_header = "Manyhands administration"
    index_title = "Project status"
    index_template = "scheduler/admin/index.html"
    login_form = LogInForm
    empty_value_display = "–"
    # Lists need the width of the page; the index page and breadcrumbs link to all pages.
    enable_nav_sidebar = False

    def admin_view(self, view: View, cacheable: bool = False) -> View:
        """Return a view whose audit entries have the user's account as their actor."""

        @wraps(view)
        def attributed(request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponseBase:
            if isinstance(request.user, Account):
                audit.identify(request.user)
            return view(request, *args, **kwargs)

        return super().admin_view(cast("View", attributed), cacheable)

    def index(
        self, request: HttpRequest, extra_context: dict[str, Any] | None = None
    ) -> TemplateResponse:
        """Return the index page with alerts and live counts above the list of tables."""
        live = status.current(now=timezone.now())
        rows = (("workunits", live.workunits), ("results", live.results), ("people", live.people))
        counts = {
            title: [(status.words(name), count.label) for name, count in group.items()]
            for title, group in rows
        }
        more = {"counts": counts, "alerts": alerts.current(now=timezone.now())}
        return super().index(request, {**(extra_context or {}), **more})

    def password_change(
        self, request: HttpRequest, extra_context: dict[str, Any] | None = None
    ) -> TemplateResponse:
        view = OwnPasswordView.as_view(
            success_url=reverse("admin:password_change_done", current_app=self.name),
            extra_context={**self.each_context(request), **(extra_context or {})},
        )
        request.current_app = self.name
        return _with_status(cast(TemplateResponse, view(request)))

    def login(
        self, request: HttpRequest, extra_context: dict[str, Any] | None = None
    ) -> HttpResponse:
        """Return Django's log-in page, or a redirect after a successful log-in.

        The status is 429 if the attempt is throttled, and 503 if the hash queue is full.
        """
        return _with_status(super().login(request, extra_context))


Answer = TypeVar("Answer", bound=HttpResponse)


def _with_status(response: Answer) -> Answer:
    """Return the response; if its form stored a refusal, set the status and `Retry-After`."""
    context = getattr(response, "context_data", None) or {}
    refusal = getattr(context.get("form"), "refusal", None)
    if isinstance(refusal, TooManyAttempts):
        response.status_code, response["Retry-After"] = 429, str(refusal.seconds)
    elif isinstance(refusal, HashQueueFull):
        response.status_code, response["Retry-After"] = 503, str(RETRY_AFTER_SECONDS)
    return response


#: The only admin site; ``project/urls.py`` mounts it at ``/admin/``.
staff = StaffSite(name="admin")
