"""The pages that prove the ownership of an account, and verify such a proof."""

from __future__ import annotations

from django import forms
from django.http import HttpRequest, HttpResponse
from django.http.response import HttpResponseBase
from django.template.response import TemplateResponse
from django.utils import timezone
from django.utils.translation import gettext_lazy as _
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_http_methods, require_safe

from scheduler import signing
from scheduler.models import Account
from scheduler.people.personal_data import ownership
from scheduler.people.rules.ownership_statements import (
    MAX_SIGNATURE,
    MAX_STATEMENT,
    MAX_TEXT,
    BadText,
)
from scheduler.web.accounts.adapter import absolute
from scheduler.web.accounts.views import own_page, proven
from scheduler.web.texts import translated

_read_or_send = require_http_methods(["GET", "HEAD", "POST"])


class ProofForm(forms.Form):
    """The form of the text that another site gave the volunteer."""

    text = forms.CharField(
        label=_("Text"),
        max_length=MAX_TEXT,
        help_text=_("Copy it from the site that asks for the proof."),
        widget=forms.TextInput(attrs={"autocomplete": "off", "spellcheck": "false"}),
    )


class VerificationForm(forms.Form):
    """The form of a statement and its signature."""

    statement = forms.CharField(
        label=_("Statement"),
        max_length=MAX_STATEMENT,
        strip=False,
        widget=forms.Textarea(attrs={"rows": 6, "spellcheck": "false"}),
        help_text=_("All lines, unchanged."),
    )
    signature = forms.CharField(
        label=_("Signature"),
        max_length=MAX_SIGNATURE,
        widget=forms.TextInput(attrs={"autocomplete": "off", "spellcheck": "false"}),
    )


@_read_or_send
@proven
@own_page
def prove(request: HttpRequest, account: Account) -> HttpResponseBase:
    """Return the page that signs the statement that the visitor owns their account."""
    form = ProofForm(request.POST or None)
    proof = None
    if request.method == "POST" and form.is_valid():
        try:
            proof = ownership.prove(account, form.cleaned_data["text"], now=timezone.now())
        except (BadText, signing.KeyMissing) as refusal:
            is_text = isinstance(refusal, BadText)
            text = translated(str(refusal)) if is_text else str(_("The project has no key for it."))
            form.add_error(None, text)
    return TemplateResponse(request, "account/ownership.html", {"form": form, "proof": proof})


@never_cache
@_read_or_send
def verify(request: HttpRequest) -> HttpResponseBase:
    """Return the page on which everybody can verify a statement of this project."""
    form = VerificationForm(request.POST or None)
    is_valid = None
    if request.method == "POST" and form.is_valid():
        is_valid = ownership.is_valid(
            form.cleaned_data["statement"], form.cleaned_data["signature"]
        )
    context = {"form": form, "is_valid": is_valid, "key_url": absolute("/ownership/key.pem")}
    return TemplateResponse(request, "account/ownership_check.html", context)


@require_safe
@never_cache
def public_key(_request: HttpRequest) -> HttpResponse:
    """Return the public key of the proofs, in PEM."""
    return HttpResponse(signing.ownership_key_text(), content_type="application/x-pem-file")
