"""A server that streams a batch's outputs stops when the reader disconnects."""

from __future__ import annotations

import socket
from contextlib import suppress
from pathlib import Path

import psutil
import pytest

from tests.long.stand import children_of

pytestmark = [pytest.mark.story, pytest.mark.lengthy]

#: Far larger than all buffers between server and reader.
HUGE = 8 << 30
MAKE = f"""
from django.utils import timezone
from scheduler import storage
from scheduler.models import Account, App, Batch, Result, ResultFile, Workunit
from scheduler.people import api_tokens
now = timezone.now()
eve = Account.objects.get(email="eve@example.org")
app = App.objects.create(name="sweep", created_at=now)
batch = Batch.objects.create(
    name="b", submitter=eve, app=app, state=1, created_at=now, keep_outputs=True)
workunit = Workunit.objects.create(
    name="wu", app=app, batch=batch, outputs=[{{"open_name": "out"}}], created_at=now)
result = Result.objects.create(
    workunit=workunit, app=app, name="wu_0", attempt=0, created_at=now)
file = ResultFile.objects.create(
    result=result, position=0, name=f"wu_0_r{{result.pk}}_0", nbytes={HUGE}, md5="", sha256="")
path = storage.upload_path(file.name)
path.parent.mkdir(parents=True)
path.touch()
os.truncate(path, {HUGE})
Workunit.objects.update(canonical_result=result)
_, token = api_tokens.create(account=eve, name="t", scopes=["read"], now=now)
print("made", batch.pk, token, path)
"""


def test_output_stream_stops_when_the_reader_disconnects(make_project):
    project = make_project()
    project.serve_web()
    project.manage("create_account", "eve@example.org", "--password", "secret-eve-1")
    said = project.manage("shell", "--no-imports", "-c", MAKE)
    _, batch, token, path = next(
        line for line in said.splitlines() if line.startswith("made ")
    ).split()

    def readers() -> list[psutil.Process]:
        """Return the processes that have the output file open."""
        found = []
        for process in children_of(project.children.started["web"].pid):
            with suppress(psutil.Error, OSError):
                folder = Path(f"/proc/{process.pid}/fd")
                if path in {str(one.readlink()) for one in folder.iterdir()}:
                    found.append(process)
        return found

    with socket.create_connection(("127.0.0.1", project.port), timeout=30) as reader:
        reader.sendall(
            f"GET /api/v1/batches/{batch}/outputs HTTP/1.1\r\nHost: 127.0.0.1:{project.port}\r\n"
            f"Authorization: Bearer {token}\r\n\r\n".encode()
        )
        begun = b""
        while len(begun) < 1 << 20:
            piece = reader.recv(1 << 16)
            assert piece, (begun[:400], project.log())
            begun += piece
        assert b"200 OK" in begun[:20], begun[:400]
        assert b"application/x-tar" in begun[:600]
        [server] = readers()
        before = server.memory_info().rss

    project.wait(lambda: not readers(), within=20, what="it closes the output")
    assert server.memory_info().rss < before + (64 << 20)
