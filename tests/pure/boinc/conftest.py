"""Fixtures for tests of the wire format: captured requests of real clients."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

GOLDEN = Path(__file__).parents[2] / "golden"


@dataclass(frozen=True)
class Capture:
    """One HTTP request of a real client; `scenario` is the folder it was recorded in."""

    scenario: str
    file_name: str
    head: bytes
    body: bytes

    def __str__(self) -> str:
        return f"{self.scenario}/{self.file_name[:4]}"


def _read(path: Path) -> Capture:
    head, _, body = path.read_bytes().partition(b"\n\n")
    return Capture(path.parent.name, path.name, head, body)


def pytest_generate_tests(metafunc):
    """Run a test that uses `capture` for every captured scheduler request."""
    if "capture" in metafunc.fixturenames:
        captures = [_read(path) for path in sorted((GOLDEN / "captured").glob("*/*POST*_cgi.req"))]
        metafunc.parametrize("capture", captures, ids=str)
