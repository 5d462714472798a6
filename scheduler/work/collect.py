"""Streams the outputs of a batch as an archive or a manifest.

Theory of operation.  An answer is a done or failed workunit with its outputs.  Answers are read
page by page and files one after the other, and each piece is sent as soon as it is read; only the
lines of the manifest are spooled to a file.  A file that is deleted during the call is marked in
the manifest, since data already sent cannot be recalled.  The last line of a manifest is a cursor:
a later call with it returns only the answers that are new since then.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Final

from scheduler import storage
from scheduler.work.answers import Answer, AnswerOutput, answers_of
from scheduler.work.rules import since

MANIFEST: Final = "MANIFEST.ndjson"
FORMATS: Final = ("tar", "zip", "ndjson")


@dataclass(slots=True)
class Collection:
    """Reads the answers of a batch that are new since a cursor, or the answer of one workunit.

    `late` has the ids of the answers that were read and for which `since.is_late` is true.
    """

    batch_id: int
    cursor: since.Cursor | None
    workunit_id: int | None
    now: datetime
    late: list[int] = field(default_factory=list)

    def answers(self) -> Iterator[Answer]:
        """Yield the answers that are new since the cursor, and add the ids of late answers."""
        at = self.cursor.at if self.cursor else None
        already_read = self.cursor.read if self.cursor else frozenset()
        for answer in answers_of(self.batch_id, since=at, workunit_id=self.workunit_id):
            if since.is_late(answer.finished_at, began_at=self.now):
                self.late.append(answer.id)
            if answer.id not in already_read:
                yield answer

    def next_cursor(self) -> str:
        """Return the cursor for a later collection, after all answers were read."""
        return since.write(since.next_cursor(self.batch_id, began_at=self.now, late=self.late))


def collect(
    batch_id: int,
    form: str,
    *,
    cursor: str | None = None,
    workunit_id: int | None = None,
    now: datetime,
) -> Iterator[bytes]:
    """Stream the outputs of a batch in the format `form`, one of `FORMATS`.

    Raises `since.BadCursor` before the first piece is read.
    """
    after = since.read(cursor, batch_id=batch_id) if cursor else None
    wanted = Collection(batch_id, after, workunit_id, now)
    pieces = _manifest(wanted) if form == "ndjson" else _archive(wanted, form)
    return storage.gathered(pieces)


def _manifest(wanted: Collection) -> Iterator[bytes]:
    for answer in wanted.answers():
        yield _line(_entry(answer, _described(answer)))
    yield _line({"cursor": wanted.next_cursor()})


def _archive(wanted: Collection, form: str) -> Iterator[bytes]:
    bundle: storage.Bundle = storage.BUNDLES[form]()
    with storage.spooled() as manifest:
        for answer in wanted.answers():
            outputs = _described(answer)
            for output, description in zip(answer.outputs, outputs, strict=True):
                yield from _file(bundle, answer, output, description, wanted.now)
            manifest.write(_line(_entry(answer, outputs)))
        manifest.write(_line({"cursor": wanted.next_cursor()}))
        nbytes = manifest.tell()
        manifest.seek(0)
        yield from bundle.add(MANIFEST, manifest, nbytes, wanted.now)
    yield from bundle.end()


def _file(
    bundle: storage.Bundle,
    answer: Answer,
    output: AnswerOutput,
    description: dict[str, Any],
    now: datetime,
) -> Iterator[bytes]:
    """Yield the archive's bytes for an output; mark a missing or damaged file in `description`."""
    with ExitStack() as stack:
        try:
            source = stack.enter_context(storage.open_upload(output.name))
        except (OSError, storage.BadFileName):
            del description["member"]
            description["missing"] = True
            return
        at = answer.finished_at or now
        try:
            yield from bundle.add(description["member"], source, output.nbytes, at)
        except storage.Shortened:
            description["damaged"] = True


def _entry(answer: Answer, outputs: list[dict[str, Any]]) -> dict[str, Any]:
    return {
        "id": answer.id,
        "name": answer.name,
        "status": answer.status.value,
        "errors": answer.errors,
        "meta": answer.meta,
        "outputs": outputs,
    }


def _described(answer: Answer) -> list[dict[str, Any]]:
    """Return the manifest's description of each output, with a unique member name in the archive.

    Member names have no colons, since not every system allows them.  If "a:b" and "a_b" would
    have one member name, the second gets its position as a prefix.
    """
    described: list[dict[str, Any]] = []
    taken: set[str] = set()
    for output in answer.outputs:
        name = output.open_name
        while (member := storage.member_name(answer.name, name)) in taken:
            name = f"{output.position}_{name}"
        taken.add(member)
        facts = {"open_name": output.open_name, "nbytes": output.nbytes, "sha256": output.sha256}
        described.append(facts | {"member": member})
    return described


def _line(facts: dict[str, Any]) -> bytes:
    return json.dumps(facts, ensure_ascii=False, separators=(",", ":")).encode() + b"\n"
