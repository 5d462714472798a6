"""The start of every walk: apps, queues, accounts; restored in milliseconds."""

from __future__ import annotations

import json
import shutil
import tempfile
from datetime import timedelta
from pathlib import Path

from django.conf import settings
from django.db import connection, transaction

from daemons.science import assimilators
from scheduler.apps import app_versions, plan_class_store
from scheduler.models import App
from scheduler.people import accounts
from scheduler.queues import named_queues
from tests.conftest import NOON
from tests.long import counted

LINUX, WINDOWS = "x86_64-pc-linux-gnu", "windows_x86_64"
SECRET = "secret"

#: App -> its rules, as fields of `App`.
APPS = {
    "plain": {
        "credit_rule": "fixed",
        "credit_per_workunit": 10,
        "assimilator": "write_a_row",
    },
    "adaptive": {
        "target_nresults": 2,
        "trusted_after": 2,
        "credit_rule": "runtime",
        "assimilator": "remember",
    },
    "classes": {"hr_type": 1, "one_result_per": "host", "credit_rule": "none"},
    "versions": {
        "homogeneous_app_version": True,
        "credit_rule": "adaptive",
        "credit_window": timedelta(0),
    },
    "patient": {
        "validator": "trivial",
        "one_result_per": "nothing",
        "grace": timedelta(hours=1),
        "credit_window": timedelta(hours=36),
        "delete_delay": timedelta(hours=3),
        "ack_timeout": timedelta(minutes=5),
        "credit_rule": "fixed",
        "credit_per_workunit": 1,
        "assimilator": "write_a_row",
    },
    "science": {
        "validator": "numeric",
        "credit_rule": "fixed",
        "credit_per_workunit": 3,
        "retry_same_account_after": timedelta(hours=1),
    },
    "threads": {
        "one_result_per": "host",
        "credit_rule": "fixed",
        "credit_per_workunit": 2,
        "assimilator": "write_a_row",
    },
    "lists": {
        "has_bundles": True,
        "one_result_per": "nothing",
        "credit_rule": "fixed",
        "credit_per_workunit": 4,
        "assimilator": "write_a_row",
    },
}
#: Queue -> its settings.  They are trusted, so that hosts of the pool may claim their results.
QUEUES = {
    "slots": {"max_in_progress": 2, "trusted": True},
    "hosts": {"max_new_per_host": 1, "order": "fifo", "trusted": True},
}
#: Plan class of a multi-threaded version of `threads` -> the number of CPUs that it uses.
THREADS = {"four": 4, "eight": 8}
#: Accounts that act during a walk, and accounts that finish its work at the end.
WANDERERS = ("ada", "bob", "cleo", "dan")
ANGELS = ("eve", "fay", "gus", "hal")

_BEFORE = ("django_", "auth_", "ledger_entry_")


class Ground:
    """The rows and files at the start of each walk: `lay` creates, `clear` restores them."""

    def __init__(self):
        memory = Path("/dev/shm")
        self._home = Path(tempfile.mkdtemp(dir=memory if memory.is_dir() else None))
        self._template = self._home / "template"
        self.keys = {}
        self._tables = []
        self._refill = ""
        #: A connection whose transaction lasts as long as a walk.
        self._onlooker = None

    def lay(self):
        """Publish the apps, create queues and accounts; store a copy of all rows."""
        settings.VAR_DIR = self._template
        counted.create()
        # Assimilators of plug-ins run in another process; these must count their calls in this one.
        for sink in (counted.remember, counted.write_a_row):
            assimilators.KINDS[sink.__name__] = lambda *_of_app, sink=sink: sink
        _wipe()
        for name, rules in APPS.items():
            for platform in (LINUX, WINDOWS):
                _publish(name, 100, platform)
            App.objects.filter(name=name).update(
                **{"retry_same_account_after": timedelta(0), **rules}
            )
        _publish("versions", 101, LINUX)
        for plan_class, ncpus in THREADS.items():
            spec = json.dumps({"min_ncpus": ncpus, "avg_ncpus": ncpus})
            plan_class_store.write(plan_class, spec, source=plan_class, now=NOON)
            for platform in (LINUX, WINDOWS):
                _publish("threads", 100, platform, plan_class)
        for name, facts in QUEUES.items():
            named_queues.create(name=name, now=NOON, **facts)
        for name in (*WANDERERS, *ANGELS):
            email = f"{name}@example.org"
            made = accounts.create_account(
                email=email,
                passwd_hash=accounts.password_digest(email=email, password=SECRET),
                name=name,
                now=NOON,
            )
            self.keys[name] = made.key
        with connection.cursor() as cursor:
            self._tables = _tables(cursor)
        self._refill = _refilling_statement(self._tables)
        self._let_autovacuum("off")

    def clear(self, *, rebuild=False):
        """Restore every row and file that `lay` made.

        With `rebuild`, new rows get the same positions each time, so that unordered queries return
        rows in the same order: tables are truncated, the connection is new, and the open
        transaction of a second connection prevents that dead rows are removed.
        """
        wiping = [f"DELETE FROM {table}" for table in self._tables]
        if rebuild:
            self._dismiss_onlooker()
            connection.close()
            _drop_ledger_days()
            wiping = [f"TRUNCATE {', '.join(self._tables)}, django_admin_log"]
        with transaction.atomic(), connection.cursor() as cursor:
            cursor.execute("; ".join([*wiping, self._refill]))
        if rebuild:
            self._onlooker = connection.copy()
            with self._onlooker.cursor() as cursor:
                cursor.execute("BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT 1")
        var = self._home / "var"
        shutil.rmtree(var, ignore_errors=True)
        shutil.copytree(self._template, var)
        settings.VAR_DIR = var
        counted.forget()

    def vacuum(self):
        """Vacuum the dead rows of earlier walks, because autovacuum is off."""
        with connection.cursor() as cursor:
            cursor.execute("VACUUM (ANALYZE)")

    def leave(self):
        """Remove the files, and enable autovacuum again."""
        self._dismiss_onlooker()
        self._let_autovacuum("on")
        shutil.rmtree(self._home, ignore_errors=True)
        for sink in (counted.remember, counted.write_a_row):
            assimilators.KINDS.pop(sink.__name__, None)

    def _dismiss_onlooker(self):
        if self._onlooker is not None:
            self._onlooker.close()
            self._onlooker = None

    def _let_autovacuum(self, state):
        """Set autovacuum "on" or "off"; during walks it would change plans at random moments."""
        plain = [table for table in self._tables if table != "ledger_entry"]
        with connection.cursor() as cursor:
            cursor.execute(
                "; ".join(
                    f"ALTER TABLE {table} SET (autovacuum_enabled = {state})" for table in plain
                )
            )


def _publish(app, number, platform, plan_class=""):
    app_versions.publish(
        app=app,
        version_num=number,
        platform=platform,
        plan_class=plan_class,
        files={"run.sh": f"#!/bin/sh\n# {app} {number} {platform} {plan_class}\n".encode()},
        main_program="run.sh",
        executables=["run.sh"],
        create_app=True,
        now=NOON,
    )


def _tables(cursor):
    return sorted(
        info.name
        for info in connection.introspection.get_table_list(cursor)
        if info.type in {"t", "p"} and not info.name.startswith(_BEFORE)
    )


def _wipe():
    """Delete the rows of a database that is reused, and restart its sequences at 1."""
    with transaction.atomic(), connection.cursor() as cursor:
        cursor.execute("; ".join(f"DELETE FROM {table}" for table in _tables(cursor)))
        cursor.execute(
            "SELECT setval(format('%I.%I', schemaname, sequencename)::regclass, 1, FALSE)"
            " FROM pg_sequences WHERE schemaname = 'public' AND sequencename !~ '^(django|auth)_'"
        )


def _drop_ledger_days():
    """Drop all partitions of the ledger but the default one, as before the first purge."""
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT string_agg(inhrelid::regclass::text, ', ') FROM pg_inherits WHERE"
            " inhparent = 'ledger_entry'::regclass"
            " AND inhrelid <> 'ledger_entry_default'::regclass"
        )
        (days,) = cursor.fetchone()
        if days:
            cursor.execute(f"DROP TABLE {days}")


def _refilling_statement(tables):
    """Copy all tables to the schema `ground`; return the statement that copies them back."""
    with connection.cursor() as cursor:
        cursor.execute("DROP SCHEMA IF EXISTS ground CASCADE; CREATE SCHEMA ground")
        filled = []
        for table in tables:
            cursor.execute(f"SELECT EXISTS (SELECT FROM {table})")
            if cursor.fetchone()[0]:
                cursor.execute(f"CREATE TABLE ground.{table} AS TABLE {table}")
                filled.append(table)
        cursor.execute(
            "SELECT format('%I.%I', schemaname, sequencename), coalesce(last_value, 1),"
            " last_value IS NOT NULL FROM pg_sequences WHERE schemaname = 'public'"
        )
        sequences = cursor.fetchall()
    return "; ".join(
        [
            *(f"INSERT INTO {table} SELECT * FROM ground.{table}" for table in filled),
            *(f"SELECT setval('{name}', {last}, {called})" for name, last, called in sequences),
        ]
    )


def is_app_file(path):
    """Return whether a published file belongs to an app version."""
    return path.name.endswith(".sh")
