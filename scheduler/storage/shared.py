"""Finds the files in the folder that submitters share with the server."""

from __future__ import annotations

import os

from django.conf import settings


class NotShared(ValueError):
    """The folder shared with submitters has no such file, or no folder is shared."""


def shared_file(path: str) -> str:
    """Return the real path of a file in the folder shared with submitters; raises NotShared.

    `path` may be relative to this folder.  Links are resolved before the check.
    """
    if not settings.SUBMIT_FOLDER:
        raise NotShared(
            "local files are not offered: submitters share no folder with this server. "
            "Hint: send the file by job_file.php, or ask the staff to set SUBMIT_FOLDER."
        )
    folder = os.path.realpath(settings.SUBMIT_FOLDER)
    real_path = os.path.realpath(os.path.join(folder, path)) if "\0" not in path else ""
    if not real_path.startswith(f"{folder}/") or not os.path.isfile(real_path):
        raise NotShared(
            f"there is no file {path!r} in the folder that submitters share. "
            "Hint: give its path in that folder."
        )
    return real_path
