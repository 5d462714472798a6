"""A program with BOINC's API library, run by our client for a fake project."""

from __future__ import annotations

import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.api_program import build
from tests.pure.client.fake_project import ACCOUNT_KEY, FakeProject, sign
from volunteer import cli
from volunteer.sandbox import Confinement, Sandbox

pytestmark = pytest.mark.lengthy

if TYPE_CHECKING:
    from collections.abc import Callable

CLIENT = Path(__file__).resolve().parents[3] / "client"
FAST = ("--backoff-scale", "0.002", "--poll", "0")
PREFERENCES = """<project_preferences>
<resource_share>50</resource_share>
<project_specific>
<color>red</color>
</project_specific>
</project_preferences>"""
BUBBLEWRAP_FAULT = Sandbox(Confinement.AUTO).fault


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    return build(tmp_path_factory.mktemp("program")).read_bytes()


class Host:
    """A client in a folder; its process is stopped at the end of the test."""

    def __init__(self, folder: Path, project: FakeProject, confine: str) -> None:
        self.folder, self.project, self.confine = folder, project, confine
        self.log = folder.parent / "log"
        self.process: subprocess.Popen[bytes] | None = None
        words = ["attach", project.url, "--key", ACCOUNT_KEY, "--dir", str(self.folder)]
        assert cli.main(words) == 0

    def command(self, *words: str) -> str:
        done = subprocess.run(
            [sys.executable, str(CLIENT), *words, "--dir", str(self.folder)],
            capture_output=True, text=True, timeout=60, check=False,
        )  # fmt: skip
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    def run(self) -> None:
        words = ("run", "--confine", self.confine, *FAST, "--dir", str(self.folder))
        with self.log.open("ab") as output:
            self.process = subprocess.Popen(
                [sys.executable, str(CLIENT), *words], stdout=output, stderr=output
            )

    def stop(self, number: int = signal.SIGTERM) -> None:
        if self.process is not None:
            self.process.send_signal(number)
            self.process.wait(30)
            self.process = None

    def waits(self, is_so: Callable[[], object], seconds: float = 40.0) -> None:
        until = time.monotonic() + seconds
        while not is_so():
            if time.monotonic() > until:
                stderr = self.slot / "stderr.txt"
                words = stderr.read_text() if stderr.exists() else ""
                pytest.fail(f"It did not happen in time.\n{self.log.read_text()}\n{words}")
            time.sleep(0.05)

    @property
    def slot(self) -> Path:
        return self.folder / "slots" / "0"

    def number(self, name: str) -> int:
        try:
            return int((self.slot / name).read_text())
        except (OSError, ValueError):
            return 0


@pytest.fixture(params=[pytest.param("off", marks=pytest.mark.lengthy), "auto"])
def host(tmp_path: Path, project: FakeProject, request: pytest.FixtureRequest) -> Iterator[Host]:
    if request.param == "auto" and BUBBLEWRAP_FAULT:
        pytest.skip(f"needs Debian's bubblewrap: {BUBBLEWRAP_FAULT}")
    made = Host(tmp_path / "home", project, request.param)
    try:
        yield made
    finally:
        made.stop()


def offer(project: FakeProject, program: bytes, command_line: str, version_extra: str = "") -> None:
    """Let the project offer one result of the program until it is reported."""
    project.downloads["api_1"] = program
    project.extra = f"""
{PREFERENCES}
<app><name>api</name></app>
<file_info><name>api_1</name><url>{project.url}download/api_1</url><executable/>
<nbytes>{len(program)}</nbytes><file_signature>
{sign(program)}
</file_signature></file_info>
<app_version><app_name>api</app_name><version_num>1</version_num>
<platform>x86_64-pc-linux-gnu</platform><flops>1e9</flops><api_version>7.20.5</api_version>
{version_extra}
<file_ref><file_name>api_1</file_name><main_program/></file_ref></app_version>
<file_info><name>w_0_r0</name><url>{project.url}file_upload_handler</url>
<max_nbytes>1000</max_nbytes></file_info>
<file_info><name>w_0_r1</name><url>{project.url}file_upload_handler</url>
<max_nbytes>1000</max_nbytes></file_info>
<workunit><name>w</name><app_name>api</app_name><command_line>{command_line}</command_line>
</workunit>
<result><name>w_0</name><wu_name>w</wu_name><platform>x86_64-pc-linux-gnu</platform>
<version_num>1</version_num><report_deadline>4e9</report_deadline>
<file_ref><file_name>w_0_r0</file_name><open_name>out</open_name></file_ref>
<file_ref><file_name>w_0_r1</file_name><open_name>part</open_name><optional/></file_ref></result>"""

    def withdraw(_path: str, body: bytes) -> None:
        # The reply to the report must not offer the same result again.
        if b"<result>\n<name>w_0<" in body:
            project.extra = ""

    project.fail = withdraw


def processes_in(folder: Path) -> list[int]:
    found = []
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            if (entry / "cwd").readlink().is_relative_to(folder):
                found.append(int(entry.name))
        except OSError:
            continue
    return found


def test_trickles_and_uploads_work_in_both_directions_while_a_program_runs(host, project, program):
    offer(project, program, "5 wait")
    host.run()
    host.waits(lambda: any("<msg_from_host>" in request for request in project.requests))
    request = next(request for request in project.requests if "<msg_from_host>" in request)
    assert re.search(
        r"<msg_from_host>\n<result_name>w_0</result_name>\n<time>\d+</time>\n"
        r"<variety>progress</variety>\n<step>3</step>\n</msg_from_host>",
        request,
    )
    host.waits(lambda: project.uploads.get("w_0_r1") == b"the first part\n")
    assert "w_0" not in project.reported
    project.extra += (
        "<message_ack/>\n<trickle_down>\n<result_name>w_0</result_name>\n<time>77</time>\n"
        "go on now\n</trickle_down>\n"
    )
    host.command("update")
    host.waits(lambda: "w_0" in project.reported)
    lines = project.uploads["w_0_r0"].decode().splitlines()
    assert lines == [
        "steps 5", "standalone 0", "told go on now", "uploaded 0", "client 1", "share 1",
        "specific 1", "prefs 1", "ncpus 1",
    ]  # fmt: skip
    report = project.reported["w_0"]
    assert "<exit_status>0</exit_status>" in report
    assert "w_0_r1" in report
    assert "Can't set up shared mem" not in report
    sent = [body for body in project.upload_requests if b"<name>w_0_r1<" in body]
    assert len(sent) == 1, "what is uploaded is not uploaded again"
    assert project.requests[-1].count("<msg_from_host>") == 0, "acknowledged trickles are gone"


def test_trickle_is_sent_again_until_it_is_acknowledged(host, project, program):
    offer(project, program, "5 wait")
    host.run()
    host.waits(lambda: any("<msg_from_host>" in request for request in project.requests))
    host.stop()
    count = len(project.requests)
    host.run()
    host.waits(lambda: any("<msg_from_host>" in one for one in project.requests[count:]))


def test_program_quits_on_request_and_continues_from_its_checkpoint(host, project, program):
    offer(project, program, "30")
    host.run()
    host.waits(lambda: host.number("steps") >= 15)
    host.stop()
    assert host.number("left_in_order") == 1
    reached = host.number("checkpoint")
    host.run()
    host.waits(lambda: host.number("starts") == 2)
    host.waits(lambda: host.number("checkpoint") > reached)
    assert host.number("checkpoint") < 30
    host.waits(lambda: "w_0" in project.reported)
    assert "<exit_status>0</exit_status>" in project.reported["w_0"]


def test_program_is_suspended_and_resumed_by_the_volunteer(host, project, program):
    # On a busy machine, the command `suspend` may take as long as a dozen steps.
    offer(project, program, "45")
    host.run()
    host.waits(lambda: host.number("steps") >= 12)
    host.command("suspend", project.url)
    host.waits(lambda: "w_0 suspended" in host.log.read_text())
    time.sleep(1.5)
    reached = host.number("steps")
    time.sleep(1.5)
    assert host.number("steps") == reached
    assert "suspended" in host.command("status")
    host.command("resume", project.url)
    host.waits(lambda: host.number("steps") > reached)
    host.waits(lambda: "w_0" in project.reported)
    elapsed = re.search("<final_elapsed_time>([0-9.]+)<", project.reported["w_0"])
    assert float(elapsed[1]) < 30


def test_suspended_program_can_be_stopped(host, project, program):
    offer(project, program, "600")
    host.run()
    host.waits(lambda: host.number("steps") >= 12)
    host.command("suspend", project.url)
    host.waits(lambda: "w_0 suspended" in host.log.read_text())
    time.sleep(1)
    began = time.monotonic()
    host.stop()
    assert time.monotonic() - began < 8
    assert processes_in(host.slot) == []
    assert host.number("left_in_order") == 1


def test_aborted_program_ends_and_is_reported_with_exit_status_202(host, project, program):
    offer(project, program, "600")
    host.run()
    host.waits(lambda: host.number("steps") >= 12)
    project.extra += "<result_abort><name>w_0</name></result_abort>"
    host.command("update")
    host.waits(lambda: "w_0" in project.reported)
    assert "<exit_status>202</exit_status>" in project.reported["w_0"]


def test_programs_end_when_their_client_is_killed(host, project, program):
    offer(project, program, "600")
    host.run()
    host.waits(lambda: host.number("steps") >= 12)
    assert processes_in(host.slot)
    host.stop(signal.SIGKILL)
    host.waits(lambda: not processes_in(host.slot), seconds=5)


def test_program_that_exits_without_finishing_is_restarted(host, project, program):
    offer(project, program, "40")
    host.run()
    host.waits(lambda: host.number("steps") >= 12)
    # BOINC's library exits with status 0 on every quit request, also of other senders.
    memory = host.slot / "boinc_mmap_file"
    with memory.open("r+b") as file:
        file.write(b"\1<quit/>\0")
    host.waits(lambda: host.number("starts") == 2)
    host.waits(lambda: "w_0" in project.reported)
    assert "<exit_status>0</exit_status>" in project.reported["w_0"]


def test_files_are_placed_below_the_file_prefix_of_the_version(host, project, program):
    script = b"#!/bin/sh\nls -p shared > list 2>&1\necho fine > shared/out\n"
    offer(project, script, "", "<file_prefix>shared</file_prefix>")
    host.run()
    host.waits(lambda: "w_0" in project.reported)
    assert project.uploads.get("w_0_r0") == b"fine\n", project.reported["w_0"]


COUNTING = b"""#!/bin/sh
sleep 700 &
n=0
while [ $n -lt 600 ]; do n=$((n + 1)); echo $n > steps; sleep 0.1; done
"""


def test_program_without_the_boinc_library_pauses_and_ends_with_its_client(host, project):
    offer(project, COUNTING, "")
    host.run()
    host.waits(lambda: host.number("steps") >= 5)
    host.command("suspend")
    host.waits(lambda: "w_0 suspended" in host.log.read_text())
    reached = host.number("steps")
    time.sleep(1)
    assert host.number("steps") == reached
    host.command("resume")
    host.waits(lambda: host.number("steps") > reached)
    host.stop(signal.SIGKILL)
    host.waits(lambda: not processes_in(host.slot), seconds=5)
