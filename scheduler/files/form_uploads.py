"""Discards files in forms, unless a view accepts them before it reads the form.

Django reads a form when its CSRF protection looks for the token, before a view checks who sent it.
With Django's own handlers anybody could fill the disk with files in a form of the log-in page.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from django.core.files.uploadhandler import (
    FileUploadHandler,
    StopUpload,
    TemporaryFileUploadHandler,
)

if TYPE_CHECKING:
    from django.http import HttpRequest


class DiscardUploads(FileUploadHandler):
    """Stops to read a form at its first file; fields before it are kept, and `FILES` is empty."""

    def new_file(self, *_args: Any, **_kwargs: Any) -> None:
        """Stop, because a body of any length would otherwise occupy a thread to its end."""
        raise StopUpload(connection_reset=True)

    def receive_data_chunk(self, raw_data: bytes, start: int) -> None:
        """Discard the chunk."""

    def file_complete(self, file_size: int) -> None:
        """Return None, because there is no file."""


def accept_uploads(request: HttpRequest) -> None:
    """Let the request's form have files, which are kept on disk until the request ends.

    Call this before anything reads the form.
    """
    request.upload_handlers = [TemporaryFileUploadHandler(request)]
