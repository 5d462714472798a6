"""A project gets another address; unmodified BOINC clients lose no work."""

from __future__ import annotations

import json
import re
import urllib.request

import pytest

from scheduler.lifecycle import Axis, ResultState
from tests.story.project import exponents
from tests.story.test_stock_backup import answers, follow, retry_uploads

pytestmark = [pytest.mark.stock_client, pytest.mark.early]

GROUPS = [[3, 5], [7, 11], [13, 17], [19, 23], [29, 31], [37, 41]]
LATER = [[43, 47], [53, 59]]


def test_a_client_of_the_old_address_goes_on_and_is_told_the_new_one(our_project, stock_client):
    project = our_project
    # libcurl knows that names below localhost lead to this machine; clients refuse localhost itself.
    old, new = project.url, f"http://new.localhost:{project.port}/"
    alice = stock_client(project, "alice")
    key = alice.attach()
    project.submit(exponents(GROUPS), seconds=0.8, fpops=1e10)
    follow(project, alice, lambda: answers(project) >= 1)
    [host] = project.sql("SELECT id FROM host")

    rename = json.loads(project.manage("project", "rename-url", new, "--yes", "--json"))
    assert (rename["old"], rename["new"]) == (old, new)
    assert project.stop() == 0, project.log()
    # MASTER_URL still has the old value, which now stands for the new address.
    project.start()
    page = urllib.request.urlopen(old, timeout=10).read().decode()
    assert f'This project has a new address: <a href="{new}">' in page

    project.submit(exponents(LATER), seconds=0.8, fpops=1e10)

    def is_complete() -> bool:
        # Uploads failed while the server restarted.
        retry_uploads(project, alice)
        return answers(project) == len(GROUPS) + len(LATER)

    follow(project, alice, is_complete)
    assert "This project has a new address" in alice.messages()
    assert new in alice.notices()
    assert f"master URL: {old}" in alice.command("--get_project_status")
    assert project.sql("SELECT id FROM host") == [host], "the client is the same host"
    errors = "SELECT count(*) FROM ledger_entry WHERE axis = %s AND target = %s"
    assert project.count(errors, Axis.RESULT, ResultState.CLIENT_ERROR) == 0
    log = (alice.folder / "client_state.xml").read_text()
    assert re.search(rf"<download_url>{new}download/", log), "files come from the new address"

    # Its user follows the notice: the account is the same.
    alice.command("--project", old, "detach")
    alice.command("--project_attach", new, key)
    project.submit(exponents([[61, 67]]), fpops=1e10)
    project.url = new
    follow(project, alice, lambda: answers(project) == len(GROUPS) + len(LATER) + 1)
    assert f"master URL: {new}" in alice.command("--get_project_status")
    assert project.count("SELECT count(*) FROM account WHERE email = %s", alice.email) == 1
    assert "0 violations" in project.fsck()
    assert project.stop() == 0, project.log()
