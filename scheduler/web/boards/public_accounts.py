"""The public page of an account, and the certificates of credit."""

from __future__ import annotations

from django.http import Http404, HttpRequest
from django.http.response import HttpResponseBase
from django.template.response import TemplateResponse
from django.utils import timezone
from django.utils.translation import gettext_lazy as _
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_safe

from scheduler.credit import public_accounts
from scheduler.credit.credit_samples import Kind
from scheduler.models import Account
from scheduler.web import credit_charts, texts
from scheduler.web.accounts.views import own_page
from scheduler.web.volunteers import shown

_MAX_ID = 2**63 - 1
#: Prefixes of large numbers in words.
_WORDS = (
    (1e24, _("septillion")),
    (1e21, _("sextillion")),
    (1e18, _("quintillion")),
    (1e15, _("quadrillion")),
    (1e12, _("trillion")),
    (1e9, _("billion")),
    (1e6, _("million")),
)


@require_safe
@never_cache
def public_account(request: HttpRequest, account_id: int) -> HttpResponseBase:
    """Return the page of an account that shares its statistics, else 404."""
    public = public_accounts.find(account_id) if account_id <= _MAX_ID else None
    if public is None:
        raise Http404
    context = {
        "public": public,
        "credit": credit_charts.chart(request, Kind.ACCOUNT, public.account.pk, now=timezone.now()),
        "shown_account": public.account,
        "computers": None
        if public.computers is None
        else [(host, shown.processor_of(host)) for host in public.computers],
        "is_own": isinstance(request.user, Account) and request.user.pk == public.account.pk,
    }
    return TemplateResponse(request, "boards/account.html", context)


@require_safe
@own_page
def certificate(request: HttpRequest, account: Account) -> HttpResponseBase:
    """Return the certificate of the visitor's credit, which is made to be printed."""
    return _certificate(request, account, is_own=True)


@require_safe
@never_cache
def public_certificate(request: HttpRequest, account_id: int) -> HttpResponseBase:
    """Return the certificate of an account that shares its statistics, else 404."""
    account = public_accounts.find_shared(account_id) if account_id <= _MAX_ID else None
    if account is None:
        raise Http404
    return _certificate(request, account, is_own=False)


def _certificate(request: HttpRequest, account: Account, *, is_own: bool) -> HttpResponseBase:
    context = {
        "account": account,
        "operations": in_words(public_accounts.operations(account.total_credit)),
        "at": timezone.now(),
        "is_own": is_own,
    }
    return TemplateResponse(request, "boards/certificate.html", context)


def in_words(count: float) -> str:
    """Return a large number with the name of its unit.

    >>> in_words(8.64e13), in_words(5)
    ('86.4 trillion', '5')
    """
    for size, word in _WORDS:
        if count >= size:
            return f"{texts.number(count / size, 1)} {word}"
    return texts.number(count)
