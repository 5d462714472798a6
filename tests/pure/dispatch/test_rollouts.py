"""Hosts outside the share of a staged roll-out get the previous version."""

from __future__ import annotations

from typing import Any

import pytest

from scheduler.dispatch.facts import Taste, VersionFacts
from scheduler.dispatch.rules.fit import RefusalReason
from scheduler.dispatch.rules.selection import Choice
from tests.pure.dispatch.test_selection import a_candidate, a_host, a_version, chosen, look

WAIT = "A new version of Prime search is sent to some computers first, and not to yours yet."


def new_version(**facts: Any) -> VersionFacts:
    return a_version(**({"id": 2, "version_num": 200, "is_staged_out": True} | facts))


def used(choice: Choice) -> list[int]:
    return [assignment.version.id for assignment in chosen(choice)]


def test_a_host_outside_the_share_gets_the_previous_version() -> None:
    assert used(look(a_candidate(), versions={1: [new_version(), a_version()]})) == [1]
    inside = new_version(is_staged_out=False)
    assert used(look(a_candidate(), versions={1: [inside, a_version()]})) == [2]


@pytest.mark.parametrize(
    "candidate",
    [{}, {"app_version_id": 2}, {"app_version_num": 200}],
    ids=["free", "committed", "pinned"],
)
def test_work_that_only_the_new_version_can_run_waits_for_the_share(
    candidate: dict[str, Any],
) -> None:
    choice = look(a_candidate(**candidate), versions={1: [new_version()]})
    assert choice.example == {RefusalReason.ROLLOUT: WAIT}
    assert choice.lasting == []


def test_refusal_by_the_previous_version_is_not_lasting_if_the_new_version_fits() -> None:
    old = a_version(unfit="Get a VM.")
    choice = look(a_candidate(), versions={1: [new_version(), old]})
    assert (choice.example, choice.lasting) == ({RefusalReason.ROLLOUT: WAIT}, [])
    choice = look(a_candidate(), versions={1: [new_version(unfit="Get a GPU."), old]})
    assert choice.example == {RefusalReason.PLAN_CLASS: "Get a VM."}
    assert len(choice.lasting) == 1


def test_beta_version_in_a_roll_out_is_no_reason_to_wait_for_volunteers_without_beta() -> None:
    versions = {1: [new_version(beta=True)]}
    assert list(look(a_candidate(), versions=versions).example) == [RefusalReason.NO_VERSION]
    eager = a_host(taste=Taste(allow_beta=True))
    choice = look(a_candidate(), versions=versions, host=eager)
    assert list(choice.example) == [RefusalReason.ROLLOUT]
