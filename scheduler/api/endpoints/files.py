"""Endpoints for input files, which are uploaded before workunits use them."""

from __future__ import annotations

import threading
from contextlib import ExitStack
from typing import TYPE_CHECKING, Final, cast

from django.http import Http404
from rest_framework import serializers
from rest_framework.response import Response

from scheduler import storage
from scheduler.api.http.body import Shown, Strict, StrictQuery
from scheduler.api.http.endpoint import Endpoint
from scheduler.api.http.openapi_operation import operation
from scheduler.api.http.problems import Problem, disk_full
from scheduler.api.http.streams import Body, slot
from scheduler.files import file_holds
from scheduler.files.file_holds import holds_of
from scheduler.models import FileHold
from scheduler.people import quotas, submitters
from scheduler.sql import release

if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import BinaryIO

    from rest_framework.request import Request

#: Maximum size of a file.
MAX_FILE_BYTES: Final = 16 << 30
#: Maximum number of digests in a query.
MAX_DIGESTS: Final = 10_000
#: Maximum number of concurrent uploads, and the time after which an upload that waits for a slot
#: is refused with 503.
MAX_CONCURRENT: Final = 8
SLOT_TIMEOUT_SECONDS: Final = 10.0
RETRY_AFTER_SECONDS: Final = 10
_slots = threading.BoundedSemaphore(MAX_CONCURRENT)

_DIGEST = r"^[0-9a-f]{64}\Z"


class FileShown(Shown):
    """A file that the server keeps for the account at least until `hold_until`."""

    sha256 = serializers.CharField(source="file.sha256")
    name = serializers.CharField(
        source="file.name",
        help_text="The physical name, which a workunit can contain as `known_as`.",
    )
    nbytes = serializers.IntegerField(source="file.nbytes")
    hold_until = serializers.DateTimeField(source="until")


class DigestsIn(Strict):
    """SHA-256 digests to look up."""

    sha256 = serializers.ListField(
        child=serializers.RegexField(_DIGEST), max_length=MAX_DIGESTS, allow_empty=True
    )


class KnownOut(Shown):
    """The digests of files that the server already has."""

    known = serializers.ListField(child=serializers.CharField())


class NameQuery(StrictQuery):
    """A file name that becomes part of the physical name."""

    name = serializers.CharField(required=False, max_length=250)


class Files(Endpoint):
    @operation("List the account's files", name="list_files", answer=FileShown, listed=True)
    def get(self, request: Request) -> Response:
        """Returns the files that the server keeps for the account, newest first."""
        return self.page(holds_of(self.account, now=self.now))


class FileQuery(Endpoint):
    @operation(
        "Find files that need not be uploaded", name="query_files", answer=KnownOut, body=DigestsIn
    )
    def post(self, request: Request) -> Response:
        """Returns the digests of the files that the server has.

        The server keeps these files for the account, as after an upload.
        """
        digests = self.body()["sha256"]
        submitters.require_submitter(self.account)
        return self.reply({"known": file_holds.renew(digests, self.account, now=self.now)})


class OneFile(Endpoint):
    @operation("Read a file's entry", name="read_file", answer=FileShown, conditional=True)
    def get(self, request: Request, sha256: str) -> Response:
        """Returns the metadata of a file that the server keeps for the account."""
        return self.reply(self._hold(sha256))

    @operation(
        "Upload a file",
        name="put_file",
        answer={200: FileShown, 201: FileShown},
        body={"application/octet-stream": {"type": "string", "format": "binary"}},
        query=NameQuery,
        problems=(400, 403, 408, 409, 411, 413, 415, 422, 503),
    )
    def put(self, request: Request, sha256: str) -> Response:
        """Stores the body as a file, and keeps the file until `hold_until`.

        The request needs `Content-Length`. The status is 201 for new content, and 200 if the
        server already had the content. Workunits refer to the file by its `sha256`.
        """
        name = self.query().get("name", "")
        body = Body(request._request, max_bytes=MAX_FILE_BYTES)  # noqa: SLF001  Django REST would read it
        with ExitStack() as stack:
            self._take_slot(stack, body)
            staged = storage.stage_file(cast("BinaryIO", _Reader(body.chunks())))
        try:
            is_new = self._keep(staged, sha256, name)
        finally:
            storage.discard(staged)
        return Response(FileShown(self._hold(sha256)).data, status=201 if is_new else 200)

    @operation("Release a file", name="delete_file", answer=None, status=204)
    def delete(self, request: Request, sha256: str) -> Response:
        """Stops keeping the file for the account.

        The server deletes the file once it is kept for no account and no workunit uses it.
        """
        if not file_holds.give_up(sha256, self.account, now=self.now):
            raise Http404
        return Response(status=204)

    def _take_slot(self, stack: ExitStack, body: Body) -> None:
        """Acquire an upload slot, which is released when `stack` is closed.

        Raises `Problem` if `Content-Length` is missing, the disk is full or no slot becomes free,
        `NotAllowed` if the account may not submit, and `QuotaExceeded`.
        """
        if body.length is None:
            msg = "The request has no Content-Length. Hint: do not use chunked transfer encoding."
            raise Problem(411, "length_required", msg)
        try:
            submitters.require_submitter(self.account)
            quotas.require_bytes(self.account, body.length)
            if not storage.has_room_for(body.length):
                raise disk_full()
            release()
            stack.enter_context(
                slot(
                    _slots,
                    timeout=SLOT_TIMEOUT_SECONDS,
                    retry_after=RETRY_AFTER_SECONDS,
                    reason="Too many files are being uploaded.",
                )
            )
        except (submitters.NotAllowed, quotas.QuotaExceeded, Problem):
            body.drain()
            raise

    def _keep(self, staged: storage.Staged, sha256: str, name: str) -> bool:
        if staged.digest.sha256 != sha256:
            msg = (
                f"The received file has the SHA-256 {staged.digest.sha256} and "
                f"{staged.digest.nbytes} bytes. "
                "Hint: check that the file did not change after it was hashed."
            )
            raise Problem(422, "digest_differs", msg)
        return file_holds.keep(staged, name or "file", self.account, now=self.now)

    def _hold(self, sha256: str) -> FileHold:
        hold = holds_of(self.account, now=self.now).filter(file__sha256=sha256).first()
        if hold is None:
            raise Http404
        return hold


class _Reader:
    """A file-like object over the chunks of a body."""

    def __init__(self, chunks: Iterator[bytes]) -> None:
        self._chunks = chunks

    def read(self, _size: int = -1) -> bytes:
        """Return the next chunk, which may be longer than `_size`, or `b""` at the end."""
        return next(self._chunks, b"")
