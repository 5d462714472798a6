"""Streamed submissions to a real server: memory use, disconnects, a crash."""

from __future__ import annotations

import http.client
import json
import os
import signal
import socket
import time

import psutil
import pytest

from daemons.management.processes import wait_until

pytestmark = [pytest.mark.story, pytest.mark.lengthy]

MANY = 20_000
HEAD = {"app": "sieve", "defaults": {"outputs": ["out"]}}
MAKE = """
from django.utils import timezone
from scheduler.models import App
from scheduler.people import accounts, api_tokens
now = timezone.now()
App.objects.create(name="sieve", created_at=now)
ada = accounts.create_staff(email="ada@example.org", password="pw")
print(api_tokens.create(account=ada, name="t", scopes=["submit"], now=now)[1])
"""


@pytest.fixture
def project(make_project):
    made = make_project()
    made.serve_web()
    made.token = next(
        word for word in made.manage("shell", "-c", MAKE).split() if word.startswith("mh_")
    )
    return made


def body_of(number):
    lines = [HEAD]
    lines += [
        {"input_files": [{"open_name": "in", "content": f"{place} of {number} ".ljust(300, "x")}]}
        for place in range(number)
    ]
    return b"".join(json.dumps(line).encode() + b"\n" for line in lines)


def headers_of(project, **more):
    return {
        "Authorization": f"Bearer {project.token}",
        "Content-Type": "application/x-ndjson",
        **more,
    }


def post(project, body):
    connection = http.client.HTTPConnection("127.0.0.1", project.port, timeout=120)
    connection.request("POST", "/api/v1/workunits", body=body, headers=headers_of(project))
    answer = connection.getresponse()
    said = json.loads(answer.read())
    connection.close()
    return answer.status, said


def open_request(project, **headers):
    """Send the head of a submission request; return the socket, on which tests send the body."""
    line = socket.create_connection(("127.0.0.1", project.port), timeout=30)
    said = headers_of(project, Host="127.0.0.1", **headers)
    text = "".join(f"{name}: {value}\r\n" for name, value in said.items())
    line.sendall(f"POST /api/v1/workunits HTTP/1.1\r\n{text}\r\n".encode())
    return line


def workers(project):
    web = psutil.Process(project.children.started["web"].pid)
    return [one for one in web.children(recursive=True) if "granian" in " ".join(one.cmdline())]


def counts(project):
    tables = ("workunit", "batch", "workunit_file", "file_hold")
    return tuple(project.sql(f"SELECT count(*) AS n FROM {t}")[0]["n"] for t in tables)


def kept(project):
    return project.sql("SELECT count(*) AS n FROM file WHERE doomed_at IS NULL")[0]["n"]


def test_server_memory_stays_constant_during_a_large_submission(project):
    for _ in range(2 * len(workers(project))):
        assert post(project, body_of(1000))[0] == 201
    before = {one.pid: one.memory_info().rss for one in workers(project)}
    status, said = post(project, body_of(MANY))
    assert (status, said["count"]) == (201, MANY)
    grown = [one.memory_info().rss - before[one.pid] for one in workers(project)]
    assert max(grown) < 30e6


def test_disconnects_and_a_server_crash_leave_no_workunits(project):
    body = body_of(3000)
    half = body[: len(body) // 2].rpartition(b"\n")[0] + b"\n"

    with open_request(project, **{"Content-Length": len(body)}) as line:
        line.sendall(half)
        assert wait_until(lambda: counts(project)[3] > 500, within=30)
    assert wait_until(lambda: counts(project) == (0, 0, 0, 0), within=30)

    with open_request(project, **{"Transfer-Encoding": "chunked"}) as line:
        line.sendall(b"%x\r\n" % len(half) + half + b"\r\n")
        assert wait_until(lambda: counts(project)[3] > 500, within=30)
    assert wait_until(lambda: counts(project) == (0, 0, 0, 0), within=30)
    assert kept(project) == 0

    with open_request(project, **{"Content-Length": len(body)}) as line:
        line.sendall(half)
        assert wait_until(lambda: counts(project)[3] > 500, within=30)
        for one in workers(project):
            os.kill(one.pid, signal.SIGKILL)
    time.sleep(1)
    workunits, batches, references, holds = counts(project)
    assert (workunits, batches, references) == (0, 0, 0)
    assert holds > 500
    project.sql("UPDATE file_hold SET until = now() - interval '1 second'")
    project.manage("housekeeper", "--once")
    assert kept(project) == 0
