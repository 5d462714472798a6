"""Work and hosts that depend on app versions that are withdrawn or offered again."""

from __future__ import annotations

import pytest

from scheduler.apps import withdrawal
from scheduler.models import AppVersion, AuditEntry, Platform, VersionOutcomes
from tests.conftest import NOON
from tests.database.passes import statements_of
from tests.rows import a_host, a_result, a_workunit, an_app, an_app_version, update

pytestmark = pytest.mark.django_db


def unsent(app, **fields):
    workunit = a_workunit(app, **fields)
    a_result(workunit)
    return workunit


def stranded(*versions):
    return withdrawal.effects(versions, now=NOON).stranded


def test_work_is_stranded_only_without_a_version_that_is_sent():
    app = an_app()
    first, second = an_app_version(app), an_app_version(app)
    unsent(app)
    assert (stranded(first), stranded(second), stranded(first, second)) == (0, 0, 1)
    update(second, rollout_percent=0)
    assert stranded(first) == 1
    update(second, rollout_percent=100, deprecated=True)
    assert stranded(first) == 1
    unsent(an_app())
    assert stranded(first) == 1


def test_workunits_bound_to_a_version_or_its_number_keep_it():
    app = an_app()
    windows = Platform.objects.create(name="windows_x86_64")
    first, second = an_app_version(app, version_num=7), an_app_version(app, version_num=8)
    same_number = an_app_version(app, version_num=7, platform=windows)
    unsent(app, app_version=first)
    unsent(app, app_version_num=7)
    for versions, count in (([first], 2), ([same_number], 1), ([second], 0)):
        effects = withdrawal.effects(versions, now=NOON)
        assert (effects.bound, effects.stranded) == (count, 0)
    assert stranded(first, second, same_number) == 0


def test_several_results_of_a_workunit_count_once_and_a_limit_is_stated(monkeypatch):
    app = an_app()
    version = an_app_version(app)
    workunit = unsent(app)
    a_result(workunit)
    effects = withdrawal.effects([version], now=NOON)
    assert (effects.stranded, effects.are_all_read) == (1, True)
    monkeypatch.setattr(withdrawal, "MAX_READ", 2)
    assert not withdrawal.effects([version], now=NOON).are_all_read


def test_hosts_results_in_progress_and_reports_of_the_versions_are_counted(monkeypatch):
    version, other = an_app_version(an_app()), an_app_version(an_app())
    host = a_host()
    for app_version, holder in (
        (version, host),
        (version, host),
        (version, a_host()),
        (other, host),
    ):
        a_result(a_workunit(app_version.app), "sent", host=holder, app_version=app_version)
    counts = {"hour": NOON, "reported": 5, "errors": 1, "invalid": 0}
    VersionOutcomes.objects.create(app_version=version, **counts)
    VersionOutcomes.objects.create(app_version=other, **counts)
    effects = withdrawal.effects([version], now=NOON)
    assert (effects.results, effects.hosts, effects.held_read, effects.reported) == (3, 2, 4, 5)
    monkeypatch.setattr(withdrawal, "MAX_READ", 1)
    assert withdrawal.effects([version], now=NOON).held_read == 1


def test_successor_is_the_newest_other_version_of_platform_and_class():
    app = an_app()
    windows = Platform.objects.create(name="windows_x86_64")
    old, newer, new = (an_app_version(app, version_num=number) for number in (1, 2, 3))
    alone = an_app_version(app, version_num=9, platform=windows)
    threaded = an_app_version(app, version_num=9, plan_class="mt")
    successors = withdrawal.successors([new, alone, threaded])
    assert successors == {new.pk: newer, alone.pk: None, threaded.pk: None}
    assert withdrawal.successors([newer, new])[new.pk] == old


def test_versions_are_changed_together_with_an_entry_each():
    app = an_app()
    versions = [an_app_version(app) for _ in range(3)]
    update(versions[2], deprecated=True)
    ids = [version.pk for version in versions]
    changed = withdrawal.change_all(ids, deprecated=True, now=NOON)
    assert changed == versions[:2]
    assert not AppVersion.objects.filter(deprecated=False).exists()
    entries = AuditEntry.objects.filter(event="version_changed")
    assert {entry.subject for entry in entries} == {f"app version {v}" for v in versions[:2]}


def test_effects_take_the_same_statements_for_many_versions():
    def statements(count: int) -> int:
        versions = [an_app_version(an_app()) for _ in range(count)]
        for version in versions:
            unsent(version.app)
        return statements_of(lambda: withdrawal.effects(versions, now=NOON))

    assert statements(1) == statements(10) == 4
