"""The project under test: database, server, fuzzing processes and outcomes."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections import Counter
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import psycopg

from tests.fuzz.worker import Plan
from tests.story.project import ROOT, Project

#: Maximum number of characters of logs to show.
_SHOWN = 3000

PROCESSES = 2
#: Shares of the requests in process.  A decoder takes a tenth of a view's time, so most requests
#: are for decoders, and views take most of the time.
IN_PROCESS = {
    "request decoder": 0.38,
    "upload decoder": 0.18,
    "submission decoder": 0.15,
    "template decoder": 0.08,
    "preferences decoder": 0.08,
    "scheduler": 0.03,
    "upload": 0.04,
    "web rpc": 0.02,
    "submit rpc": 0.01,
    "api": 0.015,
    "admin": 0.003,
    "pages": 0.005,
    "downloads": 0.007,
}
OVER_HTTP = {
    "scheduler": 0.3,
    "upload": 0.2,
    "web rpc": 0.1,
    "submit rpc": 0.1,
    "api": 0.15,
    "admin": 0.02,
    "pages": 0.05,
    "downloads": 0.08,
}


class Ground(Project):
    """A project whose processes use `tests.fuzz.settings`."""

    def __init__(self, folder: Path) -> None:
        super().__init__(
            folder,
            DJANGO_SETTINGS_MODULE="tests.fuzz.settings",
            PYTHONPATH=os.pathsep.join(map(str, (ROOT, ROOT / "client"))),
            REQUEST_DELAY="0",
            DAILY_QUOTA="0",
            LOG_FORMAT="json",
        )
        self.world = folder / "world.json"
        self.faults_folder = Path(os.environ.get("FUZZ_FAULTS", folder / "faults"))

    def __enter__(self) -> Self:
        self.database.ensure_running()
        with psycopg.connect(**self.database.superuser_conninfo(), autocommit=True) as superuser:
            superuser.execute("ALTER SYSTEM SET fsync = off")
            superuser.execute("SELECT pg_reload_conf()")
        self.manage("migrate", "--verbosity", "0")
        self._python("tests.fuzz.world", str(self.world))
        return self

    def __exit__(
        self,
        _kind: type[BaseException] | None,
        _error: BaseException | None,
        _where: TracebackType | None,
    ) -> None:
        self.close()

    def fuzz(self, seed: int, count: int, *, over_http: bool) -> Outcomes:
        """Send `count` requests from several processes; return the outcomes."""
        each = -(-count // PROCESSES)
        plans = [
            Plan(
                world=str(self.world),
                folder=str(self.faults_folder),
                seed=seed,
                first=first,
                last=min(first + each, count),
                shares=OVER_HTTP if over_http else IN_PROCESS,
                port=self.port if over_http else 0,
            )
            for first in range(0, count, each)
        ]
        started = [self._start(plan) for plan in plans]
        outcomes = Outcomes()
        for process in started:
            said, _ = process.communicate()
            log = (self.folder / "worker.log").read_text(errors="replace")
            assert process.returncode == 0, log[-_SHOWN:]
            outcomes.add(json.loads(said.splitlines()[-1]))
        return outcomes

    def replay(self, path: Path) -> str:
        """Answer a stored request in a separate process; return the process's output."""
        code = (
            "import sys, django; django.setup()\n"
            "from pathlib import Path\n"
            "from tests.fuzz.raw import RawRequest, answer\n"
            "from tests.fuzz.worker import decoded\n"
            "path = Path(sys.argv[1])\n"
            "request = RawRequest.read(path.read_bytes())\n"
            "kind = path.stem.split('-')[-1].replace('_', ' ')\n"
            "if 'decoder' in kind:\n"
            "    print(*decoded(kind, request.body))\n"
            "else:\n"
            "    reply = answer(request)\n"
            "    print(reply.status, reply.body[:500], 'fault:' + reply.fault if reply.fault else '')\n"
        )
        done = subprocess.run(
            [sys.executable, "-c", code, str(path.resolve())],
            env=os.environ | self.environment,
            cwd=ROOT,
            capture_output=True,
            text=True,
            check=False,
        )
        return done.stdout + done.stderr

    def _python(self, module: str, *words: str) -> None:
        done = subprocess.run(
            [sys.executable, "-m", module, *words],
            env=os.environ | self.environment,
            cwd=ROOT,
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stdout + done.stderr

    def _start(self, plan: Plan) -> subprocess.Popen[str]:
        with (self.folder / "worker.log").open("ab") as log:
            process = subprocess.Popen(
                [sys.executable, "-m", "tests.fuzz.worker"],
                env=os.environ | self.environment | {"LOG_LEVEL": "ERROR"},
                cwd=ROOT,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
            )
        assert process.stdin is not None
        process.stdin.write(json.dumps(asdict(plan)))
        process.stdin.flush()
        process.stdin.close()
        process.stdin = None
        return process


class Outcomes:
    """Counts of requests by kind and outcome, seconds by kind, and faults."""

    def __init__(self) -> None:
        self.counts: Counter[str] = Counter()
        self.seconds: Counter[str] = Counter()
        self.faults: list[str] = []

    def add(self, said: Mapping[str, Any]) -> None:
        self.counts.update(said["counts"])
        self.seconds.update(said["seconds"])
        self.faults += said["faults"]

    @property
    def total(self) -> int:
        return sum(self.counts.values())

    def table(self) -> str:
        """Return a table: counts by kind and status, and milliseconds per request."""
        kinds = sorted({one.partition("|")[0] for one in self.counts})
        lines = []
        for kind in kinds:
            found = {
                key.partition("|")[2]: count
                for key, count in sorted(self.counts.items())
                if key.startswith(f"{kind}|")
            }
            count = sum(found.values())
            parts = "  ".join(f"{status}: {number}" for status, number in found.items())
            lines.append(
                f"{kind:<20} {count:>8} {1000 * self.seconds[kind] / count:>7.2f} ms   {parts}"
            )
        return "\n".join(lines)

    def as_json(self) -> dict[str, Any]:
        by_kind: dict[str, dict[str, int]] = {}
        for key, count in sorted(self.counts.items()):
            kind, _, status = key.partition("|")
            by_kind.setdefault(kind, {})[status] = count
        return {"total": self.total, "counts": by_kind, "faults": self.faults}
