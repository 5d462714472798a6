"""Mounts the faces under one roof."""

from __future__ import annotations

from importlib.util import find_spec

from django.contrib import admin
from django.urls import include, path

urlpatterns = [
    path("admin/", admin.site.urls),
    *(
        path("", include(face))
        for face in ("scheduler.rpc.urls", "scheduler.web.urls")
        if find_spec(face)
    ),
]
