"""The page behind the link of a letter, which ends letters without a log-in."""

from __future__ import annotations

from http import HTTPStatus

from django.http import HttpRequest
from django.http.response import HttpResponseBase
from django.template.response import TemplateResponse
from django.utils import timezone
from django.views.decorators.cache import never_cache
from django.views.decorators.csrf import csrf_exempt
from django.views.decorators.http import require_http_methods

from scheduler.messages import unsubscribing


# Mail programs send the POST request of RFC 8058 without cookies.  The signed link, which only its
# recipient has, proves that the request is wanted.
@csrf_exempt
@never_cache
@require_http_methods(["GET", "HEAD", "POST"])
def unsubscribe(request: HttpRequest, token: str) -> HttpResponseBase:
    """Return the form that ends letters, or end them; GET changes nothing.

    Link checkers of mail servers open each link, so that only POST withdraws the consent.
    """
    is_sent = request.method == "POST"
    try:
        if is_sent:
            unsubscribing.unsubscribe(token, now=timezone.now())
        else:
            unsubscribing.check(token)
    except unsubscribing.BadLink:
        context = {"is_valid": False}
        status = HTTPStatus.NOT_FOUND
    else:
        context = {"is_valid": True, "is_ended": is_sent}
        status = HTTPStatus.OK
    return TemplateResponse(request, "account/unsubscribe.html", context, status=status)
