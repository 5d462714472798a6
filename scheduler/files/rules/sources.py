"""Checks the URLs from which the server fetches programs [pure]."""

from __future__ import annotations

import ipaddress
import re
from dataclasses import dataclass
from typing import Final
from urllib.parse import unquote, urljoin, urlsplit

#: The maximum number of redirects of one fetch.
MAX_REDIRECTS: Final = 5
MAX_URL: Final = 1000
_PORTS: Final = {"http": 80, "https": 443, "rsync": 873}
#: The allowed paths on an rsync server; wildcards are excluded, because such servers expand them.
_RSYNC_PATH = re.compile(r"[A-Za-z0-9_.~+@=,/-]+")
_HOST = re.compile(r"[A-Za-z0-9._-]{1,253}|[0-9A-Fa-f:.]+")
#: The IPv6 addresses of NAT64, which end with an IPv4 address.
_NAT64 = ipaddress.ip_network("64:ff9b::/96")
#: Networks that `ipaddress` counts as public, in some version of Python or in all: protocol
#: assignments (Oracle's metadata), 6to4 relays, Azure's agents; site-local, documentation, and the
#: local NAT64 addresses, in which the network chooses the position of the IPv4 address.
_NOT_PUBLIC = tuple(
    ipaddress.ip_network(network)
    for network in (
        *("192.0.0.0/24", "192.88.99.0/24", "168.63.129.16/32"),
        *("fec0::/10", "3fff::/20", "64:ff9b:1::/48"),
    )
)


class BadSource(ValueError):
    """The server does not fetch from this URL. Hint: see the message."""


@dataclass(frozen=True, slots=True)
class Place:
    """A parsed URL; `target` is the path and the query to request."""

    scheme: str
    host: str
    port: int
    target: str

    @property
    def name(self) -> str:
        """The file name in the URL with safe characters, or "source" if there is no name."""
        last = unquote(self.target.partition("?")[0].rpartition("/")[2])
        return re.sub(r"[^A-Za-z0-9_.+-]", "_", last)[-100:] or "source"

    @property
    def authority(self) -> str:
        """Host and port in the format of a URL."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return host if self.port == _PORTS[self.scheme] else f"{host}:{self.port}"


def read(url: str) -> Place:
    """Parse the URL of a program; raises `BadSource`.

    A URL has the form ``http://...``, ``https://...``, ``rsync://HOST/MODULE/PATH`` or
    ``rsync:HOST::MODULE/PATH``.

    >>> read("rsync:data.example.org::programs/sum.tar.gz")
    Place(scheme='rsync', host='data.example.org', port=873, target='/programs/sum.tar.gz')
    """
    url = _plain(url)
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError as error:
        msg = f"{url} is not a URL: {error}. Hint: compare it with https://example.org/sum.zip."
        raise BadSource(msg) from error
    if parts.scheme not in _PORTS:
        raise BadSource(
            f"The server does not fetch {parts.scheme or 'such'} addresses. "
            "Hint: give one that begins with https://, http:// or rsync://, or send the file."
        )
    if parts.username is not None or parts.password is not None:
        msg = "The address contains a password, which would be shown. Hint: send the file itself."
        raise BadSource(msg)
    host = parts.hostname or ""
    if not _HOST.fullmatch(host) or host.startswith("-") or port == 0:
        raise BadSource(
            f"{url} has no valid host. Hint: compare it with https://example.org/sum.zip."
        )
    target = parts.path or "/"
    if parts.scheme == "rsync":
        if not _RSYNC_PATH.fullmatch(target) or target.count("/") < 2 or target.endswith("/"):  # noqa: PLR2004  before and after the module
            raise BadSource(
                f"{url} is not a file of an rsync server. Hint: write rsync://HOST/MODULE/PATH, "
                "of letters, digits and _ . ~ + @ = , -."
            )
    elif parts.query:
        target += f"?{parts.query}"
    return Place(parts.scheme, host, port or _PORTS[parts.scheme], target)


def read_web(url: str) -> Place:
    """Parse an http(s) address; raises `BadSource` for any other."""
    place = read(url)
    if place.scheme == "rsync":
        msg = f"{url} is not a web address. Hint: give one that begins with https:// or http://."
        raise BadSource(msg)
    return place


def _plain(url: str) -> str:
    """Return a URL, with ``rsync:HOST::PATH`` rewritten as ``rsync://``; raises `BadSource`."""
    if len(url) > MAX_URL or re.search(r"[^\x21-\x7e]|[\\\"<>]", url):
        raise BadSource(
            f"{url[:80]!r} is not an address. Hint: write it in ASCII without blanks, "
            f"in {MAX_URL} characters at most; blanks are %20."
        )
    if match := re.fullmatch(r"rsync:([^/:]+)::(.+)", url):
        return f"rsync://{match[1]}/{match[2]}"
    if url.startswith("rsync:") and not url.startswith("rsync://"):
        raise BadSource(
            f"{url} is a file of this server or requires a log-in. Hint: write "
            "rsync://HOST/MODULE/PATH, or fetch the file yourself and publish it."
        )
    return url


def redirected(url: str, location: str) -> str:
    """Return the target of a redirect; raises `BadSource` for a target that is not allowed.

    The target must be an http or https address.  If `url` is an https address, the target must be
    an https address too.
    """
    target = urljoin(url, location)
    scheme = urlsplit(target).scheme
    if scheme not in {"http", "https"} or (url.startswith("https:") and scheme != "https"):
        raise BadSource(
            f"{url} redirects to {target[:200]}, which is not followed. "
            "Hint: give the address of the file itself."
        )
    return target.partition("#")[0]


def is_public(address: str) -> bool:
    """Return whether an address is on the public Internet.

    Addresses of this machine, of local networks and of reserved networks are not public.

    >>> is_public("93.184.216.34"), is_public("127.0.0.1"), is_public("::ffff:10.0.0.1")
    (True, False, False)
    """
    try:
        parsed = ipaddress.ip_address(address.partition("%")[0])
    except ValueError:
        return False
    if any(parsed in network for network in _NOT_PUBLIC):
        return False
    if isinstance(parsed, ipaddress.IPv6Address):
        inner = parsed.ipv4_mapped or parsed.sixtofour
        if inner is None and parsed in _NAT64:
            inner = ipaddress.IPv4Address(int(parsed) & 0xFFFFFFFF)
        if parsed.teredo is not None:
            return False
        if inner is not None:
            return is_public(str(inner))
    return parsed.is_global and not (parsed.is_multicast or parsed.is_reserved)


def check_addresses(
    host: str, addresses: list[str], *, private_hosts: frozenset[str], any_private: bool
) -> None:
    """Raise `BadSource` for a private address, unless the arguments allow the host."""
    if any_private or host.lower() in private_hosts:
        return
    closed = [address for address in addresses if not is_public(address)]
    if closed:
        raise BadSource(
            f"{host} is {closed[0]}, an address of this server's own network. Hint: send the file "
            "itself, or ask an operator to add the host to IMPORT_HOSTS or set IMPORT_PRIVATE=true."
        )
