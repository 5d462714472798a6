"""The page of run times of an app."""

from __future__ import annotations

import re

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext

from scheduler.admin.desk import run_times as page
from tests.database.apps.test_newest_runs import a_run
from tests.faces.admin.test_credit_grants import staff_with
from tests.rows import an_app, an_app_version

pytestmark = pytest.mark.django_db

RUN_TIMES = "/admin/run-times/"


@pytest.fixture
def operator() -> Client:
    return staff_with("operator")[1]


@pytest.fixture
def version():
    return an_app_version(an_app("mill"), version_num=102)


def read(client: Client, **query: object) -> str:
    answer = client.get(RUN_TIMES, query)
    assert answer.status_code == 200
    return answer.content.decode()


def cells(text: str, section: str, name: str) -> list[str]:
    """Return the numbers of an app version in a section of the page."""
    own = text[text.index(f'<section class="story" id="{section}"') :]
    [row] = [
        row
        for row in re.findall(r"<tr>.*?</tr>", own[: own.index("</section>")], re.DOTALL)
        if name in row
    ]
    return re.findall(r'<td class="number">(.*?)</td>', row)


def test_quantiles_and_histograms_are_shown_for_each_version_and_for_all(operator, version):
    other = an_app_version(version.app, version_num=103)
    for minutes in range(1, 22):
        a_run(version, seconds=60.0 * minutes)
    a_run(other, seconds=7200.0, cpu_time=0)
    text = read(operator)
    assert "Read: 22 successful results" in text
    assert cells(text, "run-time", "mill 1.02") == [
        *("21", "2 min", "6 min", "11 min", "16 min", "20 min")
    ]
    assert cells(text, "run-time", "all versions")[0] == "22"
    assert cells(text, "cpu-time", "mill 1.03") == ["0 of 1", *"–––––"]
    assert cells(text, "operations", "mill 1.03")[1:] == ["1.4e13"] * 5
    assert text.count('<figure class="chart">') == 3
    assert text.count('<rect class="bar"') > 6
    assert "Run time, all versions: results 22, median 11 min 30 s" in text
    assert "median estimate 5e11" in text
    assert not re.search(r"<style|style=|onclick", text)


def test_chosen_version_has_its_own_histogram_and_advice(operator, version):
    for _ in range(25):
        a_run(version, seconds=1000.0)
    other = an_app_version(version.app, version_num=103)
    for _ in range(30):
        a_run(other, seconds=250.0)
    text = read(operator, app=version.app_id, version=version.pk)
    assert "Estimate and bound: mill 1.02" in text
    assert "The median is 4 times the estimate (rsc_fpops_est) of 5e11." in text
    assert "An estimate of 2e12 would fit." in text
    assert f"Run time, {version}: results 25, median 16 min 40 s" in text
    text = read(operator, app=version.app_id, version=other.pk)
    assert "The estimate fits." in text


def test_first_app_is_the_default_and_others_are_chosen_by_number(operator, version):
    first = an_app("alpha")
    a_run(version)
    text = read(operator)
    assert f'<option value="{first.pk}" selected>alpha</option>' in text
    assert "None of the results that were read is a success of this app" in text
    assert "Read: 1 successful results" in read(operator, app=version.app_id)
    change = operator.get(f"/admin/scheduler/app/{version.app_id}/change/").content.decode()
    assert f"{RUN_TIMES}?app={version.app_id}" in change


@pytest.mark.parametrize("app", ["x", "", "0", "9" * 30, "1\0", "-1", "١"])
def test_unknown_app_gets_404(operator, version, app):
    assert operator.get(RUN_TIMES, {"app": app}).status_code == 404


@pytest.mark.parametrize("number", ["x", "", "0", "9" * 30, "None"])
def test_unknown_version_shows_all_versions(operator, version, number):
    a_run(version)
    text = read(operator, app=version.app_id, version=number)
    assert "Estimate and bound: all versions" in text


def test_project_without_apps_has_a_page(operator):
    assert "There are no apps yet" in read(operator)


def test_app_without_credit_is_read_by_computers(operator, version):
    a_run(version, is_paid=False)
    assert "of at most 500 computers are read" in read(operator)


def test_versions_with_most_results_are_shown(operator, version, monkeypatch):
    monkeypatch.setattr(page, "MAX_VERSIONS", 2)
    for number, count in ((103, 3), (104, 2), (105, 1)):
        each = an_app_version(version.app, version_num=number)
        for _ in range(count):
            a_run(each)
    text = read(operator)
    assert "mill 1.03" in text
    assert "mill 1.05" not in text
    assert "1 further versions have fewer results" in text


def test_statements_do_not_depend_on_the_number_of_results(operator, version):
    counts = []
    for count in (1, 20):
        for _ in range(count):
            a_run(an_app_version(version.app))
        with CaptureQueriesContext(connection) as captured:
            read(operator)
        counts.append(len(captured))
    assert counts[0] == counts[1]


def test_staff_who_may_not_view_app_versions_have_no_such_page(version):
    _, moderator = staff_with("moderator")
    assert moderator.get(RUN_TIMES).status_code == 403
    assert RUN_TIMES not in moderator.get("/admin/").content.decode()
    _, reader = staff_with("read-only")
    assert RUN_TIMES in reader.get("/admin/").content.decode()
