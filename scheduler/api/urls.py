"""The URLs of version 1 of the API and of nginx's admission checks."""

from __future__ import annotations

from django.urls import include, path

from scheduler.api import admission

urlpatterns = [path("api/v1/", include("scheduler.api.routes")), *admission.urlpatterns]
