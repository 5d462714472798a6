"""A project whose processes are killed one by one and started again.

The web server and each daemon are children of the test, because `serve` stops all processes when
one ends, and `daemons` waits longer before each restart.
"""

from __future__ import annotations

import json
import os
import sys
import time
from contextlib import suppress
from pathlib import Path

import psutil
import psycopg

from daemons.management.processes import wait_until
from daemons.registry import DAEMONS
from project.management.commands.serve import start_server
from tests.long import sinks
from tests.long.memory import Watch
from tests.story.celery import CeleryStage
from tests.story.project import LINUX, ROOT, Project

CONDITIONS = ROOT / "tests" / "long" / "conditions"
WORKERS = 2
PAUSE = "0.2"
#: Seconds within which all processes are up, and for which a parent of a killed child may end.
UP_WITHIN = 60.0
EXCUSED_FOR = 20.0
#: Processes that replace the daemons under Celery; Redis and beat do not signal readiness.
CELERY_WORKERS = ("worker1", "worker2")
CELERY = ("redis", *CELERY_WORKERS, "beat")
CELERY_IS_UP_AFTER = 4.0
#: Age of the pool processes of a Celery worker from which it counts as up; seconds.
POOL_IS_UP_AFTER = 1.0
#: App -> its assimilator.
APPS = {"counted": "count", "copied": "copy_files", "appended": "append"}
UNFINISHED = """
SELECT count(*) FROM workunit WHERE assimilate_state <> 2 OR file_delete_state <> 2 OR EXISTS (
    SELECT FROM result WHERE workunit_id = workunit.id AND (server_state <> 5 OR file_delete_state <> 2)
)"""


class Stand(Project):
    """A project of several processes, whose clock runs `rate` times as fast as the real one.

    With `is_far`, the processes reach the database by DATABASE_URL, as on another machine, and
    neither start nor stop it.
    """

    def __init__(
        self, folder: Path, *, rate: float = 1.0, is_far: bool = False, **settings: str
    ) -> None:
        self.clock_file, self.full_disk_file = folder / "clock", folder / "full-disk"
        sink = folder / "sink"
        sink.mkdir(parents=True, exist_ok=True)
        plugins = {
            "count": {"target": "python:tests.long.sinks.count", "transactional": True},
            "append": {
                "target": "python:tests.long.sinks.append",
                "options": {"folder": str(sink)},
                "writes": [str(sink)],
            },
        }
        plugins_file = folder / "plugins.json"
        plugins_file.write_text(json.dumps({"assimilator": plugins}))
        super().__init__(
            folder,
            **{
                "PYTHONPATH": os.pathsep.join(map(str, (CONDITIONS, ROOT, ROOT / "client"))),
                "CLOCK_FILE": str(self.clock_file),
                "FULL_DISK_FILE": str(self.full_disk_file),
                "REQUEST_DELAY": "0",
                "DAILY_QUOTA": "0",
                "OUTAGE_AFTER": "86400",
                "PURGE_AFTER": str(365 * 86400),
                "LOG_FORMAT": "json",
                "PLUGINS": str(plugins_file),
                **settings,
            },
        )
        if is_far:
            where = self.database.conninfo()
            address = f"postgresql://{where['user']}@/{where['dbname']}?host={where['host']}"
            self.environment["DATABASE_URL"] = f"{address}&port={where['port']}"
        self._rate, self._began, self._shown = rate, time.time(), time.time()
        self._set_clock()
        self.started_at: dict[str, float] = {}
        self.names: list[str] = []
        self.may_end_until: dict[str, float] = {}

    # The clock

    def now(self):
        """Return the time of the project's clock, in seconds since 1970."""
        return self._shown + self._rate * (time.time() - self._began)

    def step_clock(self, seconds):
        """Set the clock forward, or back, in all processes at once."""
        self._shown, self._began = self.now() + seconds, time.time()
        self._set_clock()

    def _set_clock(self):
        draft = self.clock_file.with_suffix(".new")
        draft.write_text(f"{self._began!r} {self._shown!r} {self._rate!r}\n")
        draft.replace(self.clock_file)

    # Processes

    def set_up(self, *apps):
        """Create the database, publish `apps` or all, and create the table `sink`."""
        self.database.ensure_running()
        # No test simulates a power failure, and without one fsync only costs time.
        with psycopg.connect(**self.database.superuser_conninfo(), autocommit=True) as superuser:
            superuser.execute("ALTER SYSTEM SET fsync = off")
            superuser.execute("SELECT pg_reload_conf()")
        self.manage("migrate")
        for app in apps or APPS:
            source = ROOT / "demo" / "mersenne.py"
            self.manage("publish_app", app, "1.00", LINUX, source, "--create-app")
            self.sql(
                "UPDATE app SET retry_same_account_after = '0', assimilator = %s,"
                " science_time_limit = '20 s' WHERE name = %s",
                APPS[app],
                app,
            )
        self.sql(sinks.TABLE)

    def run(self, *, by_celery=False):
        """Start all processes; return when all are up."""
        roles = CELERY if by_celery else [daemon.name for daemon in DAEMONS]
        if by_celery:
            self.celery = Celery(self)
        for role in ("server", *roles):
            self.start_role(role)
        self.await_up()

    def await_up(self):
        """Wait until everything that was started is up."""
        for is_so in (lambda: all(map(self.is_up, self.started_at)), self._answers):
            self.wait(is_so, within=UP_WITHIN, what="all processes are up")

    def start_role(self, role):
        """Start one process as `serve` and `daemons` do."""
        self.started_at[role] = time.time()
        with (self.folder / "serve.log").open("ab") as output:
            if role == "server":
                options = {"address": "127.0.0.1", "port": self.port, "workers": WORKERS}
                start_server(self.children, options, self.environment, output)
            elif role in CELERY:
                self.celery.restart(role)
            else:
                words = [sys.executable, ROOT / "manage.py", role, "--pause", PAUSE]
                self.children.start(role, words, environment=self.environment, output=output)

    def revive(self):
        """Restart ended processes; an unexpected end fails, unless `excuse` was called."""
        for role in self.started_at:
            if role not in self.children.started:
                self.start_role(role)
            elif (code := self.children.started[role].poll()) is not None:
                excuse = time.time() < self.may_end_until.get(role, 0.0)
                assert excuse, f"{role} ended by itself, exit status {code}\n{self.log()}"
                self.start_role(role)

    def excuse(self, role):
        """Allow a role to end within `EXCUSED_FOR` seconds, because a child of it was killed.

        Granian ends if one of its workers ends twice within seconds, and a worker of Celery if a
        pool process ends before all have started.  `revive` restarts them.
        """
        self.may_end_until[role] = time.time() + EXCUSED_FOR

    def is_up(self, role):
        """Return whether a process is ready for work since its last start."""
        if role not in self.children.started:
            return False
        if role == "server":
            return len(self.web_workers()) >= WORKERS
        if role in CELERY_WORKERS:
            return bool(self.pool_processes(role))
        if role in CELERY:
            return time.time() - self.started_at[role] > CELERY_IS_UP_AFTER
        with suppress(OSError):
            alive = self.folder / "var" / "run" / f"{role}.alive"
            return alive.stat().st_mtime >= self.started_at[role]
        return False

    def web_workers(self):
        """Return the worker processes of the web server, oldest first."""
        return [
            process
            for process in children_of(self.children.started["server"].pid)
            if _is_worker(process)
        ]

    def pool_processes(self, worker):
        """Return the pool processes of a Celery worker; an empty list before they are up."""
        pool = children_of(self.children.started[worker].pid)
        with suppress(psutil.Error):
            if pool and time.time() - pool[0].create_time() > POOL_IS_UP_AFTER:
                return pool
        return []

    def pids(self):
        """Return (role, process id) of all started processes."""
        return [(role, process.pid) for role, process in list(self.children.started.items())]

    def started_processes(self):
        """Yield the processes with this project's VAR_DIR in their environment."""
        ours = str(self.folder / "var")
        for process in psutil.process_iter():
            with suppress(psutil.Error):
                # PostgreSQL inherits the variable, too, and is stopped in order.
                if process.environ().get("VAR_DIR") == ours and process.name() != "postgres":
                    yield process

    def watch_memory(self):
        return Watch(self.pids)

    def close(self):
        """Kill all processes of the project, including orphans."""
        for process in self.started_processes():
            with suppress(psutil.NoSuchProcess):
                process.kill()
        super().close()

    def end(self):
        """Stop all processes in order; fails if one does not exit with status 0.

        A role that `excuse` allows to end may be ending because of its killed worker, and would
        then exit with another status; so all excuses are first waited for.
        """
        while time.time() < max(self.may_end_until.values(), default=0.0):
            self.revive()
            time.sleep(0.1)
        self.await_up()
        for role in list(self.children.started):
            code = self.children.stop(role, within=60)
            assert code == 0, f"{role} ended with {code}\n{self.log()}"

    # Work

    def submit_all(self, numbers, *, quorum=2, deadline="60d"):
        """Submit workunits; `numbers` maps an app to the number of its workunits."""
        folder = self.folder / "inputs"
        folder.mkdir(exist_ok=True)
        for app, number in numbers.items():
            paths = [folder / f"{app}_{len(self.names) + index}" for index in range(number)]
            for path in paths:
                path.write_text(f"{path.name}\n" * 50)
            words = ["--outputs", "out:100000", "--quorum", quorum, "--fpops", 1e10]
            self.manage("submit_work", app, *paths, *words, "--deadline", deadline)
        self.names = [row["name"] for row in self.sql("SELECT name FROM workunit ORDER BY id")]

    def submit_many(self, app, number):
        """Submit `number` workunits of quorum 1 without inputs, in one call."""
        program = (
            "from django.utils import timezone; from scheduler.work.submission import submit as s;"
            f"one = s.NewWorkunit(outputs=(s.NewOutput(open_name='out'),), rsc_fpops_est=1e10);"
            f"s.submit(app={app!r}, workunits=[one] * {number}, now=timezone.now())"
        )
        self.manage("shell", "-c", program)

    def submit_graph(self, app, levels, *, width=4):
        """Submit levels of `width` workunits of quorum 1, joined by groups; return their number."""
        program = f"""
from django.utils import timezone
from scheduler.work.submission.submit import NewOutput, NewWorkunit, submit
new, after = [], ()
for level in range({levels}):
    names = [f"level{{level}}_{{n}}" for n in range({width})]
    new += [
        NewWorkunit(name=name, after=after, outputs=(NewOutput(open_name="out"),), rsc_fpops_est=1e10)
        for name in names
    ]
    after = (f"level{{level}}",)
    new.append(NewWorkunit(name=after[0], group=True, after=tuple(names)))
submit(app={app!r}, workunits=new, now=timezone.now())
"""
        self.manage("shell", "--no-imports", "-c", program)
        self.names = [row["name"] for row in self.sql("SELECT name FROM workunit ORDER BY id")]
        return levels * width

    def submit_lists(self, app, number, *, limit=2, size=3):
        """Submit `number` task lists, and as many workunits to a queue of a limit.

        Returns the number of workunits.  All have quorum 1, and no list times out.
        """
        program = f"""
from datetime import timedelta
from django.utils import timezone
from scheduler.models import Account
from scheduler.people.accounts import create_account
from scheduler.queues import named_queues
from scheduler.work.submission.facts import NewBatch
from scheduler.work.submission.submit import NewOutput, NewWorkunit, submit
now = timezone.now()
create_account(email="lists@example.org", passwd_hash="0" * 32, name="lists", now=now)
named_queues.create(name="capped", max_in_progress={limit}, now=now)
rules = {{"outputs": (NewOutput(open_name="out"),), "rsc_fpops_est": 1e10}}
members = [
    NewWorkunit(
        name=f"list{{one}}_{{n}}", bundle=f"list{{one}}", expected_duration=timedelta(days=10), **rules
    )
    for one in range({number}) for n in range({size})
]
submit(
    app={app!r}, workunits=members, batch=NewBatch(name="lists"),
    submitter=Account.objects.get(name="lists"), now=now,
)
queued = [NewWorkunit(name=f"queued_{{n}}", queue="capped", **rules) for n in range({number})]
submit(app={app!r}, workunits=queued, now=now)
"""
        self.manage("shell", "--no-imports", "-c", program)
        self.names = [row["name"] for row in self.sql("SELECT name FROM workunit ORDER BY id")]
        return number * (size + 1)

    def unfinished(self):
        """Return the number of workunits that are not assimilated or still have files."""
        return self.count(UNFINISHED)

    def events(self):
        """Return the lines of the log."""
        return (self.folder / "serve.log").read_text(errors="replace").splitlines()


class Celery(CeleryStage):
    """Celery's processes, started with the environment of a stand."""

    def _start(self, name, *words):
        with (self.project.folder / "serve.log").open("ab") as output:
            command = [sys.executable, "-m", "celery", "-A", "project", *words]
            environment = self.project.environment
            self.project.children.start(name, command, environment=environment, output=output)


def children_of(pid):
    """Return the living children of a process, oldest first; empty if the process is gone."""
    with suppress(psutil.Error):
        return sorted(psutil.Process(pid).children(), key=lambda child: child.create_time())
    return []


def _is_worker(process):
    # The parent may also have a resource tracker of `multiprocessing`.
    with suppress(psutil.Error):
        return "resource_tracker" not in " ".join(process.cmdline())
    return False


def gone(process, *, within=30.0):
    """Wait until a killed process is gone or a zombie; return False after the time."""

    def is_gone():
        with suppress(psutil.Error):
            return not process.is_running() or process.status() == psutil.STATUS_ZOMBIE
        return True

    return wait_until(is_gone, within=within, look_again=0.01)
