"""Collect what a batch has brought, in an archive or a manifest.

Theory of operation.  Answers are read page by page, files one after the other, and all is handed on
as it is read: nothing is gathered but the lines of the manifest, in a file of their own.  A file
that has gone meanwhile is told there, for what was sent cannot be called back.  The last line of a
manifest says where a later call goes on, if the batch still runs.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Final

from scheduler import storage
from scheduler.work.answers import Answer, Brought, answers_of
from scheduler.work.rules import since

MANIFEST: Final = "MANIFEST.ndjson"
FORMATS: Final = ("tar", "zip", "ndjson")


@dataclass(slots=True)
class Collection:
    """What is asked for: a batch, what came after a cursor, one workunit of it."""

    batch_id: int
    cursor: since.Cursor | None
    workunit_id: int | None
    now: datetime
    late: list[int] = field(default_factory=list)

    def answers(self) -> Iterator[Answer]:
        """What has come since; notes for the next cursor what it will have to leave out."""
        at = self.cursor.at if self.cursor else None
        known = self.cursor.read if self.cursor else frozenset()
        for answer in answers_of(self.batch_id, since=at, workunit_id=self.workunit_id):
            if since.is_late(answer.finished_at, began_at=self.now):
                self.late.append(answer.id)
            if answer.id not in known:
                yield answer

    def next_cursor(self) -> str:
        """Where a later call goes on, once all answers are read."""
        return since.write(since.next_cursor(self.batch_id, began_at=self.now, late=self.late))


def collect(
    batch_id: int,
    form: str,
    *,
    cursor: str | None = None,
    workunit_id: int | None = None,
    now: datetime,
) -> Iterator[bytes]:
    """What a batch has brought, in one of `FORMATS`; raises `since.BadCursor` before it begins."""
    after = since.read(cursor, batch_id=batch_id) if cursor else None
    wanted = Collection(batch_id, after, workunit_id, now)
    pieces = _manifest(wanted) if form == "ndjson" else _archive(wanted, form)
    return storage.gathered(pieces)


def _manifest(wanted: Collection) -> Iterator[bytes]:
    for answer in wanted.answers():
        yield _line(_told(answer, _described(answer)))
    yield _line({"cursor": wanted.next_cursor()})


def _archive(wanted: Collection, form: str) -> Iterator[bytes]:
    bundle: storage.Bundle = storage.BUNDLES[form]()
    with storage.spooled() as manifest:
        for answer in wanted.answers():
            outputs = _described(answer)
            for output, told in zip(answer.outputs, outputs, strict=True):
                yield from _file(bundle, answer, output, told, wanted.now)
            manifest.write(_line(_told(answer, outputs)))
        manifest.write(_line({"cursor": wanted.next_cursor()}))
        nbytes = manifest.tell()
        manifest.seek(0)
        yield from bundle.add(MANIFEST, manifest, nbytes, wanted.now)
    yield from bundle.end()


def _file(
    bundle: storage.Bundle, answer: Answer, output: Brought, told: dict[str, Any], now: datetime
) -> Iterator[bytes]:
    """Add an output; what is wrong with it is told of it."""
    with ExitStack() as stack:
        try:
            source = stack.enter_context(storage.open_upload(output.name))
        except (OSError, storage.BadFileName):
            del told["member"]
            told["missing"] = True
            return
        at = answer.finished_at or now
        try:
            yield from bundle.add(told["member"], source, output.nbytes, at)
        except storage.Shortened:
            told["damaged"] = True


def _told(answer: Answer, outputs: list[dict[str, Any]]) -> dict[str, Any]:
    return {
        "id": answer.id,
        "name": answer.name,
        "status": answer.status.value,
        "errors": answer.errors,
        "meta": answer.meta,
        "outputs": outputs,
    }


def _described(answer: Answer) -> list[dict[str, Any]]:
    """What is told of each output, with its name in an archive: there, too, no two have the same.

    Those of "a:b" and "a_b" would be, for not every system has colons in names.
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
