"""NUL, bad UTF-8 and non-ASCII text in a request never cause a 5xx."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from typing import Any
from urllib.parse import quote_from_bytes

import pytest
from django.db import transaction
from django.urls import get_resolver

from scheduler.models import Account
from tests.faces.api_schema import operations
from tests.faces.apis import ALL_SCOPES, a_token
from tests.faces.owned import everything
from tests.fuzz.raw import RawRequest, answer
from tests.scripted_client import a_client

pytestmark = [pytest.mark.django_db, pytest.mark.lengthy]

BAD = (
    b"\0",
    b"a\0b",
    b"\xff\xfe",
    b"\xc0\x80",
    b"\xed\xa0\x80",
    b"\xc3\xa9" * 32,
    "\N{ARABIC-INDIC DIGIT NINE}".encode(),
    "\N{ARABIC-INDIC DIGIT NINE}".encode() * 32,
    b"\xf0\x9f\x98\x80",
    b"9" * 30,
    b"x" * 5000,
    b"\r\n",
    b"%",
)


#: One text of each kind, for tests that try every address.
FEW = (b"a\0b", b"\xff\xed\xa0\x80", b"\xc3\xa9", b"9" * 30)


def sweep(texts: Sequence[bytes], *, first: int) -> list[Any]:
    """Return parameters: `make test` sends the first texts, `make test-story` the others."""
    rest = (pytest.param(text, marks=pytest.mark.lengthy) for text in texts[first:])
    return [*texts[:first], *rest]


def check(request: RawRequest) -> None:
    with transaction.atomic():
        reply = answer(request)
        transaction.set_rollback(True)
    said = f"{request.method!r} {request.target[:200]!r} {request.headers!r} {request.body[:200]!r}"
    if reply.fault:
        pytest.fail(f"{said}\n{reply.fault}", pytrace=False)
    assert 200 <= reply.status < 500, f"{said}: {reply.status}"


def patterns(resolver=None, prefix=""):
    """Yield every address of the project as a template with `{}` for each parameter."""
    for one in (resolver or get_resolver()).url_patterns:
        where = prefix + re.sub(r"<[^>]+>", "{}", str(one.pattern)).lstrip("^").rstrip("$")
        if hasattr(one, "url_patterns"):
            yield from patterns(one, where)
        else:
            yield re.sub(r"\(\?P.*\)", "{}", where).replace("\\Z", "").replace("\\", "")


def staff_cookie() -> bytes:
    """Return the session cookie of a superuser."""
    from django.test import Client

    account = Account.objects.create(
        email="root@example.org",
        name="root",
        is_staff=True,
        is_superuser=True,
        created_at="2026-01-01T00:00:00Z",
        password="x",
        cross_project_id="0" * 32,
    )
    client = Client()
    client.force_login(account)
    return b"sessionid=" + client.cookies["sessionid"].value.encode()


def filled(template: str, bad: bytes) -> bytes:
    return b"/" + template.replace("{}", quote_from_bytes(bad, safe="")).encode()


PATTERNS = sorted(set(patterns()))
#: The query parameters that pages read.
QUERIES = [
    "q",
    "o",
    "p",
    "e",
    "all",
    "next",
    "_changelist_filters",
    "_popup",
    "_to_field",
    "id",
    "id__exact",
    "state",
    "state__exact",
    "app",
    "account",
    "account__exact",
    "app_label",
    "model_name",
    "field_name",
    "term",
    "date",
    "cmd",
    "auth_str",
    "result_name",
    "wu_name",
    "batch_id",
    "file_num",
    "counts",
    "email_addr",
    "passwd_hash",
    "user_name",
    "xml",
    "get_from_db",
]
#: Lists of the admin where each parameter is sent alone, too: others read them by the same code.
LISTS = ["admin/scheduler/auditentry/", "admin/scheduler/host/", "admin/scheduler/result/"]
HEADERS = [
    "Authorization",
    "Cookie",
    "Content-Type",
    "Accept",
    "Accept-Encoding",
    "Accept-Language",
    "If-Match",
    "If-None-Match",
    "If-Modified-Since",
    "Idempotency-Key",
    "Range",
    "If-Range",
    "Referer",
    "Origin",
    "User-Agent",
    "X-Forwarded-For",
    "X-Forwarded-Proto",
    "X-CSRFToken",
    "X-HTTP-Method-Override",
    "Last-Event-ID",
    "Transfer-Encoding",
    "Expect",
]


def test_url_patterns_of_the_project_are_collected():
    assert len(PATTERNS) > 150
    assert any("{}" in one for one in PATTERNS)
    assert set(LISTS) < set(PATTERNS)


@pytest.mark.parametrize("bad", sweep(FEW, first=2))
def test_bad_text_in_a_path_causes_no_5xx(bad):
    cookie = (b"Cookie", staff_cookie())
    for template in PATTERNS:
        check(RawRequest(target=filled(template, bad), headers=(cookie,)))
        check(RawRequest(target=filled(template, b"1") + quote_from_bytes(bad, safe="").encode()))
    for path in (b"/", b"/download/0/", b"/download/", b"/upload/", b"/static/", b"/cgi/scheduler"):
        check(RawRequest(target=path + quote_from_bytes(bad, safe="").encode()))


@pytest.mark.parametrize("bad", sweep(FEW, first=2))
def test_bad_text_in_a_query_causes_no_5xx(bad):
    owned = everything("ada", is_superuser=True)
    token = (b"Authorization", b"Bearer " + a_token(owned.account, *ALL_SCOPES).encode())
    cookie = (b"Cookie", staff_cookie())
    text = quote_from_bytes(bad, safe="")
    every = "&".join(f"{name}={text}" for name in QUERIES).encode()
    for template in PATTERNS:
        target = filled(template, b"1")
        check(RawRequest(target=target + b"?" + every, headers=(cookie,)))
        check(RawRequest(target=target + b"?" + text.encode() + b"=" + text.encode()))
        if bad is FEW[1] and template in LISTS:
            for name in QUERIES:
                query = f"?{name}={text}".encode()
                check(RawRequest(target=target + query, headers=(cookie,)))
    for operation in operations():
        url = operation.url(owned).encode()
        if operation.method != "get":
            continue
        for parameter in operation.parameters("query"):
            check(
                RawRequest(target=url + f"?{parameter['name']}={text}".encode(), headers=(token,))
            )


@pytest.mark.parametrize("bad", sweep(FEW, first=2))
def test_bad_text_in_a_header_causes_no_5xx(bad):
    owned = everything("ada", is_superuser=True)
    token = (b"Authorization", b"Bearer " + a_token(owned.account, *ALL_SCOPES).encode())
    for name in HEADERS:
        for target in (
            b"/",
            b"/account/login/",
            b"/api/v1/me",
            b"/api/v1/batches",
            b"/status.json",
            b"/lookup_account.php",
            b"/download/0/x",
            b"/get_project_config.php",
        ):
            own = (name.encode(), bad)
            others = () if name == "Authorization" else (token,)
            check(RawRequest(target=target, headers=(own, *others)))
            if name == "Cookie":
                for cookie in (b"sessionid", b"csrftoken", b"messages"):
                    for value in (bad, b'"aaaaaaaaaaaaaaaa' + bad + b'\\000\\377"'):
                        own = (b"Cookie", cookie + b"=" + value)
                        check(RawRequest(target=target, headers=(own,)))
        for target in (
            b"/api/v1/tokens",
            b"/api/v1/workunits",
            b"/cgi/scheduler",
            b"/upload/x",
            b"/submit_rpc_handler.php",
            b"/job_file.php",
            b"/account/login/",
        ):
            check(RawRequest(b"POST", target, (token, (name.encode(), bad)), b"{}"))
            form = b"multipart/form-data; boundary=" + bad
            check(RawRequest(b"POST", target, (token, (b"Content-Type", form)), b"--x\r\n"))


@pytest.mark.parametrize("bad", BAD)
@pytest.mark.parametrize("page", ["lookup_account.php", "create_account.php"])
def test_bad_text_in_a_web_rpc_causes_no_5xx(bad, page):
    a_client("known@example.org")
    text = quote_from_bytes(bad, safe="").encode()
    for email in (b"known@example.org", text, text + b"@example.org"):
        for digest in (text, b"0" * 32):
            for name in (b"name", text):
                form = b"email_addr=%s&passwd_hash=%s&user_name=%s" % (email, digest, name)
                check(RawRequest(target=f"/{page}?".encode() + form))
                kind = (b"Content-Type", b"application/x-www-form-urlencoded")
                check(RawRequest(b"POST", f"/{page}".encode(), (kind,), form))
    part = b'--b\r\nContent-Disposition: form-data; name="email_addr"\r\n\r\n%s\r\n--b--\r\n' % bad
    kind = (b"Content-Type", b"multipart/form-data; boundary=b")
    check(RawRequest(b"POST", f"/{page}".encode(), (kind,), part))


@pytest.mark.parametrize("bad", BAD)
def test_bad_text_in_the_log_in_form_causes_no_5xx(bad):
    text = quote_from_bytes(bad, safe="").encode()
    cookie = (b"Cookie", b"csrftoken=" + b"a" * 32)
    kind = (b"Content-Type", b"application/x-www-form-urlencoded")
    for body in (
        b"login=%s&password=%s" % (text, text),
        b"login=a%%40example.org&password=%s&next=%s" % (text, text),
        b"csrfmiddlewaretoken=%s&login=%s" % (text, text),
    ):
        csrf = b"csrfmiddlewaretoken=" + b"a" * 32 + b"&"
        check(RawRequest(b"POST", b"/account/login/", (cookie, kind), csrf + body))
        check(RawRequest(b"POST", b"/account/login/", (cookie, kind), body))


@pytest.mark.parametrize("bad", sweep([b"\\u0000", b"\\ud800", *BAD], first=3))
def test_bad_text_in_json_causes_no_5xx(bad):
    owned = everything("ada", is_superuser=True)
    token = (b"Authorization", b"Bearer " + a_token(owned.account, *ALL_SCOPES).encode())
    kind = (b"Content-Type", b"application/json")
    for operation in operations():
        sent = operation.body(owned)
        if sent is None or sent[1] != "application/json" or not isinstance(sent[0], dict):
            continue
        target = operation.url(owned).encode()
        method = operation.method.upper().encode()
        for name in [*sent[0], "name", "meta", "scopes", "app"]:
            for value in (b'"%s"', b'["%s"]', b'{"%s": 1}'):
                others = {key: said for key, said in sent[0].items() if key != name}
                body = json.dumps(others).encode()[:-1] + (b", " if others else b"")
                body += b'"%s": ' % name.encode() + value % bad + b"}"
                check(RawRequest(method, target, (token, kind), body))
        check(RawRequest(method, target, (token, kind), b'{"%s": 1}' % bad))
        check(RawRequest(method, target, (token, kind), bad))


@pytest.mark.parametrize("bad", BAD)
def test_bad_text_in_boinc_submission_requests_causes_no_5xx(bad):
    for path in (b"/submit_rpc_handler.php", b"/job_file.php"):
        for command in (
            b"create_batch",
            b"query_batch",
            b"query_batches",
            b"submit_batch",
            b"query_files",
            b"upload_files",
            b"abort_jobs",
            b"query_job",
            bad,
        ):
            inside = b"".join(
                b"<%s>%s</%s>" % (name, bad, name)
                for name in (
                    b"authenticator",
                    b"batch_id",
                    b"batch_name",
                    b"app_name",
                    b"phys_name",
                    b"job_name",
                    b"expire_time",
                    b"delete_time",
                    b"job_id",
                )
            )
            body = b"<%s>%s</%s>" % (command, inside, command)
            check(RawRequest(b"POST", path, ((b"Content-Type", b"text/xml"),), body))
            form = b"request=" + quote_from_bytes(body).encode()
            kind = (b"Content-Type", b"application/x-www-form-urlencoded")
            check(RawRequest(b"POST", path, (kind,), form))


@pytest.mark.parametrize("bad", BAD)
def test_bad_text_in_uploads_causes_no_5xx(bad):
    for body in (
        b"<get_file_size>%s</get_file_size>" % bad,
        b"<file_upload><file_info><name>%s</name><xml_signature>%s</xml_signature><max_nbytes>%s"
        b"</max_nbytes></file_info><nbytes>%s</nbytes><md5_cksum>%s</md5_cksum><offset>%s</offset>"
        b"<data>\nx" % ((bad,) * 6),
        bad,
    ):
        check(RawRequest(b"POST", b"/upload/file_upload_handler", (), body))
