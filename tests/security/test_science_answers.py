"""The daemon reads answers of science code as data, and runs no code from them."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from django.db import connection

from daemons.science import worker
from daemons.science.messages import BadMessage
from daemons.science.moments import read_moment

HERE = "tests.security.science_probe"
LONG = timedelta(seconds=30)


@pytest.fixture(autouse=True, scope="module")
def no_worker_is_left():
    yield
    worker.stop()


def test_worker_response_cannot_run_code_in_the_daemon(tmp_path):
    with pytest.raises(worker.ScienceRaised, match="JSON"):
        worker.call(f"{HERE}:answer_with_code", str(tmp_path / "ran"), time_limit=LONG)
    assert not (tmp_path / "ran").exists()


def test_worker_environment_contains_no_secrets(monkeypatch):
    worker.stop()
    for name in ("SECRET_KEY", "DATABASE_URL", "AWS_SECRET_ACCESS_KEY", "CHANCE_KEY"):
        monkeypatch.setenv(name, "hidden-treasure")
    seen = worker.call(f"{HERE}:environment", time_limit=LONG)
    assert "hidden-treasure" not in str(seen)


@pytest.mark.django_db
def test_time_with_an_extreme_utc_offset_is_converted_to_utc():
    """Such a value would fail the statement that finds the due generators of all apps."""
    moment = read_moment({"at": "2026-01-02T12:00:00+20:00"})
    assert moment == datetime(2026, 1, 1, 16, tzinfo=UTC)
    with connection.cursor() as cursor:
        cursor.execute("SELECT %s::timestamptz = %s", [moment.isoformat(), moment])
        assert cursor.fetchone() == (True,)


@pytest.mark.parametrize("text", ["0001-01-01T00:00:00+20:00", "9999-12-31T23:00:00-20:00"])
def test_time_outside_the_supported_years_is_refused(text):
    with pytest.raises(BadMessage, match="year"):
        read_moment({"at": text})
