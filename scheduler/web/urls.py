"""Where the pages for people are."""

from __future__ import annotations

from django.urls import path

from scheduler.web import views

urlpatterns = [
    path("", views.status_page, name="status"),
    path("status.json", views.status_json, name="status_json"),
]
