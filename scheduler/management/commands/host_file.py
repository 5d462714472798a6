"""Requests a host to fetch, send or delete a file, and lists the requests."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from django.core.management.base import CommandError, CommandParser
from django.utils import timezone

from scheduler import storage
from scheduler.files import download_files, file_requests
from scheduler.management.conversation import Answer, Conversation
from scheduler.messages import host_messages
from scheduler.models import FileRequest

_VERBS = {"put": "fetch", "get": "send", "delete": "delete"}


class Command(Conversation):
    """``host_file list [HOST] | put HOST FILE | get HOST NAME | delete HOST NAME``."""

    help = (
        "Manage sticky files on hosts. put HOST FILE makes a host download and keep a file; get "
        "HOST NAME makes it upload one; delete HOST NAME deletes one; list [HOST] shows the "
        "requests and their state."
    )
    refusals: ClassVar[tuple[type[Exception], ...]] = (
        file_requests.FileRequestRefused,
        download_files.FileInMotion,
        OSError,
    )

    def add_options(self, parser: CommandParser) -> None:
        actions = ("list", *_VERBS)
        parser.add_argument("action", metavar="ACTION", choices=actions, help=", ".join(actions))
        parser.add_argument("host", metavar="HOST", nargs="?", type=int, help="id of the host")
        parser.add_argument("file", metavar="FILE", nargs="?", help="a path, or a name on the host")

    def answer(self, options: Mapping[str, Any]) -> Answer:
        action, host, file = options["action"], options["host"], options["file"]
        if action == "list":
            return _list(host)
        if host is None or file is None:
            what = "FILE" if action == "put" else "NAME"
            msg = f"Arguments are missing. Hint: write `host_file {action} HOST {what}`."
            raise CommandError(msg, returncode=2)
        submit = {
            "put": file_requests.put_file,
            "get": file_requests.get_file,
            "delete": file_requests.delete_file,
        }[action]
        request = submit(host, file, now=timezone.now())
        return Answer(
            f"Host {host} will {_VERBS[action]} {request.file_name} after its next request.",
            _facts(request),
        )


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
