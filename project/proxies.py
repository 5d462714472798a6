"""Determines the client address of a request that a trusted proxy has forwarded."""

from __future__ import annotations

from ipaddress import IPv4Network, IPv6Network, ip_address, ip_network
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from wsgiref.types import WSGIEnvironment

Network = IPv4Network | IPv6Network


def networks(words: Iterable[str]) -> tuple[Network, ...]:
    """Parse addresses and networks, such as 10.0.0.7 or 10.0.0.0/24; raises ValueError."""
    return tuple(ip_network(word) for word in words)


def client_address(peer: str, forwarded_for: str, trusted: Sequence[Network]) -> str:
    """Return the address of the client that sent a request through trusted proxies.

    `peer` is the address from which the server received the request, and `forwarded_for` is the
    header X-Forwarded-For.  Each proxy appends the address of its peer to this header.  The header
    is read from its end up to the first address that is not a trusted proxy, because entries before
    that address may be forged.  Returns `peer` if `peer` is not a trusted proxy.

    >>> client_address("10.0.0.7", "6.6.6.6, 192.0.2.1", networks(["10.0.0.0/24"]))
    '192.0.2.1'
    """
    address = peer
    for entry in reversed(forwarded_for.split(",")):
        if not _is_trusted(address, trusted) or not _is_address(entry.strip()):
            break
        address = entry.strip()
    return address


#: Headers that proxies add.  A request with one of them was forwarded, perhaps by a proxy on this
#: machine for a client on another one.
_FORWARDING = (
    "HTTP_X_FORWARDED_FOR",
    "HTTP_X_FORWARDED_PROTO",
    "HTTP_X_FORWARDED_HOST",
    "HTTP_X_REAL_IP",
    "HTTP_FORWARDED",
    "HTTP_VIA",
)
#: The key in a WSGI environment of the address that sent the request without a proxy.
_DIRECT_PEER = "manyhands.direct_peer"
_OWN_NAMES = frozenset({"localhost", "127.0.0.1", "[::1]"})


def note_direct_peer(environ: WSGIEnvironment) -> None:
    """Store the peer's address in the environment, unless the request was forwarded.

    To be called before `apply_forwarded_headers`, which removes headers.
    """
    if not any(header in environ for header in _FORWARDING):
        environ[_DIRECT_PEER] = environ.get("REMOTE_ADDR", "")


def is_from_this_machine(environ: WSGIEnvironment) -> bool:
    """Return whether a program on this machine sent the request, and not through a proxy.

    The request must also name this machine as its host, as `127.0.0.1:8000`.  This excludes
    requests of a proxy without forwarding headers that passes its client's `Host` on, and those of
    a browser on this machine for the page of a stranger whose name resolves to a loopback address.
    """
    peer = environ.get(_DIRECT_PEER, "")
    host = environ.get("HTTP_HOST", "localhost")
    name = host if host.endswith("]") else host.rpartition(":")[0] or host
    return _is_address(peer) and ip_address(peer).is_loopback and name.lower() in _OWN_NAMES


def apply_forwarded_headers(environ: WSGIEnvironment, trusted: Sequence[Network]) -> None:
    """Set REMOTE_ADDR of a request from `X-Forwarded-For`, if a trusted proxy sent the request.

    Removes `X-Forwarded-For`.  Removes `X-Forwarded-Proto` unless a trusted proxy sent the request,
    because Django would trust this header.
    """
    forwarded_for = environ.pop("HTTP_X_FORWARDED_FOR", None)
    peer = environ.get("REMOTE_ADDR", "")
    if "HTTP_X_FORWARDED_PROTO" in environ and not (trusted and _is_trusted(peer, trusted)):
        del environ["HTTP_X_FORWARDED_PROTO"]
    if forwarded_for and trusted:
        environ["REMOTE_ADDR"] = client_address(peer, forwarded_for, trusted)


def _is_trusted(address: str, trusted: Sequence[Network]) -> bool:
    return _is_address(address) and any(ip_address(address) in network for network in trusted)


def _is_address(text: str) -> bool:
    try:
        ip_address(text)
    except ValueError:
        return False
    return True
