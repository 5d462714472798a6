"""Encodes requests of web RPCs, and decodes their replies and the master page."""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass
from urllib.parse import quote

from volunteer.wire.xml import BadXmlError, decode, parse, read_record

_CHUNK = 255
_SCHEDULER = re.compile(r"<scheduler>\s*(.*?)\s*</scheduler>")
_LINK = re.compile(r"""(?:^|>)\s*<link rel="boinc_scheduler" href="([^"]+)""")
_SCHEME = re.compile(r"^[a-zA-Z][a-zA-Z0-9+.-]*://")

NO_SUCH_ACCOUNT = -136
WRONG_PASSWORD = -206


@dataclass(frozen=True, slots=True)
class ProjectConfig:
    """The part of the public configuration of a project that the client uses."""

    name: str = ""
    web_rpc_url_base: str = ""
    is_account_manager: bool = False


@dataclass(frozen=True, slots=True)
class AccountReply:
    """The reply to a log-in or registration. It contains a key, or an error number and message."""

    key: str = ""
    error_num: int = 0
    error: str = ""


def canonical_url(url: str) -> str:
    """Return a project's address in the canonical form of BOINC's client.

    >>> canonical_url("Example.ORG//science")
    'http://example.org/science/'
    """
    text = url.strip()
    if not _SCHEME.match(text):
        text = "http://" + text
    scheme, _, rest = text.partition("://")
    host, slash, path = re.sub("/{2,}", "/", rest).partition("/")
    return f"{scheme.lower()}://{host.lower()}{slash}{path}".rstrip("/") + "/"


def is_web_url(url: str) -> bool:
    """Return whether an address uses http or https and has a host, but no user name or password.

    >>> [is_web_url(url) for url in ("https://a.org/x", "file:///etc/passwd", "http://me:pw@a/")]
    [True, False, False]
    """
    scheme, separator, rest = url.partition("://")
    host = re.split(r"[/?#]", rest, maxsplit=1)[0]
    plain = url.isprintable() and " " not in url and "\\" not in host and "@" not in host
    return scheme.lower() in {"http", "https"} and bool(separator and host) and plain


def folder_name(url: str) -> str:
    """Return the name of a project's folder, derived from its address.

    >>> folder_name("http://127.0.0.1:31580/proj/")
    '127.0.0.1_31580_proj'
    """
    rest = canonical_url(url).partition("://")[2].rstrip("/")
    name = re.sub(r"[^A-Za-z0-9.-]", "_", rest)
    return name if name.strip(".") else f"_{name}"


def password_hash(email: str, password: str) -> str:
    """Return the hash that BOINC's clients send instead of the password."""
    return hashlib.md5((password + email.lower()).encode(), usedforsecurity=False).hexdigest()


def web_rpc_url(base: str, name: str, **values: str) -> str:
    """Return the address of a web RPC, with percent-encoded values.

    Full stops in the values are encoded, too.
    """
    pairs = [f"{key}={quote(value, safe='').replace('.', '%2E')}" for key, value in values.items()]
    return f"{base}{name}" + ("?" + "&".join(pairs) if pairs else "")


def find_scheduler_urls(page: bytes) -> tuple[str, ...]:
    """Return the scheduler addresses in a master page by BOINC's rules (PROTOCOL 1.5).

    The page is read in lines of at most 255 characters. A `<link>` is accepted at the start of a
    line or after another tag. Unlike BOINC's client, this client also accepts blanks before it.
    """
    urls: list[str] = []
    for line in decode(page).splitlines():
        for start in range(0, len(line), _CHUNK):
            chunk = line[start : start + _CHUNK]
            urls += _SCHEDULER.findall(chunk) + _LINK.findall(chunk)
    return tuple(dict.fromkeys(url for url in urls if is_web_url(url)))


def decode_project_config(body: bytes) -> ProjectConfig:
    """Return the reply of get_project_config.php. Raises BadXmlError for other content."""
    root = parse(decode(body), "project_config")
    return read_record(ProjectConfig, root, is_account_manager=root.flag("account_manager"))


def decode_account(body: bytes) -> AccountReply:
    """Return the reply of lookup_account.php or create_account.php.

    Raises BadXmlError for other content.
    """
    text = decode(body)
    try:
        root = parse(text, "account_out")
    except BadXmlError:
        error = parse(text, "error")
        return AccountReply(
            error_num=error.integer("error_num", -1), error=error.string("error_msg")
        )
    return AccountReply(key=root.string("authenticator"))
