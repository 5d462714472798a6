"""The two requests of a log-in with another site: there, and back."""

from __future__ import annotations

from django.conf import settings
from django.http import Http404, HttpRequest
from django.http.response import HttpResponseBase
from django.utils import timezone
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_http_methods, require_safe

from scheduler.people import throttle
from scheduler.web.accounts.forms import address_of


@never_cache
@require_http_methods(["GET", "HEAD", "POST"])
def log_in(request: HttpRequest, provider_id: str) -> HttpResponseBase:
    """Redirect a form's browser to the provider; a link shows that form."""
    _require(provider_id)
    from scheduler.web.accounts import openid  # noqa: PLC0415  imports the package requests

    return openid.log_in(request, provider_id)


@never_cache
@require_safe
def callback(request: HttpRequest, provider_id: str) -> HttpResponseBase:
    """Log in with the answer of the provider, connect it, or show the form to sign up."""
    _require(provider_id)
    # Each answer causes requests of this server to the provider.
    throttle.charge_query(
        door="provider", email="", address=address_of(request), now=timezone.now()
    )
    from scheduler.web.accounts import openid  # noqa: PLC0415  as above

    return openid.callback(request, provider_id)


def _require(provider_id: str) -> None:
    """Raise `Http404` if the project does not have this provider."""
    if provider_id not in {each.id for each in settings.PROJECT.login_providers}:
        raise Http404
