"""The load generator: many hosts at once over kept-alive connections, cheaply.

It shares the machine with what it measures, so it speaks HTTP through a bare socket and reads
replies with regular expressions; what it costs all the same is said beside each figure.
"""

from __future__ import annotations

import os
import socket
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from bench.figures import BenchError
from bench.stage import Stage, Stopwatch

#: A reply that takes longer is a fault.
PATIENCE = 30.0
_END_OF_HEAD = b"\r\n\r\n"


class Connection:
    """One kept-alive HTTP connection that only knows POST."""

    def __init__(self, port: int) -> None:
        self._socket = socket.create_connection(("127.0.0.1", port), timeout=PATIENCE)
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def post(self, path: bytes, body: bytes) -> bytes:
        """Send a request, return the body of the reply; raises BenchError unless it is a 200."""
        self._socket.sendall(
            b"POST %b HTTP/1.1\r\nHost: 127.0.0.1\r\n"
            b"Content-Type: application/x-www-form-urlencoded\r\nContent-Length: %d\r\n\r\n%b"
            % (path, len(body), body)
        )
        data = self._socket.recv(65536)
        while (end := data.find(_END_OF_HEAD)) < 0:
            data += self._more()
        head = data[:end].lower()
        if b" 200 " not in head[:20]:
            raise BenchError(f"The server answered {head[:60]!r}.")
        length = int(head.partition(b"content-length:")[2].partition(b"\r\n")[0])
        missing = end + len(_END_OF_HEAD) + length - len(data)
        parts = [data[end + len(_END_OF_HEAD) :]]
        while missing > 0:
            parts.append(self._more())
            missing -= len(parts[-1])
        return b"".join(parts)

    def close(self) -> None:
        """Hang up."""
        self._socket.close()

    def _more(self) -> bytes:
        if not (chunk := self._socket.recv(65536)):
            raise BenchError("The server closed the connection in the midst of a reply.")
        return chunk


#: One exchange of one host: does it, returns how many units were done, None when none are left.
Player = Callable[[Connection], int | None]


@dataclass(slots=True)
class Load:
    """What a load did between the end of its warm-up and its own end."""

    watch: Stopwatch
    count: int = 0
    latencies: list[float] = field(default_factory=list)

    def latency_ms(self, share: float) -> float:
        """The latency that so great a share of the exchanges kept to, in milliseconds."""
        ordered = sorted(self.latencies)
        return 1000 * ordered[min(len(ordered) - 1, int(share * len(ordered)))] if ordered else 0.0

    def notes(self) -> tuple[str, str]:
        """Latencies, and what the generator itself cost."""
        machine = self.watch.seconds * (os.cpu_count() or 1)
        return (
            f"p50 {self.latency_ms(0.5):.1f} ms, p99 {self.latency_ms(0.99):.1f} ms",
            f"load generator {self.watch.cpu['bench'] / machine:.0%} of the machine",
        )


class _Crowd:
    """Threads that play until time is up, work is out, or one of them fails."""

    def __init__(self, players: Sequence[Player], port: int) -> None:
        self.over = threading.Event()
        self.exchanges: list[tuple[float, float, int]] = []
        self.fault: BaseException | None = None
        self._port = port
        self._threads = [
            threading.Thread(target=self._play, args=(player,), daemon=True) for player in players
        ]

    def start(self) -> None:
        for thread in self._threads:
            thread.start()

    def finish(self) -> None:
        self.over.set()
        for thread in self._threads:
            thread.join()
        if self.fault is not None:
            raise self.fault

    def _play(self, player: Player) -> None:
        try:
            line = Connection(self._port)
            while not self.over.is_set():
                began = time.perf_counter()
                count = player(line)
                if count is None:
                    break
                ended = time.perf_counter()
                self.exchanges.append((ended, ended - began, count))
            line.close()
        except Exception as error:  # noqa: BLE001 - it is raised again by `finish`
            self.fault = error
        self.over.set()


def run(
    players: Sequence[Player],
    *,
    stage: Stage,
    seconds: float,
    warm_up: float,
    tick: Callable[[], object],
) -> Load:
    """Let all players play at once; what happens while they warm up does not count."""
    crowd = _Crowd(players, stage.port)
    crowd.start()
    crowd.over.wait(warm_up)
    watch = Stopwatch(stage)
    with watch:
        began = time.perf_counter()
        while time.perf_counter() - began < seconds and not crowd.over.wait(0.1):
            tick()
        ended = time.perf_counter()
    crowd.finish()
    load = Load(watch)
    for at, latency, count in crowd.exchanges:
        if began <= at <= ended:
            load.count += count
            load.latencies.append(latency)
    return load
