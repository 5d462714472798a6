"""The API guide names only problem codes of the schema."""

from __future__ import annotations

import json
import re

from tests.house.tracked import read


def test_every_error_status_in_the_guide_is_in_the_schema():
    schema = read("docs/reference/openapi.yaml")
    rows = re.findall(r"^\| ([0-9, ]+) \|", read("docs/api.md"), re.MULTILINE)
    statuses = [status for row in rows for status in row.split(", ")]
    assert len(statuses) == 11
    assert all(f"'{status}'" in schema for status in statuses), json.dumps(statuses)
