"""An HTTP proxy between a client and a project, which injects faults."""

from __future__ import annotations

import re
import socket
import threading
from contextlib import suppress
from dataclasses import dataclass, field

from project.ports import free_port


@dataclass(slots=True)
class Fault:
    """A fault for the next `times` requests whose path contains `path`.

    The connection is cut after `sent` bytes of the request's body, or `received` bytes of the
    reply; with neither, before the request is passed on.  With a `status`, the client gets an empty
    reply of this status instead.  A request with at most `sent` bytes does not count.
    """

    path: str
    times: int = 1
    sent: int | None = None
    received: int | None = None
    status: str = ""


@dataclass(slots=True)
class Exchange:
    """A received request: request line, headers in lower case, body length, and injected fault."""

    line: str
    head: str
    length: int
    fault: Fault | None = None

    def header(self, name: str) -> str:
        """Return the value of a header, or ""."""
        found = re.search(rf"^{name}:\s*(.*?)\s*$", self.head, re.MULTILINE)
        return found[1] if found else ""


@dataclass(slots=True)
class Proxy:
    """Forwards requests to the port `target`, each on a new connection."""

    target: int
    port: int = field(default_factory=free_port)
    faults: list[Fault] = field(default_factory=list)
    exchanges: list[Exchange] = field(default_factory=list)
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _listener: socket.socket | None = None

    def start(self) -> None:
        self._listener = socket.create_server(("127.0.0.1", self.port), backlog=64)
        threading.Thread(target=self._accept, args=(self._listener,), daemon=True).start()

    def close(self) -> None:
        if self._listener is not None:
            with suppress(OSError):
                self._listener.shutdown(socket.SHUT_RDWR)
            self._listener.close()

    def seen(self, path: str) -> list[Exchange]:
        """Return the requests so far whose request line contains `path`."""
        with self._lock:
            return [exchange for exchange in self.exchanges if path in exchange.line]

    def _accept(self, listener: socket.socket) -> None:
        with suppress(OSError):
            while True:
                connection, _address = listener.accept()
                threading.Thread(target=self._serve, args=(connection,), daemon=True).start()

    def _serve(self, client: socket.socket) -> None:
        with client, suppress(OSError):
            data = b""
            while b"\r\n\r\n" not in data:
                if not (more := client.recv(65536)):
                    return
                data += more
            head, _, body = data.partition(b"\r\n\r\n")
            exchange = self._note(head.decode("latin-1"))
            self._pass_on(client, head, body, exchange)

    def _note(self, head: str) -> Exchange:
        line, _, headers = head.partition("\r\n")
        headers = headers.replace("\r\n", "\n").lower()
        length = re.search(r"^content-length:\s*(\d+)", headers, re.MULTILINE)
        exchange = Exchange(line, headers, int(length[1]) if length else 0)
        with self._lock:
            self.exchanges.append(exchange)
            for fault in self.faults:
                short = fault.sent is not None and exchange.length <= fault.sent
                if fault.times and fault.path in line and exchange.fault is None and not short:
                    fault.times -= 1
                    exchange.fault = fault
        return exchange

    def _pass_on(self, client: socket.socket, head: bytes, body: bytes, exchange: Exchange) -> None:
        fault = exchange.fault
        if fault is not None and fault.sent is None and fault.received is None:
            if fault.status:
                said = f"HTTP/1.1 {fault.status}\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"
                client.sendall(said.encode())
            return
        with socket.create_connection(("127.0.0.1", self.target), timeout=60) as server:
            # With one request per connection, a reply ends when the server closes the connection.
            head = re.sub(rb"(?i)\r\nconnection:[^\r]*", b"", head)
            server.sendall(head + b"\r\nConnection: close\r\n\r\n")
            left = exchange.length
            limit = left if fault is None or fault.sent is None else min(left, fault.sent)
            while left > exchange.length - limit:
                chunk = (body or client.recv(65536))[: left - (exchange.length - limit)]
                body = b""
                if not chunk:
                    return
                server.sendall(chunk)
                left -= len(chunk)
            if left:
                return
            passed = 0
            while chunk := server.recv(65536):
                if fault is not None and fault.received is not None:
                    chunk = chunk[: max(0, fault.received - passed)]
                    if not chunk:
                        return
                passed += len(chunk)
                client.sendall(chunk)
