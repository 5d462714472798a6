"""Tests of one group run in one process, where test processes are started."""

from __future__ import annotations

import pytest


@pytest.mark.xdist_group("of these tests")
def test_the_name_of_a_test_ends_with_its_group(request):
    """pytest-xdist sends tests by these names; some versions of pytest did not let it set them."""
    groups = request.config.option.__dict__.get("loadgroup", False)
    assert request.node.nodeid.endswith("@of these tests") is bool(groups)
