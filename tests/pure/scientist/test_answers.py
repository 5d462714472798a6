"""Futures of submitted workunits: the memory that they use, and cancellation."""

from __future__ import annotations

import functools
import hashlib
import json
import tarfile
import threading
import tracemalloc
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from scientist import transport
from scientist.futures import Futures
from scientist.models import BatchInfo
from scientist.transport import Transport

WORKUNITS, LENGTH = 600, 200_000
OUTPUT = bytes(LENGTH)
SHA256 = hashlib.sha256(OUTPUT).hexdigest()


def name(number: int) -> str:
    return f"w{number:04}"


class _Outputs(httpx.SyncByteStream):
    """A tar archive of all outputs, generated while it is read, as the server does."""

    def __iter__(self) -> Iterator[bytes]:
        for number in range(WORKUNITS):
            yield _head(f"{name(number)}/out", LENGTH)
            yield OUTPUT + bytes(-LENGTH % 512)
        lines = [json.dumps(self._line(number)) for number in range(WORKUNITS)]
        manifest = "\n".join([*lines, '{"cursor": "c"}\n']).encode()
        yield _head("MANIFEST.ndjson", len(manifest))
        yield manifest + bytes(-len(manifest) % 512) + bytes(1024)

    def _line(self, number: int) -> dict[str, object]:
        output = {"open_name": "out", "nbytes": LENGTH, "sha256": SHA256}
        output |= {"member": f"{name(number)}/out"}
        return {"id": number, "name": name(number), "status": "done", "outputs": [output]}


def _head(path: str, nbytes: int) -> bytes:
    about = tarfile.TarInfo(path)
    about.size = nbytes
    return about.tobuf()


def _project(request: httpx.Request) -> httpx.Response:
    assert request.url.path.endswith("/batches/1/outputs")
    return httpx.Response(200, stream=_Outputs())


def test_results_of_a_large_batch_are_fetched_in_little_memory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    project = functools.partial(httpx.Client, transport=httpx.MockTransport(_project))
    monkeypatch.setattr(transport.httpx, "Client", project)
    futures = Futures(Transport("http://testserver/"), tmp_path)
    for number in range(WORKUNITS):
        futures.add(name(number))
    futures.begin(BatchInfo(id=1, name="b"))
    tracemalloc.start()
    try:
        paths = [future.result() for future in futures.completed(timeout=60)]
        _, most = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
        futures.close()
    assert {path.read_bytes() == OUTPUT for path in map(Path, map(str, paths))} == {True}
    assert len(paths) == WORKUNITS
    # Of 120 MB, only a few chunks and about 1 kB for each workunit are in memory.
    assert most < 6_000_000


@pytest.mark.parametrize(
    ("counts", "is_cancelled"),
    [({"cancelled": 1}, True), ({"already": 1}, True), ({"finished": 1}, False)],
)
def test_future_is_cancelled_unless_its_workunit_is_finished(
    monkeypatch: pytest.MonkeyPatch, counts: dict[str, int], is_cancelled: bool
) -> None:
    answer = {"cancelled": 0, "already": 0, "finished": 0} | counts
    monkeypatch.setattr(Futures, "start", lambda _futures: None)
    made = httpx.MockTransport(lambda _request: httpx.Response(200, json=answer))
    monkeypatch.setattr(transport.httpx, "Client", functools.partial(httpx.Client, transport=made))
    futures = Futures(Transport("http://testserver/"))
    futures.add("w0")
    futures.begin(BatchInfo(id=1, name="b"))
    assert futures[0].cancel() is is_cancelled
    assert futures[0].cancelled() is is_cancelled


def _archive(files: dict[str, bytes], digests: dict[str, str]) -> bytes:
    """Return an archive with `files` by path, and a manifest with `digests` by path."""
    content = b""
    outputs = [
        {"open_name": path, "nbytes": 1, "sha256": digest, "member": f"w0/{path}"}
        for path, digest in digests.items()
    ]
    line = json.dumps({"id": 1, "name": "w0", "status": "done", "outputs": outputs})
    members = {f"w0/{path}": data for path, data in files.items()}
    members["MANIFEST.ndjson"] = f'{line}\n{{"cursor": "c"}}\n'.encode()
    for path, data in members.items():
        content += _head(path, len(data)) + data + bytes(-len(data) % 512)
    return content + bytes(1024)


def test_file_gets_its_final_name_only_after_its_digest_was_compared(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = {"good": b"good", "sub/bad": b"right"}
    digests = {path: hashlib.sha256(data).hexdigest() for path, data in whole.items()}
    replies = [_archive(whole | {"sub/bad": b"wrong"}, digests), _archive(whole, digests)]
    seen = []

    def answer(_request: httpx.Request) -> httpx.Response:
        seen.append([path for path in tmp_path.rglob("*") if path.is_file()])
        return httpx.Response(200, content=replies.pop(0))

    made = functools.partial(httpx.Client, transport=httpx.MockTransport(answer))
    monkeypatch.setattr(transport.httpx, "Client", made)
    placed: list[bytes] = []
    replace = Path.replace

    def record(path: Path, target: Path) -> Path:
        placed.append(path.read_bytes())
        return replace(path, target)

    monkeypatch.setattr(Path, "replace", record)
    futures = Futures(Transport("http://testserver/"), tmp_path)
    futures.add("w0")
    futures.begin(BatchInfo(id=1, name="b"))
    (future,) = futures.completed(timeout=60)
    assert future.result() == {path: tmp_path / "w0" / path for path in whole}
    assert seen == [[], []]  # nothing is left of the first answer, whose second file is damaged
    assert placed == [b"good", b"right"]
    for thread in threading.enumerate():
        if thread.name == "scientist-1":
            thread.join(60)  # it deletes the temporary folder after the last answer
    assert {p for p in tmp_path.rglob("*") if p.is_file()} == {tmp_path / "w0" / p for p in whole}
