"""URLs of BOINC's web RPCs; `project.routing` routes clients' other requests."""

from __future__ import annotations

from django.urls import path

from scheduler.boinc import views

urlpatterns = [
    path("get_project_config.php", views.get_project_config, name="get_project_config"),
    path("lookup_account.php", views.lookup_account, name="lookup_account"),
    path("create_account.php", views.create_account, name="create_account"),
    path("login_token_lookup.php", views.login_token_lookup, name="login_token_lookup"),
]
