"""The random tests find planted bugs."""

from __future__ import annotations

import pytest

from tests.long.planted import BUGS, look_for

pytestmark = pytest.mark.long


@pytest.mark.parametrize("switch", BUGS, ids=lambda one: one.rule.replace(" ", "-"))
def test_random_tests_find_the_planted_bug(switch, proof):
    found = look_for(switch)
    proof.note(f"{found.bug}: found after {found.seconds:.0f} s, {found.tried}")
    assert found.by, found.said
