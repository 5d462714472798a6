"""The page of unsent results and active hosts by class of computers."""

from __future__ import annotations

import re
from datetime import timedelta

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.urls import reverse
from django.utils import timezone

from daemons import housekeeper
from scheduler import storage
from scheduler.dispatch import host_classes
from scheduler.models import App, Workunit
from tests.database.passes import a_pass
from tests.faces.admin.test_credit_grants import staff_with
from tests.faces.admin.test_rollout_pages import cells
from tests.rows import a_host, a_result, a_workunit, an_app

pytestmark = pytest.mark.django_db

PAGE = "/admin/host-classes/"
INTEL = {"os_name": "Linux", "p_vendor": "GenuineIntel", "p_model": "Intel(R) Core(TM) i7"}
ARM = {"os_name": "Linux", "p_vendor": "ARM", "p_model": "ARMv8"}
#: The fine classes of `INTEL` and `ARM`.
CORE, ARM_CLASS = 277, 278


@pytest.fixture(autouse=True)
def no_counts():
    host_classes.forget()
    yield
    host_classes.forget()


@pytest.fixture
def operator() -> Client:
    return staff_with("operator")[1]


@pytest.fixture
def app() -> App:
    return an_app("sums", hr_type=1)


def unsent(app: App, hr_class: int = 0, *, count: int = 1, results: int = 1) -> list[Workunit]:
    made = [a_workunit(app, hr_class=hr_class) for _ in range(count)]
    for workunit in made:
        for _ in range(results):
            a_result(workunit)
    return made


def read(client: Client, query: str = "") -> str:
    answer = client.get(PAGE + query)
    assert answer.status_code == 200
    return answer.content.decode()


def count_hosts() -> None:
    host_classes.store(now=timezone.now())


def test_unsent_results_are_counted_by_app_and_class_with_active_hosts(operator, app):
    now = timezone.now()
    for fields in (INTEL, INTEL, ARM, {"os_name": "Plan 9"}):
        a_host(rpc_at=now, **fields)
    a_host(rpc_at=now, denied=True, **INTEL)
    a_host(rpc_at=now - timedelta(days=31), **INTEL)
    count_hosts()
    unsent(app, CORE, count=2, results=2)
    unsent(app, 395)
    unsent(app, 0, count=3)
    unsent(an_app("no classes"), count=5)
    text = read(operator)
    assert cells(text, "Linux, Intel Core") == ["2", "4", "2"]
    assert cells(text, "any class") == ["3", "3", "3"]
    unserved = '<span class="lamp lamp-bad">no host</span>'
    assert cells(text, "Windows, Intel Xeon") == [unserved, "1", "1"]
    assert "no classes" not in text
    assert "Read: the first 10,000 unsent results of each" in text
    assert not re.search(r"<style|style=|onclick", text)


def test_class_leads_to_its_workunits_and_to_the_list_with_actions(operator, app):
    bound = unsent(app, CORE, count=2)
    unsent(app, ARM_CLASS)
    [link] = re.findall(r'href="(\?app=[^"#]*class=277)#', read(operator))
    text = read(operator, link.replace("&amp;", "&"))
    for workunit in bound:
        assert reverse("admin:scheduler_workunit_change", args=[workunit.pk]) in text
    [url] = re.findall(r'href="([^"]*id__in[^"]*)"', text)
    listed = operator.get(url.replace("&amp;", "&")).context["cl"].result_list
    assert set(listed) == set(bound)


def test_hosts_are_unknown_before_the_housekeeper_counted_them(operator, app):
    unsent(app, CORE)
    text = read(operator)
    assert cells(text, "Linux, Intel Core") == ["unknown", "1", "1"]
    assert "The hosts are not counted yet" in text


def test_housekeeper_counts_hosts_once_an_hour_while_an_app_has_classes(app):
    now = timezone.now()
    a_host(rpc_at=now, **INTEL)
    a_pass(housekeeper, now=now)
    assert host_classes.hosts(now=now).of_class(1, CORE) == 1
    a_host(rpc_at=now, **INTEL)
    a_pass(housekeeper, now=now + timedelta(minutes=59))
    assert host_classes.hosts(now=now).of_class(1, CORE) == 1
    a_pass(housekeeper, now=now + timedelta(hours=1))
    counts = host_classes.hosts(now=now + timedelta(hours=1))
    assert counts.of_class(1, CORE) == counts.of_class(2, 258) == 2
    App.objects.update(hr_type=0)
    a_pass(housekeeper, now=now + timedelta(hours=2))
    assert host_classes.hosts(now=now + timedelta(hours=2)) is None


def test_old_or_unreadable_counts_are_not_shown(app):
    now = timezone.now()
    host_classes.store(now=now)
    assert host_classes.hosts(now=now + host_classes.MAX_AGE) is not None
    assert host_classes.hosts(now=now + host_classes.MAX_AGE + timedelta(seconds=1)) is None
    for content in ({}, {"read_at": "x"}, {"read_at": now.isoformat(), "by_type": 3}):
        storage.put_notice("run/host_classes", content)
        assert host_classes.hosts(now=now) is None


def test_read_of_unsent_results_is_limited_and_the_page_names_the_apps(operator, app, monkeypatch):
    monkeypatch.setattr(host_classes, "MAX_READ", 4)
    an_app("other", hr_type=2)
    unsent(app, CORE, count=3)
    text = read(operator)
    assert "Read: the first 2 unsent results of each" in text
    assert "More unsent results than that have: sums." in text
    assert cells(text, "Linux, Intel Core")[1:] == ["2", "2"]
    monkeypatch.setattr(host_classes, "MAX_WORKUNITS", 1)
    assert len(host_classes.workunits(app.pk, CORE)) == 1


def test_page_without_classes_or_results_states_it(operator):
    assert "No app has classes of computers." in read(operator)
    an_app(hr_type=1)
    assert "These apps have no unsent results." in read(operator)


def test_page_takes_the_same_statements_for_many_classes(operator, app):
    def statements() -> int:
        with CaptureQueriesContext(connection) as captured:
            read(operator, f"?app={app.pk}&class={CORE}")
        return len(captured)

    unsent(app, CORE)
    few = statements()
    for hr_class in range(270, 290):
        unsent(an_app(hr_type=1), hr_class)
        unsent(app, hr_class)
    assert statements() == few


@pytest.mark.parametrize("query", ["?app=x&class=1", "?app=1&class=-1", "?app=99999&class=1",
                                   "?app=9999999999&class=1", "?app=1&class=1%00"])  # fmt: skip
def test_classes_that_are_no_numbers_and_unknown_apps_get_404(operator, app, query):
    assert operator.get(PAGE + query).status_code == 404


def test_class_without_results_is_empty(operator, app):
    assert "None of the results that were read" in read(operator, f"?app={app.pk}&class=999")


def test_staff_who_may_view_workunits_see_the_page(client):
    assert staff_with("read-only")[1].get(PAGE).status_code == 200
    assert staff_with("moderator")[1].get(PAGE).status_code == 403
    assert client.get(PAGE).status_code == 302
