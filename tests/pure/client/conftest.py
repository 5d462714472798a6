"""Fixtures of the volunteer's tests: golden files, a science project in a thread."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

HERE = Path(__file__).parent
for folder in (HERE, HERE.parents[2] / "client"):
    if str(folder) not in sys.path:
        sys.path.insert(0, str(folder))

from fake_project import FakeProject  # noqa: E402 - found through the lines above

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


@pytest.fixture
def golden() -> Callable[[str], bytes]:
    """Read the body of a recorded message, without its HTTP head."""

    def read(name: str) -> bytes:
        return (HERE / "golden" / name).read_bytes().replace(b"\r\n", b"\n").partition(b"\n\n")[2]

    return read


@pytest.fixture
def project() -> Iterator[FakeProject]:
    """Run a science project of one app on a free port."""
    with FakeProject() as running:
        yield running
