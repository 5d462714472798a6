"""The schema of the API, and the pages that show it.

The module is imported by the first request for one of them, because drf-spectacular's views import
Django's test client and need 5 MB in each web process.
"""

from __future__ import annotations

from typing import Any, Final

from drf_spectacular.views import (
    SpectacularAPIView,
    SpectacularRedocView,
    SpectacularSwaggerSplitView,
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

schema = SpectacularAPIView.as_view(**_OPEN)
swagger = Swagger.as_view(url_name="api_schema", **_OPEN)
redoc = Redoc.as_view(url_name="api_schema", **_OPEN)
