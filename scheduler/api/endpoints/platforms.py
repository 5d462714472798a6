"""Platforms: the kinds of computers that apps are published for."""

from __future__ import annotations

from typing import TYPE_CHECKING

from django.urls import path
from rest_framework import serializers

from scheduler.api.http.endpoint import Endpoint
from scheduler.api.http.operation import operation
from scheduler.models import Platform

if TYPE_CHECKING:
    from rest_framework.request import Request
    from rest_framework.response import Response


class PlatformOut(serializers.ModelSerializer[Platform]):
    """A kind of computer, by BOINC's name for it."""

    class Meta:
        """What is told of it."""

        model = Platform
        fields = ("id", "name", "user_friendly_name")


class Platforms(Endpoint):
    """All platforms."""

    queryset = Platform.objects.none()
    ascending = True

    @operation("List platforms", name="list_platforms", tag="apps", answer=PlatformOut, listed=True)
    def get(self, request: Request) -> Response:
        """Those that the project knows; publishing for another makes it known."""
        return self.page(Platform.objects.all(), PlatformOut)


urlpatterns = [path("platforms", Platforms.as_view())]
