"""Judges addresses: repeated slashes, former addresses, and account files.

BOINC's `submit_api.py` sends paths with repeated slashes: it appends `/job_file.php` to the
project's URL, which ends in a slash.

A client identifies a project by the URL by which it was attached, and does not send this URL.  But
it sends its requests to the scheduler that the page at this URL named, so the address of a request
shows whether the client was attached by a former URL.  BOINC's client from version 8 on renames
the project if a reply has another master URL, and loses all tasks (PROTOCOL trap 24).  Therefore
such a client gets its former URL, and the current one only when it has nothing to lose.
`ProjectConfig.attached_url` returns the URL for an address.

This module uses no database, files or clock.
"""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Final

from scheduler.boinc.wire import xml
from scheduler.boinc.wire.messages import Message, SchedulerReply, SchedulerRequest

_SLASHES: Final = re.compile(r"/{2,}")
#: The beginnings of the paths of clients' frequent requests.
SCHEDULER, UPLOADS, DOWNLOADS = "/cgi/scheduler", "/upload/", "/download/"
#: Paths that begin with these contain the names of files, and are not changed.
_NAMES: Final = (DOWNLOADS, UPLOADS)


def collapse_slashes(path: str) -> str:
    """Return a path without repeated slashes; `/download/` and `/upload/` paths are unchanged.

    >>> collapse_slashes("//job_file.php"), collapse_slashes("/api//v1///apps")
    ('/job_file.php', '/api/v1/apps')
    >>> collapse_slashes("//download/1a//x")
    '/download/1a//x'
    """
    if "//" not in path:
        return path
    if path.startswith("//"):
        path = f"/{path.lstrip('/')}"
    return path if path.startswith(_NAMES) else _SLASHES.sub("/", path)


def account_file(master_url: str, key: str) -> tuple[str, str]:
    """Return the name and the content of the file that attaches a client by an account key.

    The client reads it from its data folder.  The name is that of BOINC's `weak_auth.php`.

    >>> account_file("https://example.org/project/", "0f")[0]
    'account_example.org_project.xml'
    """
    name = re.sub(r"[^0-9A-Za-z._-]", "_", master_url.partition("://")[2]).rstrip("_")
    content = (
        "<account>\n"
        f"    <master_url>{xml.escape(master_url)}</master_url>\n"
        f"    <authenticator>{xml.escape(key)}</authenticator>\n"
        "</account>\n"
    )
    return f"account_{name}.xml", content


#: The first version of BOINC's client that changes to another master URL by itself.
RENAMING_VERSION: Final = 80_000


def has_tasks(request: SchedulerRequest) -> bool:
    """Return whether the client has or reports tasks, or sends messages of tasks."""
    listed = request.results or request.other_results or request.in_progress_results
    return bool(listed or request.trickles)


def reply_at(
    former_url: str, reply: SchedulerReply, *, keeps_tasks: bool, client_version: int
) -> SchedulerReply:
    """Return the reply for a client that is attached by a former URL.

    If the client keeps no tasks and gets none, the reply has the current URL, to which the client
    can change without a loss.  Else it has the former URL, and a notice.  A refusal has the former
    URL, too: it has no account.
    """
    if reply.userid and not (keeps_tasks or reply.results or reply.trickles):
        return reply
    text = (
        f"This project has a new address: {reply.master_url}. Your computer keeps its tasks under "
        "the old one. When it has none, "
    )
    if client_version >= RENAMING_VERSION:
        text += "it changes to the new address by itself."
    else:
        text += "remove the project and add the new address."
    notice = Message(text=text, priority="notice")
    return replace(reply, master_url=former_url, messages=(*reply.messages, notice))
