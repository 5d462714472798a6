"""Fixtures of every test: fixed time, own folders, database guard, no network."""

from __future__ import annotations

import os
import re
import tempfile
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pytest
from hypothesis import HealthCheck
from hypothesis import settings as hypothesis_settings

from tests import template
from tests.machine import needs

# On a busy machine a slow example is no failure.
hypothesis_settings.register_profile(
    "any machine", deadline=None, suppress_health_check=[HealthCheck.too_slow]
)
hypothesis_settings.load_profile("any machine")

#: The moment at which tests happen; nothing reads the clock.
NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)

TEST_DATABASE = re.compile(r"test_manyhands_(\d+)(_gw\d+)?")


@pytest.fixture
def noon() -> datetime:
    return NOON


@pytest.fixture(scope="session")
def keys_of_this_session(tmp_path_factory):
    """One folder of keys a session: making an RSA key pair takes longer than most tests."""
    return tmp_path_factory.mktemp("keys")


@pytest.fixture(autouse=True)
def own_folders(settings, tmp_path, keys_of_this_session):
    """Keep each test's files to itself; the embedded PostgreSQL stays where it is."""
    from scheduler import signing

    settings.VAR_DIR = tmp_path / "var"
    settings.KEYS_DIR = keys_of_this_session
    settings.PASSWORD_HASHERS = ["django.contrib.auth.hashers.MD5PasswordHasher"]
    # Finds static files on request: listing all of them for every client takes 50 ms.
    settings.WHITENOISE_AUTOREFRESH = True
    signing.ensure_keys()


@pytest.fixture
def public_folder():
    """A folder that every user can enter; pytest's own are closed to other users."""
    with tempfile.TemporaryDirectory() as folder:
        Path(folder).chmod(0o755)
        yield Path(folder)


@pytest.fixture
def command_apps(settings):
    """Switch on apps of kind command, as a trusted pool does."""
    settings.PROJECT = replace(settings.PROJECT, command_apps=True)


@pytest.fixture
def targets_allowed(settings, tmp_path):
    """Put every target that an app names on the allow-list; its code can write in `tmp_path`."""
    from tests.plugins import AllowsTargets

    settings.PLUGINS = AllowsTargets(
        folders=(str(tmp_path),),
        transactional=frozenset({"python:tests.database.sinks.write_a_row"}),
    )


@pytest.fixture(autouse=True)
def looks_from_the_head(monkeypatch):
    """Have every pass look for all work, wherever in its queue an earlier test left the mark."""
    from daemons import low_water

    monkeypatch.setattr(low_water, "REST", 0)


@pytest.fixture(autouse=True)
def forgets_what_was_counted():
    """Have every test count for itself: many of them are at the same moment."""
    from scheduler.health import status

    status.forget_own()


# The database


@pytest.fixture(scope="session")
def django_db_modify_db_settings(
    django_db_modify_db_settings_parallel_suffix, django_db_blocker, request
):
    """Name the test database after this session, so that two may run side by side."""
    from django.db import connection

    if connection.embedded:
        connection.embedded.convert()  # an earlier version's, which may still run
    if request.config.getvalue("reuse_db"):
        return
    session = os.environ.get("PYTEST_XDIST_TESTRUNUID", "")
    worker = os.environ.get("PYTEST_XDIST_WORKER", "")
    pid = os.getppid() if session else os.getpid()
    suffix = f"_{worker}" if worker else ""
    connection.settings_dict["TEST"]["NAME"] = f"test_manyhands_{pid}{suffix}"
    with django_db_blocker.unblock():
        connection.settings_dict["TEST"]["TEMPLATE"] = template.find()


@pytest.fixture(scope="session")
def django_db_setup(django_db_setup, django_db_blocker):
    """Have the database itself refuse, in every test, a move that the law does not name."""
    from scheduler.sql import guard

    with django_db_blocker.unblock():
        template.keep()
        drop_databases_of_dead_sessions()
        grant_what_tests_set()
        guard.install()
        forget_durability()


def grant_what_tests_set() -> None:
    """Let tests switch triggers off for bulk loads, and shorten the detection of deadlocks."""
    from django.db import connection

    if server := connection.embedded:
        server.grant_parameters("session_replication_role", "deadlock_timeout")


def forget_durability() -> None:
    """Have no test wait for the disk: what a power cut takes from a test database, nobody misses."""
    from django.db import connection

    with connection.cursor() as cursor:
        cursor.execute(
            f"ALTER DATABASE {connection.settings_dict['NAME']} SET synchronous_commit TO off"
        )
        cursor.execute("SET synchronous_commit TO off")


def drop_databases_of_dead_sessions() -> None:
    """Drop databases that killed test sessions left on our own server."""
    from django.db import connection

    if not connection.settings_dict.get("EMBEDDED"):
        return
    with connection.cursor() as cursor:
        cursor.execute("SELECT datname FROM pg_database WHERE datname LIKE 'test_manyhands_%%'", [])
        for (name,) in cursor.fetchall():
            found = TEST_DATABASE.fullmatch(name)
            if found and not is_alive(int(found[1])):
                with suppress(Exception):  # another session drops it at this moment
                    cursor.execute(f"DROP DATABASE IF EXISTS {name}")


def is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True


# Programs of the machine


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item):
    """Skip a test whose program is not installed; in CI that is a failure."""
    for mark in item.iter_markers("needs"):
        for program in mark.args:
            needs(program)
    if item.get_closest_marker("stock_client"):
        needs("boinc")
