"""Recorded requests of BOINC's submission tools, with exact bytes of the replies."""

from __future__ import annotations

import os
from xml.etree import ElementTree as ET

import pytest
from django.utils import timezone

from tests.conftest import NOON
from tests.faces.submitters import GOLDEN, World, send

pytestmark = pytest.mark.django_db

CASES = sorted(path.stem for path in GOLDEN.glob("*.req"))


@pytest.fixture(autouse=True)
def world(monkeypatch: pytest.MonkeyPatch) -> World:
    monkeypatch.setattr(timezone, "now", lambda: NOON)
    return World()


@pytest.mark.parametrize("case", CASES)
def test_reply_matches_the_golden_file_byte_for_byte(case: str) -> None:
    status, headers, reply = send((GOLDEN / f"{case}.req").read_bytes())
    assert status == "200 OK"
    assert headers["Content-Type"] == "text/xml"
    assert headers["Content-Length"] == str(len(reply))
    expected = GOLDEN / f"{case}.resp"
    if os.environ.get("MANYHANDS_REWRITE_GOLDEN") == "1":
        expected.write_bytes(reply)
    assert reply == expected.read_bytes()
    ET.fromstring(reply)  # as BOINC's Python library parses replies
