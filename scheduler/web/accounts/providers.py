"""Log-in with other sites: connecting, removing and creating accounts.

`web.accounts.openid` follows the protocol.  Accounts are created and connected by operations of
`scheduler.people`, never by allauth's models.
"""

from __future__ import annotations

from typing import Any

from allauth.core import context
from allauth.socialaccount import forms as allauth_forms
from allauth.socialaccount import views as allauth_views
from allauth.socialaccount.models import SocialLogin
from django.conf import settings
from django.contrib import messages
from django.http import Http404, HttpRequest
from django.http.response import HttpResponseBase
from django.shortcuts import redirect
from django.template.response import TemplateResponse
from django.utils import timezone
from django.utils.translation import gettext as _
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_http_methods, require_safe

from scheduler.models import Account
from scheduler.people import accounts, audit
from scheduler.people.account_keys import AccountRefused
from scheduler.people.accounts import Identity
from scheduler.people.providers import identities
from scheduler.web import texts
from scheduler.web.accounts import forms
from scheduler.web.accounts.adapter import AccountAdapter
from scheduler.web.accounts.views import own_page, sensitive


def _identity(sociallogin: SocialLogin) -> Identity:
    confirmed = [each.email for each in sociallogin.email_addresses if each.verified]
    row = sociallogin.account
    return Identity(row.provider, row.uid, confirmed_email="".join(confirmed[:1]))


def connect(request: HttpRequest, sociallogin: SocialLogin) -> HttpResponseBase:
    """Connect the identity to the visitor's account, and return to the page of their log-ins.

    The owner gets a mail about it, as about the removal.
    """
    account = request.user
    if not isinstance(account, Account):
        return redirect("account_login")
    adapter = AccountAdapter(request)
    if adapter.is_reauthentication_required(app="allauth.socialaccount"):
        messages.error(request, _("It took too long. Hint: try again."))
        return redirect("socialaccount_connections")
    audit.identify(account)
    try:
        is_new = identities.connect(account, _identity(sociallogin), now=timezone.now())
    except AccountRefused as refusal:
        messages.error(request, texts.translated(str(refusal)))
    else:
        if is_new:
            adapter.notify_of_provider(account, sociallogin.account.provider, is_connected=True)
        messages.success(request, _("The log-in is connected to your account."))
    return redirect("socialaccount_connections")


class SignUpForm(forms.RefusableForm, allauth_forms.SignupForm):
    """The form that creates an account without a password, for a person of a provider."""

    name = forms.SignUpForm.base_fields["name"]
    invite_code = forms.SignUpForm.base_fields["invite_code"]
    accepts_terms = forms.SignUpForm.base_fields["accepts_terms"]
    account: Account | None = None
    cleaned_data: dict[str, Any]

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        forms.prepare_sign_up(self)
        self.order_fields(["email", "name", "invite_code", "accepts_terms"])

    def clean_email(self) -> str:
        """Return the address; `accounts.create_account_of` checks whether an account has it."""
        return str(self.cleaned_data["email"]).lower()

    def clean(self) -> dict[str, Any]:
        """Create the account, so that a refusal is shown as an error of the form."""
        if self.errors:
            return self.cleaned_data
        cleaned = self.cleaned_data
        with self.refusable():
            self.account = accounts.create_account_of(
                _identity(self.sociallogin),
                email=cleaned["email"],
                name=cleaned["name"],
                invite_code=cleaned.get("invite_code", ""),
                terms_accepted_in="web site" if cleaned.get("accepts_terms") else None,
                address=forms.address_of(context.request),
                now=timezone.now(),
            )
        return cleaned

    def try_save(self, request: HttpRequest) -> tuple[Account | None, None]:  # noqa: ARG002
        """Return the account that `clean` has created; called by allauth."""
        self.sociallogin.user = self.account
        return self.account, None


sign_up = never_cache(allauth_views.signup)
cancelled = allauth_views.login_cancelled
failed = allauth_views.login_error


@never_cache
@require_safe
@own_page
def log_in_again(request: HttpRequest, account: Account) -> HttpResponseBase:
    """Return the page that asks for a log-in with a provider before a sensitive page."""
    connected = {row.provider for row in identities.of_account(account)}
    offered = [each for each in settings.PROJECT.login_providers if each.id in connected]
    return _page(request, "reauthenticate", {"providers": offered})


@require_safe
@sensitive
def connections(request: HttpRequest, account: Account) -> HttpResponseBase:
    """Return the page of the account's log-ins with other sites."""
    names = {each.id: each.name for each in settings.PROJECT.login_providers}
    rows = [(row, names.get(row.provider, row.provider)) for row in identities.of_account(account)]
    return _page(request, "connections", {"identities": rows, "account": account})


@require_http_methods(["GET", "HEAD", "POST"])
@sensitive
def disconnect(request: HttpRequest, account: Account, identity_id: int) -> HttpResponseBase:
    """Remove a log-in with another site, after a question."""
    row = identities.find(account, identity_id)
    if row is None:
        raise Http404
    if request.method != "POST":
        names = {each.id: each.name for each in settings.PROJECT.login_providers}
        return _page(request, "disconnect", {"name": names.get(row.provider, row.provider)})
    try:
        is_removed = identities.disconnect(account, identity_id, now=timezone.now())
    except AccountRefused as refusal:
        messages.error(request, texts.translated(str(refusal)))
    else:
        if is_removed:
            AccountAdapter(request).notify_of_provider(account, row.provider, is_connected=False)
        messages.success(request, _("The log-in is removed."))
    return redirect("socialaccount_connections")


def _page(request: HttpRequest, name: str, context: dict[str, Any]) -> TemplateResponse:
    return TemplateResponse(request, f"socialaccount/{name}.html", context)
