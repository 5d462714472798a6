"""A project with its own folder, database, port, server and daemons."""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import psycopg
from psycopg.rows import dict_row

from daemons.management.processes import Children, wait_until
from project.embedded_postgres import EmbeddedPostgres
from project.ports import free_port
from scheduler.boinc.wire import messages, replies, requests
from tests import template

ROOT = Path(__file__).resolve().parent.parent.parent
APP = "mersenne"
LINUX = "x86_64-pc-linux-gnu"
READY_WITHIN = 90.0
#: Folders of migrated databases are kept this long.
KEPT_SECONDS = 86_400


def copy_database(var: Path) -> None:
    """Copy a migrated, empty database into a project; faster than a migration (four seconds)."""
    var.mkdir(parents=True, exist_ok=True)
    # -a keeps the owners: if root starts the server, another user owns the files.
    subprocess.run(["cp", "-a", a_database() / "postgres", var / "postgres"], check=True)


def a_database() -> Path:
    """Return a VAR_DIR with a migrated, stopped database, which all test processes share.

    The first process creates it, and the others wait.  It is used again while the sources of
    migrations and of the embedded server are the same.
    """
    prefix = f"manyhands-database-{os.getuid()}-"
    folder = Path(tempfile.gettempdir()) / f"{prefix}{_digest()}"
    folder.mkdir(exist_ok=True)
    assert folder.stat().st_uid == os.getuid(), f"{folder} belongs to another user"
    folder.chmod(0o755)  # if root starts the server, another user enters it
    with (folder / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not (folder / "complete").exists():
            _drop_old(folder.parent.glob(f"{prefix}*"))
            shutil.rmtree(folder / "var", ignore_errors=True)
            _migrate(folder / "var")
            (folder / "complete").touch()
    return folder / "var"


def _digest() -> str:
    total = hashlib.sha256(template.digest().encode())
    for name in ("embedded_postgres.py", "embedded_roles.py"):
        total.update((ROOT / "project" / name).read_bytes())
    return total.hexdigest()[:12]


def _drop_old(folders: Iterable[Path]) -> None:
    for folder in folders:
        if folder.stat().st_mtime < time.time() - KEPT_SECONDS:
            shutil.rmtree(folder, ignore_errors=True)


def _migrate(var: Path) -> None:
    environment = {"VAR_DIR": str(var), "DATABASE_URL": "", "MASTER_URL": "http://127.0.0.1:9/"}
    for words in (["migrate", "--verbosity", "0"], ["embedded_postgres", "stop"]):
        subprocess.run(
            [sys.executable, ROOT / "manage.py", *words],
            env=os.environ | environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            check=True,
            timeout=READY_WITHIN,
        )


class Project:
    """A project; `start` and `stop` can be called repeatedly."""

    def __init__(self, folder: Path, **settings: str) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.folder = folder
        self.port = free_port()
        self.url = f"http://127.0.0.1:{self.port}/"
        self.database = EmbeddedPostgres(folder / "var")
        self.children = Children()
        if not settings.get("DATABASE_URL") and not self.database.data.exists():
            copy_database(folder / "var")
        self.environment = {
            "VAR_DIR": str(folder / "var"),
            "MASTER_URL": self.url,
            "POOL_WAIT_URL": f"http://127.0.0.1:{self.port + 1}/api/v1/pool/wait",
            "DATABASE_URL": "",
            "GUARD_TRIGGER": "true",
            "REQUEST_DELAY": "1",
            "PROJECT_NAME": f"story {self.port}",
            **settings,
        }

    def start(self, *options: str, pause: float | None = 1.0) -> None:
        """Run `serve` with these options; return when the server answers.

        `pause` is the daemons' maximum pause in seconds; None keeps the defaults.
        """
        with (self.folder / "serve.log").open("ab") as output:
            words = ["serve", "--quiet", "--port", str(self.port), *options]
            words += [] if pause is None else ["--pause", str(pause)]
            self.children.start(
                "serve",
                [sys.executable, ROOT / "manage.py", *words],
                environment=self.environment,
                output=output,
            )
        assert wait_until(self._answers, within=READY_WITHIN), self.log()

    def serve_web(self) -> None:
        """Start the web server only, as the child `web`; return when it answers."""
        self.manage("migrate", "--verbosity", "0", "--skip-checks")
        with (self.folder / "serve.log").open("ab") as output:
            words = ["--interface", "wsgi", "--host", "127.0.0.1", "--port", str(self.port)]
            words += ["--http", "1"]
            words += ["--workers", "2", "--blocking-threads", "4", "--log-level", "error"]
            words += ["--respawn-failed-workers", "--no-ws", "project.wsgi:application"]
            self.children.start(
                "web",
                [sys.executable, "-m", "granian", "--working-dir", ROOT, *words],
                environment=self.environment | {"DATABASE_POOL": "4"},
                output=output,
            )
        assert wait_until(self._answers, within=READY_WITHIN), self.log()

    def stop(self) -> int:
        """Stop `serve` as Ctrl-C would; return its exit code."""
        return self.children.stop("serve", within=60)

    def close(self) -> None:
        """Stop all processes and the database, and remove its socket's folder if it is in /tmp."""
        self.children.stop_all()
        self.database.stop()
        if not self.database.sockets.is_relative_to(self.database.var):
            shutil.rmtree(self.database.sockets, ignore_errors=True)

    def log(self) -> str:
        """Return the end of the log of the server and its daemons."""
        path = self.folder / "serve.log"
        return path.read_text(errors="replace")[-6000:] if path.exists() else "(no log)"

    def manage(self, *words: object, may_fail: bool = False) -> str:
        """Run a management command; return stdout and stderr; fail on errors unless `may_fail`."""
        done = subprocess.run(
            [sys.executable, ROOT / "manage.py", *map(str, words)],
            env=os.environ | self.environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
            timeout=READY_WITHIN,
        )
        said = done.stdout + done.stderr
        assert may_fail or done.returncode == 0, said
        return said

    def publish(self) -> None:
        """Publish the app mersenne, with immediate retries."""
        source = ROOT / "demo" / "mersenne.py"
        self.manage("publish_app", APP, "1.00", LINUX, source, "--create-app")
        self.sql("UPDATE app SET retry_same_account_after = '0'")

    def submit(
        self, inputs: Mapping[str, str], *, seconds: float = 0.0, **options: object
    ) -> list[str]:
        """Submit one workunit per input (file name -> content); return the names."""
        folder = self.folder / "inputs"
        folder.mkdir(exist_ok=True)
        paths = []
        for name, content in inputs.items():
            paths.append(folder / name)
            paths[-1].write_text(content)
        words = [APP, *paths, "--json", "--outputs", "out:100000"]
        words += ["--command-line", f"--seconds-per-exponent {seconds:g}"]
        for option, value in options.items():
            words += [f"--{option}", value]
        said = self.manage("submit_work", *words)
        return list(json.loads(said[said.index("{") : said.rindex("}") + 1])["names"])

    def submit_workunits(
        self,
        app: str,
        text: str,
        *,
        files: Mapping[str, str],
        outputs: Sequence[Mapping[str, object]],
        count: int = 1,
        sticky: bool = False,
        **numbers: object,
    ) -> list[str]:
        """Submit `count` equal workunits with the Python API; return their names.

        `text` is the content of the file `in`; `files` maps names of further inputs to contents.
        """
        one = {"app": app, "text": text, "files": files, "outputs": outputs, **numbers}
        [names] = self.submit_kinds([{**one, "count": count, "sticky": sticky}])
        return names

    def submit_kinds(self, kinds: Sequence[Mapping[str, Any]]) -> list[list[str]]:
        """Submit several kinds of workunits in one process; return the names for each kind."""
        plain = [
            {
                **kind,
                "files": {"in": kind["text"] + "\n", **kind.get("files", {})},
                "outputs": [dict(said) for said in kind["outputs"]],
            }
            for kind in kinds
        ]
        code = f"""
from scheduler.work.submission.facts import NewFile, NewOutput, NewWorkunit
from scheduler.work.submission.submit import submit
from django.utils import timezone
def submitted(*, app, text, files, outputs, count=1, sticky=False, **numbers):
    inputs = tuple(
        NewFile(open_name=name, content=text.encode(), sticky=sticky and name != "in")
        for name, text in files.items()
    )
    named = tuple(NewOutput(**({{"open_name": "out"}} | said)) for said in outputs)
    one = NewWorkunit(input_files=inputs, outputs=named, **numbers)
    made = submit(app=app, workunits=[one] * count, now=timezone.now())
    print("submitted", *made.names)
for kind in {plain!r}:
    submitted(**kind)
"""
        path = self.folder / "submission.py"
        path.write_text(code)
        # Functions of the script look up their globals in the namespace given to exec().
        said = self.manage("shell", "--no-imports", "-c", f"exec(open({str(path)!r}).read(), {{}})")
        return [names.split() for names in re.findall(r"^submitted (.+)$", said, re.MULTILINE)]

    def sql(self, query: str, *params: object) -> list[dict[str, Any]]:
        where = self.database.conninfo()
        with psycopg.connect(**where, row_factory=dict_row, autocommit=True) as connection:
            cursor = connection.execute(query, params)
            return cursor.fetchall() if cursor.description is not None else []

    def count(self, query: str, *params: object) -> int:
        """Run a query that returns one number."""
        [row] = self.sql(query, *params)
        return int(next(iter(row.values())))

    def wait(self, is_so: Callable[[], object], *, within: float, what: str) -> None:
        """Wait until a condition holds; fail with the server's log after `within` seconds."""
        assert wait_until(lambda: bool(is_so()), within=within, look_again=0.1), (
            f"{what}: not within {within} s\n{self.log()}"
        )

    def ask(self, message: messages.SchedulerRequest) -> messages.SchedulerReply:
        """Send a scheduler request over HTTP; return the reply."""
        request = urllib.request.Request(
            f"{self.url}cgi/scheduler",
            data=requests.encode_request(message),
            headers={"Content-Type": "application/x-www-form-urlencoded"},
        )
        with urllib.request.urlopen(request, timeout=30) as reply:
            return replies.decode_reply(reply.read())

    def fsck(self) -> str:
        """Run the command fsck; return its output."""
        return self.manage("fsck")

    def _answers(self) -> bool:
        assert self.children.ended() is None, self.log()
        try:
            with urllib.request.urlopen(self.url, timeout=5) as reply:
                return bool(reply.status == 200)
        except (OSError, urllib.error.URLError):
            return False


def exponents(groups: Sequence[Sequence[int]], *, first_line: str = "") -> dict[str, str]:
    """Return input files of the app, one per group; the first begins with `first_line`."""
    found = {f"{group[0]}-{group[-1]}": "".join(f"{p}\n" for p in group) for group in groups}
    if first_line:
        name = next(iter(found))
        found[name] = f"{first_line}\n{found[name]}"
    return found
