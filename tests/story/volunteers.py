"""Clients for stories: our own, and Debian's unmodified BOINC client."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

from daemons.management.processes import Children, wait_until
from project.ports import free_port
from tests.machine import needs
from tests.story.project import ROOT, Project

PASSWORD = "a long password"

CC_CONFIG = """\
<cc_config>
  <log_flags><sched_op_debug>1</sched_op_debug><work_fetch_debug>0</work_fetch_debug></log_flags>
  <options>
    <no_info_fetch>1</no_info_fetch>
    <dont_contact_ref_site>1</dont_contact_ref_site>
    <skip_cpu_benchmarks>1</skip_cpu_benchmarks>
    <no_gpus>1</no_gpus>
    <no_priority_change>1</no_priority_change>
    <allow_multiple_clients>1</allow_multiple_clients>
    <report_results_immediately>1</report_results_immediately>
    <ncpus>2</ncpus>
  </options>
</cc_config>
"""
PREFERENCES = """\
<global_preferences>
  <run_on_batteries>1</run_on_batteries>
  <run_if_user_active>1</run_if_user_active>
  <suspend_cpu_usage>0</suspend_cpu_usage>
  <max_ncpus_pct>100</max_ncpus_pct>
  <work_buf_min_days>0.002</work_buf_min_days>
  <work_buf_additional_days>0</work_buf_additional_days>
  <disk_min_free_gb>0.1</disk_min_free_gb>
</global_preferences>
"""


class StockClient:
    """An unmodified BOINC client (PROTOCOL 12.1), controlled by boinccmd."""

    def __init__(self, project: Project, name: str) -> None:
        self.project, self.name = project, name
        self.folder = project.folder / "clients" / name
        self.folder.mkdir(parents=True)
        self.port = free_port()
        self.children = Children()
        self.email = f"{name}@example.org"
        (self.folder / "cc_config.xml").write_text(CC_CONFIG)
        (self.folder / "global_prefs_override.xml").write_text(PREFERENCES)

    def start(self) -> None:
        """Start the client; return when boinccmd reaches it."""
        boinc = needs("boinc")
        words = ["--dir", self.folder, "--gui_rpc_port", self.port, "--allow_multiple_clients"]
        with (self.folder / "client.log").open("ab") as output:
            self.children.start("boinc", [boinc, *map(str, words)], output=output)
        assert wait_until(self._answers, within=30, look_again=0.2), self.log()

    def command(self, *words: str) -> str:
        """Run boinccmd on this client; return its output."""
        done = self._boinccmd(*words)
        assert done.returncode == 0, done.stdout + done.stderr + self.log()
        return done.stdout + done.stderr

    def attach(self) -> str:
        """Create an account, look it up, and attach with the printed key; return the key."""
        url = self.project.url
        created = self.command("--create_account", url, self.email, PASSWORD, self.name)
        found = self.command("--lookup_account", url, self.email, PASSWORD)
        [key] = re.findall(r"account key: (\w+)", found)
        assert key in created
        self.attach_with(key)
        return str(key)

    def attach_with(self, key: str) -> None:
        self.command("--project_attach", self.project.url, key)

    def update(self) -> None:
        """Contact the project now, in spite of the client's back-off (traps 18, 19)."""
        self._boinccmd("--project", self.project.url, "update")

    def messages(self) -> str:
        """Return the client's event log."""
        return self.command("--get_messages")

    def notices(self) -> str:
        return self.command("--get_notices")

    def tasks(self) -> str:
        """Return boinccmd's list of the client's results."""
        return self.command("--get_tasks")

    def kill(self) -> None:
        """Kill the client with SIGKILL; its programs keep running."""
        self.children.kill("boinc")

    def stop(self) -> None:
        """Stop the client in order, so that client_state.xml has its complete state.

        The client waits up to 15 s for programs to exit before it writes its state.
        """
        self.children.stop("boinc", within=40)

    def close(self) -> None:
        """Stop the client, and what it left running in its folder."""
        if "boinc" in self.children.started:
            self.children.stop("boinc", within=15)
        end_programs_in(self.folder)

    def log(self) -> str:
        """Return the end of the client's output."""
        path = self.folder / "client.log"
        return path.read_text(errors="replace")[-4000:] if path.exists() else "(no log)"

    def _answers(self) -> bool:
        assert self.children.ended() is None, self.log()
        return self._boinccmd("--client_version").returncode == 0

    def _boinccmd(self, *words: str) -> subprocess.CompletedProcess[str]:
        with suppress(FileNotFoundError):
            password = (self.folder / "gui_rpc_auth.cfg").read_text().strip()
            where = ["--host", f"localhost:{self.port}", "--passwd", password]
            return subprocess.run(
                ["boinccmd", *where, *words],
                cwd=self.folder,
                stdin=subprocess.DEVNULL,
                capture_output=True,
                text=True,
                check=False,
                timeout=60,
            )
        return subprocess.CompletedProcess(words, 1, "", "the client is not ready")


class OurClient:
    """The project's own client."""

    def __init__(self, project: Project, name: str, *, falsifies: bool = False) -> None:
        self.project, self.name = project, name
        self.folder = project.folder / "clients" / name
        self.folder.mkdir(parents=True)
        self.environment = {"VOLUNTEER_FALSIFY": "1"} if falsifies else {}
        self.children = Children()

    def attach(self) -> str:
        """Create an account and attach to it; return the command's output."""
        who = ["--create", "--name", self.name, "--email", f"{self.name}@example.org"]
        return self.command("attach", self.project.url, *who, "--password", PASSWORD)

    def command(self, *words: str) -> str:
        """Run a command of the client to its end; return its output."""
        done = subprocess.run(
            [sys.executable, ROOT / "client", "--dir", self.folder, *words],
            env=os.environ | self.environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
            timeout=90,
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout + done.stderr

    def start(
        self, *, slots: int = 2, buffer: float = 1.0, usage_interval: float | None = None
    ) -> None:
        waits = ["--poll", "0.5", "--backoff-scale", "0.01"]
        if usage_interval is not None:
            waits += ["--usage-interval", str(usage_interval)]
        words = ["run", "--slots", slots, "--buffer", buffer, *waits]
        with (self.folder / "client.log").open("ab") as output:
            command = [sys.executable, ROOT / "client", "--dir", self.folder, *map(str, words)]
            self.children.start("client", command, environment=self.environment, output=output)

    def kill(self) -> None:
        """Kill the client with SIGKILL."""
        self.children.kill("client")

    def stop(self) -> int:
        """Stop the client; return its exit code."""
        return self.children.stop("client", within=15)

    def close(self) -> None:
        """Stop the client, and what it left running in its folder."""
        self.children.stop_all()
        end_programs_in(self.folder)

    def log(self) -> str:
        """Return the end of the client's log."""
        path = self.folder / "client.log"
        return path.read_text(errors="replace")[-4000:] if path.exists() else "(no log)"


def end_programs_in(folder: Path) -> None:
    """Kill the science programs in a client's slots, which survive a killed client."""
    slots = folder / "slots"
    for process in Path("/proc").iterdir():
        if not process.name.isdecimal():
            continue
        with suppress(OSError):
            if (process / "cwd").readlink().is_relative_to(slots):
                os.kill(int(process.name), signal.SIGKILL)
