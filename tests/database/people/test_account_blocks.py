"""Accounts are blocked and unblocked by staff who may change them."""

from __future__ import annotations

import pytest
from django.utils import timezone

from scheduler.models import Account, AuditEntry
from scheduler.people import accounts, roles, submitters
from scheduler.people.blocking import account_blocks
from scheduler.people.blocking.account_blocks import BlockRefused
from scheduler.people.personal_data import erasure
from tests.conftest import NOON
from tests.database.passes import statements_of
from tests.rows import a_host, a_result, a_workunit, an_account, an_app, update

pytestmark = pytest.mark.django_db


@pytest.fixture
def moderator() -> Account:
    account = an_account("mona")
    roles.give(account, "moderator", now=NOON)
    return Account.objects.get(pk=account.pk)


def block(*rows: Account, by: Account, blocked: bool = True) -> list[Account]:
    ids = [row.pk for row in rows]
    return account_blocks.change(ids, blocked=blocked, reason="x" * 300, by=by, now=NOON)


def blocked_accounts() -> set[int]:
    return set(Account.objects.filter(is_active=False).values_list("pk", flat=True))


def test_only_accounts_that_change_are_returned_and_recorded(moderator):
    ada, bob = an_account("ada"), an_account("bob", is_active=False)
    assert block(ada, bob, by=moderator) == [ada]
    assert block(ada, bob, by=moderator) == []
    [entry] = AuditEntry.objects.filter(event="rights_changed", subject=ada.email)
    assert entry.details == {"is_active": {"from": True, "to": False}, "reason": "x" * 200}
    assert block(ada, bob, by=moderator, blocked=False) == [ada, bob]
    assert blocked_accounts() == set()


def test_own_account_and_accounts_with_more_rights_are_refused_and_nothing_changes(moderator):
    ada, chief, manager = an_account("ada"), an_account("chief"), an_account("max")
    update(chief, is_superuser=True)
    submitters.allow(manager, apps=[an_app()], may_manage=True, now=NOON)
    for other, words in (
        (moderator, "Your own account is among them"),
        (chief, "You may not change chief"),
        (manager, "You may not change max"),
    ):
        with pytest.raises(BlockRefused, match=words):
            block(ada, other, by=moderator)
    assert blocked_accounts() == set()
    superuser = accounts.create_staff(email="root@example.org", password="a long one 8")
    assert len(block(ada, chief, manager, by=superuser)) == 3


def test_erased_account_cannot_be_unblocked(moderator):
    ada = an_account("ada")
    erasure.erase(ada, now=NOON)
    ada.refresh_from_db()
    assert erasure.is_erased(ada)
    with pytest.raises(BlockRefused, match="were erased for good"):
        block(ada, by=moderator, blocked=False)
    assert ada.pk in blocked_accounts()
    assert not erasure.is_erased(an_account("erased-1"))


def test_effects_are_counted_in_one_statement_for_any_number_of_accounts():
    people = [an_account() for _ in range(3)]
    for number, person in enumerate(people):
        for _ in range(number):
            a_result(a_workunit(), "sent", host=a_host(person))
    merged = a_host(people[0], merged_into=a_host(people[0]))
    a_result(a_workunit(), "success", host=merged)
    ids = [person.pk for person in people]
    effects = account_blocks.effects(ids, now=timezone.now())
    assert (effects.hosts, effects.results, effects.tokens, effects.batches) == (4, 3, 0, 0)
    assert statements_of(lambda: account_blocks.effects(ids, now=NOON)) == 1
    empty = account_blocks.effects([], now=NOON)
    assert (empty.hosts, empty.results) == (0, 0)


@pytest.mark.parametrize("role", ["moderator", "operator and moderator"])
def test_number_of_statements_of_a_block_does_not_depend_on_the_number_of_accounts(role):
    moderator = an_account("moderator")
    for name in role.split(" and "):
        roles.give(moderator, name, now=NOON)
    numbers = []
    for count in (1, 10):
        rows = [an_account(f"v{count}-{number}") for number in range(count)]
        by = Account.objects.get(pk=moderator.pk)
        numbers.append(statements_of(lambda: block(*rows, by=by)))  # noqa: B023  called here
        assert blocked_accounts() >= {row.pk for row in rows}
    assert numbers[0] == numbers[1]
