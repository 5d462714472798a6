"""Writes workunits to temporary files, and sends the files in requests."""

from __future__ import annotations

import gzip
import hashlib
import json
import re
import secrets
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import IO, Any

from scientist import models
from scientist.errors import UsageError
from scientist.inputs import Work
from scientist.template import numbered
from scientist.transport import Transport
from scientist.uploads import FileUploader, OnProgress
from scientist.words import label

#: Limits of one request, before compression; a larger batch is sent in several requests.
MAX_WORKUNITS, MAX_BYTES = 250_000, 200_000_000
#: Size of the chunks in which a body is sent.
CHUNK_BYTES = 1 << 17
#: The number of workunits between two reports of progress.
_PROGRESS_INTERVAL = 500
_MAX_NAME_LENGTH = 190


@dataclass(frozen=True, slots=True)
class SubmissionSpec:
    """The parameters of a submission besides its workunits.

    `batch` is the id of an existing batch, or the fields of a batch, which is created if no batch
    has its name.  `defaults` are fields of every workunit.  Generated names of workunits begin with
    `prefix`.  `key` is an idempotency key: a repeated submission with this key creates its
    workunits only once.  `total` is the number of workunits, or None if it is unknown.
    """

    app: str
    batch: int | Mapping[str, Any]
    prefix: str
    key: str
    defaults: Mapping[str, Any] = field(default_factory=dict)
    total: int | None = None


class WorkunitNames:
    """Generates unique names of workunits.

    A generated name is the prefix and the label of the workunit, or its number if it has no label.
    """

    def __init__(self, prefix: str, total: int | None) -> None:
        self._prefix = label(prefix)[:80]
        self._numbers = numbered(total)
        self._taken: set[str] = set()

    def of(self, work: Work) -> str:
        """Return the name of the next workunit, which is `work.name` if that is set.

        Raises UsageError if another workunit has the name `work.name`.
        """
        number = next(self._numbers)
        if work.name is None and work.label is None:
            return f"{self._prefix}_{number}"
        name = work.name or f"{self._prefix}_{label(work.label or '')}"[:_MAX_NAME_LENGTH]
        if name in self._taken:
            if work.name is not None:
                hint = "use a different name for each workunit, or leave names out."
                raise UsageError(f"Two workunits are called {name}.", hint)
            name = f"{name}-{number}"
        self._taken.add(name)
        return name


def tag(key: str) -> str:
    """Return six hexadecimal digits of the key's SHA-256, for the names of a submission."""
    return hashlib.sha256(key.encode()).hexdigest()[:6]


def submission_key() -> str:
    """Return a new idempotency key, which consists of the time and of random digits."""
    now = datetime.now(UTC)  # noqa: TID251  only for a name
    return f"{now:%Y%m%dT%H%M%S}-{secrets.token_hex(2)}-{secrets.token_hex(8)}"


def batch_name(app: str, key: str) -> str:
    """Return the default name of a batch, which depends only on the app and the key.

    If the key is from `submission_key`, the name has the first digits of the key, else its `tag`.

    >>> batch_name("fold", "20270131T120000-3fa2-0011223344556677")
    'fold-20270131T120000-3fa2'
    """
    match = re.fullmatch(r"(\d{8}T\d{6}-[0-9a-f]{4})-[0-9a-f]{16}", key)
    return f"{app}-{match[1] if match else tag(key)}"


class _Part:
    """The compressed body of one request, in an unnamed temporary file."""

    def __init__(self, header: Mapping[str, Any]) -> None:
        self._file: IO[bytes] = tempfile.TemporaryFile(prefix="scientist-")  # noqa: SIM115  closed by `close`
        # The gzip header has no name and no time, so that the same workunits give the same bytes.
        self._gzip = gzip.GzipFile("", "wb", 3, self._file, mtime=0)
        self.count = self.raw_bytes = 0
        self._write(header)

    def add(self, line: Mapping[str, Any]) -> None:
        """Append the JSON line of a workunit."""
        self._write(line)
        self.count += 1

    def _write(self, line: Mapping[str, Any]) -> None:
        text = json.dumps(line, ensure_ascii=False, separators=(",", ":"), default=str).encode()
        self._gzip.write(text + b"\n")
        self.raw_bytes += len(text) + 1

    @property
    def is_full(self) -> bool:
        """Whether a limit is reached, so that the next workunit must be in another request."""
        return self.count >= MAX_WORKUNITS or self.raw_bytes >= MAX_BYTES

    def finish(self) -> int:
        """Finish the compressed stream; return its length in bytes."""
        self._gzip.close()
        return self._file.tell()

    def body(self, on_progress: OnProgress, nbytes: int) -> Iterator[bytes]:
        """Yield the body in chunks, and report the sent bytes; `nbytes` is the total length."""
        self._file.seek(0)
        sent = 0
        while chunk := self._file.read(CHUNK_BYTES):
            yield chunk
            sent += len(chunk)
            on_progress("sending", sent, nbytes)

    def close(self) -> None:
        """Close the temporary file, which deletes the file."""
        self._gzip.close()
        self._file.close()


class Submission:
    """Sends workunits.  Call `add` for each workunit, then `finish`.

    Workunits are first written to a temporary file.  Therefore, memory holds only their names, a
    request is sent only after all its inputs were read, and a retry after a broken connection sends
    the same bytes with the same idempotency key.  Long input files are uploaded before the request.
    """

    def __init__(self, transport: Transport, spec: SubmissionSpec, on_progress: OnProgress) -> None:
        self._transport, self._spec, self._on_progress = transport, spec, on_progress
        self._uploader = FileUploader(transport, on_progress)
        self._names = WorkunitNames(spec.prefix, spec.total)
        self._part: _Part | None = None
        self._batch = spec.batch
        self._shared: list[dict[str, Any]] = []
        self.summaries: list[models.SubmissionSummary] = []
        self.count = 0

    def add(self, work: Work) -> str:
        """Add a workunit, and return its name.  A full request is sent at once."""
        if self._part is None:
            self._part = self._new_part()
        name = self._names.of(work)
        line: dict[str, Any] = {"name": name, **work.fields}
        if work.files:
            # The API replaces the default input files by those of the workunit.
            own = [self._uploader.entry(file) for file in work.files]
            line["input_files"] = [*self._shared, *own]
        self._part.add(line)
        self.count += 1
        if self.count % _PROGRESS_INTERVAL == 0 or self.count == self._spec.total:
            self._on_progress("reading", self.count, self._spec.total)
        if self._part.is_full:
            self._send()
        return name

    def finish(self) -> models.SubmissionSummary:
        """Send the remaining workunits; return a summary of all requests.

        Raises UsageError if there are no workunits, and Unreachable or ProblemError if a request
        fails.
        """
        if not self.count:
            raise UsageError("There are no workunits to submit.", "give at least one input.")
        if self._part is not None:
            self._send()
        first, last = self.summaries[0], self.summaries[-1]
        return models.SubmissionSummary(
            batch_id=first.batch_id,
            batch_name=first.batch_name,
            count=sum(part.count for part in self.summaries),
            first_name=first.first_name,
            last_name=last.last_name,
            warnings=tuple(dict.fromkeys(w for part in self.summaries for w in part.warnings)),
            workunits_before=first.workunits_before,
        )

    def close(self) -> None:
        """Discard the workunits that were not sent."""
        if self._part is not None:
            self._part.close()
            self._part = None

    def _new_part(self) -> _Part:
        defaults = dict(self._spec.defaults)
        if files := defaults.pop("input_files", ()):
            # Even short files are sent by digest, because each workunit with own input files
            # repeats these entries.
            self._shared = [self._uploader.entry(file, inline_bytes=-1) for file in files]
            defaults["input_files"] = self._shared
        header = {"app": self._spec.app, "batch": self._batch, "defaults": defaults}
        return _Part(header)

    def _send(self) -> None:
        assert self._part is not None
        with closing(self):
            self._uploader.flush()
            part = self._part
            nbytes = part.finish()
            headers = {
                "Content-Type": "application/x-ndjson",
                "Content-Encoding": "gzip",
                "Idempotency-Key": f"{self._spec.key}-{len(self.summaries) + 1}",
            }
            self._on_progress("sending", 0, nbytes)
            answer = self._transport.send(
                "POST", "workunits", lambda: part.body(self._on_progress, nbytes), nbytes, headers
            )
            self.summaries.append(_summary(answer))
            self._batch = self.summaries[0].batch_id


def _summary(answer: Mapping[str, Any]) -> models.SubmissionSummary:
    batch = answer.get("batch") or {}
    return models.SubmissionSummary(
        batch_id=int(batch.get("id") or 0),
        batch_name=str(batch.get("name") or ""),
        count=int(answer.get("count") or 0),
        first_name=str(answer.get("first_name") or ""),
        last_name=str(answer.get("last_name") or ""),
        warnings=tuple(map(str, answer.get("warnings") or ())),
        workunits_before=int(batch.get("workunits_before") or 0),
    )
