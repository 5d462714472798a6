"""Projects and volunteers for stories, always stopped at their end."""

from __future__ import annotations

from contextlib import ExitStack

import pytest

from tests.story.project import Project
from tests.story.volunteers import OurClient, StockClient


@pytest.fixture
def stage():
    """Everything that a story has started; closed in the opposite order."""
    with ExitStack() as stack:
        yield stack


@pytest.fixture
def make_project(stage, tmp_path):
    """Build a project with its own settings; not started yet."""

    def make(**settings: str) -> Project:
        made = Project(tmp_path / "project", **settings)
        stage.callback(made.close)
        return made

    return make


@pytest.fixture(scope="module")
def shared_project(tmp_path_factory):
    """A project that serves all stories of a module; each has apps and clients of its own."""
    made = Project(
        tmp_path_factory.mktemp("shared") / "project", PURGE_AFTER="3600", COMMAND_APPS="true"
    )
    try:
        made.start()
        yield made
    finally:
        made.close()


@pytest.fixture
def our_project(make_project) -> Project:
    """A project that serves, with the app mersenne published."""
    project = make_project()
    project.start()
    project.publish()
    return project


@pytest.fixture
def stock_client(stage):
    """Start an unmodified BOINC client for a project."""

    def start(project: Project, name: str) -> StockClient:
        client = StockClient(project, name)
        stage.callback(client.close)
        client.start()
        return client

    return start


@pytest.fixture
def our_client(stage):
    """Make a client of ours for a project; attached, not yet running."""

    def make(project: Project, name: str, *, falsifies: bool = False) -> OurClient:
        client = OurClient(project, name, falsifies=falsifies)
        stage.callback(client.close)
        client.attach()
        return client

    return make
