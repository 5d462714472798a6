"""The pages on which owners create, rename, renew and revoke account keys."""

from __future__ import annotations

from typing import Any, Final

from django.conf import settings
from django.contrib import messages
from django.http import Http404, HttpRequest
from django.http.response import HttpResponseBase
from django.shortcuts import redirect
from django.template.response import TemplateResponse
from django.utils import timezone
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy
from django.views.decorators.http import require_http_methods

from scheduler.boinc.rules.addresses import account_file
from scheduler.hosts import own_hosts
from scheduler.models import Account, AccountKey
from scheduler.people import account_keys, second_factors
from scheduler.people.account_keys import AccountRefused
from scheduler.web import texts
from scheduler.web.accounts.forms import KeyForm, KeyNameForm
from scheduler.web.accounts.views import sensitive

_read_or_send = require_http_methods(["GET", "HEAD", "POST"])
Kind = AccountKey.Kind
#: The uses of keys that an owner can create.
_USES: Final = {
    Kind.STRONG: gettext_lazy("attaches computers"),
    Kind.SUBMISSION: gettext_lazy("submits work"),
}


@_read_or_send
@sensitive
def keys(request: HttpRequest, account: Account) -> HttpResponseBase:
    """Return the page of the account's keys; a POST creates a key, which is shown once.

    Staff without the second factor that the project requires is led to its set-up by a POST.
    """
    form = KeyForm(request.POST or None, account=account)
    created: AccountKey | None = None
    text = ""
    if request.method == "POST":
        if second_factors.is_missing(account):
            return redirect("mfa_activate_totp")
        if form.is_valid():
            created, text, form = form.created, form.text, KeyForm(account=account)
    live = list(account_keys.live_keys(account))
    weak_key = account_keys.weak_key(account)
    file_name, file_text = account_file(settings.PROJECT.master_url, weak_key)
    context = {
        "form": form,
        "created": created,
        "text": text,
        "attaches": created is not None and created.kind == Kind.STRONG,
        "current": {Kind(row.kind).name.lower(): row for row in live if row.is_current},
        "strong_key": account_keys.login_key(account),
        "weak_key": weak_key,
        "file_name": file_name,
        "file_text": file_text,
        "further_keys": [
            {
                "row": row,
                "use": _USES[Kind(row.kind)],
                "is_recorded": row.kind == Kind.SUBMISSION,
            }
            for row in reversed(live)
            if not row.is_current and row.kind in _USES
        ],
        "master_url": settings.PROJECT.master_url,
    }
    return _page(request, "keys", context)


@_read_or_send
@sensitive
def key(request: HttpRequest, account: Account, key_id: int) -> HttpResponseBase:
    """Return the page of a key with what its revocation causes.

    A POST renames or revokes the key, by the field `action`.
    """
    try:
        row = account_keys.find_live(account, key_id)
    except account_keys.UnknownKey:
        raise Http404 from None
    form = KeyNameForm(initial={"name": row.name})
    if request.method == "POST":
        match request.POST.get("action", ""):
            case "rename":
                form = KeyNameForm(request.POST)
                if _is_renamed(request, account, row, form):
                    return redirect("account_keys")
            case "revoke":
                _revoke(request, account, row)
                return redirect("account_keys")
            case _:
                raise Http404
    computers, results = own_hosts.totals(account) if row.kind != Kind.SUBMISSION else (0, 0)
    context = {
        "key": row,
        "kind": Kind(row.kind).name.lower(),
        "form": form,
        "computers": computers,
        "results": results,
    }
    return _page(request, "key", context)


def _is_renamed(request: HttpRequest, account: Account, row: AccountKey, form: KeyNameForm) -> bool:
    """Store the name in a form; return False if the form shows an error instead."""
    if not form.is_valid():
        return False
    try:
        account_keys.rename_key(
            account=account, key_id=row.pk, name=form.cleaned_data["name"], now=timezone.now()
        )
    except AccountRefused as refusal:
        form.add_error("name", texts.translated(str(refusal)))
        return False
    messages.success(request, _("The key is renamed."))
    return True


def _revoke(request: HttpRequest, account: Account, row: AccountKey) -> None:
    """Revoke a key, and add a message with the outcome."""
    try:
        renewed = account_keys.revoke_key(account=account, key_id=row.pk, now=timezone.now())
    except AccountRefused as refusal:
        messages.error(request, texts.translated(str(refusal)))
        return
    if renewed is None:
        messages.success(request, _("The key is revoked."))
    elif row.kind == Kind.WEAK:
        messages.success(request, _("The weak key is renewed. The former one is revoked."))
    else:
        messages.success(
            request, _("The account key and the weak key are renewed. The former ones are revoked.")
        )


def _page(request: HttpRequest, name: str, context: dict[str, Any]) -> TemplateResponse:
    return TemplateResponse(request, f"account/{name}.html", context)
