"""Endpoint that lists the platforms."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rest_framework import serializers

from scheduler.api.http.endpoint import Endpoint
from scheduler.api.http.openapi_operation import operation
from scheduler.models import Platform

if TYPE_CHECKING:
    from rest_framework.request import Request
    from rest_framework.response import Response


class PlatformOut(serializers.ModelSerializer[Platform]):
    """A combination of operating system and processor; `name` is its BOINC name."""

    class Meta:
        model = Platform
        fields = ("id", "name", "user_friendly_name")


class Platforms(Endpoint):
    ascending = True

    @operation("List platforms", name="list_platforms", answer=PlatformOut, listed=True)
    def get(self, request: Request) -> Response:
        """Returns all platforms, oldest first. Publishing for a new platform adds the platform."""
        return self.page(Platform.objects.all())
