"""Named account keys are created, renamed and revoked, and their use is recorded."""

from __future__ import annotations

from datetime import timedelta

import pytest

from scheduler.models import Account, AccountKey, AuditEntry
from scheduler.people import account_keys, accounts
from tests.conftest import NOON
from tests.rows import an_account

pytestmark = pytest.mark.django_db

EMAIL, DAY = "ada@example.org", timedelta(days=1)


@pytest.fixture
def ada() -> Account:
    digest = accounts.password_digest(email=EMAIL, password="correct horse")
    return accounts.create_account(email=EMAIL, passwd_hash=digest, name="Ada", now=NOON).account


def test_created_key_is_returned_with_its_row_and_recorded(ada):
    row, text = account_keys.create_key(account=ada, name="  lab ", now=NOON)
    assert (row.name, row.kind, row.is_current) == ("lab", AccountKey.Kind.STRONG, False)
    assert account_keys.find_account_by_key(text).key == row
    entry = AuditEntry.objects.get(event="key_created")
    assert (entry.subject, entry.details) == (EMAIL, {"kind": "strong", "name": "lab"})
    assert text not in str(vars(entry))


@pytest.mark.parametrize("name", ["", "   ", "x" * 101, "two\nlines", "a\0b", "\x1b[31m"])
def test_invalid_name_of_a_key_is_refused(ada, name):
    row, _text = account_keys.create_key(account=ada, name="lab", now=NOON)
    with pytest.raises(account_keys.BadName, match="is not a name of a key"):
        account_keys.create_key(account=ada, name=name, now=NOON)
    with pytest.raises(account_keys.BadName):
        account_keys.rename_key(account=ada, key_id=row.pk, name=name, now=NOON)
    row.refresh_from_db()
    assert row.name == "lab"


def test_number_of_keys_of_an_account_is_limited(ada, monkeypatch):
    monkeypatch.setattr(account_keys, "MAX_KEYS", 3)
    row, _text = account_keys.create_key(account=ada, name="third", now=NOON)
    with pytest.raises(account_keys.KeyRefused, match="has 3 keys, which is the limit"):
        account_keys.create_key(account=ada, name="fourth", now=NOON)
    account_keys.create_key(account=an_account("bob"), name="of another account", now=NOON)
    # A current key is replaced, also at the limit.
    strong = account_keys.current_key(ada, AccountKey.Kind.STRONG)
    assert account_keys.revoke_key(account=ada, key_id=strong.pk, now=NOON)
    account_keys.revoke_key(account=ada, key_id=row.pk, now=NOON)
    account_keys.create_key(account=ada, name="fourth", now=NOON)


def test_key_is_renamed_once_and_the_change_is_recorded(ada):
    row, text = account_keys.create_key(account=ada, name="lab", now=NOON)
    for _ in range(2):
        renamed = account_keys.rename_key(account=ada, key_id=row.pk, name="school ", now=NOON)
        assert renamed.name == "school"
    [entry] = AuditEntry.objects.filter(event="account_changed")
    assert entry.details == {"key": row.pk, "name": {"from": "lab", "to": "school"}}
    assert account_keys.find_account_by_key(text).key.name == "school"


def test_revoked_key_and_key_of_another_account_cannot_be_renamed_or_found(ada):
    row, _text = account_keys.create_key(account=ada, name="lab", now=NOON)
    bob = an_account("bob")
    with pytest.raises(account_keys.UnknownKey):
        account_keys.rename_key(account=bob, key_id=row.pk, name="mine", now=NOON)
    assert account_keys.find_live(ada, row.pk) == row
    account_keys.revoke_key(account=ada, key_id=row.pk, now=NOON)
    for call in (
        lambda: account_keys.rename_key(account=ada, key_id=row.pk, name="again", now=NOON),
        lambda: account_keys.find_live(ada, row.pk),
        lambda: account_keys.find_live(ada, 2**70),
    ):
        with pytest.raises(account_keys.UnknownKey):
            call()
    row.refresh_from_db()
    assert row.name == "lab"


def test_last_day_of_use_of_a_submission_key_is_stored_once_a_day(ada, django_assert_num_queries):
    kind = AccountKey.Kind.SUBMISSION
    row, _text = account_keys.create_key(account=ada, name="cluster", kind=kind, now=NOON)
    assert row.last_used_on is None
    for day in (0, 1):
        now = NOON + day * DAY
        account_keys.record_use(ada, row, now=now)
        row.refresh_from_db()
        assert row.last_used_on == now.date()
    with django_assert_num_queries(0):
        account_keys.record_use(ada, row, now=NOON + DAY)
