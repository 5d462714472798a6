"""Workunits on their way: written down first, sent at once, repeated safely."""

from __future__ import annotations

import gzip
import hashlib
import json
import re
import secrets
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import IO, Any

from scientist import models
from scientist.errors import UsageError
from scientist.inputs import Work
from scientist.template import numbered
from scientist.transport import Transport
from scientist.uploads import Shipper, Tell, nobody
from scientist.words import label

#: One request carries at most so much, before compression; more goes in several, in one batch.
MOST_WORKUNITS, MOST_BYTES = 250_000, 200_000_000
#: Size of the pieces in which a body is sent; bytes.
CHUNK_BYTES = 1 << 17
_TOLD_EVERY = 500
_MOST_NAME = 190


@dataclass(frozen=True, slots=True)
class Order:
    """What a submission says besides its workunits.

    `batch` is an id, or the fields of a batch that is made or added to; `defaults` hold for every
    workunit; `prefix` begins the names that are made; `key` makes the same order twice one.
    """

    app: str
    batch: int | Mapping[str, Any]
    prefix: str
    key: str
    defaults: Mapping[str, Any] = field(default_factory=dict)
    total: int | None = None


class Names:
    """Names of workunits: the batch's, then the input's own or its number; never one twice."""

    def __init__(self, prefix: str, total: int | None) -> None:
        self._prefix = label(prefix)[:80]
        self._numbers = numbered(total)
        self._taken: set[str] = set()

    def of(self, work: Work) -> str:
        """The name of the next workunit.  Raises UsageError for a name that is given twice."""
        number = next(self._numbers)
        if work.name is None and work.label is None:
            return f"{self._prefix}_{number}"
        name = work.name or f"{self._prefix}_{label(work.label or '')}"[:_MOST_NAME]
        if name in self._taken:
            if work.name is not None:
                hint = "give each workunit a name of its own, or none."
                raise UsageError(f"Two workunits are called {name}.", hint)
            name = f"{name}-{number}"
        self._taken.add(name)
        return name


def tag(key: str) -> str:
    """Six digits that tell this submission's names from others': the same for the same key."""
    return hashlib.sha256(key.encode()).hexdigest()[:6]


def submission_key() -> str:
    """A key that nobody else makes; the moment in it names the batch, if nothing else does."""
    now = datetime.now(UTC)  # noqa: TID251  a name is made, nothing judged
    return f"{now:%Y%m%dT%H%M%S}-{secrets.token_hex(2)}-{secrets.token_hex(8)}"


def batch_name(app: str, key: str) -> str:
    """The name of a batch that was given none: the same for the same key.

    >>> batch_name("fold", "20270131T120000-3fa2-0011223344556677")
    'fold-20270131T120000-3fa2'
    """
    found = re.fullmatch(r"(\d{8}T\d{6}-[0-9a-f]{4})-[0-9a-f]{16}", key)
    return f"{app}-{found[1] if found else tag(key)}"


class _Part:
    """One request's body, compressed, in a file of its own that nobody else sees."""

    def __init__(self, header: Mapping[str, Any]) -> None:
        self._file: IO[bytes] = tempfile.TemporaryFile(prefix="scientist-")  # noqa: SIM115  closed by `close`
        # No name and no time of day in it: the same workunits are the same bytes.
        self._gzip = gzip.GzipFile("", "wb", 3, self._file, mtime=0)
        self.count = self.raw_bytes = 0
        self._write(header)

    def add(self, line: Mapping[str, Any]) -> None:
        """Write a workunit."""
        self._write(line)
        self.count += 1

    def _write(self, line: Mapping[str, Any]) -> None:
        text = json.dumps(line, ensure_ascii=False, separators=(",", ":"), default=str).encode()
        self._gzip.write(text + b"\n")
        self.raw_bytes += len(text) + 1

    @property
    def is_full(self) -> bool:
        """Whether the next workunit goes into another request."""
        return self.count >= MOST_WORKUNITS or self.raw_bytes >= MOST_BYTES

    def finish(self) -> int:
        """Write the end; gives the length in bytes."""
        self._gzip.close()
        return self._file.tell()

    def body(self, tell: Tell, nbytes: int) -> Iterator[bytes]:
        """The bytes, from the first on."""
        self._file.seek(0)
        sent = 0
        while chunk := self._file.read(CHUNK_BYTES):
            yield chunk
            sent += len(chunk)
            tell("sending", sent, nbytes)

    def close(self) -> None:
        """Let the file go."""
        self._gzip.close()
        self._file.close()


class Submission:
    """Workunits of one order; `add` them, then `finish`.

    Everything is written to a temporary file first, so that memory stays flat, that nothing is
    sent before the last input has been read, and that a repeat after a broken connection is the
    same to the byte, under the same key.  Long input files go ahead.
    """

    def __init__(self, transport: Transport, order: Order, tell: Tell = nobody) -> None:
        self._transport, self._order, self._tell = transport, order, tell
        self._shipper = Shipper(transport, tell)
        self._names = Names(order.prefix, order.total)
        self._part: _Part | None = None
        self._batch = order.batch
        self._shared: list[dict[str, Any]] = []
        self.made: list[models.Submitted] = []
        self.count = 0

    def add(self, work: Work) -> str:
        """Take a workunit; gives the name that it will have."""
        if self._part is None:
            self._part = self._new_part()
        name = self._names.of(work)
        line: dict[str, Any] = {"name": name, **work.fields}
        if work.files:
            # What a workunit says of its inputs replaces what the defaults say.
            own = [self._shipper.entry(file) for file in work.files]
            line["input_files"] = [*self._shared, *own]
        self._part.add(line)
        self.count += 1
        if self.count % _TOLD_EVERY == 0 or self.count == self._order.total:
            self._tell("reading", self.count, self._order.total)
        if self._part.is_full:
            self._send()
        return name

    def finish(self) -> models.Submitted:
        """Send what is there.  Raises UsageError if that is nothing, and what sending does."""
        if not self.count:
            raise UsageError("There are no workunits to submit.", "give at least one input.")
        if self._part is not None:
            self._send()
        first, last = self.made[0], self.made[-1]
        return models.Submitted(
            batch_id=first.batch_id,
            batch_name=first.batch_name,
            count=sum(one.count for one in self.made),
            first_name=first.first_name,
            last_name=last.last_name,
            warnings=tuple(dict.fromkeys(w for one in self.made for w in one.warnings)),
        )

    def close(self) -> None:
        """Forget what was not sent."""
        if self._part is not None:
            self._part.close()
            self._part = None

    def _new_part(self) -> _Part:
        defaults = dict(self._order.defaults)
        if files := defaults.pop("input_files", ()):
            # By their digests, however short they are: they may be said a hundred thousand times.
            self._shared = [self._shipper.entry(file, inline_bytes=-1) for file in files]
            defaults["input_files"] = self._shared
        header = {"app": self._order.app, "batch": self._batch, "defaults": defaults}
        return _Part(header)

    def _send(self) -> None:
        assert self._part is not None
        with ExitStack() as stack:
            stack.callback(self.close)
            self._shipper.flush()
            part = self._part
            nbytes = part.finish()
            headers = {
                "Content-Type": "application/x-ndjson",
                "Content-Encoding": "gzip",
                "Idempotency-Key": f"{self._order.key}-{len(self.made) + 1}",
            }
            self._tell("sending", 0, nbytes)
            said = self._transport.send(
                "POST", "workunits", lambda: part.body(self._tell, nbytes), nbytes, headers
            )
            self.made.append(_submitted(said))
            self._batch = self.made[0].batch_id


def _submitted(said: Mapping[str, Any]) -> models.Submitted:
    batch = said.get("batch") or {}
    return models.Submitted(
        batch_id=int(batch.get("id") or 0),
        batch_name=str(batch.get("name") or ""),
        count=int(said.get("count") or 0),
        first_name=str(said.get("first_name") or ""),
        last_name=str(said.get("last_name") or ""),
        warnings=tuple(map(str, said.get("warnings") or ())),
        workunits_before=int(batch.get("workunits_before") or 0),
    )
