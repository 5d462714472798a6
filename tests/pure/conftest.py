"""What all pure tests share: there is no database whose plans could be renewed."""

from __future__ import annotations

import pytest

from scheduler.sql import plans


@pytest.fixture(autouse=True)
def plans_of_no_database(monkeypatch):
    monkeypatch.setattr(plans, "renew", lambda: None)
