"""A volunteer signs up and logs in with another site in a browser."""

from __future__ import annotations

import pytest

from tests.openid_provider import CLIENT, SECRET, serving
from tests.story.browser import opened, submit, violations

pytestmark = [pytest.mark.story, pytest.mark.lengthy, pytest.mark.needs("chromium")]

CONFIGURATION = """
[lab]
name = "The Lab"
server = "{}"
client_id = "{}"
client_secret = "{}"
"""


@pytest.fixture
def provider():
    with serving() as provider:
        provider.claims = {"sub": "1", "name": "Ada", "email": "ada@example.org"}
        provider.claims["email_verified"] = True
        yield provider


@pytest.fixture
def project(make_project, provider, tmp_path):
    file = tmp_path / "providers.toml"
    file.write_text(CONFIGURATION.format(provider.url, CLIENT, SECRET))
    made = make_project(LOGIN_PROVIDERS=str(file))
    made.start()
    return made


def test_volunteer_signs_up_and_logs_in_with_another_site(project):
    with opened(project.url) as page:
        page.goto("/account/login/")
        assert violations(page) == []
        submit(page, "Continue with The Lab")
        page.wait_for_selector("h1:text-is('Create an account')")
        assert violations(page) == []
        submit(page, "Create the account")
        page.wait_for_selector("h1:text-is('Ada')")
        page.goto("/account/log-ins/")
        assert "Connected since" in page.inner_text("main")
        assert violations(page) == []
        page.context.clear_cookies()
        page.goto("/account/login/")
        submit(page, "Continue with The Lab")
        page.wait_for_selector("h1:text-is('Ada')")
