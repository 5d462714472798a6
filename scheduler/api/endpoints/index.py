"""The index of the API, and the 404 response."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from django.conf import settings
from django.http import Http404
from rest_framework import serializers

from scheduler.api.http.body import Shown
from scheduler.api.http.endpoint import Endpoint
from scheduler.api.http.openapi_operation import Access, operation

if TYPE_CHECKING:
    from rest_framework.request import Request
    from rest_framework.response import Response

#: Links of the index, in the order in which a new user needs them.
_LINKS = (
    "docs",
    "redoc",
    "schema",
    "status",
    "statistics",
    "tokens",
    "me",
    "apps",
    "platforms",
    "keywords",
    "queues",
    "balance",
    "batches",
    "bundles",
    "workunits",
    "results",
    "hosts",
    "teams",
    "news",
    "files",
    "usage",
)


class IndexOut(Shown):
    """The project's name, the API's version and the URLs of the resources."""

    name = serializers.CharField(help_text="The name of the project.")
    version = serializers.CharField(help_text="The version of the API.")
    links = serializers.DictField(child=serializers.URLField())


class Index(Endpoint):
    @operation("Read the index", name="read_index", answer=IndexOut, access=Access.PUBLIC)
    def get(self, request: Request) -> Response:
        """Returns the project's name, the API's version, and the URLs of the resources."""
        links = {name: request.build_absolute_uri(f"/api/v1/{name}") for name in _LINKS}
        version = settings.SPECTACULAR_SETTINGS["VERSION"]
        return self.reply({"name": settings.PROJECT.name, "version": version, "links": links})


class UnknownAddress(Endpoint):
    """Returns 404 for URLs that no other endpoint serves."""

    schema = None  # not in the schema
    authentication_classes = ()
    permission_classes = ()

    def initial(self, request: Request, *args: Any, **kwargs: Any) -> None:
        raise Http404
