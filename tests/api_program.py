"""Builds the science program of the tests that uses BOINC's application library."""

from __future__ import annotations

import subprocess
from pathlib import Path

from tests.machine import needs, needs_file

SOURCE = Path(__file__).with_name("boinc_api_program.cpp")


def build(folder: Path) -> Path:
    """Compile the program with Debian's BOINC library; skip the test if that is impossible."""
    compiler = needs("c++")
    needs_file("/usr/include/boinc/boinc_api.h")
    program = folder / "boinc_api_program"
    words = [compiler, "-O1", "-o", program, SOURCE, "-lboinc_api", "-lboinc", "-lpthread"]
    done = subprocess.run(list(map(str, words)), capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return program
