"""Managers of an app cannot change the fields that run code or grant credit."""

from __future__ import annotations

import pytest

from scheduler.apps.rules.app_rights import reserved


@pytest.mark.parametrize(
    ("facts", "names"),
    [
        ({}, []),
        ({"beta": True, "grace": 1}, []),
        ({"validator": "numeric", "validator_options": {}}, []),
        ({"validator": "orbits", "assimilator": "webhook", "assimilator_options": {}}, []),
        ({"weight": 1, "credit_rule": "none", "credit_per_workunit": 1}, ["weight", "credit_rule", "credit_per_workunit"]),
    ],
)  # fmt: skip
def test_weight_and_credit_fields_are_reserved_for_administrators(facts, names):
    assert reserved(facts) == names
