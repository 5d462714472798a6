"""The demonstration of trust, with 150 workunits."""

from __future__ import annotations

from dataclasses import replace

import pytest
from django.core.management import call_command

from demo import trust


@pytest.fixture
def played(transactional_db, settings):
    def play(scenario):
        settings.PROJECT = replace(settings.PROJECT, chance_key="the same lots every time")
        story = trust.Simulation(replace(scenario, workunits=150))
        story.begin()
        for _finished in story.hours():
            pass
        return story

    return play


@pytest.mark.lengthy
def test_two_hosts_with_different_wrong_outputs_and_a_silent_host_cause_no_wrong_answer(
    played, capsys
):
    story = played(trust.APART)
    standing = {one.name: one for one in story.host_summaries()}
    assert story.wrong_answers() == []
    assert story.without_answer() == 0
    for name in ("mallory", "malice"):
        assert standing[name].quota <= 4
        assert standing[name].valid == 0
        assert standing[name].credit == 0
    assert standing["ghost"].valid == 0
    assert sum(standing[name].alone for name in ("ada", "ben", "cleo")) > 10
    assert story.replicas_by_tenth()[-1] < story.replicas_by_tenth()[0]
    assert all(one.credit == one.entered for one in standing.values())
    call_command("fsck")
    assert "0 violations" in capsys.readouterr().out


@pytest.mark.lengthy
def test_two_colluding_hosts_are_valid_only_in_shared_workunits(played):
    story = played(trust.TOGETHER)
    believed = story.accepted_wrong_answers()
    standing = {one.name: one for one in story.host_summaries()}
    assert set(believed) <= {"both hosts agreed"}
    assert standing["mallory"].invalid + standing["malice"].invalid > 0
    assert standing["mallory"].quota <= 4
