"""Erasure hands teams over, and locks rows in the order of other transactions."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import pytest
from django.db import connection, transaction

from scheduler.models import Account, AuditEntry, Host, Team
from scheduler.people import teams
from scheduler.people.personal_data import erasure
from scheduler.people.teams import TeamProfile
from tests.conftest import NOON
from tests.database.waiting import wait_until_blocked
from tests.rows import a_host, an_account, update


def a_team(founder: Account, *members: Account) -> Team:
    team = teams.create(founder, TeamProfile(name="The primes"), now=NOON)
    for member in members:
        teams.join(member, team.pk)
    return team


# Teams of an erased founder


@pytest.mark.django_db
def test_team_of_an_erased_founder_goes_to_the_member_with_the_oldest_active_account():
    old, middle, ada, new = (an_account(name) for name in ("old", "middle", "ada", "new"))
    team = a_team(ada, new, middle, old)
    update(old, is_active=False)
    erasure.erase(ada, now=NOON)
    team.refresh_from_db()
    assert team.founder == middle
    entry = AuditEntry.objects.filter(event="team_changed").latest("pk")
    assert entry.details == {"founder": middle.pk, "former_founder": ada.pk}


@pytest.mark.django_db
def test_team_of_an_erased_founder_goes_to_the_member_who_requested_it():
    ada, old, new = an_account("ada"), an_account("old"), an_account("new")
    team = a_team(ada, old, new)
    teams.request_foundership(new, now=NOON)
    erasure.erase(ada, now=NOON)
    team.refresh_from_db()
    assert (team.founder, team.requested_by, team.requested_at) == (new, None, None)


@pytest.mark.django_db
def test_team_of_an_erased_founder_without_other_active_members_has_no_founder():
    ada, gone = an_account("ada"), an_account("gone")
    team = a_team(ada, gone)
    update(gone, is_active=False)
    erasure.erase(ada, now=NOON)
    team.refresh_from_db()
    assert team.founder is None


@pytest.mark.django_db
def test_request_of_an_erased_member_ends():
    ada, eve = an_account("ada"), an_account("eve")
    team = a_team(ada, eve)
    teams.request_foundership(eve, now=NOON)
    erasure.erase(eve, now=NOON)
    team.refresh_from_db()
    assert (team.founder, team.requested_by, team.requested_at) == (ada, None, None)


# Locks


def lock(table: type, *ids: int, nowait: bool = False) -> None:
    rows = table.objects.select_for_update(no_key=True, nowait=nowait)
    assert len(rows.filter(pk__in=ids).order_by("pk")) == len(ids)


def erase_in_another_connection(account: Account) -> None:
    try:
        erasure.erase(account, now=NOON)
    finally:
        connection.close()


@pytest.mark.django_db(transaction=True)
def test_erasure_locks_hosts_before_the_account_as_a_validator_does():
    ada = an_account("ada")
    first, second = a_host(ada), a_host(ada)
    with ThreadPoolExecutor(1) as threads:
        with transaction.atomic():
            lock(Host, first.pk)
            erasing = threads.submit(erase_in_another_connection, ada)
            wait_until_blocked()
            lock(Host, second.pk, nowait=True)
            lock(Account, ada.pk, nowait=True)
        erasing.result(20)
    ada.refresh_from_db()
    assert not ada.is_active


@pytest.mark.django_db(transaction=True)
def test_erasure_locks_accounts_in_ascending_id_and_before_teams():
    heir, ada = an_account("heir"), an_account("ada")
    team = a_team(ada, heir)
    with ThreadPoolExecutor(1) as threads:
        with transaction.atomic():
            lock(Account, heir.pk)
            erasing = threads.submit(erase_in_another_connection, ada)
            wait_until_blocked()
            lock(Account, ada.pk, nowait=True)
            lock(Team, team.pk, nowait=True)
        erasing.result(20)
    team.refresh_from_db()
    assert team.founder == heir


@pytest.mark.django_db(transaction=True)
def test_team_gets_no_founder_who_left_it_while_the_founder_was_erased():
    heir, ada = an_account("heir"), an_account("ada")
    team = a_team(ada, heir)
    with ThreadPoolExecutor(1) as threads:
        with transaction.atomic():
            teams.leave(heir)
            erasing = threads.submit(erase_in_another_connection, ada)
            wait_until_blocked()
        erasing.result(20)
    team.refresh_from_db()
    assert team.founder is None


@pytest.mark.django_db(transaction=True)
def test_team_gets_another_member_if_the_successor_left_during_the_erasure():
    heir, ada, second = an_account("heir"), an_account("ada"), an_account("second")
    team = a_team(ada, heir)
    update(second, team=team)
    with ThreadPoolExecutor(1) as threads:
        with transaction.atomic():
            teams.leave(heir)
            erasing = threads.submit(erase_in_another_connection, ada)
            wait_until_blocked()
        erasing.result(20)
    team.refresh_from_db()
    assert team.founder == second


@pytest.mark.django_db(transaction=True)
def test_team_gets_the_member_who_joined_during_the_erasure():
    ada, joins = an_account("ada"), an_account("joins")
    team = teams.create(ada, TeamProfile(name="The primes"), now=NOON)
    with ThreadPoolExecutor(1) as threads:
        with transaction.atomic():
            teams.join(joins, team.pk)
            erasing = threads.submit(erase_in_another_connection, ada)
            wait_until_blocked()
        erasing.result(20)
    team.refresh_from_db()
    assert team.founder == joins
    ada.refresh_from_db()
    assert (ada.is_active, ada.team_id) == (False, None)


@pytest.mark.django_db
def test_erasure_is_refused_if_the_members_change_at_every_attempt(monkeypatch):
    ada = an_account("ada")
    a_team(ada, an_account("heir"))
    monkeypatch.setattr(teams, "successors", lambda _: {})
    with pytest.raises(teams.SuccessorChanged, match="Hint: try again"):
        erasure.erase(ada, now=NOON)
    ada.refresh_from_db()
    assert ada.is_active
