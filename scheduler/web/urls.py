"""The URLs of the public web pages."""

from __future__ import annotations

from django.urls import include, path

from scheduler.web import languages, manager_pages, news_pages, public_pages, views
from scheduler.web.security_txt import security_txt
from scheduler.web.site_files import favicon, robots_txt

urlpatterns = [
    path("", views.status_page, name="status"),
    path(".well-known/security.txt", security_txt, name="security_txt"),
    path("favicon.ico", favicon, name="favicon"),
    path("robots.txt", robots_txt, name="robots_txt"),
    path("status.json", views.status_json, name="status_json"),
    *languages.urlpatterns,
    *manager_pages.urlpatterns,
    *news_pages.urlpatterns,
    *public_pages.urlpatterns,
    path("", include("scheduler.web.accounts.urls")),
    path("", include("scheduler.web.volunteers.urls")),
    path("", include("scheduler.web.teams.urls")),
    path("", include("scheduler.web.boards.urls")),
]
