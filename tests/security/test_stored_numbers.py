"""A migration clamps stored numbers to their ranges."""

from __future__ import annotations

from importlib import import_module

import pytest
from django.apps import apps
from django.db import connection

from scheduler.models import Account, Host, Result
from tests.rows import a_host, a_result, a_workunit

pytestmark = pytest.mark.django_db

migration = import_module("scheduler.migrations.0006_clamp_numbers")


class Editor:
    connection = connection


def test_stored_numbers_are_clamped_and_a_second_run_writes_nothing(monkeypatch):
    monkeypatch.setattr(migration, "BATCH", 2)
    good = a_host(p_fpops=2e9)
    bad = [a_host(p_fpops=1e200, p_ncpus=2**31 - 1, m_nbytes=float("inf")) for _ in range(5)]
    slow = a_host(p_fpops=5e-324, d_free=-1e308, on_frac=float("nan"))
    result = a_result(a_workunit())
    Result.objects.filter(pk=result.pk).update(peak_disk_bytes=1e308, cpu_time=1e308)
    Account.objects.update(global_prefs_mod_time=1e308)
    before = Host.objects.filter(pk=good.pk).values().get()

    migration.clamp_all(apps, Editor)

    assert Host.objects.filter(pk=good.pk).values().get() == before
    for host in Host.objects.filter(pk__in=[one.pk for one in bad]):
        assert (host.p_fpops, host.p_ncpus, host.m_nbytes) == (1e14, 65_536, 1e18)
    slow.refresh_from_db()
    assert (slow.p_fpops, slow.d_free, slow.on_frac) == (1e6, 0, 1)
    result.refresh_from_db()
    assert (result.peak_disk_bytes, result.cpu_time) == (1e18, 1e10)
    assert set(Account.objects.values_list("global_prefs_mod_time", flat=True)) == {2.0**33}
    for table, columns in migration.RANGES.items():
        assert migration.clamp(connection, table, columns) == 0
