"""BOINC's keywords over the API."""

from __future__ import annotations

import pytest

from tests.faces.apis import a_program
from tests.rows import a_workunit, an_account, an_app

pytestmark = pytest.mark.django_db


def test_keywords_are_listed_with_their_names(client):
    a_workunit(an_app("a"), keywords="14, 4711")
    rows = a_program(an_account("ada")).send("get", "/keywords").json()["results"]
    assert len(rows) == 70
    assert [row["number"] for row in rows if row["is_used"]] == [14]
    assert rows[0] == {
        "number": 1,
        "name": "Astronomy",
        "category": "science",
        "parent_number": None,
        "is_used": False,
    }
    assert next(row for row in rows if row["number"] == 14)["parent_number"] == 13
    assert client.get("/api/v1/keywords").status_code == 401
