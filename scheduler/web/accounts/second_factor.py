"""Seals the secrets of second factors, and throttles the checks of codes."""

from __future__ import annotations

from typing import Any
from urllib.parse import urlsplit

from allauth.account.internal.flows.login import record_authentication
from allauth.core import context
from allauth.mfa.adapter import DefaultMFAAdapter
from allauth.mfa.base import forms as base_forms
from allauth.mfa.totp import forms as totp_forms
from django.conf import settings
from django.utils import timezone
from django.utils.translation import gettext_lazy as _

from scheduler import signing
from scheduler.models import Account
from scheduler.people import second_factors
from scheduler.web.accounts.forms import RefusableForm, address_of, plain


class SecondFactorAdapter(DefaultMFAAdapter):
    """Encrypts secrets with the project's key, as the keys of accounts are."""

    def encrypt(self, text: str) -> str:
        return signing.seal(text).decode()

    def decrypt(self, encrypted_text: str) -> str:
        return signing.unseal(encrypted_text.encode())

    def get_totp_issuer(self) -> str:
        """Return the name under which an authenticator app lists the account."""
        return str(settings.PROJECT.name)

    def get_public_key_credential_rp_entity(self) -> dict[str, str]:
        """Return the name and host of the site, for which security keys sign.

        The host is that of `MASTER_URL`, not that of the request, which its sender chooses.
        """
        host = str(urlsplit(settings.PROJECT.master_url).hostname)
        return {"id": host, "name": str(settings.PROJECT.name)}


class _ThrottledCode(RefusableForm):
    """A form whose code is checked within the limits of `people.throttle`."""

    user: Account
    cleaned_data: dict[str, Any]

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        plain(self)

    def clean_code(self) -> str:
        with (
            self.refusable(),
            second_factors.code_attempt(
                account=self.user,
                code=self.cleaned_data["code"],
                address=address_of(context.request),
                now=timezone.now(),
            ),
        ):
            code: str = super().clean_code()  # type: ignore[misc]  # of the other base class
        return code


class CodeForm(_ThrottledCode, base_forms.AuthenticateForm):
    """The form of the second step of a log-in."""


class ReauthenticateForm(_ThrottledCode, base_forms.ReauthenticateForm):
    """The form that asks for a code before a sensitive page."""


class EnrolForm(_ThrottledCode, totp_forms.ActivateTOTPForm):
    """The form that adds an authenticator app, after a first code that proves that it works."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.fields["code"].label = _("Code that the app shows")
        self.offers_security_keys = "webauthn" in settings.MFA_SUPPORTED_TYPES

    def clean_code(self) -> str:
        code = super().clean_code()
        # The session has proven the new factor: the administration does not ask for it again.
        record_authentication(context.request, self.user, "mfa", type="totp", reauthenticated=True)
        return code
