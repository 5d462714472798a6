"""The protocol of log-in with other sites, OpenID Connect.

allauth leads through the steps of the protocol.  This module adds what it leaves out: the signature
of the identity token is always verified, and the token must contain the nonce of this log-in.

allauth's modules import the package requests, which takes 5 MB per process: only
`web.accounts.provider_steps` imports this module, and only when a visitor uses a provider.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
from typing import Any, cast

import jwt
from allauth.core.exceptions import ImmediateHttpResponse
from allauth.socialaccount.adapter import DefaultSocialAccountAdapter
from allauth.socialaccount.helpers import render_authentication_error
from allauth.socialaccount.models import SocialApp, SocialLogin, SocialToken
from allauth.socialaccount.providers import registry
from allauth.socialaccount.providers.base import AuthProcess
from allauth.socialaccount.providers.oauth2.client import OAuth2Client, OAuth2Error
from allauth.socialaccount.providers.oauth2.utils import generate_code_challenge
from allauth.socialaccount.providers.oauth2.views import (
    OAuth2CallbackView,
    OAuth2LoginView,
    OAuth2View,
)
from allauth.socialaccount.providers.openid_connect.provider import OpenIDConnectProvider
from allauth.socialaccount.providers.openid_connect.views import OpenIDConnectOAuth2Adapter
from django.conf import settings
from django.core.cache import cache
from django.http import HttpRequest
from django.http.response import HttpResponseBase
from django.urls import reverse

from scheduler.models import Account
from scheduler.people import hashing
from scheduler.web.accounts import providers
from scheduler.web.accounts.adapter import absolute

#: Signatures with a public key; a shared secret would let the token's sender choose the method.
_ALGORITHMS = ("RS256", "RS384", "RS512", "PS256", "PS512", "ES256", "ES384", "ES512", "EdDSA")
_CLAIMS = ("iss", "sub", "aud", "exp", "iat", "nonce")
_ADDRESSES = ("issuer", "authorization_endpoint", "token_endpoint", "jwks_uri")
#: The configuration of a provider changes rarely; each log-in would fetch it twice.
_CONFIGURATION_SECONDS = 600
#: Between the clocks of this machine and of the provider.
_LEEWAY_SECONDS = 60
_MAX_UID = 191


def _nonce(code_verifier: str) -> str:
    """Return the nonce of a log-in: derived from its other secret, which the session holds."""
    digest = hashlib.sha256(f"nonce {code_verifier}".encode()).digest()
    return base64.urlsafe_b64encode(digest).decode().rstrip("=")


class OpenIDAdapter(OpenIDConnectOAuth2Adapter):
    """Fetches the identity of a person from a provider, and verifies it."""

    nonce = ""

    @property
    def openid_config(self) -> dict[str, Any]:
        url = self.get_provider().server_url
        config: Any = cache.get(f"openid:{url}")
        if config is None:
            config = self._fetch(url)
            if not all(isinstance(config.get(name), str) for name in _ADDRESSES):
                raise OAuth2Error("The configuration of the provider is incomplete.")
            cache.set(f"openid:{url}", config, _CONFIGURATION_SECONDS)
        return cast("dict[str, Any]", config)

    def _fetch(self, url: str, **options: Any) -> dict[str, Any]:
        hashing.release_connections()  # the provider may answer slowly
        with ProviderAdapter(self.request).get_requests_session() as session:
            response = session.get(url, **options)
            response.raise_for_status()
        content = response.json()
        if not isinstance(content, dict):
            raise OAuth2Error("The provider sent no JSON object.")
        return content

    def get_callback_url(self, request: HttpRequest, app: SocialApp) -> str:  # noqa: ARG002
        return absolute(reverse("openid_connect_callback", args=[self.provider_id]))

    def get_access_token_data(
        self,
        request: HttpRequest,
        app: SocialApp,
        client: OAuth2Client,
        pkce_code_verifier: str | None = None,
    ) -> dict[str, Any]:
        self.nonce = _nonce(pkce_code_verifier or "")
        hashing.release_connections()  # as in `_fetch`
        data = super().get_access_token_data(request, app, client, pkce_code_verifier)
        if not isinstance(data, dict) or not isinstance(data.get("id_token"), str):
            raise OAuth2Error("The provider sent no identity token.")
        return data

    def parse_token(self, data: dict[str, Any]) -> SocialToken:  # noqa: ARG002
        # The session would keep the provider's token until the visitor signs up.
        return SocialToken(token="")

    def complete_login(
        self,
        request: HttpRequest,
        app: SocialApp,
        token: SocialToken,  # noqa: ARG002
        **kwargs: Any,
    ) -> SocialLogin:
        """Return the log-in of the person in the identity token.

        Name and address may be in the provider's further information, instead.
        """
        claims = self._claims(app, kwargs["response"]["id_token"])
        data = {"id_token": claims}
        address = self.openid_config.get("userinfo_endpoint")
        if "email" not in claims and isinstance(address, str):
            headers = {"Authorization": f"Bearer {kwargs['response']['access_token']}"}
            data["userinfo"] = self._fetch(address, headers=headers)
            if data["userinfo"].get("sub") != claims["sub"]:
                raise OAuth2Error("The provider sent the information of another person.")
        return self.get_provider().sociallogin_from_response(request, data)

    def _claims(self, app: SocialApp, id_token: str) -> dict[str, Any]:
        """Return the verified claims of the identity token."""
        keys_address = self.openid_config["jwks_uri"]
        try:
            key_id = jwt.get_unverified_header(id_token).get("kid")
            keys = jwt.PyJWKSet.from_dict(self._fetch(keys_address)).keys
            [key] = [key for key in keys if key_id is None or key.key_id == key_id][:1]
            claims = jwt.decode(
                id_token,
                key=key,
                algorithms=_ALGORITHMS,
                audience=app.client_id,
                issuer=self.openid_config["issuer"],
                leeway=_LEEWAY_SECONDS,
                options={"require": list(_CLAIMS)},
            )
        except (jwt.PyJWTError, AttributeError, LookupError, TypeError, ValueError) as error:
            raise OAuth2Error("The identity token is not valid.") from error
        if not hmac.compare_digest(str(claims["nonce"]).encode(), self.nonce.encode()):
            raise OAuth2Error("The identity token belongs to another log-in.")
        person = claims["sub"]
        if not (isinstance(person, str) and person.isprintable() and 0 < len(person) <= _MAX_UID):
            raise OAuth2Error("The identity token names no person.")
        return claims


class OpenIDProvider(OpenIDConnectProvider):
    """A provider of the settings."""

    oauth2_adapter_class = OpenIDAdapter

    def get_pkce_params(self) -> dict[str, str]:
        """Return the parameters that bind the answer to this log-in."""
        params = generate_code_challenge()
        return {**params, "nonce": _nonce(params["code_verifier"])}

    def get_scope_from_request(self, request: HttpRequest) -> list[str]:  # noqa: ARG002
        return list(self.get_scope())

    def get_auth_params_from_request(self, request: HttpRequest, action: str) -> dict[str, str]:  # noqa: ARG002
        return {}

    def extract_extra_data(self, data: dict[str, Any]) -> dict[str, Any]:  # noqa: ARG002
        """Return nothing: a log-in needs only the id of the person."""
        return {}

    def serialize(self) -> dict[str, Any]:
        return {"id": self.app.provider_id}


registry.register(OpenIDProvider)
registry.loaded = True


class ProviderAdapter(DefaultSocialAccountAdapter):
    """Reads the providers from the settings, and connects identities by our operations."""

    def list_apps(
        self,
        request: HttpRequest,  # noqa: ARG002
        provider: str | None = None,
        client_id: str | None = None,
    ) -> list[SocialApp]:
        return [
            SocialApp(
                provider=OpenIDProvider.id,
                provider_id=each.id,
                name=each.name,
                client_id=each.client_id,
                secret=each.client_secret,
                settings={"server_url": each.server},
            )
            for each in settings.PROJECT.login_providers
            if provider in {None, each.id} and client_id in {None, each.client_id}
        ]

    def populate_user(
        self,
        request: HttpRequest,  # noqa: ARG002
        sociallogin: SocialLogin,
        data: dict[str, Any],
    ) -> Account:
        """Set the name that the form to sign up proposes."""
        account = cast("Account", sociallogin.user)
        account.name = _text(data.get("name") or data.get("username"))
        return account

    def pre_social_login(self, request: HttpRequest, sociallogin: SocialLogin) -> None:
        """Connect the identity, if the visitor started this on the page of their log-ins."""
        if sociallogin.state.get("process") == AuthProcess.CONNECT:
            raise ImmediateHttpResponse(providers.connect(request, sociallogin))

    def get_signup_form_initial_data(self, sociallogin: SocialLogin) -> dict[str, str]:
        emails = [_text(each.email) for each in sociallogin.email_addresses]
        return {"email": "".join(emails[:1]), "name": cast("Account", sociallogin.user).name}


def _text(value: object) -> str:
    return value[:254] if isinstance(value, str) and value.isprintable() else ""


def log_in(request: HttpRequest, provider_id: str) -> HttpResponseBase:
    """Redirect a form's browser to the provider; a link shows that form."""
    return _step(OAuth2LoginView, request, provider_id)


def callback(request: HttpRequest, provider_id: str) -> HttpResponseBase:
    """Log in with the answer of the provider, connect it, or show the form to sign up."""
    return _step(OAuth2CallbackView, request, provider_id)


def _step(view: type[OAuth2View], request: HttpRequest, provider_id: str) -> HttpResponseBase:
    adapter = OpenIDAdapter(request, provider_id)
    provider = adapter.get_provider()
    try:
        response: HttpResponseBase = view.adapter_view(adapter)(request)
    # The errors of connections and of their answers are OSError.
    except (OAuth2Error, OSError, LookupError, TypeError, ValueError) as error:
        return cast(
            "HttpResponseBase", render_authentication_error(request, provider, exception=error)
        )
    return response
