"""The simulated project of the pictures: a few of its hours."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest

from demo.pictures import content
from demo.pictures.people import PEOPLE
from scheduler.models import Account, Host, Result, Workunit
from tests.conftest import NOON


@pytest.mark.lengthy
def test_simulated_hours_end_with_granted_credit_and_a_page_for_each_id(
    transactional_db, settings, monkeypatch
):
    settings.PROJECT = replace(settings.PROJECT, chance_key="the same lots every time")
    monkeypatch.setattr(content, "LENGTH", timedelta(hours=20))
    monkeypatch.setattr(content, "SUBMISSIONS", content.SUBMISSIONS[:1])
    percentages = []
    scene = content.simulate(NOON, percentages.append)
    assert sum(percentages) == pytest.approx(100)
    assert Host.objects.count() == sum(len(person.computers) for person in PEOPLE)
    assert Workunit.objects.count() == scene.workunits == 320
    assert Result.objects.count() == scene.results
    assert Account.objects.get(email=PEOPLE[0].email).total_credit > 0
    computer = Host.objects.get(pk=scene.ids["computer"])
    assert computer.account.name == PEOPLE[0].name
    assert Workunit.objects.get(pk=scene.ids["workunit"]).canonical_result_id is not None
    later = NOON + timedelta(minutes=2)
    scene.contact_server(later)
    assert Host.objects.filter(rpc_at=later).exists()
