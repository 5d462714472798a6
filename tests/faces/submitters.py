"""Submitters who use BOINC's interface, their batches, and requests as bytes."""

from __future__ import annotations

import hashlib
import io
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlencode

from django.core import signals
from django.core.handlers.wsgi import WSGIHandler
from django.db import close_old_connections, connection

from project.routing import route
from scheduler import signing, storage
from scheduler.models import Account, AccountKey, App, Batch, FileHold, JobFile, Submitter, Workunit
from scheduler.people.account_keys import key_hash
from tests.conftest import NOON
from tests.rows import a_host, a_result, a_workunit, an_account, an_app, hours, settled, update

GOLDEN = Path(__file__).parents[1] / "golden" / "submit"
KEY = "0f3c8a5e9d7b41268c0e5a7f3d9b1e64"
PROLOG = '<?xml version="1.0" encoding="ISO-8859-1" ?>\n'

INPUT = """<input_template>
    <file_info>
    </file_info>
    <workunit>
        <file_ref>
            <open_name>in</open_name>
        </file_ref>
        <rsc_memory_bound>100000000</rsc_memory_bound>
    </workunit>
</input_template>
"""
OUTPUT = """<file_info>
    <name><OUTFILE_0/></name>
    <generated_locally/>
    <upload_when_present/>
    <max_nbytes>1000000</max_nbytes>
    <url><UPLOAD_URL/></url>
</file_info>
<result>
    <file_ref>
        <file_name><OUTFILE_0/></file_name>
        <open_name>out</open_name>
    </file_ref>
</result>
"""


def an_app_with_templates(name: str = "remote_test") -> App:
    return an_app(name, input_template=INPUT, output_template=OUTPUT)


def a_submitter(name: str, key: str, **fields: Any) -> Account:
    """Create an account that can submit for every app, with a submission key."""
    account = an_account(name, **fields)
    Submitter.objects.create(account=account, all_apps=True, created_at=NOON)
    AccountKey.objects.create(
        account=account,
        kind=AccountKey.Kind.SUBMISSION,
        is_current=False,
        key_hash=key_hash(key),
        sealed=signing.seal(key),
        created_at=NOON,
    )
    return account


def a_job_file(account: Account, name: str, content: bytes) -> JobFile:
    """Create a file that a submitter has uploaded."""
    from scheduler.boinc_submission import sent_files

    sent_files.keep(account, [(name, storage.stage_bytes(content))], until=hours(24), now=NOON)
    return JobFile.objects.get(account=account, name=name)


class World:
    """Ada's batches and one of Bob's, with fixed ids."""

    def __init__(self) -> None:
        for table, first in (("batch", 1000), ("workunit", 2000), ("result", 501), ("file", 300)):
            with connection.cursor() as cursor:
                cursor.execute(f"ALTER SEQUENCE {table}_id_seq RESTART WITH {first}")
        self.ada = a_submitter("ada", KEY)
        self.bob = a_submitter("bob", "b0b" * 10)
        self.app = an_app_with_templates()
        self.first = self.a_batch(54, "first", Batch.State.IN_PROGRESS, expire_at=hours(48))
        self.empty = self.a_batch(55, "empty", Batch.State.INIT)
        self.retired = self.a_batch(56, "retired", Batch.State.RETIRED)
        self.complete = self.a_batch(
            57, "complete", Batch.State.COMPLETE, completed_at=hours(-1), purged_done=3
        )
        self.theirs = self.a_batch(60, "theirs", Batch.State.IN_PROGRESS, submitter=self.bob)
        self.their_workunit = self.a_workunit(160, "wu_bobs", self.theirs)
        self._fill_the_first()
        a_job_file(self.ada, "5d41402abc4b2a76b9719d911017c592.txt", b"hello")
        a_job_file(self.ada, "jf_5d41402abc4b2a76b9719d911017c592", b"hello")
        a_job_file(self.bob, "jf_7d793037a0760186574b0282f2f435e7", b"world")
        FileHold.objects.update(until=hours(24))

    def a_batch(self, id_: int, name: str, state: int, **fields: Any) -> Batch:
        fields = {"submitter": self.ada, "keep_outputs": True, "created_at": hours(-2)} | fields
        return Batch.objects.create(id=id_, name=name, app=self.app, state=state, **fields)

    def a_workunit(self, id_: int, name: str, batch: Batch, **fields: Any) -> Workunit:
        return a_workunit(
            self.app, id=id_, name=name, batch=batch, outputs_kept=True, min_quorum=1, **fields
        )

    def _fill_the_first(self) -> None:
        done = self.a_workunit(101, "wu_done", self.first)
        answer = a_result(
            done,
            "valid",
            output=b"the answer",
            uploaded=True,
            stderr="went <well> ]]> & on",
            cpu_time=12.5,
            elapsed_time=20.0,
        )
        settled(done, answer, assimilate_state=2, finished_at=hours(-1), canonical_credit=7)
        failed = self.a_workunit(102, "wu_failed", self.first)
        a_result(failed, "error", client_state=3, stderr="segfault", cpu_time=1.5, elapsed_time=2.0)
        update(Workunit.objects.get(pk=102).results.get(), exit_status=3)
        update(failed, error_mask=2)
        running = self.a_workunit(103, "wu_running", self.first)
        a_result(running, "sent", host=a_host())
        a_result(self.a_workunit(104, "wu_unsent", self.first), "unsent")


# Requests as bytes


def send(raw: bytes) -> tuple[str, dict[str, str], bytes]:
    """Send a raw HTTP request to the WSGI application; return status, headers and body."""
    head, _, body = raw.partition(b"\r\n\r\n")
    line, *lines = head.decode().split("\r\n")
    method, target, _version = line.split(" ")
    path, _, query = target.partition("?")
    environ: dict[str, Any] = {
        "REQUEST_METHOD": method,
        "PATH_INFO": path,
        "QUERY_STRING": query,
        "SERVER_NAME": "127.0.0.1",
        "SERVER_PORT": "8000",
        "SERVER_PROTOCOL": "HTTP/1.1",
        "REMOTE_ADDR": "127.0.0.1",
        "wsgi.version": (1, 0),
        "wsgi.url_scheme": "http",
        "wsgi.input": io.BytesIO(body),
        "wsgi.errors": io.StringIO(),
        "wsgi.multithread": True,
        "wsgi.multiprocess": True,
        "wsgi.run_once": False,
    }
    for one in lines:
        name, _, value = one.partition(": ")
        key = name.upper().replace("-", "_")
        environ[key if key in {"CONTENT_TYPE", "CONTENT_LENGTH"} else f"HTTP_{key}"] = value
    told: list[Any] = []

    def start_response(status: str, headers: list[tuple[str, str]], *_: Any) -> Any:
        told.extend((status, headers))

    # Requests must not close the test's connection, which has an open transaction.
    signals.request_started.disconnect(close_old_connections)
    signals.request_finished.disconnect(close_old_connections)
    try:
        answer = route(environ, start_response, django_app=WSGIHandler())
        content = b"".join(answer)
        if close := getattr(answer, "close", None):
            close()
    finally:
        signals.request_started.connect(close_old_connections)
        signals.request_finished.connect(close_old_connections)
    return told[0], dict(told[1]), content


def post(xml: str | bytes, path: str = "submit_rpc_handler.php") -> str:
    """Post a request as BOINC's Python library does; return the reply without the XML prolog."""
    body = urlencode({"request": xml}).encode()
    return plain_post(body, "application/x-www-form-urlencoded", path)


def plain_post(body: bytes, content_type: str, path: str = "submit_rpc_handler.php") -> str:
    head = (
        f"POST /{path} HTTP/1.1\r\nContent-Type: {content_type}\r\n"
        f"Content-Length: {len(body)}\r\nHost: 127.0.0.1:8000\r\n\r\n"
    )
    status, headers, content = send(head.encode() + body)
    assert status == "200 OK", content
    assert headers["Content-Type"] == "text/xml"
    text = content.decode("ascii")
    assert text.startswith(PROLOG)
    return text.removeprefix(PROLOG)


def get(path: str, **query: object) -> tuple[str, dict[str, str], bytes]:
    asked = "&".join(f"{name}={quote(str(value), safe='')}" for name, value in query.items())
    return send(f"GET /{path}?{asked} HTTP/1.1\r\nHost: 127.0.0.1:8000\r\n\r\n".encode())


def asked(command: str, inside: str = "", key: str = KEY) -> str:
    """Return a request with Ada's key."""
    return f"<{command}>\n<authenticator>{key}</authenticator>\n{inside}</{command}>\n"


def refusal(command: str, message: str, number: int = -1) -> str:
    """Return the beginning of the reply that refuses a request."""
    return f"<{command}>\n<error>\n    <error_num>{number}</error_num>\n    <error_msg>{message}"


def md5(text: str) -> str:
    return hashlib.md5(text.encode()).hexdigest()


# Submissions

STAGED = "<job><input_file><mode>local_staged</mode><source>{}</source></input_file></job>"
INLINE = "<input_file><mode>inline</mode><source>{}</source></input_file>"


def submitted(jobs: str, batch: str = "<batch_id>55</batch_id>", app: str = "remote_test") -> str:
    return post(
        asked("submit_batch", f"<batch>\n<app_name>{app}</app_name>\n{batch}{jobs}</batch>\n")
    )


def a_job(inside: str = "", source: str = "x") -> str:
    return f"<job>\n{inside}{INLINE.format(source)}</job>\n"


def refused(jobs: str, **of: str) -> str:
    """Submit jobs; check that they are refused without effect, and return the message."""
    before = Workunit.objects.count()
    reply = submitted(jobs, **of)
    assert reply.startswith("<submit_batch>\n<error>\n    <error_num>-1"), reply
    assert Workunit.objects.count() == before
    return reply.split("<error_msg>")[1].split("</error_msg>")[0]


def inputs(workunit: Workunit) -> list[tuple[str, bytes]]:
    found = []
    for reference in workunit.input_files.order_by("position"):
        file, _ = storage.open_download(reference.file.name)
        with file:
            found.append((reference.open_name, file.read()))
    return found
