"""`/files`: contents that are uploaded before the work that needs them."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Final, cast

from django.http import Http404
from django.urls import path
from rest_framework import serializers
from rest_framework.response import Response

from scheduler import storage
from scheduler.api.http.body import Strict, StrictQuery
from scheduler.api.http.endpoint import Endpoint
from scheduler.api.http.operation import operation
from scheduler.api.http.problems import CONTENT_TYPE, Problem, disk_full, problem
from scheduler.api.http.streams import Body
from scheduler.files import file_holds
from scheduler.files.download_files import FileInMotion
from scheduler.files.held_files import holds_of
from scheduler.models import FileHold
from scheduler.people import quotas, submitters
from scheduler.sql import release

if TYPE_CHECKING:
    from typing import BinaryIO

    from rest_framework.request import Request

#: Longest file; bytes.
MOST: Final = 16 << 30
#: So many digests one query asks about.
MOST_ASKED: Final = 10_000
#: So many uploads are read at a time; the next waits so many seconds for its turn.
AT_ONCE: Final = 8
PATIENCE: Final = 10.0
RETRY_AFTER_SECONDS: Final = 10
_turns = threading.BoundedSemaphore(AT_ONCE)

_DIGEST = r"^[0-9a-f]{64}\Z"


class FileShown(serializers.Serializer[FileHold]):
    """A file that is held."""

    sha256 = serializers.CharField(source="file.sha256")
    name = serializers.CharField(source="file.name", help_text="Its name for `known_as`.")
    nbytes = serializers.IntegerField(source="file.nbytes")
    hold_until = serializers.DateTimeField(source="until")


class DigestsIn(Strict):
    """Which contents are asked about."""

    sha256 = serializers.ListField(
        child=serializers.RegexField(_DIGEST), max_length=MOST_ASKED, allow_empty=True
    )


class KnownOut(serializers.Serializer[Any]):
    """Which of them need not be sent."""

    known = serializers.ListField(child=serializers.CharField())


class NameQuery(StrictQuery):
    """What the physical name should remind of."""

    name = serializers.CharField(required=False, max_length=250)


class Files(Endpoint):
    """What one holds."""

    queryset = FileHold.objects.none()

    @operation("List one's files", name="list_files", tag="files", answer=FileShown, listed=True)
    def get(self, request: Request) -> Response:
        """Those that one holds, the newest first."""
        return self.page(holds_of(self.account, now=self.now), FileShown)


class FileQuery(Endpoint):
    """Which contents the server has."""

    @operation(
        "Ask which contents need not be sent",
        name="query_files",
        tag="files",
        answer=KnownOut,
        body=DigestsIn,
    )
    def post(self, request: Request) -> Response:
        """Those that are known are held for you from now on, as if you had sent them."""
        digests = self.body()["sha256"]
        submitters.require_submitter(self.account)
        try:
            known = file_holds.renew(digests, self.account, now=self.now)
        except quotas.QuotaExceeded as refusal:
            raise Problem(403, "quota_exceeded", str(refusal)) from refusal
        return Response({"known": known})


class OneFile(Endpoint):
    """A content."""

    @operation(
        "Show a file",
        name="read_file",
        tag="files",
        answer=FileShown,
        conditional=True,
    )
    def get(self, request: Request, sha256: str) -> Response:
        """One that you hold."""
        return Response(self._shown(sha256))

    @operation(
        "Upload a file",
        name="put_file",
        tag="files",
        answer={200: FileShown, 201: FileShown},
        body={"application/octet-stream": {"type": "string", "format": "binary"}},
        query=NameQuery,
        problems=(400, 403, 408, 409, 411, 413, 415, 422, 503),
    )
    def put(self, request: Request, sha256: str) -> Response:
        """Send the content as the body, with its length; it is held for a day.

        201 if it is new to the server, 200 if it was there already. Workunits name it by its
        `sha256`.
        """
        name = self.query().get("name", "")
        body = Body(request._request, most=MOST)  # noqa: SLF001  Django REST would read it
        self._judge(body)
        release()
        if not _turns.acquire(timeout=PATIENCE):
            body.drain()
            return _later("Other files are being read.")
        try:
            staged = storage.stage_file(cast("BinaryIO", _Reader(body.chunks())))
        finally:
            _turns.release()
        try:
            is_new = self._keep(staged, sha256, name)
        finally:
            storage.discard(staged)
        return Response(self._shown(sha256), status=201 if is_new else 200)

    @operation("Give a file up", name="delete_file", tag="files", answer=None, status=204)
    def delete(self, request: Request, sha256: str) -> Response:
        """You hold it no more; it is deleted once no workunit refers to it, and nobody holds it."""
        if not file_holds.give_up(sha256, self.account, now=self.now):
            raise Http404
        return Response(status=204)

    def _judge(self, body: Body) -> None:
        """Refuse what cannot be kept before it is read."""
        if body.length is None:
            msg = "The length of the file is not said. Hint: send Content-Length, not in chunks."
            raise Problem(411, "length_required", msg)
        try:
            submitters.require_submitter(self.account)
            quotas.require_bytes(self.account, body.length)
        except submitters.NotAllowed:
            body.drain()
            raise
        except quotas.QuotaExceeded as refusal:
            body.drain()
            raise Problem(403, "quota_exceeded", str(refusal)) from refusal
        if not storage.has_room_for(body.length):
            body.drain()
            raise disk_full()

    def _keep(self, staged: storage.Staged, sha256: str, name: str) -> bool:
        if staged.digest.sha256 != sha256:
            msg = (
                f"What came has the SHA-256 {staged.digest.sha256}, and {staged.digest.nbytes} "
                "bytes. Hint: send the file as it was when it was hashed."
            )
            raise Problem(422, "digest_differs", msg)
        try:
            return file_holds.keep(staged, name or "file", self.account, now=self.now)
        except quotas.QuotaExceeded as refusal:
            raise Problem(403, "quota_exceeded", str(refusal)) from refusal
        except FileInMotion as refusal:
            raise Problem(409, "file_in_motion", str(refusal)) from refusal

    def _shown(self, sha256: str) -> dict[str, Any]:
        found = holds_of(self.account, now=self.now).filter(file__sha256=sha256).first()
        if found is None:
            raise Http404
        return dict(FileShown(found).data)


class _Reader:
    """Pieces of a body as a file that is read."""

    def __init__(self, chunks: Iterator[bytes]) -> None:
        self._chunks = chunks

    def read(self, _size: int = -1) -> bytes:
        """Return the next piece, whatever its size; none at the end."""
        return next(self._chunks, b"")


def _later(said: str) -> Response:
    return Response(
        problem(503, "busy", f"{said} Hint: send this one again a little later."),
        status=503,
        content_type=CONTENT_TYPE,
        headers={"Retry-After": str(RETRY_AFTER_SECONDS)},
    )


urlpatterns = [
    path("files", Files.as_view()),
    path("files/query", FileQuery.as_view()),
    path("files/<sha256:sha256>", OneFile.as_view()),
]
