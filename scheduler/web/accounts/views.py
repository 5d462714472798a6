"""The pages on which owners see and change their accounts."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from functools import wraps
from typing import Any, Concatenate, ParamSpec, cast

from allauth.account import views as allauth_views
from allauth.account.decorators import reauthentication_required
from allauth.account.internal.flows.email_verification import send_verification_email_for_user
from allauth.core.exceptions import ReauthenticationRequired
from django.conf import settings
from django.contrib import messages
from django.contrib.auth import logout, update_session_auth_hash
from django.contrib.auth.decorators import login_required
from django.http import HttpRequest, StreamingHttpResponse
from django.http.response import HttpResponseBase
from django.shortcuts import redirect
from django.template.response import TemplateResponse
from django.urls import reverse
from django.utils import timezone
from django.utils.translation import gettext as _
from django.views.decorators.cache import never_cache
from django.views.decorators.debug import sensitive_post_parameters
from django.views.decorators.http import require_http_methods, require_POST, require_safe

from scheduler.credit import manual_grants
from scheduler.credit.credit_samples import Kind
from scheduler.models import Account
from scheduler.people import (
    api_tokens,
    audit,
    email_changes,
    second_factors,
    throttle,
)
from scheduler.people.account_keys import AccountRefused
from scheduler.people.personal_data import erasure, own_data
from scheduler.people.public_texts import confirmed_addresses
from scheduler.people.teams import SuccessorChanged
from scheduler.web import credit_charts, texts
from scheduler.web.accounts import forms
from scheduler.web.accounts.adapter import AccountAdapter, absolute, sends_mail

P = ParamSpec("P")
OwnView = Callable[Concatenate[HttpRequest, Account, P], HttpResponseBase]
View = Callable[Concatenate[HttpRequest, P], HttpResponseBase]

_read_or_send = require_http_methods(["GET", "HEAD", "POST"])


def attributed(view: View[P]) -> View[P]:
    """Return a view whose audit entries have the visitor's account as their actor."""

    @never_cache
    @wraps(view)
    def wrapper(request: HttpRequest, /, *args: P.args, **kwargs: P.kwargs) -> HttpResponseBase:
        if isinstance(request.user, Account):
            audit.identify(request.user)
        return view(request, *args, **kwargs)

    return wrapper


def own_page(view: OwnView[P]) -> View[P]:
    """Return a view that requires a log-in, and gets the visitor's account."""

    @login_required
    @attributed
    @wraps(view)
    def wrapper(request: HttpRequest, /, *args: P.args, **kwargs: P.kwargs) -> HttpResponseBase:
        return view(request, cast(Account, request.user), *args, **kwargs)

    return wrapper


def proven(view: View[P]) -> View[P]:
    """Return a view that also requires the account's second factor, if it has one.

    The session proved it at the log-in or later; a password of the last five minutes may be older
    than the second factor.
    """

    @login_required
    @wraps(view)
    def wrapper(request: HttpRequest, /, *args: P.args, **kwargs: P.kwargs) -> HttpResponseBase:
        if second_factors.must_prove(request):
            raise ReauthenticationRequired
        return view(request, *args, **kwargs)

    return wrapper


def sensitive(view: OwnView[P]) -> View[P]:
    """Return a view that requires the password or, with a second factor, a code again.

    Both are valid for five minutes.
    """
    checked: View[P] = reauthentication_required(proven(own_page(view)))
    return checked


@_read_or_send
@own_page
def home(request: HttpRequest, account: Account) -> HttpResponseBase:
    """Return the page of the account, with the form of its name, country and consents."""
    form = forms.ProfileForm(request.POST or None, account=account)
    if request.method == "POST" and form.is_valid() and form.save(account):
        messages.success(request, _("Your changes are saved."))
        return redirect("account_home")
    context = {
        "account": account,
        "form": form,
        "total_credit": texts.number(account.total_credit),
        "recent_credit": texts.number(account.expavg_credit, 1),
        "is_confirmed": confirmed_addresses.is_confirmed(account),
        "sends_mail": sends_mail(),
        "email_change": email_changes.pending(account, now=timezone.now()),
        "has_second_factor": second_factors.has_one(account),
        "manual_grants": _shown_grants(account),
        "credit": credit_charts.chart(request, Kind.ACCOUNT, account.pk, now=timezone.now()),
        "tokens": api_tokens.of_account(account).count(),
        "master_url": settings.PROJECT.master_url,
        "max_exported_rows": texts.number(own_data.MAX_ROWS),
    }
    return _page(request, "home", context)


def _shown_grants(account: Account) -> list[tuple[datetime, str, bool, str]]:
    """Return the time, the amount, whether it was revoked, and the reason of grants by hand."""
    return [
        (
            grant.entry.granted_at,
            texts.amount(abs(grant.entry.amount)),
            grant.entry.amount < 0,
            grant.reason,
        )
        for grant in manual_grants.newest_grants(account)
    ]


@own_page
def change_password(request: HttpRequest, account: Account) -> HttpResponseBase:
    """Return allauth's page to change the password.

    An account without a password is redirected to the page that mails a link to set one.
    """
    if not account.has_usable_password():
        messages.info(request, _("Your account has no password. Request a link to set one."))
        return redirect("account_reset_password")
    response: HttpResponseBase = allauth_views.password_change(request)
    return response


def reset_password(request: HttpRequest) -> HttpResponseBase:
    """Return allauth's page to reset a password, or a page without a form."""
    if not sends_mail():
        return _page(request, "no_mail", {})
    response: HttpResponseBase = allauth_views.password_reset(request)
    return response


@require_POST
@own_page
def send_confirmation(request: HttpRequest, account: Account) -> HttpResponseBase:
    """Mail the link that confirms the account's address once more."""
    if not sends_mail():
        return _page(request, "no_mail", {})
    throttle.charge_mail(
        door="email_confirmation",
        email=account.email,
        address=forms.address_of(request),
        now=timezone.now(),
    )
    send_verification_email_for_user(request, account)
    return redirect("account_home")


@sensitive_post_parameters()
@_read_or_send
@own_page
def change_email(request: HttpRequest, account: Account) -> HttpResponseBase:
    """Return the page on which an account gets another address, and mail both addresses."""
    if not sends_mail():
        return _page(request, "no_mail", {})
    if not account.has_usable_password():
        messages.info(request, _("Your account has no password. Request a link to set one."))
        return redirect("account_reset_password")
    form = forms.EmailForm(request.POST or None, request=request)
    if request.method == "POST" and form.is_valid():
        _mail_change(request, form.requested)
        messages.success(
            request,
            _("A link was sent to {email}. It is valid for one day.").format(
                email=form.requested.new_email
            ),
        )
        return redirect("account_home")
    pending = email_changes.pending(account, now=timezone.now())
    context = {"form": form, "account": account, "email_change": pending}
    return _page(request, "email", context)


def _mail_change(request: HttpRequest, requested: email_changes.Requested) -> None:
    link = absolute(reverse("account_confirm_email_change", args=[requested.token]))
    context = {"requested": requested, "link": link, "request": request}
    adapter = AccountAdapter(request)
    adapter.send_mail("account/email/email_change", requested.new_email, context)
    adapter.send_mail("account/email/email_change_warning", requested.old_email, context)


@require_POST
@own_page
def cancel_email_change(request: HttpRequest, account: Account) -> HttpResponseBase:
    """Drop the pending change of the address."""
    if email_changes.cancel(account):
        messages.success(request, _("The change of your address is cancelled."))
    return redirect("account_home")


@never_cache
@_read_or_send
def confirm_email_change(request: HttpRequest, token: str) -> HttpResponseBase:
    """Return the page behind the link to a new address; its button carries out the change.

    Programs that open links of mails send no POST, so they change nothing.  The status is 410 for
    a link that is unknown, was used or has expired, and if another account has taken the address.
    """
    now = timezone.now()
    # Read now, because the change ends the sessions of the account.
    visitor_id = request.user.pk
    try:
        if request.method != "POST":
            change = email_changes.find(token, now=now)
            return _page(request, "email_change_confirm", {"change": change})
        account = email_changes.confirm(token, now=now)
    except AccountRefused as refusal:
        return _page(
            request, "email_refused", {"reason": texts.translated(str(refusal))}, status=410
        )
    if visitor_id == account.pk:
        update_session_auth_hash(request, account)
    text = _("The address is now {email}. Log in with it from now on, also in BOINC Manager.")
    messages.success(request, text.format(email=account.email))
    return redirect("account_home")


@_read_or_send
@sensitive
def tokens(request: HttpRequest, account: Account) -> HttpResponseBase:
    """Return the page of API tokens; a new token is shown once.

    Staff without the second factor that the project requires is led to its set-up.
    """
    if second_factors.is_missing(account):
        return redirect("mfa_activate_totp")
    form = forms.TokenForm(request.POST or None, account=account)
    text = ""
    if request.method == "POST" and form.is_valid():
        text, form = form.text, forms.TokenForm(account=account)
    live = [
        {"row": row, "scopes": [forms.scope_label(each) for each in api_tokens.scopes_of(row)]}
        for row in api_tokens.of_account(account).order_by("-pk")
    ]
    context = {"form": form, "tokens": live, "text": text, "master_url": absolute("/")}
    return _page(request, "tokens", context)


@require_POST
@own_page
def revoke_token(request: HttpRequest, account: Account, token_id: int) -> HttpResponseBase:
    """Revoke an API token of the account."""
    if api_tokens.revoke(account=account, token_id=token_id, now=timezone.now()):
        messages.success(request, _("The token is revoked."))
    return redirect("account_tokens")


@require_safe
@sensitive
def export(request: HttpRequest, account: Account) -> HttpResponseBase:  # noqa: ARG001
    """Return what is stored about the account, as a JSON file."""
    parts = own_data.export(account, now=timezone.now())
    response = StreamingHttpResponse(parts, content_type="application/json")
    response["Content-Disposition"] = f'attachment; filename="account-{account.pk}.json"'
    return response


@_read_or_send
@sensitive
def erase(request: HttpRequest, account: Account) -> HttpResponseBase:
    """Return the page that erases the account."""
    form = forms.ErasureForm(request.POST or None)
    if request.method == "POST" and form.is_valid():
        try:
            erasure.erase(account, now=timezone.now())
        except (erasure.StaffAccount, SuccessorChanged) as refusal:
            form.add_error(None, texts.translated(str(refusal)))
        else:
            logout(request)
            return _page(request, "erased", {})
    context = {"form": form, "account": account, "audit_kept_days": settings.AUDIT_KEPT_DAYS}
    return _page(request, "erase", context)


def _page(
    request: HttpRequest, name: str, context: dict[str, Any], *, status: int = 200
) -> TemplateResponse:
    return TemplateResponse(request, f"account/{name}.html", context, status=status)
