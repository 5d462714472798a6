"""Answers requests of htmx with the parts of a page that change.

The parts are made by the page's own template.  It begins with ``{% extends frame %}``: for a
visit, the frame is the page around its blocks; for a request of htmx, it has only the blocks that
change.  All links and forms are real ones: without JavaScript, they load the page.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from django.http import HttpRequest
from django.template.response import TemplateResponse
from django.utils.cache import patch_vary_headers

#: The frames of lists, which sort, filter and page without a reload of the whole page.
_LIST: Final = ("account/base.html", "scheduler/list_parts.html")
#: The frames of the front page, whose figures are refreshed.
_STATUS: Final = ("scheduler/base.html", "scheduler/status_parts.html")
_HEADER: Final = "HX-Request"


def list_page(request: HttpRequest, template: str, context: Mapping[str, Any]) -> TemplateResponse:
    """Return the page of a list, or only its block `list` for a request of htmx."""
    return _page(request, template, context, _LIST)


def status_page(
    request: HttpRequest, template: str, context: Mapping[str, Any]
) -> TemplateResponse:
    """Return the front page, or only the parts with figures for a request of htmx."""
    return _page(request, template, context, _STATUS)


def _page(
    request: HttpRequest, template: str, context: Mapping[str, Any], frames: tuple[str, str]
) -> TemplateResponse:
    is_of_htmx = request.headers.get(_HEADER) == "true"
    response = TemplateResponse(request, template, {**context, "frame": frames[is_of_htmx]})
    # A cache must not return the parts for a visit, or the page for a request of htmx.
    patch_vary_headers(response, (_HEADER,))
    return response
