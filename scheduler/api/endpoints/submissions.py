"""Endpoint that submits workunits as one JSON document or as a stream of lines."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import TYPE_CHECKING, Any, Final

import orjson
from rest_framework import serializers

from scheduler.api.http import idempotent
from scheduler.api.http.body import JsonObject, Shown, Strict
from scheduler.api.http.endpoint import Endpoint
from scheduler.api.http.openapi_operation import Scope, operation
from scheduler.api.http.problems import Problem
from scheduler.api.http.streams import Body, slot
from scheduler.people import idempotency, submitters
from scheduler.work.submission import bulk
from scheduler.work.submission.workunit_rows import DuplicateNames

if TYPE_CHECKING:
    from rest_framework.request import Request
    from rest_framework.response import Response

#: Maximum lengths of a JSON document, which is read into memory, and of a stream.
MAX_JSON_BYTES: Final = 8 << 20
MAX_STREAM_BYTES: Final = 4 << 30
#: Maximum length of a line of a stream.
MAX_LINE_BYTES: Final = 4 << 20
NDJSON: Final = "application/x-ndjson"
#: Maximum numbers of submissions that are processed (`MAX_CONCURRENT`) and open (`MAX_OPEN`) at a
#: time.  `MAX_OPEN` is larger, because clients may send slowly.  Further submissions wait for a
#: slot and are refused with 503 after a timeout.
MAX_CONCURRENT: Final = 3
MAX_OPEN: Final = 16
SLOT_TIMEOUT_SECONDS: Final = 10.0
RETRY_AFTER_SECONDS: Final = 30
_slots = threading.BoundedSemaphore(MAX_CONCURRENT)
_open_slots = threading.BoundedSemaphore(MAX_OPEN)


class SubmissionIn(Strict):
    """Workunits of one app; `docs/submitting.md` describes the fields of a workunit."""

    app = serializers.CharField(max_length=254)
    batch = serializers.JSONField(
        required=False,
        allow_null=True,
        help_text="The name or id of a batch, or an object with fields of `POST /batches`.",
    )
    defaults = JsonObject(
        required=False, help_text="Default values for the fields of all workunits."
    )
    workunits = serializers.ListField(child=JsonObject(), min_length=1)


class BatchNamed(Shown):
    """The batch of the submitted workunits."""

    id = serializers.IntegerField()
    name = serializers.CharField()
    workunits_before = serializers.IntegerField(
        help_text="Number of workunits that the batch had before this submission."
    )


class SubmissionOut(Shown):
    """The submitted workunits."""

    batch = BatchNamed()
    count = serializers.IntegerField()
    first_name = serializers.CharField()
    last_name = serializers.CharField()
    warnings = serializers.ListField(child=serializers.CharField())


class Submissions(Endpoint):
    """The view that accepts submissions; the subclass `Workunits` adds GET."""

    write_scope = Scope.SUBMIT

    @operation(
        "Submit workunits",
        name="submit_workunits",
        answer=SubmissionOut,
        status=201,
        body={
            "application/json": SubmissionIn,
            NDJSON: {
                "type": "string",
                "description": "One JSON object per line; see the description of the operation.",
            },
        },
        keyed=True,
        problems=(400, 403, 408, 409, 413, 415, 422, 503),
    )
    def post(self, request: Request) -> Response:
        """Submits all workunits, or none.

        The body is `application/json` or, for any number of workunits, `application/x-ndjson`:
        the first line is the JSON object without `workunits`, and each further line is a
        workunit. The body may be compressed (`Content-Encoding: gzip`). A stream with chunked
        transfer encoding and without gzip must end with a line `{"count": N}`, the number of
        workunits, because otherwise the server could not detect a truncated stream. The server
        submits the workunits after the whole body has arrived. An error response
        contains the first hundred errors with their positions.
        """
        body = Body(request._request, max_bytes=_max_bytes(request))  # noqa: SLF001  Django REST would read it
        try:
            # The body of a repeated request is only hashed, not parsed.
            if response := idempotent.stored_response(request, lambda: _hash(request, body)):
                return response
            # Checked first, so that an account that may not submit does not use a slot.
            submitters.require_submitter(self.account)
            with _slot(_open_slots), _slot(_slots), body.while_waiting(_slot_released):
                return idempotent.to_response(self._submit(request, body))
        except Exception:
            body.drain()
            raise

    def _submit(self, request: Request, body: Body) -> idempotency.Outcome:
        now = self.now
        if _is_stream(request):
            head, lines = _from_lines(body)
        else:
            head, lines = _from_document(body)
        key = request.headers.get(idempotent.HEADER)
        with submission_problems(is_stream=_is_stream(request)):
            return bulk.submit_lines(
                bulk.read_head(head, now=now),
                lines,
                submitter=self.account,
                key=None if key is None else bulk.Key(key, lambda: _hash(request, body)),
                now=now,
            )


@contextmanager
def submission_problems(*, is_stream: bool) -> Iterator[None]:
    """Raise refusals of `bulk` as a `Problem` with the position of each fault."""
    try:
        yield
    except bulk.BadLines as refusal:
        errors = [_error_of(fault, is_stream=is_stream) for fault in refusal.faults]
        raise Problem(422, "bad_workunits", str(refusal), errors=errors) from refusal
    except bulk.BadHead as refusal:
        errors = [{"pointer": refusal.pointer, "detail": refusal.sentence, "hint": refusal.hint}]
        raise Problem(422, "invalid", str(refusal), errors=errors) from refusal
    except DuplicateNames as refusal:
        names = refusal.names[: bulk.MAX_SHOWN_FAULTS]
        errors = [{"detail": f"The name {name!r} is taken."} for name in names]
        raise Problem(409, "names_taken", str(refusal), errors=errors) from refusal


def _is_stream(request: Request) -> bool:
    return (request.content_type or "").partition(";")[0].strip().lower() == NDJSON


def _max_bytes(request: Request) -> int:
    if _is_stream(request):
        return MAX_STREAM_BYTES
    if (request.content_type or "").partition(";")[0].strip().lower() != "application/json":
        msg = f"The content type is not supported. Hint: send application/json or {NDJSON}."
        raise Problem(415, "unsupported_media_type", msg)
    return MAX_JSON_BYTES


def _slot(slots: threading.Semaphore) -> AbstractContextManager[None]:
    return slot(
        slots,
        timeout=SLOT_TIMEOUT_SECONDS,
        retry_after=RETRY_AFTER_SECONDS,
        reason="Too many submissions are in progress.",
    )


@contextmanager
def _slot_released() -> Iterator[None]:
    """Release a processing slot during a read from the client, because an upload can stall."""
    _slots.release()
    try:
        yield
    finally:
        _slots.acquire()


def _from_lines(body: Body) -> tuple[object, Iterator[bulk.Line]]:
    """Return the object of the first line and an iterator over the other non-empty lines."""
    lines = enumerate(body.lines(max_bytes=MAX_LINE_BYTES), 1)
    for number, line in lines:
        if line.strip():
            head = bulk.read_line(number, line)
            if head.fault is not None:
                msg = f"Line {number}: {head.fault.sentence}"
                raise Problem(400, "parse_error", msg, hint=head.fault.hint)
            return head.value, bulk.counted(_read(lines), is_needed=not body.detects_truncation)
    msg = 'The body is empty. Hint: send a line {"app": "..."}, then a line for each workunit.'
    raise Problem(400, "parse_error", msg)


def _read(lines: Iterator[tuple[int, bytes]]) -> Iterator[bulk.Line]:
    return (bulk.read_line(number, text) for number, text in lines if text.strip())


def _from_document(body: Body) -> tuple[object, Iterator[bulk.Line]]:
    try:
        document = orjson.loads(b"".join(body.chunks()))
    except ValueError as error:
        msg = f"The body is not JSON: {error}. Hint: compare it with the schema at /api/v1/docs."
        raise Problem(400, "parse_error", msg) from None
    workunits = document.pop("workunits", None) if isinstance(document, dict) else None
    if isinstance(document, dict) and not isinstance(workunits, list):
        errors = [{"pointer": "/workunits", "detail": "This must be a list of workunits."}]
        raise Problem(400, "invalid", "The request is not valid.", errors=errors)
    return document, (bulk.Line(n, fields) for n, fields in enumerate(workunits or ()))


def _hash(request: Request, body: Body) -> str:
    """Read the rest of the body; return the digest of body, method and URL."""
    body.skip()
    hasher = body.sha256.copy()
    hasher.update(f"\n{request.method} {request.get_full_path()}".encode())
    return hasher.hexdigest()


def _error_of(fault: bulk.LineFault, *, is_stream: bool) -> dict[str, Any]:
    where = (
        {"line": fault.number, "pointer": fault.pointer}
        if is_stream
        else {"pointer": f"/workunits/{fault.number}{fault.pointer}"}
    )
    return {**where, "detail": fault.fault.sentence, "hint": fault.fault.hint}
