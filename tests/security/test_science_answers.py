"""The daemon reads answers of science code as data: nothing in them runs."""

from __future__ import annotations

from datetime import timedelta

import pytest

from daemons.science import worker

HERE = "tests.security.science_probe"
LONG = timedelta(seconds=30)


@pytest.fixture(autouse=True, scope="module")
def no_worker_is_left():
    yield
    worker.stop()


def test_an_answer_runs_no_code_in_the_daemon(tmp_path):
    with pytest.raises(worker.ScienceRaised, match="JSON"):
        worker.call(f"{HERE}:answer_with_code", str(tmp_path / "ran"), time_limit=LONG)
    assert not (tmp_path / "ran").exists()


def test_the_environment_has_no_secret(monkeypatch):
    worker.stop()
    for name in ("SECRET_KEY", "DATABASE_URL", "AWS_SECRET_ACCESS_KEY", "CHANCE_KEY"):
        monkeypatch.setenv(name, "hidden-treasure")
    seen = worker.call(f"{HERE}:environment", time_limit=LONG)
    assert "hidden-treasure" not in str(seen)
