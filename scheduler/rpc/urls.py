"""Where clients knock; uploads and downloads are mounted beside (`wsgi.py`)."""

from __future__ import annotations

from django.urls import path

from scheduler.rpc import views

urlpatterns = [
    path("cgi/scheduler", views.scheduler, name="scheduler"),
    path("get_project_config.php", views.get_project_config, name="get_project_config"),
    path("lookup_account.php", views.lookup_account, name="lookup_account"),
    path("create_account.php", views.create_account, name="create_account"),
]
