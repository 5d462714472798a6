"""Repeated slashes in the path of a request count as one slash."""

from __future__ import annotations

import pytest

from scheduler.boinc.rules.addresses import collapse_slashes


@pytest.mark.parametrize(
    ("path", "routed"),
    [
        ("/", "/"),
        ("", ""),
        ("//", "/"),
        ("/job_file.php", "/job_file.php"),
        ("//job_file.php", "/job_file.php"),
        ("////get_output.php", "/get_output.php"),
        ("/cgi//scheduler", "/cgi/scheduler"),
        ("/api//v1/batches///7/", "/api/v1/batches/7/"),
        ("//download/1a/name", "/download/1a/name"),
    ],
)
def test_repeated_slashes_in_a_path_are_collapsed(path: str, routed: str) -> None:
    assert collapse_slashes(path) == routed


@pytest.mark.parametrize("path", ["/download/1a//x", "/upload//file_upload_handler", "/download//"])
def test_paths_of_downloads_and_uploads_are_not_changed(path: str) -> None:
    assert collapse_slashes(path) == path
    assert collapse_slashes(f"/{path}") == path


def test_slashes_are_collapsed_below_folders_that_only_start_like_download() -> None:
    assert collapse_slashes("/downloads//x") == "/downloads/x"
