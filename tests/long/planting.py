"""Plants the bug that the environment names, before any test is imported."""

from __future__ import annotations

import os

import pytest


@pytest.hookimpl(trylast=True)
def pytest_configure():
    """Find the bug by its sentence and plant it; Django is set up by now."""
    from tests.long.planted import BUGS, VARIABLE

    (switch,) = (one for one in BUGS if one.rule == os.environ[VARIABLE])
    switch.off.off()
