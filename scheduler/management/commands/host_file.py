"""Creates and lists requests that a host fetch, send or delete a file."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from django.core.management.base import CommandParser
from django.utils import timezone

from scheduler import storage
from scheduler.files import download_files, file_requests
from scheduler.management.base import Answer, JsonCommand, require
from scheduler.messages import host_messages
from scheduler.models import FileRequest

_ACTIONS = {
    "put": ("fetch", file_requests.put_file),
    "get": ("send", file_requests.get_file),
    "delete": ("delete", file_requests.delete_file),
}


class Command(JsonCommand):
    """``host_file list [HOST] | put HOST FILE | get HOST NAME | delete HOST NAME``."""

    help = (
        "Manage sticky files on hosts. put HOST FILE makes the host download and keep a file; get "
        "HOST NAME makes the host upload a file; delete HOST NAME makes the host delete a file; "
        "list [HOST] shows the requests and their state."
    )
    refusals = (file_requests.FileRequestRefused, download_files.FileInMotion, OSError)

    def add_options(self, parser: CommandParser) -> None:
        self.add_action(parser, ("list", *_ACTIONS))
        parser.add_argument("host", metavar="HOST", nargs="?", type=int, help="id of the host")
        parser.add_argument("file", metavar="FILE", nargs="?", help="a path, or a name on the host")

    def answer(self, options: Mapping[str, Any]) -> Answer:
        action, host, file = options["action"], options["host"], options["file"]
        if action == "list":
            return _list(host)
        hint = f"Hint: write `host_file {action} HOST {'FILE' if action == 'put' else 'NAME'}`."
        require(None not in (host, file), f"Arguments are missing. {hint}")
        verb, submit = _ACTIONS[action]
        request = submit(host, file, now=timezone.now())
        text = f"Host {host} will {verb} {request.file_name} after its next request."
        return Answer(text, _facts(request))


def _list(host: int | None) -> Answer:
    requests = [_facts(request) for request in host_messages.file_requests(host_id=host)]
    lines = [
        f"{row['asked_at']:%Y-%m-%d %H:%M:%S}  host {row['host']}  {row['asked']:6}  "
        f"{row['name']}  {row['state']}" + (f"  {row['path']}" if "path" in row else "")
        for row in requests
    ]
    return Answer("\n".join(lines) or "There are no file requests.", {"requests": requests})


def _facts(request: FileRequest) -> dict[str, Any]:
    kind = FileRequest.Kind(request.kind)
    facts: dict[str, Any] = {
        "id": request.pk,
        "host": request.host_id,
        "asked": kind.name.lower(),
        "name": request.file_name,
        "state": FileRequest.State(request.state).name.lower(),
        "asked_at": request.created_at,
        "done_at": request.done_at,
    }
    if kind is FileRequest.Kind.GET and storage.upload_size(request.file_name).finished:
        facts["path"] = str(storage.upload_path(request.file_name))
    return facts
