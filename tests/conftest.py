"""Fixtures for all tests: a fixed time, separate folders and the guard triggers."""

from __future__ import annotations

import gc
import os
import re
import tempfile
from collections import Counter
from collections.abc import Generator
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pytest
from django.test import override_settings
from hypothesis import HealthCheck
from hypothesis import settings as hypothesis_settings

from tests import emptying, template
from tests.machine import needs

# No deadline: on a busy machine a slow example is not a failure.
hypothesis_settings.register_profile(
    "any machine", deadline=None, suppress_health_check=[HealthCheck.too_slow]
)
hypothesis_settings.load_profile("any machine")

#: The current time of tests, passed to the code in place of the clock.
NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)

#: How many folders of each name this process has named for tests.
FOLDERS: Counter[str] = Counter()
TEST_DATABASE = re.compile(r"test_manyhands_(\d+)(_gw\d+)?")


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Exclude the tests from garbage collections, because they exist until the process ends."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.enable()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Start the longest tests first, so that none of them runs alone at the end."""
    items.sort(key=lambda item: item.get_closest_marker("early") is None)


@pytest.fixture
def noon() -> datetime:
    return NOON


@pytest.fixture(scope="session")
def keys_of_this_session(tmp_path_factory):
    """One folder of keys for the whole session, because making an RSA key pair is slow."""
    return tmp_path_factory.mktemp("keys")


@pytest.fixture(scope="session", autouse=True)
def settings_of_all_tests(keys_of_this_session):
    """Change the settings that are the same for all tests, once, because each change takes time."""
    with override_settings(
        KEYS_DIR=keys_of_this_session,
        PASSWORD_HASHERS=["django.contrib.auth.hashers.MD5PasswordHasher"],
        # Static files are found on request: listing them for every client takes 50 ms.
        WHITENOISE_AUTOREFRESH=True,
    ):
        yield


@pytest.fixture
def path_of_folder(request, tmp_path_factory):
    """Return the path of the test's folder, which does not exist until something needs it."""
    name = re.sub(r"\W", "_", request.node.name)[:30]
    folder = tmp_path_factory.getbasetemp() / f"{name}-{FOLDERS[name]}"
    FOLDERS[name] += 1
    return folder


@pytest.fixture
def tmp_path(path_of_folder):
    """Create a folder for a test, as pytest does, but faster.

    Pytest lists the folders of all earlier tests for each new one, which takes milliseconds.
    """
    path_of_folder.mkdir(mode=0o700, exist_ok=True)  # it exists if VAR_DIR does
    return path_of_folder


@pytest.fixture(autouse=True)
def own_folders(settings, path_of_folder):
    """Give each test its own VAR_DIR; all tests share the keys and the embedded PostgreSQL.

    Its folder is not created, because most tests write no file.
    """
    from scheduler import signing

    settings.VAR_DIR = path_of_folder / "var"
    signing.ensure_keys()


@pytest.fixture
def public_folder():
    """A folder that every user can enter; pytest's folders are closed to other users."""
    with tempfile.TemporaryDirectory() as folder:
        Path(folder).chmod(0o755)
        yield Path(folder)


@pytest.fixture
def other():
    """A second connection to the test database, for another transaction."""
    import psycopg
    from django.db import connection

    database = connection.settings_dict
    with psycopg.connect(
        dbname=database["NAME"],
        user=database["USER"],
        host=database["HOST"],
        port=database["PORT"] or None,
        password=database["PASSWORD"] or None,
    ) as second:
        yield second
        second.rollback()


@pytest.fixture
def command_apps(settings):
    """Allow apps of kind `command`, which are not allowed by default."""
    settings.PROJECT = replace(settings.PROJECT, command_apps=True)


@pytest.fixture
def targets_allowed(settings, tmp_path):
    """Allow every plugin target that an app names; the plugin can write in `tmp_path`."""
    from tests.plugins import AllowsTargets

    settings.PLUGINS = AllowsTargets(
        folders=(str(tmp_path),),
        transactional=frozenset({"python:tests.database.sinks.write_a_row"}),
    )


@pytest.fixture(autouse=True)
def looks_from_the_head(monkeypatch):
    """Make every pass read its queue from the head, not from the mark of an earlier test."""
    from daemons import low_water

    monkeypatch.setattr(low_water, "REST", 0)


@pytest.fixture(autouse=True)
def forgets_what_was_counted():
    """Clear the cached counts before each test, because most tests run at the same NOON."""
    from scheduler.health import status

    status.forget_own()


# The database


@pytest.fixture(scope="session")
def django_db_modify_db_settings(
    django_db_modify_db_settings_parallel_suffix, django_db_blocker, request
):
    """Name the test database after this session, so that two sessions can run at once."""
    from django.db import connection

    if connection.embedded:
        connection.embedded.convert()  # data of an earlier version, whose server may still run
    if request.config.getvalue("reuse_db"):
        return
    session = os.environ.get("PYTEST_XDIST_TESTRUNUID", "")
    worker = os.environ.get("PYTEST_XDIST_WORKER", "")
    pid = os.getppid() if session else os.getpid()
    suffix = f"_{worker}" if worker else ""
    connection.settings_dict["TEST"]["NAME"] = f"test_manyhands_{pid}{suffix}"
    with django_db_blocker.unblock():
        connection.settings_dict["TEST"]["TEMPLATE"] = found = template.find_or_make()
        # A copy of the template has every migration.
        connection.settings_dict["TEST"]["MIGRATE"] = found is None


@pytest.fixture(scope="session")
def django_db_setup(django_db_setup, django_db_blocker, request):
    """Install the guard triggers in the test database and prepare it for the session."""
    from scheduler.sql import guard_triggers

    with django_db_blocker.unblock():
        template.keep()
        drop_databases_of_dead_sessions()
        grant_what_tests_set()
        guard_triggers.install()
        forget_durability()
        emptying.prepare()
    yield
    if not request.config.getvalue("reuse_db"):
        with django_db_blocker.unblock():
            drop_own_database()


def drop_own_database() -> None:
    """Drop the test database before Django does.

    Django's `DROP DATABASE ... WITH (FORCE)` fails while autovacuum runs in the database, because
    only a superuser may terminate that.  Without FORCE, PostgreSQL stops autovacuum by itself.
    """
    from django.db import connection

    name = connection.settings_dict["NAME"]
    connection.close()
    with connection._nodb_cursor() as cursor:
        cursor.execute(
            "SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity"
            " WHERE datname = %s AND usename = current_user",
            [name],
        )
        cursor.execute(f"DROP DATABASE IF EXISTS {name}")


def grant_what_tests_set() -> None:
    """Let tests set the parameters that disable triggers and shorten deadlock detection."""
    from django.db import connection

    if server := connection.embedded:
        server.grant_parameters("session_replication_role", "deadlock_timeout")


def forget_durability() -> None:
    """Turn off synchronous commit: test data need not survive a power failure."""
    from django.db import connection

    with connection.cursor() as cursor:
        cursor.execute(
            f"ALTER DATABASE {connection.settings_dict['NAME']} SET synchronous_commit TO off"
        )
        cursor.execute("SET synchronous_commit TO off")


def drop_databases_of_dead_sessions() -> None:
    """Drop test databases that killed sessions left on the embedded server."""
    from django.db import connection

    if not connection.settings_dict.get("EMBEDDED"):
        return
    with connection.cursor() as cursor:
        cursor.execute("SELECT datname FROM pg_database WHERE datname LIKE 'test_manyhands_%%'", [])
        for (name,) in cursor.fetchall():
            found = TEST_DATABASE.fullmatch(name)
            if found and not is_alive(int(found[1])):
                with suppress(Exception):  # another session may drop it at the same time
                    cursor.execute(f"DROP DATABASE IF EXISTS {name}")


def is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True


# Required programs


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item):
    """Skip a test whose program is not installed; fail the test in CI."""
    for mark in item.iter_markers("needs"):
        for program in mark.args:
            needs(program)
    if item.get_closest_marker("stock_client"):
        needs("boinc")
