"""The environment of the processes that `serve` starts."""

from __future__ import annotations

from project.management.commands import serve

URL = "http://127.0.0.1:8000/"


def test_clients_of_a_trial_ask_again_soon() -> None:
    environment = serve.environment_for(URL, is_trial=True, variables={})
    assert environment == {
        "MASTER_URL": URL,
        "NEXT_CONTACT": str(serve.TRIAL_CONTACT_SECONDS),
    }
    assert serve.TRIAL_CONTACT_SECONDS <= 60


def test_a_next_contact_that_is_set_holds_in_a_trial_too() -> None:
    environment = serve.environment_for(URL, is_trial=True, variables={"NEXT_CONTACT": "0"})
    assert environment == {"MASTER_URL": URL}


def test_other_projects_keep_the_contact_that_is_set() -> None:
    assert serve.environment_for(URL, is_trial=False, variables={}) == {"MASTER_URL": URL}
