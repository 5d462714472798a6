"""Exchanges messages with BOINC's library through a file in the slot.

Programs map the file into their memory. The file has eight channels of 1024 bytes. The first byte
of a channel is nonzero while the channel has an unread message. The sender of the message sets this
byte, and the receiver clears it.

The program writes to the file, so the client does not trust its content. The client does not map
the file, because a program that shortens the file would then kill the client by SIGBUS. It uses
reads and writes, which see the same bytes as a mapping. The client keeps its descriptor open, so a
program that replaces the file by a link cannot redirect the client to another file.
"""

from __future__ import annotations

import contextlib
import os
import re
from collections import deque
from dataclasses import dataclass
from enum import IntEnum
from typing import TYPE_CHECKING

from volunteer import safe_files

if TYPE_CHECKING:
    from pathlib import Path

FILE_NAME = "boinc_mmap_file"
CHANNEL_BYTES = 1024
HEARTBEAT_SECONDS = 1.0
_HEARTBEAT = "<heartbeat/>"
_NUMBER = r"\s*([-+]?[\d.]+(?:[eE][-+]?\d+)?)"
_FRACTION = re.compile(r"<fraction_done>" + _NUMBER)
# BOINC's library does not send it; a program that writes its own messages can.
_GPU_USAGE = re.compile(r"<gpu_usage>" + _NUMBER)
_CPU_TIME = re.compile(r"<current_cpu_time>" + _NUMBER)


class Channel(IntEnum):
    """The channels of the file, in order."""

    CONTROL = 0
    CONTROL_REPLY = 1
    GRAPHICS = 2
    GRAPHICS_REPLY = 3
    HEARTBEAT = 4
    STATUS = 5
    TRICKLE_UP = 6
    TRICKLE_DOWN = 7


class SharedMemory:
    """The shared-memory file of a slot. Call `close` when the program has ended."""

    def __init__(self, slot: Path) -> None:
        with safe_files.created(slot, FILE_NAME) as file:
            file.write(bytes(CHANNEL_BYTES * len(Channel)))
        with safe_files.open_to_change(slot, FILE_NAME) as file:
            self._descriptor = os.dup(file.fileno())

    def is_full(self, channel: Channel) -> bool:
        return self._read(channel)[:1] not in {b"", b"\0"}

    def send(self, channel: Channel, message: str) -> bool:
        """Write a message, truncated to 1022 bytes, and return whether it was written.

        Returns False if the previous message is unread or the file cannot be written.
        """
        content = message.encode()[: CHANNEL_BYTES - 2] + b"\0"
        if self.is_full(channel):
            return False
        # The flag is set last, so that the receiver never reads a partial message.
        return self._write(channel, 1, content) and self._write(channel, 0, b"\1")

    def receive(self, channel: Channel) -> str:
        """Return the unread message of a channel, and mark it as read.

        Returns an empty string if there is no unread message.
        """
        content = self._read(channel)
        if content[:1] in {b"", b"\0"}:
            return ""
        self._write(channel, 0, b"\0")
        return content[1:].partition(b"\0")[0].decode("utf-8", "replace")

    def close(self) -> None:
        os.close(self._descriptor)

    def _read(self, channel: Channel) -> bytes:
        try:
            return os.pread(self._descriptor, CHANNEL_BYTES, channel * CHANNEL_BYTES)
        except OSError:
            return b""

    def _write(self, channel: Channel, offset: int, content: bytes) -> bool:
        with contextlib.suppress(OSError):
            os.pwrite(self._descriptor, content, channel * CHANNEL_BYTES + offset)
            return True
        return False


@dataclass(frozen=True, slots=True)
class ProgramReport:
    """The values that a program reported in one exchange. A missing number is None."""

    fraction_done: float | None = None
    cpu_time: float | None = None
    gpu_usage: float | None = None
    has_trickle: bool = False
    has_upload: bool = False


class Link:
    """Exchanges messages with one running program, which might not use BOINC's library."""

    def __init__(self, slot: Path) -> None:
        self._memory = SharedMemory(slot)
        self._control: deque[str] = deque()
        self._notices: deque[str] = deque()
        self._next_heartbeat = 0.0
        self._heartbeat_sent = False
        #: Whether the program has read or sent a message.
        self.uses_library = False

    def request(self, message: str) -> None:
        """Queue a request to suspend, resume or end, such as `<quit/>`."""
        self._control.append(message)

    def notify(self, message: str) -> None:
        """Queue a notice of a trickle or an upload, unless the same notice is already queued."""
        if message not in self._notices:
            self._notices.append(message)

    def exchange(self, now: float) -> ProgramReport:
        """Send the messages that are due, and return the report of the program.

        `now` is a monotonic time in seconds.
        """
        memory = self._memory
        if self._heartbeat_sent and not memory.is_full(Channel.HEARTBEAT):
            self.uses_library = True
        if now >= self._next_heartbeat:
            self._next_heartbeat = now + HEARTBEAT_SECONDS
            if memory.send(Channel.HEARTBEAT, _HEARTBEAT):
                self._heartbeat_sent = True
        if self._control and memory.send(Channel.CONTROL, self._control[0]):
            self._control.popleft()
        if self._notices and memory.send(Channel.TRICKLE_DOWN, self._notices[0]):
            self._notices.popleft()
        status = memory.receive(Channel.STATUS)
        trickles = memory.receive(Channel.TRICKLE_UP)
        if status or trickles:
            self.uses_library = True
        fraction = _number_in(_FRACTION, status)
        gpu_usage = _number_in(_GPU_USAGE, status)
        return ProgramReport(
            fraction_done=None if fraction is None else min(fraction, 1.0),
            cpu_time=_number_in(_CPU_TIME, status),
            # A fraction above 1 may be a percentage, so it is ignored.
            gpu_usage=gpu_usage if gpu_usage is not None and gpu_usage <= 1 else None,
            has_trickle="<have_new_trickle_up/>" in trickles,
            has_upload="<have_new_upload_file/>" in trickles,
        )

    def close(self) -> None:
        self._memory.close()


def _number_in(pattern: re.Pattern[str], text: str) -> float | None:
    """Return the captured number, or None if it is missing, malformed, infinite or negative."""
    match = pattern.search(text)
    if match is None:
        return None
    try:
        value = float(match.group(1))
    except ValueError:
        return None
    return value if 0 <= value < float("inf") else None
