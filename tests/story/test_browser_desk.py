"""An operator logs in, publishes an app, and watches, cancels and retries work."""

from __future__ import annotations

import pytest

from tests.story.browser import code_of, opened, submit
from tests.story.project import ROOT
from tests.story.volunteers import PASSWORD

pytestmark = [pytest.mark.story, pytest.mark.lengthy, pytest.mark.needs("chromium")]

EMAIL = "chief@example.org"
KEEP = "#!/bin/sh\n{}\n"
STEPS = "/admin/scheduler/{}/".format
FLOW = "#flow li:has-text('{}') b".format


@pytest.fixture
def assimilator(tmp_path):
    """The program of an assimilator, which fails until it is rewritten."""
    path = tmp_path / "project" / "var" / "science" / "keep"
    path.parent.mkdir(parents=True)
    path.write_text(KEEP.format("echo 'no space for the answer' >&2; exit 1"))
    path.chmod(0o755)
    return path


@pytest.fixture
def project(make_project, assimilator, tmp_path):
    plugins = tmp_path / "plugins.toml"
    plugins.write_text('[assimilator.keep]\ntarget = "script:keep"\n')
    made = make_project(STAFF_SECOND_FACTOR="true", PLUGINS=str(plugins), PURGE_AFTER="3600")
    made.start()
    made.manage("create_account", EMAIL, "--password", PASSWORD, "--staff")
    return made


def log_in(page) -> None:
    """Log in to the administration, with a new authenticator app."""
    page.goto("/admin/")
    submit(page, "Log in", login=EMAIL, password=PASSWORD)
    submit(page, "Use this app", code=code_of(page.inner_text("code.secret")))
    page.goto("/admin/")


def desk_shows(project, page, station: str, count: int) -> None:
    """Wait until the desk shows a number of workunits at a station; its figures are cached."""

    def is_shown() -> bool:
        page.goto("/admin/")
        return page.inner_text(FLOW(station)) == str(count)

    project.wait(is_shown, within=60, what=f"{count} {station} on the desk")


def act(page, what: str) -> None:
    """Carry out an action on all rows of the list."""
    page.check("#action-toggle")
    page.select_option("select[name=action]", label=what)
    page.click("button[name=index]")


def make_app(page) -> None:
    """Create an app with the assimilator `keep`, and publish its program by upload."""
    page.goto(STEPS("app") + "add/")
    page.fill("[name=name]", "mersenne")
    page.fill("[name=user_friendly_name]", "Mersenne primes")
    page.fill("[name=assimilator]", "keep")
    page.fill("[name=max_science_failures]", "1")
    page.click("[name=_save]")
    page.goto(STEPS("appversion") + "add/")
    page.select_option("[name=app]", label="mersenne")
    page.fill("[name=version]", "1.00")
    page.select_option("[name=platforms]", "x86_64-pc-linux-gnu")
    page.set_input_files("[name=program]", ROOT / "demo" / "mersenne.py")
    page.click("[value='Show what will be published']")
    assert page.inner_text("#content h1") == "Really publish mersenne 1.00?"
    assert "the first version for this platform" in page.inner_text(".confirm")
    page.click("text='Yes, publish mersenne 1.00'")
    assert "is published" in page.inner_text(".messagelist")


def preview_cancellation(page, name: str) -> None:
    """Select one workunit of the list, and ask for its cancellation."""
    page.check(f"tr:has-text('{name}') input[name=_selected_action]")
    page.select_option("select[name=action]", label="Cancel the selected workunits")
    page.click("button[name=index]")
    assert page.inner_text("#content h1") == "Really cancel?"
    assert page.inner_text(".confirm ul") == name
    assert page.inner_text(".counts div:has-text('unsent results') dd") == "1"


def test_operator_publishes_watches_cancels_with_a_preview_and_retries(
    project, assimilator, our_client
):
    with opened(project.url) as page:
        log_in(page)
        make_app(page)
        names = project.submit({"a": "31\n", "b": "61\n", "c": "89\n"}, batch="primes")
        desk_shows(project, page, "in progress", 3)
        page.click(FLOW("in progress"))
        preview_cancellation(page, names[0])
        cancelled = "SELECT cancel_reason FROM workunit WHERE cancel_reason <> ''"
        assert project.sql(cancelled) == []
        page.click("text='Yes, cancel them'")
        assert "1 are being cancelled" in page.inner_text(".messagelist")
        [row] = project.sql(cancelled)
        assert row["cancel_reason"] == "cancelled in the administration by chief"
        left = "SELECT count(*) FROM workunit WHERE error_mask = 0"
        project.wait(lambda: project.count(left) == 2, within=60, what="cancelled")

        our_client(project, "ada").command("run", "--until-idle")
        parked = "SELECT count(*) FROM science_failure WHERE parked_at IS NOT NULL"
        project.wait(lambda: project.count(parked) == 3, within=60, what="parked answers")
        desk_shows(project, page, "waiting for assimilation", 3)
        assert page.inner_text("#parked tbody td") == "3"
        assimilator.write_text(KEEP.format("exit 0"))
        page.click("#parked tbody a")
        assert page.inner_text("td.field-reason >> nth=0") == "no space for the answer"
        act(page, "Try the selected subjects again")
        assert page.inner_text(".counts div:has-text('of these parked') dd") == "3"
        assert project.count(parked) == 3
        page.click("text='Yes, try them again'")
        assert "3 will be tried again" in page.inner_text(".messagelist")
        done = "SELECT count(*) FROM workunit WHERE finished_at IS NOT NULL"
        project.wait(lambda: project.count(done) == 3, within=60, what="finished")
        desk_shows(project, page, "finished", 3)
        assert "Nothing is parked" in page.inner_text("#parked")
    assert "0 violations" in project.fsck()
