"""The page of the log files that the project writes, with their last lines."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from django.core.exceptions import PermissionDenied
from django.http import Http404, HttpRequest

from scheduler.admin.base import has_right
from scheduler.rights import Right
from scheduler.storage.logs import tails

#: The titles of the files of `tails.log_paths`.
_TITLES: Final[Mapping[str, str]] = {
    "postgres": "Embedded PostgreSQL",
    "audit": "Audit log (AUDIT_LOG)",
}
_LINES: Final = (100, 300, 1000)
_MAX_TEXT: Final = 200


def may_view(request: HttpRequest) -> bool:
    return has_right(request, Right.VIEW_LOGS)


def context(request: HttpRequest) -> dict[str, Any]:
    """Return the context of the page: the files, and the last lines of the chosen one.

    Raises `PermissionDenied` for users without the right, and `Http404` for an unknown file.
    """
    if not may_view(request):
        raise PermissionDenied
    paths = tails.log_paths()
    name = request.GET.get("file", next(iter(paths)))
    if name not in paths:
        raise Http404
    lines = next((each for each in _LINES if request.GET.get("lines") == str(each)), _LINES[0])
    text = request.GET.get("text", "")[:_MAX_TEXT]
    tail, problem = None, ""
    try:
        tail = tails.read(name, lines=lines, text=text)
    except OSError as error:
        problem = error.strerror or type(error).__name__
    return {
        "title": "Log files",
        "files": [(each, _TITLES[each], each == name) for each in paths],
        "path": paths[name],
        "tail": tail,
        "log": "" if tail is None else "\n".join(tail.lines),
        "problem": problem,
        "line_choices": [(each, each == lines) for each in _LINES],
        "text": text,
        "max_text": _MAX_TEXT,
    }
