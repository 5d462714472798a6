"""Unused hosts and accounts are deleted, unless there is a reason to keep them."""

from __future__ import annotations

import io
import json
from datetime import timedelta

import pytest
from django.contrib.sessions.models import Session
from django.core.management import call_command

from scheduler.apps import hygiene
from scheduler.apps.hygiene import Rules, Swept
from scheduler.models import (
    Account,
    AccountKey,
    Batch,
    CreditEntry,
    Host,
    HostAppVersion,
    Team,
)
from tests.conftest import NOON
from tests.rows import a_host, a_result, a_workunit, an_account, an_app, an_app_version, update

pytestmark = pytest.mark.django_db

LONG_AGO = NOON - timedelta(days=400)
RULES = Rules()


def a_zombie(**fields) -> Host:
    fields = {"rpc_at": LONG_AGO, "account": an_account(last_login=NOON)} | fields
    return a_host(**fields)


def swept() -> Swept:
    found = hygiene.preview(RULES, now=NOON)
    assert hygiene.sweep(RULES, now=NOON) == found
    return found


def test_a_long_silent_host_without_work_is_deleted_with_its_host_app_versions():
    zombie = a_zombie()
    HostAppVersion.objects.create(host=zombie, app_version=an_app_version(an_app()))
    assert swept() == Swept(1, 0, 0, 0)
    assert not Host.objects.exists()
    assert not HostAppVersion.objects.exists()


def heard_of(host):
    update(host, rpc_at=NOON - timedelta(days=179))


def credited(host):
    update(host, total_credit=1)


def paid(host):
    CreditEntry.objects.create(
        result_id=1, rule="x", account=host.account, host=host, app=an_app(), amount=0,
        granted_at=NOON,
    )  # fmt: skip


def at_work(host):
    a_result(a_workunit(), "sent", host=host)


def named(host):
    a_workunit(target_host=host)


def merged(host):
    a_host(host.account, merged_into=host)


def denied(host):
    update(host, denied=True)


@pytest.mark.parametrize("reason", [heard_of, credited, paid, at_work, named, merged, denied])
def test_a_host_in_use_is_not_deleted(reason):
    zombie = a_zombie()
    reason(zombie)
    assert swept().hosts == 0
    assert Host.objects.filter(pk=zombie.pk).exists()


def test_an_inactive_account_is_deleted_with_its_keys():
    empty = an_account(created_at=LONG_AGO)
    AccountKey.objects.create(account=empty, key_hash="h", sealed=b"s", created_at=LONG_AGO)
    assert swept() == Swept(0, 1, 0, 0)
    assert not AccountKey.objects.exists()


def young(account):
    update(account, created_at=NOON - timedelta(days=364))


def staff(account):
    update(account, is_staff=True)


def seen(account):
    update(account, last_login=LONG_AGO)


def with_a_host(account):
    a_host(account)


def submitter(account):
    Batch.objects.create(name="b", submitter=account, created_at=NOON)


def founder(account):
    Team.objects.create(name="t", founder=account, created_at=NOON)


def member(account):
    update(account, team=Team.objects.create(name="t", created_at=NOON))


@pytest.mark.parametrize("reason", [young, staff, seen, with_a_host, submitter, founder, member])
def test_an_account_in_use_is_not_deleted(reason):
    account = an_account(created_at=LONG_AGO)
    reason(account)
    assert swept().accounts == 0
    assert Account.objects.filter(pk=account.pk).exists()


def test_only_long_revoked_keys_and_expired_sessions_are_deleted():
    account = an_account()
    for name, revoked_at in (("dead", LONG_AGO), ("fresh", NOON), ("good", None)):
        AccountKey.objects.create(
            account=account, name=name, key_hash=name, sealed=b"s", created_at=LONG_AGO,
            is_current=False, revoked_at=revoked_at,
        )  # fmt: skip
    for name, expires in (("old", NOON - timedelta(1)), ("new", NOON + timedelta(1))):
        Session.objects.create(session_key=name, session_data="", expire_date=expires)
    assert swept() == Swept(0, 0, 1, 1)
    assert set(AccountKey.objects.values_list("name", flat=True)) == {"fresh", "good"}
    assert Session.objects.get().session_key == "new"


def test_hygiene_dry_run_prints_counts_and_deletes_nothing():
    a_zombie()
    out = io.StringIO()
    call_command("hygiene", "--dry-run", stdout=out)
    assert out.getvalue().startswith("Would delete 1 zombie host, 0 empty accounts")
    assert Host.objects.count() == 1
    out = io.StringIO()
    call_command("hygiene", "--json", stdout=out)
    assert json.loads(out.getvalue())["hosts"] == 1
    assert not Host.objects.exists()
