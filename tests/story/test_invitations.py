"""Our client creates an account in a project that requires invitations."""

from __future__ import annotations

import json

import pytest

from tests.story.volunteers import PASSWORD, OurClient

pytestmark = pytest.mark.story


def attach(project, name, *words):
    client = OurClient(project, name)
    who = ["--create", "--name", name, "--email", f"{name}@example.org", "--password", PASSWORD]
    return client.command("attach", project.url, *who, *words)


def test_invitation_for_one_use_creates_one_account(make_project):
    project = make_project(ACCOUNT_CREATION="invitation")
    project.start()
    made = project.manage("invitation", "make", "--uses", "1", "--name", "class", "--json")
    code = json.loads(made)["code"]

    with pytest.raises(AssertionError, match=r"invitation code is missing.*--invitation CODE"):
        attach(project, "ada")
    with pytest.raises(AssertionError, match="invitation code is unknown"):
        attach(project, "bob", "--invitation", "guessed")
    assert "attached to" in attach(project, "eve", "--invitation", code)
    with pytest.raises(AssertionError, match="used up"):
        attach(project, "mallory", "--invitation", code)
    assert project.count("SELECT count(*) FROM account WHERE name = 'eve'") == 1
    assert (
        project.count("SELECT count(*) FROM account WHERE name IN ('ada', 'bob', 'mallory')") == 0
    )
