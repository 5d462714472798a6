"""`POST /workunits`: submit work, as JSON or as a stream of lines."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final

import orjson
from rest_framework import serializers
from rest_framework.response import Response

from scheduler.api.http import idempotent
from scheduler.api.http.body import JsonObject, Strict
from scheduler.api.http.endpoint import Endpoint
from scheduler.api.http.operation import Scope, operation
from scheduler.api.http.problems import CONTENT_TYPE, Problem, problem
from scheduler.api.http.streams import Body
from scheduler.files import download_files
from scheduler.people import idempotency, submitters
from scheduler.people.quotas import QuotaExceeded
from scheduler.work.submission import bulk
from scheduler.work.submission.births import DuplicateNames
from scheduler.work.submission.new_batches import BatchRefused
from scheduler.work.submission.submission_checks import SubmissionRefused, UnknownApp

if TYPE_CHECKING:
    from rest_framework.request import Request

#: Longest body: of one JSON document, which is read into memory, and of a stream; bytes.
MOST_JSON: Final = 8 << 20
MOST_STREAM: Final = 4 << 30
#: Longest line of a stream; bytes.
MOST_LINE: Final = 4 << 20
LINES: Final = "application/x-ndjson"
#: So many submissions are worked on at a time, and so many are open, whose clients may be slow; the
#: next waits so many seconds for its turn.
AT_ONCE: Final = 3
OPEN: Final = 16
PATIENCE: Final = 10.0
RETRY_AFTER_SECONDS: Final = 30
_turns = threading.BoundedSemaphore(AT_ONCE)
_open = threading.BoundedSemaphore(OPEN)


class SubmissionIn(Strict):
    """Workunits of one app; what a workunit may say is told in `docs/submitting.md`."""

    app = serializers.CharField(max_length=254)
    batch = serializers.JSONField(
        required=False,
        allow_null=True,
        help_text="The name or the number of a batch, or an object as of `POST /batches`.",
    )
    defaults = JsonObject(required=False, help_text="Fields that hold for all workunits.")
    workunits = serializers.ListField(child=JsonObject(), min_length=1)


class BatchNamed(serializers.Serializer[Any]):
    """The batch that workunits went into."""

    id = serializers.IntegerField()
    name = serializers.CharField()
    workunits_before = serializers.IntegerField(
        help_text="How many workunits the batch had before this submission; 0 if it is new."
    )


class SubmissionOut(serializers.Serializer[Any]):
    """What was made."""

    batch = BatchNamed()
    count = serializers.IntegerField()
    first_name = serializers.CharField()
    last_name = serializers.CharField()
    warnings = serializers.ListField(child=serializers.CharField())


class Submissions(Endpoint):
    """What an address takes work in by."""

    write_scope = Scope.SUBMIT

    @operation(
        "Submit workunits",
        name="submit_workunits",
        tag="workunits",
        answer=SubmissionOut,
        status=201,
        body={
            "application/json": SubmissionIn,
            LINES: {"type": "string", "description": "See above."},
        },
        keyed=True,
        problems=(400, 403, 408, 409, 413, 415, 422, 503),
    )
    def post(self, request: Request) -> Response:
        """All of them, or none.

        As `application/json`, or, however many they are, as `application/x-ndjson`: the first
        line is the same object without `workunits`, and each further line is a workunit. It may
        be packed with `Content-Encoding: gzip`. If it is sent in chunks and not packed, its last
        line is `{"count": N}`, the number of workunits: else nobody could tell that it was cut
        short. Nothing is done unless the whole body has arrived. Faults are told with the lines
        they are in, the first hundred.
        """
        body = Body(request._request, most=_most(request))  # noqa: SLF001  Django REST would read it
        try:
            told = self._told_before(request, body)
            if told is None:
                # Turns are few: one is not for those who may submit nothing at all.
                submitters.require_submitter(self.account)
                with _a_turn() as has_turn:
                    if not has_turn:
                        body.drain()
                        return _later()
                    with body.waiting(_turn_given_up):
                        told = self._submit(request, body)
        except Exception:
            body.drain()
            raise
        return idempotent.answer(told)

    def _told_before(self, request: Request, body: Body) -> idempotency.Told | None:
        """Of a repeat nothing is parsed, only hashed."""
        key = request.headers.get(idempotent.HEADER)
        if key is None:
            return None
        return idempotency.told_before(
            account=self.account, key=key, request_hash=lambda: _hash(request, body)
        )

    def _submit(self, request: Request, body: Body) -> idempotency.Told:
        now = self.now
        if _is_stream(request):
            given, lines = _from_lines(body)
        else:
            given, lines = _from_document(body)
        key = request.headers.get(idempotent.HEADER)
        try:
            return bulk.submit_lines(
                bulk.read_head(given, now=now),
                lines,
                submitter=self.account,
                key=None if key is None else bulk.Key(key, lambda: _hash(request, body)),
                now=now,
            )
        except (SubmissionRefused, QuotaExceeded, download_files.FileInMotion) as refusal:
            raise _refused(refusal, is_stream=_is_stream(request)) from refusal


def _is_stream(request: Request) -> bool:
    return (request.content_type or "").partition(";")[0].strip().lower() == LINES


def _most(request: Request) -> int:
    if _is_stream(request):
        return MOST_STREAM
    if (request.content_type or "").partition(";")[0].strip().lower() != "application/json":
        msg = f"This type of body is not read. Hint: send application/json or {LINES}."
        raise Problem(415, "unsupported_media_type", msg)
    return MOST_JSON


@contextmanager
def _a_turn() -> Iterator[bool]:
    """Wait for one of the few turns; tells whether one came."""
    with _one_of(_open) as is_open:
        if not is_open:
            yield False
            return
        with _one_of(_turns) as has_turn:
            yield has_turn


@contextmanager
def _one_of(semaphore: threading.Semaphore) -> Iterator[bool]:
    is_mine = semaphore.acquire(timeout=PATIENCE)
    try:
        yield is_mine
    finally:
        if is_mine:
            semaphore.release()


@contextmanager
def _turn_given_up() -> Iterator[None]:
    """Let others work while a client sends nothing: no web server ends that for us."""
    _turns.release()
    try:
        yield
    finally:
        _turns.acquire()


def _later() -> Response:
    said = "Other submissions are being read. Hint: send this one again a little later."
    return Response(
        problem(503, "busy", said),
        status=503,
        content_type=CONTENT_TYPE,
        headers={"Retry-After": str(RETRY_AFTER_SECONDS)},
    )


def _from_lines(body: Body) -> tuple[object, Iterator[bulk.Line]]:
    """The first line, and the others, read as they come; empty ones are passed over."""
    lines = enumerate(body.lines(most=MOST_LINE), 1)
    for number, line in lines:
        if line.strip():
            head = bulk.read_line(number, line)
            if head.fault is not None:
                msg = f"Line {number}: {head.fault.sentence}"
                raise Problem(400, "parse_error", msg, hint=head.fault.hint)
            return head.said, bulk.counted(_read(lines), is_needed=not body.says_its_end)
    msg = 'The body is empty. Hint: begin with a line {"app": "..."}, then a line per workunit.'
    raise Problem(400, "parse_error", msg)


def _read(lines: Iterator[tuple[int, bytes]]) -> Iterator[bulk.Line]:
    return (bulk.read_line(number, text) for number, text in lines if text.strip())


def _from_document(body: Body) -> tuple[object, Iterator[bulk.Line]]:
    try:
        given = orjson.loads(b"".join(body.chunks()))
    except ValueError as error:
        msg = f"The body is no JSON: {error}. Hint: compare it with the schema's examples."
        raise Problem(400, "parse_error", msg) from None
    workunits = given.pop("workunits", None) if isinstance(given, dict) else None
    if isinstance(given, dict) and not isinstance(workunits, list):
        errors = [{"pointer": "/workunits", "detail": "This must be a list of workunits."}]
        raise Problem(400, "invalid", "The request is not valid.", errors=errors)
    return given, (bulk.Line(n, said) for n, said in enumerate(workunits or ()))


def _hash(request: Request, body: Body) -> str:
    """Digest what is asked for: what is still to come is read, and not looked at."""
    body.skip()
    hasher = body.sha256.copy()
    hasher.update(f"\n{request.method} {request.get_full_path()}".encode())
    return hasher.hexdigest()


def _refused(refusal: Exception, *, is_stream: bool) -> Problem:
    """Say why nothing was submitted."""
    said = str(refusal)
    if isinstance(refusal, bulk.BadLines):
        faults = [_told(fault, is_stream=is_stream) for fault in refusal.faults]
        return Problem(422, "bad_workunits", said, errors=faults)
    if isinstance(refusal, bulk.BadHead):
        error = {"pointer": refusal.pointer, "detail": refusal.sentence, "hint": refusal.hint}
        return Problem(422, "invalid", said, errors=[error])
    if isinstance(refusal, DuplicateNames):
        taken = [{"detail": f"The name {name!r} is taken."} for name in refusal.names]
        return Problem(409, "names_taken", said, errors=taken[: bulk.SHOWN])
    for kind, status, code in _CODES:
        if isinstance(refusal, kind):
            return Problem(status, code, said)
    return Problem(422, "refused", said)


_CODES: tuple[tuple[type[Exception], int, str], ...] = (
    (UnknownApp, 422, "unknown_app"),
    (BatchRefused, 422, "batch_refused"),
    (QuotaExceeded, 403, "quota_exceeded"),
    (download_files.FileInMotion, 409, "file_in_motion"),
    (bulk.CutShort, 400, "cut_short"),
    (bulk.TooManyWorkunits, 413, "too_many_workunits"),
    (bulk.NoWorkunits, 422, "no_workunits"),
)


def _told(fault: bulk.LineFault, *, is_stream: bool) -> dict[str, Any]:
    where = (
        {"line": fault.number, "pointer": fault.pointer}
        if is_stream
        else {"pointer": f"/workunits/{fault.number}{fault.pointer}"}
    )
    return {**where, "detail": fault.fault.sentence, "hint": fault.fault.hint}
