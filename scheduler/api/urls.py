"""The addresses of version 1 of the API: each module of endpoints brings its own."""

from __future__ import annotations

from django.urls import include, path

from scheduler.api import admission

urlpatterns = [path("api/v1/", include("scheduler.api.routes")), *admission.urlpatterns]
