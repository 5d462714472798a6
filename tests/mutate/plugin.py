"""Switches the rule off that the environment names, before any test is imported."""

from __future__ import annotations

import os

import pytest

VARIABLE = "RULE_OFF"


@pytest.hookimpl(trylast=True)
def pytest_configure() -> None:
    """Find the switch by its rule and use it; Django is set up by now."""
    from tests.mutate.switches import SWITCHES

    rule = os.environ[VARIABLE]
    (switch,) = (one for one in SWITCHES if one.rule == rule)
    switch.off.off()
