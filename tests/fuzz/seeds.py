"""Valid requests to mutate: the golden captures, and requests of the API."""

from __future__ import annotations

import json
import re
from pathlib import Path
from random import Random
from urllib.parse import quote

from tests.fuzz.raw import RawRequest
from tests.fuzz.world import World

GOLDEN = Path(__file__).parents[1] / "golden"
#: Address in captures -> address in this project.
_PLACES = (
    (b"/file_upload_handler", b"/upload/file_upload_handler"),
    (b"_cgi/", b"/cgi/scheduler"),
    (b"/cgi", b"/cgi/scheduler"),
    (b"lookup_account.php", b"/lookup_account.php"),
    (b"create_account.php", b"/create_account.php"),
    (b"get_project_config.php", b"/get_project_config.php"),
)
_ELEMENTS = {
    name: re.compile(rb"<%s>[^<]*</%s>" % (name, name))
    for name in (b"authenticator", b"hostid", b"rpc_seqno", b"name", b"result_name", b"batch_id")
}
#: Keys in captures are replaced, because requests with keys of other projects are refused.
_SIGN_KEY = re.compile(rb"<code_sign_key>.*?</code_sign_key>\s*", re.DOTALL)
_UPLOAD = re.compile(rb"<name>.*?</max_nbytes>", re.DOTALL)
_PREFERENCES = """<app_id>3</app_id><no_cuda>1</no_cuda><max_cpus>2</max_cpus><venue name='home'>
<max_jobs>5</max_jobs></venue><keywords><yes>1</yes><no>2</no></keywords>"""
_PAGES = (
    "/", "/status.json", "/get_project_config.php", "/server_status.php?counts=1",
    "/get_output.php?cmd=workunit_files&wu_name=x&auth_str=y", "/admin/", "/admin/login/?next=/x",
    "/account/", "/account/login/?next=/x", "/account/signup/", "/account/password/reset/",
    "/account/email/new/x/", "/account/email/confirm/1:x/", "/account/password/reset/1-x/",
    "/api/v1/schema", "/static/x.css", "/admin/scheduler/host/?q=1&o=1&p=1",
    "/admin/scheduler/result/?q=1", "/admin/scheduler/workunit/?q=a&p=2", "/admin/scheduler/app/",
    "/admin/scheduler/app/1/change/", "/admin/scheduler/account/add/?team=1",
)  # fmt: skip
_BODIES = {
    "/api/v1/apps": {"name": "new", "kind": "boinc", "weight": 1},
    "/api/v1/batches": {"name": "new", "app": "fuzzed", "meta": {"a": 1}, "priority": 3},
    "/api/v1/workunits": {
        "app": "fuzzed",
        "workunits": [{"outputs": ["out"], "inputs": {"in": "x"}, "rsc_fpops_est": 1e9}],
        "defaults": {"delay_bound_seconds": 1000, "min_quorum": 1},
    },
    "/api/v1/tokens": {"name": "new", "scopes": ["read"], "email": "a@b.c", "password": "x"},
}

#: The kinds of requests.
DECODERS = ("request decoder", "upload decoder", "submission decoder", "template decoder",
            "preferences decoder")  # fmt: skip
VIEWS = ("scheduler", "upload", "web rpc", "submit rpc", "api", "admin", "pages", "downloads")


class Seeds:
    """Generates valid requests by kind, reproducibly for a seed."""

    def __init__(self, world: World) -> None:
        self.world = world
        captured = [
            RawRequest.read(path.read_bytes())
            for path in sorted((GOLDEN / "captured").glob("*/*.req"))
        ]
        self.scheduler = [
            RawRequest(one.method, one.target, one.headers, _SIGN_KEY.sub(b"", one.body))
            for one in captured
            if b"<scheduler_request>" in one.body
        ]
        self.uploads = [one for one in captured if b"<data_server_request>" in one.body[:2000]]
        web = [one for one in captured if b".php" in one.target]
        self.web = [RawRequest(one.method, _place(one.target), one.headers) for one in web]
        self.submit = [
            RawRequest.read(path.read_bytes()) for path in sorted((GOLDEN / "submit").glob("*.req"))
        ]
        self.api = [self._api(line) for line in world.paths]
        cookie = (b"Cookie", f"sessionid={world.admin_cookie}".encode())
        pages = [RawRequest(target=page.encode()) for page in _PAGES]
        self.admin = [
            RawRequest(target=one.target, headers=(cookie,))
            for one in pages
            if b"adm" in one.target
        ]
        self.pages = pages
        self.downloads = [
            RawRequest(target=path.encode(), headers=((b"Range", b"bytes=0-10"),))
            for path in world.downloads
        ]
        self.pools = {
            "request decoder": self.scheduler,
            "upload decoder": self.uploads,
            "submission decoder": [_inside(one) for one in self.submit],
            "template decoder": [RawRequest(body=one.encode()) for one in world.templates],
            "preferences decoder": [RawRequest(body=_PREFERENCES.encode())],
            "scheduler": self.scheduler,
            "upload": self.uploads,
            "web rpc": self.web,
            "submit rpc": self.submit,
            "api": self.api,
            "admin": self.admin,
            "pages": self.pages,
            "downloads": self.downloads,
        }

    def draw(self, kind: str, chance: Random) -> RawRequest:
        """Return a valid request of a kind, with names and ids of existing rows."""
        request = chance.choice(self.pools[kind])
        match kind:
            case "scheduler":
                return self._scheduler(request, chance)
            case "upload":
                return self._upload(request, chance)
            case "submit rpc" if chance.random() < 0.8:
                key = quote(self.world.keys[0]).encode()
                found = re.sub(rb"[0-9a-f]{32}", key, request.body, count=1)
                return RawRequest(request.method, request.target, request.headers, found)
            case "web rpc" if chance.random() < 0.5:
                form = f"email_addr={self.world.email}&passwd_hash={self.world.passwd_hash}"
                path = request.target.partition(b"?")[0]
                return RawRequest(b"GET", path + b"?" + form.encode())
            case _:
                return request

    def _scheduler(self, request: RawRequest, chance: Random) -> RawRequest:
        world = self.world
        body = _set(request.body, b"authenticator", chance.choice(world.keys).encode())
        body = _set(body, b"hostid", str(chance.choice(world.host_ids)).encode())
        body = _set(body, b"rpc_seqno", b"%d" % chance.randrange(1, 2**31))
        if b"<result>" in body and chance.random() < 0.7:
            name = chance.choice(world.result_names).encode()
            body = body.replace(b"<result>\n", b"<result>\n<name>%s</name>\n" % name, 1)
        if chance.random() < 0.3:
            body = _set(body, b"result_name", chance.choice(world.result_names).encode())
        return RawRequest(b"POST", b"/cgi/scheduler", request.headers, body)

    def _upload(self, request: RawRequest, chance: Random) -> RawRequest:
        name, most, grant = chance.choice(self.world.uploads)
        own = f"<name>{name}</name>\n<xml_signature>\n{grant}\n</xml_signature>\n"
        own += f"<max_nbytes>{most}</max_nbytes>"
        body = _UPLOAD.sub(lambda _: own.encode(), request.body, count=1)
        body = body.replace(b"<get_file_size>", b"<get_file_size>" + name.encode(), 1)
        target = b"/upload/file_upload_handler"
        return RawRequest(b"POST", target, request.headers, body[:20_000])

    def _api(self, line: str) -> RawRequest:
        method, _, target = line.partition(" ")
        body = b""
        token = (b"Authorization", f"Bearer {self.world.tokens[0]}".encode())
        headers: tuple[tuple[bytes, bytes], ...] = (token,)
        if method in {"POST", "PUT", "PATCH"}:
            body = json.dumps(_BODIES.get(target.partition("?")[0], {"name": "x"})).encode()
            headers += ((b"Content-Type", b"application/json"), (b"If-Match", b"*"))
        return RawRequest(method.encode(), target.encode(), headers, body)


def _set(body: bytes, element: bytes, value: bytes) -> bytes:
    return _ELEMENTS[element].sub(b"<%s>%s</%s>" % (element, value, element), body, count=1)


def _place(target: bytes) -> bytes:
    for part, place in _PLACES:
        if part in target:
            return place + (b"?" + target.partition(b"?")[2] if b"?" in target else b"")
    return target


def _inside(request: RawRequest) -> RawRequest:
    """Return the fields of a form of BOINC's submission interface."""
    from urllib.parse import unquote_to_bytes

    body = request.body
    if body.startswith(b"request="):
        body = unquote_to_bytes(body[8:].replace(b"+", b" "))
    return RawRequest(body=body)
