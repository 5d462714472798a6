"""Fixtures for pure tests: query plans are not renewed, as there is no database."""

from __future__ import annotations

import pytest

from scheduler.sql import plans


@pytest.fixture(autouse=True)
def plans_of_no_database(monkeypatch):
    monkeypatch.setattr(plans, "renew", lambda: None)
