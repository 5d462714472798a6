"""The API's front door: where all is, the schema, pages to read it; dead ends."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from django.conf import settings
from django.http import Http404
from django.urls import path, re_path
from drf_spectacular.utils import extend_schema
from drf_spectacular.views import SpectacularAPIView, SpectacularRedocView, SpectacularSwaggerView
from rest_framework import serializers
from rest_framework.response import Response

from scheduler.api.endpoint import Endpoint
from scheduler.api.operation import Access, operation

if TYPE_CHECKING:
    from rest_framework.request import Request

#: What the index names, in the order in which a newcomer wants it.
_PLACES = (
    "docs",
    "redoc",
    "schema",
    "status",
    "statistics",
    "tokens",
    "me",
    "apps",
    "platforms",
    "queues",
    "batches",
    "workunits",
    "results",
    "hosts",
    "files",
    "usage",
)


class IndexOut(serializers.Serializer[object]):
    """What is here."""

    name = serializers.CharField(help_text="The project's.")
    version = serializers.CharField(help_text="The API's.")
    links = serializers.DictField(child=serializers.URLField())


class Index(Endpoint):
    """The front door."""

    @operation(
        "What is here", name="read_index", tag="project", answer=IndexOut, access=Access.PUBLIC
    )
    def get(self, request: Request) -> Response:
        """The project's name, the API's version, and where everything is."""
        links = {name: request.build_absolute_uri(f"/api/v1/{name}") for name in _PLACES}
        version = settings.SPECTACULAR_SETTINGS["VERSION"]
        return Response({"name": settings.PROJECT.name, "version": version, "links": links})


@extend_schema(exclude=True)
class NoSuchPlace(Endpoint):
    """Every address that is none."""

    authentication_classes = ()
    permission_classes = ()

    def initial(self, request: Request, *args: Any, **kwargs: Any) -> None:
        """Answer 404 to every method, as a problem."""
        raise Http404


_OPEN: dict[str, Any] = {"authentication_classes": [], "permission_classes": []}

urlpatterns = [
    path("", Index.as_view(), name="api_index"),
    path("schema", SpectacularAPIView.as_view(**_OPEN), name="api_schema"),
    path("docs", SpectacularSwaggerView.as_view(url_name="api_schema", **_OPEN)),
    path("redoc", SpectacularRedocView.as_view(url_name="api_schema", **_OPEN)),
]
dead_ends = [re_path("", NoSuchPlace.as_view())]
