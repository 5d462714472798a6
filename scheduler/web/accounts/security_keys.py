"""The forms and pages of security keys and passkeys, as a second factor."""

from __future__ import annotations

import json
import struct
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final

from allauth.account.internal.flows.login import record_authentication
from allauth.core import context
from allauth.mfa.models import Authenticator
from allauth.mfa.webauthn import forms as allauth_forms
from allauth.mfa.webauthn import views as allauth_views
from cryptography.exceptions import UnsupportedAlgorithm
from django import forms
from django.conf import settings
from django.contrib import messages
from django.core.exceptions import ValidationError
from django.http import Http404, HttpRequest
from django.http.response import HttpResponseBase
from django.shortcuts import redirect
from django.urls import reverse_lazy
from django.utils import timezone
from django.utils.translation import gettext_lazy as _
from fido2.utils import websafe_decode, websafe_encode

from scheduler.people import second_factors
from scheduler.web.accounts.forms import RefusableForm, address_of

#: A key's answer has about 1 000 characters; one with a chain of certificates, several thousand.
_MAX_ANSWER: Final = 20_000
_MAX_KEYS: Final = 20
_MAX_NAME: Final = 60
#: The exceptions of allauth, fido2 and cryptography for malformed answers.
_MALFORMED = (
    ArithmeticError,
    AssertionError,
    AttributeError,
    LookupError,
    RuntimeError,
    TypeError,
    UnsupportedAlgorithm,
    ValueError,
    struct.error,
)


class _AnswerForm(RefusableForm):
    """A form with the answer of a security key, as JSON in a hidden field."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.fields["credential"] = forms.CharField(
            max_length=_MAX_ANSWER,
            widget=forms.HiddenInput,
            error_messages={"required": _("The security key gave no answer. Hint: try again.")},
        )


@contextmanager
def _well_formed() -> Iterator[None]:
    """Convert the exceptions for a malformed or wrong answer to one `ValidationError`."""
    text = _("The answer of the security key is not valid. Hint: try again.")
    try:
        yield
    except _MALFORMED as error:
        raise ValidationError(text, code="malformed") from error
    except ValidationError as error:
        # allauth's text is about codes.
        raise ValidationError(text, code=error.code) from error


def _stored(answer: dict[str, Any]) -> dict[str, Any]:
    """Return the parts of a new key's answer that are stored, in canonical form.

    The rest is what the sender chooses: PostgreSQL could refuse it, or store much of it.
    """
    key_id = _canonical(answer["rawId"])
    response = {
        name: _canonical(answer["response"][name])
        for name in ("clientDataJSON", "attestationObject")
    }
    return {"id": key_id, "rawId": key_id, "type": "public-key", "response": response}


def _canonical(text: str) -> str:
    return websafe_encode(websafe_decode(text))


class AddKeyForm(_AnswerForm, allauth_forms.AddWebAuthnForm):
    """The form that adds a security key, whose first answer proves that it works."""

    cleaned_data: dict[str, Any]

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        count = Authenticator.objects.filter(
            user=self.user, type=Authenticator.Type.WEBAUTHN
        ).count()
        self.is_full = count >= _MAX_KEYS
        self.initial["name"] = _("Key {number}").format(number=count + 1)
        self.fields["name"] = forms.CharField(
            label=_("Name of the key"),
            required=False,
            widget=forms.TextInput(attrs={"maxlength": _MAX_NAME, "autocomplete": "off"}),
        )
        self.order_fields(["name", "credential"])

    def clean_name(self) -> str:
        """Return a name that can be shown; never refuse it, because the key is already made."""
        name = "".join(filter(str.isprintable, self.cleaned_data["name"]))[:_MAX_NAME].strip()
        return name or str(self.initial["name"])

    def clean(self) -> dict[str, Any]:
        if self.errors:
            return self.cleaned_data
        if self.is_full:
            text = _("An account has at most {count} security keys. Hint: remove one first.")
            raise ValidationError(str(text).format(count=_MAX_KEYS))
        with _well_formed():
            self.cleaned_data["credential"] = json.loads(self.cleaned_data["credential"])
            cleaned: dict[str, Any] = super().clean() or {}
            cleaned["credential"] = _stored(cleaned["credential"])
        # The session has proven the new factor: the administration does not ask for it again.
        record_authentication(
            context.request, self.user, "mfa", type="webauthn", reauthenticated=True
        )
        return cleaned


class _ThrottledKey(_AnswerForm):
    """A form whose answer is checked within the limits of `people.throttle`."""

    cleaned_data: dict[str, Any]

    def clean_credential(self) -> Authenticator:
        with (
            self.refusable(),
            second_factors.factor_attempt(
                account=self.user,  # type: ignore[attr-defined]  # of the other base class
                address=address_of(context.request),
                now=timezone.now(),
            ),
            _well_formed(),
        ):
            self.cleaned_data["credential"] = json.loads(self.cleaned_data["credential"])
            return super().clean_credential()  # type: ignore[misc]  # as above


class KeyForm(_ThrottledKey, allauth_forms.AuthenticateWebAuthnForm):
    """The form of a security key in the second step of a log-in."""

    def offers_keys(self) -> bool:
        """Return whether the account has a security key."""
        rows = Authenticator.objects.filter(user=self.user, type=Authenticator.Type.WEBAUTHN)
        return bool(rows.exists())


class ReauthenticateKeyForm(_ThrottledKey, allauth_forms.ReauthenticateWebAuthnForm):
    """The form that asks for a security key before a sensitive page."""


class AddKeyView(allauth_views.AddWebAuthnView):
    """The page that adds a security key, where browsers can use one."""

    def dispatch(self, request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponseBase:
        if "webauthn" not in settings.MFA_SUPPORTED_TYPES:
            raise Http404
        response: HttpResponseBase = super().dispatch(request, *args, **kwargs)
        return response


class RemoveKeyView(allauth_views.RemoveWebAuthnView):
    """The page that removes a security key."""

    success_url = reverse_lazy("mfa_index")


class ReauthenticateKeyView(allauth_views.ReauthenticateWebAuthnView):
    """The page that asks for a security key before a sensitive page."""

    def form_invalid(self, form: ReauthenticateKeyForm) -> HttpResponseBase:
        """Show the reason on the same page, with a new challenge."""
        for reason in form.errors.get("credential", []):
            messages.error(self.request, str(reason))
        return redirect(self.request.get_full_path())
