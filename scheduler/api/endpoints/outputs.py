"""Endpoints that download outputs, as an archive of a batch or as single files."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING, BinaryIO, Final

from django.http import Http404, HttpResponse, HttpResponseBase, StreamingHttpResponse
from django.shortcuts import get_object_or_404
from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import OpenApiParameter, OpenApiResponse
from rest_framework import serializers

from scheduler import storage
from scheduler.api.endpoints.batches import find
from scheduler.api.http.body import StrictQuery
from scheduler.api.http.endpoint import Endpoint
from scheduler.api.http.openapi_operation import operation
from scheduler.api.http.problems import Problem
from scheduler.api.viewer import viewer_of
from scheduler.models import Batch, ResultFile, Workunit
from scheduler.work import submitted
from scheduler.work.answers import open_name
from scheduler.work.collect import FORMATS, collect
from scheduler.work.rules.since import MAX_LENGTH

if TYPE_CHECKING:
    from rest_framework.request import Request

_TYPES: Final = {
    "tar": "application/x-tar",
    "zip": "application/zip",
    "ndjson": "application/x-ndjson",
}
_RANGE: Final = re.compile(r"bytes=(\d{0,18})-(\d{0,18})")
_CHUNK: Final = 1 << 18
_CONTENT: Final = "application/octet-stream"


class OutputsQuery(StrictQuery):
    """The format of the download, and the selection of outputs."""

    format = serializers.ChoiceField(choices=FORMATS, default="tar")
    since = serializers.CharField(
        required=False,
        max_length=MAX_LENGTH,
        help_text="The `cursor` of an earlier manifest: only newer outputs are returned.",
    )
    workunit = serializers.CharField(
        required=False,
        max_length=254,
        help_text="Name or id of a workunit: only its outputs are returned.",
    )


class BatchOutputs(Endpoint):
    @operation(
        "Download the outputs of a batch",
        name="read_batch_outputs",
        answer={(200, kind): OpenApiTypes.BINARY for kind in _TYPES.values()},
        query=OutputsQuery,
        problems=(422,),
    )
    def get(self, request: Request, batch_id: int) -> HttpResponseBase:
        """Streams the outputs of all done workunits, even of an unfinished batch.

        The members of an archive are named `<workunit name>/<open name>`. The last member is the
        manifest, `MANIFEST.ndjson`, with a line for each finished workunit, and a line with the
        `cursor` for the next call. With the format `ndjson`, only the manifest is returned.
        """
        wanted = self.query()
        batch = find(request, batch_id)
        only = self._workunit(batch, wanted["workunit"]) if "workunit" in wanted else None
        form = wanted["format"]
        pieces = collect(batch.pk, form, cursor=wanted.get("since"), workunit_id=only, now=self.now)
        answer = StreamingHttpResponse(pieces)
        answer["Cache-Control"] = "no-store"
        return _attached(answer, f"{batch.name}.{form}", _TYPES[form])

    def _workunit(self, batch: Batch, name_or_id: str) -> int:
        rows = Workunit.objects.filter(batch=batch)
        named = rows.filter(name=name_or_id).values_list("pk", flat=True).first()
        if named is None and re.fullmatch(r"[0-9]{1,18}", name_or_id, re.ASCII):
            named = rows.filter(pk=int(name_or_id)).values_list("pk", flat=True).first()
        if named is None:
            raise Http404
        return int(named)


class ResultOutput(Endpoint):
    @operation(
        "Download an output",
        name="read_result_output",
        answer={
            (200, _CONTENT): OpenApiTypes.BINARY,
            (206, _CONTENT): OpenApiTypes.BINARY,
            304: OpenApiResponse(description="The client's version is current."),
        },
        parameters=[OpenApiParameter("Range", str, OpenApiParameter.HEADER)],
        problems=(410, 416),
    )
    def get(self, request: Request, result_id: int, position: int) -> HttpResponseBase:
        """Returns the content of an output file, or a byte range. The ETag is the SHA-256."""
        result = get_object_or_404(submitted.results(viewer_of(request)), pk=result_id)
        files = [file for file in result.output_files.all() if file.position == position]
        if not files:
            raise Http404
        tag = f'"{files[0].sha256}"'
        if tag in request.headers.get("If-None-Match", ""):
            return HttpResponse(status=304, headers={"ETag": tag})
        name = open_name(result.workunit.outputs, position)
        return _attached(_content(request, files[0], tag), name, _CONTENT)


def _content(request: Request, file: ResultFile, tag: str) -> HttpResponseBase:
    part = _range(request, file.nbytes, tag)
    if part is not None and not part:
        raise Problem(
            416,
            "no_such_range",
            f"The range is outside the file, which has {file.nbytes} bytes. Hint: correct Range.",
        )
    try:
        source = storage.open_upload(file.name)
    except OSError as error:
        msg = "The file no longer exists: it was deleted because it was not needed, or it was lost."
        raise Problem(
            410,
            "file_gone",
            msg,
            hint="with keep_outputs, a batch keeps its outputs until it is retired.",
        ) from error
    span = part if part is not None else range(file.nbytes)
    answer = StreamingHttpResponse(_Part(source, span), status=200 if part is None else 206)
    answer["Content-Length"] = len(span)
    answer["Accept-Ranges"] = "bytes"
    answer["ETag"] = tag
    if part is not None:
        answer["Content-Range"] = f"bytes {part.start}-{part.stop - 1}/{file.nbytes}"
    return answer


def _range(request: Request, size: int, tag: str) -> range | None:
    """Return the requested byte range, or None if the response must have the whole file.

    None also means that `Range` is invalid or that `If-Range` differs from `tag`.  An empty range
    is outside the file.
    """
    match = _RANGE.fullmatch(request.headers.get("Range", ""))
    if not match or request.headers.get("If-Range", tag) != tag:
        return None
    first, last = match.groups()
    if first:
        if last and int(last) < int(first):
            return None
        stop = min(int(last) + 1 if last else size, size)
        return range(int(first), max(stop, int(first)))
    return range(max(0, size - int(last)), size) if last else None


class _Part:
    """An iterable of the chunks of a byte range of a file; `close` closes the file."""

    def __init__(self, source: BinaryIO, span: range) -> None:
        self._source, self._span = source, span
        self.close = source.close

    def __iter__(self) -> Iterator[bytes]:
        self._source.seek(self._span.start)
        left = len(self._span)
        while left > 0 and (chunk := self._source.read(min(_CHUNK, left))):
            left -= len(chunk)
            yield chunk


def _attached(answer: HttpResponseBase, name: str, kind: str) -> HttpResponseBase:
    safe = re.sub(r"[^A-Za-z0-9._-]", "_", name)[-200:]
    answer["Content-Type"] = kind
    answer["Content-Disposition"] = f'attachment; filename="{safe}"'
    answer["X-Accel-Buffering"] = "no"
    return answer
