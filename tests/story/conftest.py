"""Fixtures of stories: projects and volunteers, which are stopped at the end."""

from __future__ import annotations

from contextlib import ExitStack

import pytest

from tests.story.project import Project
from tests.story.volunteers import OurClient, StockClient


@pytest.fixture
def stage():
    """Return an ExitStack that stops, in reverse order, what a story has started."""
    with ExitStack() as stack:
        yield stack


@pytest.fixture
def make_project(stage, tmp_path):
    """Return a function that creates a project with given settings, without starting it."""

    def make(**settings: str) -> Project:
        made = Project(tmp_path / "project", **settings)
        stage.callback(made.close)
        return made

    return make


@pytest.fixture(scope="module")
def shared_project(tmp_path_factory):
    """Start one project for all stories of a module, which use different apps and clients."""
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
    """Start a project and publish the app mersenne."""
    project = make_project()
    project.start()
    project.publish()
    return project


@pytest.fixture
def stock_client(stage):
    """Return a function that starts an unmodified BOINC client for a project."""

    def start(project: Project, name: str) -> StockClient:
        client = StockClient(project, name)
        stage.callback(client.close)
        client.start()
        return client

    return start


@pytest.fixture
def our_client(stage):
    """Return a function that attaches one of our clients to a project, without starting it."""

    def make(project: Project, name: str, *, falsifies: bool = False) -> OurClient:
        client = OurClient(project, name, falsifies=falsifies)
        stage.callback(client.close)
        client.attach()
        return client

    return make
