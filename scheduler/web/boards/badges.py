"""The public list of badges, and their images."""

from __future__ import annotations

from typing import Final

from django.http import Http404, HttpRequest, HttpResponse
from django.http.response import HttpResponseBase
from django.template.response import TemplateResponse
from django.views.decorators.cache import cache_control, never_cache
from django.views.decorators.http import require_safe

from scheduler.credit import badges
from scheduler.credit.rules import badge_images
from scheduler.web import texts

_MAX_ID: Final = 2**63 - 1
#: Statistics sites and browsers fetch an image again after this time.
_IMAGE_MAX_AGE_SECONDS: Final = 3600


@require_safe
@never_cache
def badge_list(request: HttpRequest) -> HttpResponseBase:
    """Return the list of published badges with their rules and numbers of holders."""
    shown = [
        (badge, "" if badge.threshold is None else texts.amount(badge.threshold))
        for badge in badges.listed()
    ]
    return TemplateResponse(request, "boards/badges.html", {"badges": shown})


@require_safe
@cache_control(public=True, max_age=_IMAGE_MAX_AGE_SECONDS)
def badge_image(_request: HttpRequest, badge_id: int) -> HttpResponseBase:
    """Return the image of a published badge, else 404."""
    badge = badges.find(badge_id) if badge_id <= _MAX_ID else None
    if badge is None:
        raise Http404
    image = badge_images.draw(badge.title, badge.color)
    return HttpResponse(image, content_type="image/svg+xml; charset=utf-8")
