"""One account creates a limited number of teams a day, at every interface."""

from __future__ import annotations

from datetime import timedelta

import pytest
from django.test import Client
from django.utils import timezone

from scheduler.models import Account, AuditEntry, Team
from scheduler.people import teams
from scheduler.people.teams import TakenName, TeamProfile
from scheduler.people.throttle import TooManyAttempts
from tests.conftest import NOON
from tests.faces.apis import a_program
from tests.rows import an_account

pytestmark = pytest.mark.django_db

TEAMS_PER_DAY = 5


@pytest.fixture
def ada() -> Account:
    return an_account("ada")


def create_teams(account: Account, count: int = TEAMS_PER_DAY, *, now=NOON) -> None:
    for number in range(count):
        teams.create(account, TeamProfile(name=f"{account.pk} {now} {number}"), now=now)


def test_account_creates_five_teams_and_then_one_every_few_hours(ada):
    create_teams(ada)
    with pytest.raises(TooManyAttempts, match=r"Hint: wait 17280 seconds\.") as refusal:
        create_teams(ada, 1)
    assert refusal.value.seconds == 24 * 3600 / TEAMS_PER_DAY
    assert Team.objects.count() == TEAMS_PER_DAY
    create_teams(an_account("eve"), 1)
    create_teams(ada, 1, now=NOON + timedelta(seconds=refusal.value.seconds))
    with pytest.raises(TooManyAttempts):
        create_teams(ada, 1, now=NOON + timedelta(seconds=refusal.value.seconds))
    [entry] = AuditEntry.objects.filter(event="login_throttled", at=NOON)
    assert entry.details == {"door": "create_team", "limit": "new-teams"}


def test_refused_creation_is_not_charged(ada):
    create_teams(ada, 1)
    for _ in range(2 * TEAMS_PER_DAY):
        with pytest.raises(TakenName):
            create_teams(ada, 1)
    create_teams(ada, TEAMS_PER_DAY - 1, now=NOON + timedelta(seconds=1))


@pytest.mark.parametrize("headers", [{}, {"Idempotency-Key": "one-more-team"}])
def test_api_answers_429_with_the_time_to_wait(ada, headers):
    create_teams(ada, now=timezone.now())
    program = a_program(ada)
    answer = program.send("post", "/me/team", {"name": "one more"}, headers=headers)
    assert answer.status_code == 429, answer.content
    assert answer.json()["code"] == "throttled"
    assert 0 < int(answer["Retry-After"]) <= 24 * 3600 / TEAMS_PER_DAY
    assert "wait" in answer.json()["hint"]
    assert Team.objects.count() == TEAMS_PER_DAY


def test_page_shows_the_refusal_with_status_429(ada):
    create_teams(ada, now=timezone.now())
    browser = Client()
    browser.force_login(ada)
    answer = browser.post("/teams/new/", {"name": "one more", "kind": "1"})
    assert answer.status_code == 429
    assert 0 < int(answer["Retry-After"]) <= 24 * 3600 / TEAMS_PER_DAY
    assert "Hint: wait" in answer.content.decode()
    assert Team.objects.count() == TEAMS_PER_DAY
