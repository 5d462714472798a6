"""The schema of the API, and the pages that show it.

The module is imported by the first request for one of them, because drf-spectacular's views import
Django's test client and need 5 MB in each web process.
"""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any, Final

from django.http import HttpResponse
from drf_spectacular.views import (
    SpectacularAPIView,
    SpectacularRedocView,
    SpectacularSwaggerSplitView,
)

if TYPE_CHECKING:
    from rest_framework.request import Request


class Schema(SpectacularAPIView):
    """The schema, as YAML or JSON.

    It is generated and written once in each process, because this takes seconds, and because
    threads that generate it at the same time disturb each other (drf-spectacular 0.29).  The
    parameter `version` is ignored.
    """

    _lock = threading.Lock()
    _texts: Final[dict[str, bytes]] = {}

    def _get_schema_response(self, request: Request) -> HttpResponse:
        renderer = request.accepted_renderer
        with self._lock:
            if renderer.format not in self._texts:
                generator = self.generator_class(urlconf=self.urlconf)
                document = generator.get_schema(request=request, public=self.serve_public)
                text = renderer.render(document, renderer.media_type, {})
                self._texts[renderer.format] = text if isinstance(text, bytes) else text.encode()
        charset = "" if renderer.charset is None else f"; charset={renderer.charset}"
        return HttpResponse(
            self._texts[renderer.format],
            content_type=f"{renderer.media_type}{charset}",
            headers={
                "Content-Disposition": f'inline; filename="{self._get_filename(request, None)}"'
            },
        )


class OwnAssetsOnly:
    """A mixin that allows a page only files of the project's own server.

    The programs of both pages add inline styles, so these are allowed, too; inline scripts are not.
    """

    policy = (
        "default-src 'none'; script-src 'self'; style-src 'self' 'unsafe-inline'; font-src 'self';"
        " img-src 'self' data:; connect-src 'self'; worker-src blob:; form-action 'self';"
        " base-uri 'none'; frame-ancestors 'none'"
    )

    def finalize_response(self, *args: Any, **kwargs: Any) -> Any:
        """Add the header `Content-Security-Policy`."""
        answer = super().finalize_response(*args, **kwargs)  # type: ignore[misc]  # the view's
        answer["Content-Security-Policy"] = self.policy
        return answer


class Swagger(OwnAssetsOnly, SpectacularSwaggerSplitView):
    """The Swagger UI page, on which users can try every operation."""


class Redoc(OwnAssetsOnly, SpectacularRedocView):
    """The ReDoc page, which shows the schema as a reference."""

    template_name = "scheduler/api/redoc.html"


_OPEN: Final[dict[str, Any]] = {"authentication_classes": [], "permission_classes": []}

schema = Schema.as_view(**_OPEN)
swagger = Swagger.as_view(url_name="api_schema", **_OPEN)
redoc = Redoc.as_view(url_name="api_schema", **_OPEN)
