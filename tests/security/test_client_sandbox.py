"""A signed program can access only its slot and its project's files."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.pure.client.fake_project import ACCOUNT_KEY, Work
from tests.security.test_client_programs import (
    CLIENT,
    FAST,
    app,
    file_info,
    folder,
    project,
    sign,
    volunteer,
)
from tests.security.test_client_slots import run_program
from volunteer.sandbox import Confinement, Program, Sandbox

pytestmark = pytest.mark.lengthy

__all__ = ["folder", "project"]

fault = Sandbox(Confinement.AUTO).fault
needs_bubblewrap = pytest.mark.skipif(bool(fault), reason=f"needs Debian's bubblewrap: {fault}")


def output(project, folder, script: str) -> str:
    report = run_program(project, folder, f"{{ {script}; }} > out 2>&1", copy=True)
    assert "late_0_r0" in project.uploads, report
    return project.uploads["late_0_r0"].decode()


@needs_bubblewrap
def test_program_cannot_read_account_keys_or_the_home_folder_of_the_user(
    tmp_path, project, folder, monkeypatch
):
    home = tmp_path / "user"
    (home / ".ssh").mkdir(parents=True)
    (home / ".ssh" / "id_rsa").write_text("private")
    monkeypatch.setenv("HOME", str(home))
    said = output(
        project,
        folder,
        f"cat {folder}/state.json; cat {home}/.ssh/id_rsa; ls {folder} {tmp_path}; "
        f"cat /proc/{os.getpid()}/environ; ls /proc/{os.getpid()}/root; echo end",
    )
    assert said.endswith("end\n")
    assert ACCOUNT_KEY not in said
    assert "private" not in said
    assert "state.json:" not in said.replace(f"{folder}/state.json: No such file", "")
    assert "id_rsa\n" not in said


@needs_bubblewrap
def test_program_cannot_write_outside_its_slot_and_project(tmp_path, project, folder):
    goals = [
        tmp_path / "new",
        folder / "new",
        Path("/usr/new"),
        Path("/etc/new"),
        folder / "slots/9",
    ]
    said = output(project, folder, "; ".join(f"echo x > {goal}" for goal in goals) + "; echo end")
    assert said.endswith("end\n")
    assert [goal for goal in goals if goal.exists()] == []


@needs_bubblewrap
def test_program_cannot_change_programs_of_its_project(project, folder):
    project.offers = [Work("first", "upper")]
    volunteer(folder, "run", "--once", *FAST)
    [files] = (folder / "projects").iterdir()
    before = (files / "worker_1").read_bytes()
    project.reported.clear()
    report = run_program(
        project,
        folder,
        "cd ../../projects/*/ && echo bad >> worker_1; rm -f worker_1; mv late_1 x; cd -; "
        r"""r=$(sed 's/<soft_link>\(.*\)<\/soft_link>/\1/' out); echo fine > "$r" """,
        copy=False,
    )
    assert (files / "worker_1").read_bytes() == before
    assert (files / "late_1").read_bytes().startswith(b"#!/bin/sh\n")
    assert project.uploads["late_0_r0"] == b"fine\n", report


@needs_bubblewrap
def test_program_has_no_network_access(project, folder):
    said = output(project, folder, "cat /proc/self/net/dev | tail -n +3; echo end")
    assert [line.split()[0] for line in said.splitlines()] == ["lo:", "end"]


@pytest.mark.parametrize("confine", ["auto", "off"])
def test_process_limits_apply_with_and_without_bubblewrap(project, folder, monkeypatch, confine):
    monkeypatch.setenv("VOLUNTEER_CONFINE", confine)
    said = output(project, folder, "ulimit -c; grep NoNewPrivs /proc/self/status; nice")
    core, privileges, nice = said.splitlines()
    assert (core, nice) == ("0", "19")
    assert privileges.split() == ["NoNewPrivs:", "1" if confine == "auto" else "0"]


def test_file_larger_than_the_disk_bound_is_not_written(project, folder):
    script = "head -c 3000000 /dev/zero > big; stat -c %s big > out"
    bound = "<app_name>late</app_name><rsc_disk_bound>1000000</rsc_disk_bound></workunit>"
    original = project.answer

    def answer(handler, body):
        project.extra = project.extra.replace("<app_name>late</app_name></workunit>", bound)
        original(handler, body)

    project.answer = answer
    run_program(project, folder, script, copy=True)
    assert int(project.uploads.get("late_0_r0", b"0")) <= 1_000_000


@needs_bubblewrap
@pytest.mark.parametrize(
    ("script", "words"),
    [
        ("exit 3", "<exit_status>3</exit_status>"),
        ("exit 195", "<exit_status>195</exit_status>"),
        ("kill -SEGV $$", "process got signal 11"),
    ],
)
def test_exit_status_or_signal_of_a_confined_program_is_reported(project, folder, script, words):
    assert words in run_program(project, folder, script, copy=True)


@needs_bubblewrap
def test_confined_program_gets_a_quit_request_before_it_is_killed(project, folder):
    trap = "trap 'echo saved > checkpoint; exit 0' TERM; while :; do sleep 0.1; done"
    program = f"#!/bin/sh\n{trap}\n".encode()
    words = f"<executable/><file_signature>\n{sign(program)}\n</file_signature>"
    project.extra = file_info(project, "late_1", program, words) + app("late_1", url=project.url)
    running = subprocess.Popen([sys.executable, str(CLIENT), "run", *FAST, "--dir", str(folder)])
    until = time.monotonic() + 30
    while not list(folder.glob("slots/*/stderr.txt")) and time.monotonic() < until:
        time.sleep(0.05)
    time.sleep(1.0)
    running.send_signal(signal.SIGTERM)
    assert running.wait(30) == 0
    assert (folder / "slots" / "0" / "checkpoint").read_text() == "saved\n"


def test_required_confinement_that_is_unavailable_is_a_usage_error(
    tmp_path, project, folder, monkeypatch
):
    tools = tmp_path / "bin"
    tools.mkdir()
    (tools / "bwrap").write_text("#!/bin/sh\necho no namespaces >&2\nexit 1\n")
    (tools / "bwrap").chmod(0o755)
    monkeypatch.setenv("PATH", f"{tools}:{os.environ['PATH']}")
    project.offers = [Work("wu", "upper")]
    ran = volunteer(folder, "run", "--once", "--confine", "require", *FAST)
    assert ran.returncode == 2
    assert "no namespaces" in ran.stderr
    assert "Hint:" in ran.stderr
    assert not project.requests
    ran = volunteer(folder, "run", "--once", *FAST)
    assert "programs can read all your files" in ran.stderr
    assert project.uploads == {"wu_0_r0": b"SOME TEXT\n"}


@needs_bubblewrap
def test_container_launcher_is_not_confined_and_is_refused_if_confinement_is_required(tmp_path):
    """A container engine cannot work under bubblewrap; the container confines its program."""
    program = Program(tmp_path, tmp_path, tmp_path, needs_containers=True)
    assert not Sandbox(Confinement.AUTO).is_wrapped(program)
    with pytest.raises(OSError, match="container engine"):
        Sandbox(Confinement.REQUIRE).is_wrapped(program)


@needs_bubblewrap
def test_interpreter_in_the_home_folder_can_be_run(tmp_path, monkeypatch):
    """env finds the program on the search path below the home, as with pyenv."""
    home = tmp_path / "user"
    (home / "python" / "bin").mkdir(parents=True)
    (home / "secret").write_text("private")
    tool = home / "python" / "bin" / "hello"
    shutil.copy("/bin/echo", tool)
    monkeypatch.setenv("HOME", str(home))
    slot = tmp_path / "slot"
    slot.mkdir()
    sandbox = Sandbox(Confinement.AUTO, environment={"PATH": f"{tool.parent}:/usr/bin:/bin"})
    program = Program(slot, slot, slot)
    reader, writer = os.pipe()
    done = subprocess.run(
        [*sandbox.command(program, writer), "/bin/sh", "-c", f"{tool} hi; cat {home}/secret"],
        capture_output=True, text=True, pass_fds=(writer,), check=False,
    )  # fmt: skip
    os.close(reader)
    os.close(writer)
    assert done.stdout == "hi\n"
