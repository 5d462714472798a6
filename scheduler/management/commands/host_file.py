"""Has a host fetch, send or delete a file, and shows what has become of it."""

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

_WORDS = {"put": "fetch", "get": "send", "delete": "delete"}


class Command(Conversation):
    """``host_file list [HOST] | put HOST FILE | get HOST NAME | delete HOST NAME``."""

    help = (
        "Sticky files on hosts. put HOST FILE has a host fetch a file and keep it; get HOST NAME "
        "has it send one; delete HOST NAME has it deleted; list [HOST] shows what has become of it."
    )
    refusals: ClassVar[tuple[type[Exception], ...]] = (
        file_requests.FileRequestRefused,
        download_files.FileInMotion,
        OSError,
    )

    def ask(self, parser: CommandParser) -> None:
        """Ask what to do, and with what."""
        actions = ("list", *_WORDS)
        parser.add_argument("action", metavar="ACTION", choices=actions, help=", ".join(actions))
        parser.add_argument("host", metavar="HOST", nargs="?", type=int, help="its number")
        parser.add_argument("file", metavar="FILE", nargs="?", help="a path, or a name on the host")

    def answer(self, options: Mapping[str, Any]) -> Answer:
        """Do the one thing that is asked for."""
        action, host, file = options["action"], options["host"], options["file"]
        if action == "list":
            return _list(host)
        if host is None or file is None:
            what = "FILE" if action == "put" else "NAME"
            raise CommandError(f"Hint: write `host_file {action} HOST {what}`.", returncode=2)
        ask = {
            "put": file_requests.put_file,
            "get": file_requests.get_file,
            "delete": file_requests.delete_file,
        }[action]
        request = ask(host, file, now=timezone.now())
        return Answer(
            f"Host {host} is asked to {_WORDS[action]} {request.file_name} with its next request.",
            _facts(request),
        )


def _list(host: int | None) -> Answer:
    found = [_facts(request) for request in host_messages.file_requests(host_id=host)]
    lines = [
        f"{one['asked_at']:%Y-%m-%d %H:%M:%S}  host {one['host']}  {one['asked']:6}  "
        f"{one['name']}  {one['state']}" + (f"  {one['path']}" if "path" in one else "")
        for one in found
    ]
    return Answer("\n".join(lines) or "No host was asked for a file.", {"requests": found})


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
