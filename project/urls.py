"""Mounts the faces under one roof."""

from __future__ import annotations

from django.urls import include, path

from scheduler.admin import staff

urlpatterns = [
    path("admin/", staff.urls),
    path("", include("scheduler.rpc.urls")),
    path("", include("scheduler.web.urls")),
]
