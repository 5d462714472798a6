"""Every entry in the table of rules that can be switched off fits the code."""

from __future__ import annotations

import subprocess
import sys

from tests.house.tracked import ROOT


def test_every_entry_of_the_mutation_table_matches_the_code():
    done = subprocess.run(
        [sys.executable, "-m", "tests.mutate", "--check"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "0 do not fit" in done.stdout
