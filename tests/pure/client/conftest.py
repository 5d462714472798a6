"""Fixtures for tests of the volunteer client: golden files and a fake project."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.pure.client.fake_project import FakeProject

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

HERE = Path(__file__).parent


@pytest.fixture
def golden() -> Callable[[str], bytes]:
    """Return a function that reads the body of a recorded message."""

    def read(name: str) -> bytes:
        return (HERE / "golden" / name).read_bytes().replace(b"\r\n", b"\n").partition(b"\n\n")[2]

    return read


@pytest.fixture
def project() -> Iterator[FakeProject]:
    """Run a science project of one app on a free port."""
    with FakeProject() as running:
        yield running
