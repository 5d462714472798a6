"""A pytest plug-in that plants the bug named by the variable PLANTED_BUG."""

from __future__ import annotations

import os

import pytest


@pytest.hookimpl(trylast=True)
def pytest_configure():
    """Plant the bug after Django is set up and before tests are imported."""
    from tests.long.planted import BUGS, VARIABLE

    (switch,) = (one for one in BUGS if one.rule == os.environ[VARIABLE])
    switch.off.off()
