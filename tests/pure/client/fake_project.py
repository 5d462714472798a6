"""A science project in a thread: scheduler, files, and the requests received."""

from __future__ import annotations

import hashlib
import random
import re
import threading
from dataclasses import dataclass, field
from functools import cache
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, Self
from urllib.parse import parse_qs, urlsplit

from volunteer.signature import write_hex_block

if TYPE_CHECKING:
    from collections.abc import Callable

KEY_BYTES = 128
ACCOUNT_KEY = "0123456789abcdef0123456789abcdef"
EMAIL, PASSWORD = "ada@example.org", "secret"

# The first argument of the app chooses its behavior.
SCRIPT = rb"""#!/bin/sh
r() { l=$(sed -n 's/.*<soft_link>\(.*\)<\/soft_link>.*/\1/p' "$1"); echo "${l:-$1}"; }
echo "mode $1" >&2
case "$1" in
upper) tr a-z A-Z < "$(r in)" > "$(r out)"; echo 0 > boinc_finish_called ;;
lab) tr a-z A-Z < "$(r in)" > "$(r out)" ;;
trickle) echo "<variety>news</variety>" > trickle_up.xml; echo told > "$(r out)" ;;
facts) cat init_data.xml > "$(r out)" ;;
args) printf '%s|' "$@" > "$(r out)" ;;
fail) echo "bad luck ]]> </stderr_out>" >&2; exit 3 ;;
crash) kill -SEGV $$ ;;
nothing) echo 0 > boinc_finish_called ;;
large) head -c 300000 /dev/zero > "$(r out)" ;;
sleep) sleep "$2"; echo slept > "$(r out)" ;;
once) if [ -e been ]; then echo again > "$(r out)"; else touch been; kill -TERM $$; fi ;;
later) if [ -e been ]; then echo later > "$(r out)"; else touch been; echo 1 > boinc_temporary_exit; fi ;;
stay) trap '' TERM; sleep 600 & wait; wait ;;
esac
"""


@cache
def _key_pair(seed: int) -> tuple[int, int, int]:
    """Return (n, e, d) of an RSA key that depends only on the seed."""
    source = random.Random(seed)
    p, q = _prime(source), _prime(source)
    return p * q, 65537, pow(65537, -1, (p - 1) * (q - 1))


def _prime(source: random.Random) -> int:
    while True:
        number = source.getrandbits(512) | 1 | (3 << 510)
        # Fermat's test is sufficient, because the key protects nothing.
        if number % 65537 != 1 and all(pow(base, number - 1, number) == 1 for base in (2, 3, 5)):
            return number


def public_key(seed: int = 1) -> str:
    """Return the public key as a project sends it, stripped."""
    n, e, _ = _key_pair(seed)
    return f"1024\n{write_hex_block(n.to_bytes(128, 'big') + e.to_bytes(128, 'big'))}".strip()


def sign(content: bytes, seed: int = 1) -> str:
    """Return the signature of a content as BOINC's tools write it."""
    n, _, d = _key_pair(seed)
    digest = hashlib.md5(content).hexdigest().encode()
    padded = b"\x00\x01" + b"\xff" * (KEY_BYTES - 35) + b"\x00" + digest
    return write_hex_block(pow(int.from_bytes(padded, "big"), d, n).to_bytes(KEY_BYTES, "big"))


@dataclass
class Work:
    """One workunit with one result; `extra` is added to their elements."""

    name: str
    command: str
    copy: bool = True
    content: bytes = b"some text\n"
    max_nbytes: int = 100_000
    workunit_extra: str = ""
    ref_extra: str = ""
    deadline: float = 4e9


@dataclass
class FakeProject:
    """A project that offers work and records requests; `fail` can replace its answers."""

    offers: list[Work] = field(default_factory=list)
    requests: list[str] = field(default_factory=list)
    uploads: dict[str, bytes] = field(default_factory=dict)
    upload_requests: list[bytes] = field(default_factory=list)
    ranges: list[str] = field(default_factory=list)
    downloads: dict[str, bytes] = field(default_factory=dict)
    reported: dict[str, str] = field(default_factory=dict)
    fail: Callable[[str, bytes], tuple[int, bytes] | None] = lambda _path, _body: None
    signature: str = ""
    extra: str = ""
    keeps_acks: bool = False
    request_delay: float = 0.0
    _server: ThreadingHTTPServer | None = None

    def __enter__(self) -> Self:
        outer = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_GET(self) -> None:
                outer.answer(self, b"")

            def do_POST(self) -> None:
                outer.answer(self, self.rfile.read(int(self.headers["Content-Length"])))

            def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the library's name
                """Discard the log line."""

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        threading.Thread(
            target=self._server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True
        ).start()
        return self

    def __exit__(self, *_: object) -> None:
        assert self._server is not None
        self._server.shutdown()
        self._server.server_close()

    @property
    def url(self) -> str:
        assert self._server is not None
        return f"http://127.0.0.1:{self._server.server_port}/proj/"

    def answer(self, handler: BaseHTTPRequestHandler, body: bytes) -> None:
        """Answer one HTTP request."""
        path = handler.path
        status, content = self.fail(path, body) or self._respond(path, body)
        headers = {}
        if path.startswith("/proj/download/"):
            wanted = handler.headers.get("Range", "")
            self.ranges.append(wanted)
            if wanted and status == 200:
                start = int(wanted.removeprefix("bytes=").rstrip("-"))
                headers["Content-Range"] = f"bytes {start}-{len(content) - 1}/{len(content)}"
                status, content = 206, content[start:]
        handler.send_response(status)
        headers["Content-Length"] = str(len(content))
        for name, value in headers.items():
            handler.send_header(name, value)
        handler.end_headers()
        handler.wfile.write(content)

    def _respond(self, path: str, body: bytes) -> tuple[int, bytes]:
        parts = urlsplit(path)
        name = parts.path.removeprefix("/proj/")
        if name == "":
            link = f'<link rel="boinc_scheduler" href="{self.url}cgi">'
            return 200, f"<html><head>\n{link}\n</head></html>".encode()
        if name in {"lookup_account.php", "create_account.php"}:
            return 200, self._account(parse_qs(parts.query)).encode()
        if name == "cgi":
            return 200, self._scheduler(body.decode()).encode()
        if name == "file_upload_handler":
            return 200, self._upload(body).encode()
        if name.startswith("download/"):
            content = self.downloads.get(name.removeprefix("download/"))
            return (404, b"no such file") if content is None else (200, content)
        return 404, b"not here"

    def _account(self, query: dict[str, list[str]]) -> str:
        good = hashlib.md5((PASSWORD + EMAIL).encode()).hexdigest()
        if query["email_addr"] != [EMAIL] or query["passwd_hash"] != [good]:
            return "<error><error_num>-206</error_num><error_msg>bad password</error_msg></error>"
        return f"<account_out><authenticator>{ACCOUNT_KEY}</authenticator></account_out>"

    def _scheduler(self, request: str) -> str:
        self.requests.append(request)
        lines = [f"<request_delay>{self.request_delay}</request_delay>"]
        lines.append("<project_name>Fake &amp; Co</project_name><userid>1</userid>")
        if "<hostid>0</hostid>" in request:
            lines.append("<hostid>42</hostid>")
        if "<code_sign_key>" not in request:
            lines.append(f"<code_sign_key>\n{public_key()}\n</code_sign_key>")
        for report in re.findall(r"<result>\n<name>.*?</result>", request, re.DOTALL):
            name = re.search("<name>(.*?)</name>", report).group(1)  # type: ignore[union-attr]
            self.reported[name] = report
            if not self.keeps_acks:
                lines.append(f"<result_ack><name>{name}</name></result_ack>")
        seconds = float(re.search("<work_req_seconds>(.*?)<", request).group(1))  # type: ignore[union-attr]
        if seconds > 0:
            lines += [self._offer(work) for work in self.offers]
            self.offers = []
        body = "\n".join(lines) + self.extra
        return f"<scheduler_reply>\n{body}\n</scheduler_reply>\n"

    def _offer(self, work: Work) -> str:
        program, script_name = SCRIPT, "worker_1"
        self.downloads[script_name] = program
        self.downloads[f"{work.name}_in"] = work.content
        copy = "<copy_file/>" if work.copy else ""
        md5 = hashlib.md5(work.content).hexdigest()
        base = f"{self.url}download/"
        return f"""
<app><name>worker</name></app>
<file_info><name>{script_name}</name><url>{base}{script_name}</url><executable/>
<nbytes>{len(program)}</nbytes><file_signature>
{self.signature or sign(program)}
</file_signature></file_info>
<app_version><app_name>worker</app_name><version_num>1</version_num>
<platform>x86_64-pc-linux-gnu</platform><flops>1e9</flops>
<file_ref><file_name>{script_name}</file_name><main_program/></file_ref></app_version>
<file_info><name>{work.name}_in</name><url>{base}{work.name}_in</url>
<md5_cksum>{md5}</md5_cksum><nbytes>{len(work.content)}</nbytes></file_info>
<file_info><name>{work.name}_0_r0</name><url>{self.url}file_upload_handler</url>
<max_nbytes>{work.max_nbytes}</max_nbytes><xml_signature>
aabb
.
</xml_signature></file_info>
<workunit><name>{work.name}</name><app_name>worker</app_name>{work.workunit_extra}
<command_line>{work.command}</command_line>
<file_ref><file_name>{work.name}_in</file_name><open_name>in</open_name>{copy}</file_ref>
</workunit>
<result><name>{work.name}_0</name><wu_name>{work.name}</wu_name>
<platform>x86_64-pc-linux-gnu</platform><version_num>1</version_num>
<report_deadline>{work.deadline}</report_deadline>
<file_ref><file_name>{work.name}_0_r0</file_name><open_name>out</open_name>{copy}
{work.ref_extra}</file_ref></result>"""

    def _upload(self, body: bytes) -> str:
        self.upload_requests.append(body)
        query = re.search(rb"<get_file_size>(.*?)</get_file_size>", body)
        if query:
            size = len(self.uploads.get(query.group(1).decode(), b""))
            return self._upload_reply(f"<status>0</status><file_size>{size}</file_size>")
        head, _, content = body.partition(b"<data>\n")
        name = re.search(rb"<name>(.*?)</name>", head).group(1).decode()  # type: ignore[union-attr]
        offset = int(re.search(rb"<offset>(\d+)", head).group(1))  # type: ignore[union-attr]
        self.uploads[name] = self.uploads.get(name, b"")[:offset] + content
        md5 = re.search(rb"<md5_cksum>(.*?)<", head).group(1).decode()  # type: ignore[union-attr]
        good = hashlib.md5(self.uploads[name]).hexdigest() == md5
        return self._upload_reply(f"<status>{0 if good else 1}</status>")

    @staticmethod
    def _upload_reply(content: str) -> str:
        return f"<data_server_reply>\n    {content}\n</data_server_reply>\n"
