"""Defines the URLs of the API, the admin, the web pages and BOINC's protocols."""

from __future__ import annotations

from django.urls import include, path
from django.views.generic import RedirectView

from scheduler.admin.site import staff

urlpatterns = [
    path("admin", RedirectView.as_view(url="/admin/", permanent=True)),
    path("admin/", staff.urls),
    path("", include("scheduler.api.urls")),
    path("", include("scheduler.boinc.urls")),
    path("", include("scheduler.boinc_submission.urls")),
    path("", include("scheduler.web.urls")),
]

handler400 = "scheduler.api.failures.bad_request"
handler404 = "scheduler.web.languages.page_not_found"
handler500 = "scheduler.api.failures.server_error"
