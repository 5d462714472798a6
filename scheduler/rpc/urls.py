"""Where clients knock; uploads and downloads are mounted beside (`wsgi.py`)."""

from __future__ import annotations

from django.urls import path

from scheduler.rpc import outputs, sent_files, submission, views

urlpatterns = [
    path("cgi/scheduler", views.scheduler, name="scheduler"),
    path("get_project_config.php", views.get_project_config, name="get_project_config"),
    path("lookup_account.php", views.lookup_account, name="lookup_account"),
    path("create_account.php", views.create_account, name="create_account"),
    path("login_token_lookup.php", views.login_token_lookup, name="login_token_lookup"),
    path("submit_rpc_handler.php", submission.submit_rpc_handler, name="submit_rpc_handler"),
    path("job_file.php", sent_files.job_file, name="job_file"),
    path("get_output.php", outputs.get_output, name="get_output"),
    path("server_status.php", outputs.server_status, name="server_status"),
]
