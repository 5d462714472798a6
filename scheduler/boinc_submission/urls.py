"""URLs of BOINC's interface for submitters."""

from __future__ import annotations

from django.urls import path

from scheduler.boinc_submission import handler, input_uploads, output_downloads

urlpatterns = [
    path("submit_rpc_handler.php", handler.submit_rpc_handler, name="submit_rpc_handler"),
    path("job_file.php", input_uploads.job_file, name="job_file"),
    path("get_output.php", output_downloads.get_output, name="get_output"),
]
