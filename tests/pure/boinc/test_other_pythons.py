"""All installed Python versions decode the golden files alike."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
#: A program that decodes requests, replies and submissions, and prints the values.
READ = """
import re, sys
from pathlib import Path
from scheduler.boinc.wire import replies, requests
from scheduler.boinc_submission.wire import requests as submission

for path in sorted(Path(sys.argv[1]).rglob("*")):
    body = path.read_bytes() if path.is_file() else b""
    if (start := body.find(b"<scheduler_request>")) >= 0:
        print(path.name, requests.decode_request(body[start:]))
    elif (start := body.find(b"<scheduler_reply>")) >= 0:
        print(path.name, replies.decode_reply(body[start:]))
    elif path.suffix == ".req" and (found := re.search(rb"<(\\w+_batch)>.*</\\1>", body, re.DOTALL)):
        print(path.name, submission.read_request(found[0]))
"""
DEBIANS = "/usr/bin/python3"


def is_supported(python: str) -> bool:
    """Return whether an interpreter exists and is Python 3.11 or later."""
    check = [python, "-c", "import sys; sys.exit(sys.version_info < (3, 11))"]
    return Path(python).exists() and not subprocess.run(check, check=False).returncode


def understood(python: str) -> list[str]:
    done = subprocess.run(
        [python, "-c", READ, str(ROOT / "tests" / "golden")],
        env={"PYTHONPATH": str(ROOT), "PYTHONIOENCODING": "utf-8"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


@pytest.mark.parametrize("python", [sys.executable, *filter(is_supported, [DEBIANS])])
def test_every_python_version_decodes_golden_files_equally(python: str) -> None:
    told = understood(python)
    assert told == understood(sys.executable)
    assert len(told) > 150
