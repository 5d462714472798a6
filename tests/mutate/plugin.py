"""A pytest plug-in that switches off the rule named by an environment variable."""

from __future__ import annotations

import os

import pytest

VARIABLE = "RULE_OFF"


@pytest.hookimpl(trylast=True)
def pytest_configure() -> None:
    """Switch the rule off after Django is set up and before tests are imported."""
    from tests.mutate.switches import SWITCHES

    rule = os.environ[VARIABLE]
    (switch,) = (one for one in SWITCHES if one.rule == rule)
    switch.off.off()
