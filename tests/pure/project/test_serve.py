"""The environment of the processes that `serve` starts."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest
from django.core.management import CommandError

from daemons.management.processes import Children
from daemons.science import worker
from project.management.commands import serve
from project.monitoring.shared_folder import VARIABLE

URL = "http://127.0.0.1:8000/"
WAIT_URL = "http://127.0.0.1:8001/api/v1/pool/wait"


def test_trial_project_sets_a_short_next_contact() -> None:
    environment = serve.environment_for(URL, is_trial=True, variables={})
    assert environment == {
        "MASTER_URL": URL,
        "POOL_WAIT_URL": WAIT_URL,
        "NEXT_CONTACT": str(serve.TRIAL_CONTACT_SECONDS),
    }
    assert serve.TRIAL_CONTACT_SECONDS <= 60


def test_trial_project_keeps_a_configured_next_contact() -> None:
    environment = serve.environment_for(URL, is_trial=True, variables={"NEXT_CONTACT": "0"})
    assert environment == {"MASTER_URL": URL, "POOL_WAIT_URL": WAIT_URL}


def test_next_contact_is_unchanged_outside_a_trial() -> None:
    environment = serve.environment_for(URL, is_trial=False, variables={})
    assert environment == {"MASTER_URL": URL, "POOL_WAIT_URL": WAIT_URL}


@pytest.mark.parametrize("name", ["MASTER_URL", "POOL_WAIT_URL"])
def test_hosts_wait_at_the_configured_address_of_the_project(name: str) -> None:
    url = "https://project.example/"
    environment = serve.environment_for(URL, is_trial=False, variables={name: url})
    assert environment == {"MASTER_URL": URL}


def test_unconfined_science_is_reported_once(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(worker, "warning", lambda: "Science code runs unconfined.")
    monkeypatch.setattr(serve, "answers", lambda *_, **__: True)
    command = serve.Command()
    options = {"address": "127.0.0.1", "port": 8000}
    assert command._is_up(Children(), options, threading.Event())
    command._welcome(URL, None, quiet=True)
    assert capsys.readouterr().err.count("Science code runs unconfined.") == 1


def test_metrics_folder_that_cannot_be_used_is_refused_with_a_hint(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").touch()
    # Even root cannot create files in a folder of /proc.
    cases = ((tmp_path / "file", "File exists"), (Path("/proc/self/fd"), ""))
    for folder, reason in cases:
        monkeypatch.setenv(VARIABLE, str(folder))
        with pytest.raises(CommandError) as refused:
            serve.empty_metrics_folder()
        message, hint = str(refused.value).split("\n")
        assert message.startswith(f"{VARIABLE}={folder} cannot be used ({reason}")
        assert hint.startswith("Hint: set it to a folder that this user can write to")


def test_nothing_is_deleted_if_the_operator_chose_no_metrics_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("counter_1.db").touch()
    monkeypatch.setenv(VARIABLE, "")
    serve.empty_metrics_folder()
    assert Path("counter_1.db").exists()
