"""An unmodified BOINC client computes with a program of its volunteer's own."""

from __future__ import annotations

import shutil

import pytest

from scheduler.lifecycle import AssimilateState, Outcome
from tests.story.project import APP, ROOT
from tests.story.test_stock_replies import ask_until

pytestmark = pytest.mark.stock_client

PROGRAM = ROOT / "demo" / "mersenne.py"
OWN = f"""\
<app_info>
  <app><name>{APP}</name></app>
  <file_info><name>my_mersenne.py</name><executable/></file_info>
  <app_version>
    <app_name>{APP}</app_name>
    <version_num>321</version_num>
    <file_ref><file_name>my_mersenne.py</file_name><main_program/></file_ref>
  </app_version>
</app_info>
"""


def test_anonymous_platform_app_computes_where_the_project_has_no_app_version(
    make_project, stock_client
):
    project = make_project(PURGE_AFTER="3600")
    project.start()
    project.manage("publish_app", APP, "1.00", "windows_x86_64", PROGRAM, "--create-app")
    client = stock_client(project, "alice")
    folder = client.folder / "projects" / f"127.0.0.1_{project.port}"
    folder.mkdir(parents=True)
    (folder / "app_info.xml").write_text(OWN)
    shutil.copy(PROGRAM, folder / "my_mersenne.py")
    (folder / "my_mersenne.py").chmod(0o755)
    client.attach()
    project.submit({"first": "13\n", "second": "17\n"})

    done = "SELECT count(*) FROM workunit WHERE assimilate_state = %s"
    ask_until(
        client,
        lambda: project.count(done, AssimilateState.DONE) == 2,
        what="both workunits are assimilated",
        within=120,
    )

    results = project.sql("SELECT outcome, app_version_id FROM result")
    assert [row["outcome"] for row in results] == [Outcome.SUCCESS] * 2
    [version] = project.sql(
        "SELECT p.name FROM app_version AS v JOIN platform AS p ON p.id = v.platform_id"
        " WHERE v.id = ANY(%s)",
        [row["app_version_id"] for row in results],
    )
    assert version["name"] == "anonymous"
    log = client.messages()
    assert "App version returned from anonymous platform project" not in log
    assert not list(folder.glob("mersenne_*")), "the project's program was downloaded"
    assert "0 violations" in project.fsck()
