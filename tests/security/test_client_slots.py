"""Files that a program leaves in its slot cannot make the client harm its user."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from tests.pure.client.fake_project import ACCOUNT_KEY, Work
from tests.security.test_client_programs import (
    FAST,
    app,
    file_info,
    folder,
    project,
    sign,
    volunteer,
)

pytestmark = pytest.mark.lengthy

__all__ = ["folder", "project"]

SECRET = b"-----BEGIN OPENSSH PRIVATE KEY-----\n"


@pytest.fixture
def private(tmp_path: Path) -> Path:
    """A private file of the volunteer, outside the client's folder."""
    path = tmp_path / "id_rsa"
    path.write_bytes(SECRET)
    return path


def run_program(
    project, folder, script: str, *, copy: bool, options: tuple[str, ...] = (), extra: str = ""
) -> str:
    """Run a signed program that executes the script; return its report.

    `extra` is added to the replies of the scheduler until the report.
    """
    program = f"#!/bin/sh\n{script}\n[ -e later ] || echo 0 > boinc_finish_called\n".encode()
    words = (f"<executable/><file_signature>\n{sign(program)}\n</file_signature>",)
    project.extra = file_info(project, "late_1", program, *words) + app("late_1", url=project.url)
    project.extra += extra
    if copy:
        project.extra = project.extra.replace(
            "<open_name>out</open_name>", "<open_name>out</open_name><copy_file/>"
        )
    project.fail = lambda *_: setattr(project, "extra", "") if project.reported else None
    began = time.monotonic()
    volunteer(folder, "run", "--until-idle", *FAST, *options)
    assert time.monotonic() - began < 50
    return project.reported["late_0"]


LINK = r"""r=$(sed 's/<soft_link>\(.*\)<\/soft_link>/\1/' out)"""


@pytest.mark.parametrize("copy", [True, False])
@pytest.mark.parametrize("command", ["ln -s", "ln"])
def test_link_to_a_private_file_is_not_uploaded_as_output(project, folder, private, command, copy):
    script = f"{command} {private} out" if copy else f'{LINK}\n{command} {private} "$r"'
    report = run_program(project, folder, f"rm -f out.x\n{script}", copy=copy)
    assert project.uploads == {}
    assert SECRET.strip() not in report.encode()
    assert "<state>3</state>" in report
    assert "-161 (not found)" in report
    assert private.read_bytes() == SECRET


def test_link_in_place_of_an_output_folder_is_not_followed(project, folder, private):
    """The program opens the output in a folder of its slot."""
    program = f"#!/bin/sh\nln -s {private.parent} data\necho 0 > boinc_finish_called\n".encode()
    words = (f"<executable/><file_signature>\n{sign(program)}\n</file_signature>",)
    described = app("late_1", url=project.url).replace(
        "<open_name>out</open_name>", "<open_name>data/id_rsa</open_name><copy_file/>"
    )
    project.extra = file_info(project, "late_1", program, *words) + described
    project.fail = lambda *_: setattr(project, "extra", "") if project.reported else None
    volunteer(folder, "run", "--until-idle", *FAST)
    assert private.read_bytes() == SECRET
    assert project.uploads == {}


@pytest.mark.parametrize("name", ["boinc_finish_called", "boinc_temporary_exit", "out"])
def test_named_pipe_in_the_slot_does_not_block_the_client(project, folder, name):
    report = run_program(project, folder, f"rm -f {name}; mkfifo {name}; exit 3", copy=True)
    assert "<exit_status>3</exit_status>" in report


@pytest.mark.parametrize("name", ["init_data.xml", "stderr.txt", "stdout.txt"])
def test_second_start_does_not_write_through_a_link(project, folder, private, name):
    script = (
        f"if [ -e later ]; then rm later; echo words; echo words >&2; echo x > out; exit 0; fi\n"
        f"rm -f {name}; ln -s {private} {name}; touch later; echo 0 > boinc_temporary_exit"
    )
    report = run_program(project, folder, script, copy=True)
    assert private.read_bytes() == SECRET
    assert "<exit_status>0</exit_status>" in report
    assert project.uploads["late_0_r0"] == b"x\n"


def test_stderr_that_is_a_link_is_not_reported(project, folder, private):
    script = f"rm -f stderr.txt; ln -s {private} stderr.txt; exit 3"
    report = run_program(project, folder, script, copy=True)
    assert SECRET.decode().strip() not in report


def test_program_is_restored_in_the_slot_before_a_second_start(tmp_path, project, folder):
    """The first run replaces a copied program in its slot."""
    mark = tmp_path / "mark"
    script = (
        "if [ -e later ]; then rm later; ./tool; echo x > out; exit 0; fi\n"
        f"printf '#!/bin/sh\\necho bad > {mark}\\n' > tool\ntouch later\n"
        "echo 0 > boinc_temporary_exit"
    )
    main = f"#!/bin/sh\n{script}\n[ -e later ] || echo 0 > boinc_finish_called\n".encode()
    tool = f"#!/bin/sh\necho good > {mark}\n".encode()

    def signed(name, content):
        words = f"<executable/><file_signature>\n{sign(content)}\n</file_signature>"
        return file_info(project, name, content, words)

    described = app("late_1", url=project.url).replace(
        "<main_program/></file_ref>",
        "<main_program/></file_ref><file_ref><file_name>tool_1</file_name>"
        "<open_name>tool</open_name><copy_file/></file_ref>",
    )
    project.extra = signed("late_1", main) + signed("tool_1", tool) + described
    project.fail = lambda *_: setattr(project, "extra", "") if project.reported else None
    # Unconfined, because the programs create a file outside the slot.
    volunteer(folder, "run", "--until-idle", "--confine", "off", *FAST)
    assert mark.read_text() == "good\n"


def test_control_characters_in_project_messages_are_not_printed(project, folder):
    project.extra = '<message priority="low">\x1b]0;owned\x07\x1b[2Jhello\u202e</message>'
    ran = volunteer(folder, "run", "--once", *FAST)
    status = volunteer(folder, "status")
    assert "hello" in ran.stdout
    assert "hello" in status.stdout
    for sign_ in ("\x1b", "\x07", "\u202e"):
        assert sign_ not in ran.stdout + status.stdout


def test_files_with_the_account_key_are_readable_by_the_owner_only(tmp_path, project):
    home = tmp_path / "open"
    home.mkdir(mode=0o755)
    volunteer(home, "attach", project.url, "--key", ACCOUNT_KEY)
    project.offers = [Work("wu", "sleep 600")]
    assert home.stat().st_mode & 0o077 == 0
    keyed = [
        path
        for path in home.rglob("*")
        if path.is_file() and ACCOUNT_KEY.encode() in path.read_bytes()
    ]
    assert keyed
    assert [path for path in keyed if path.stat().st_mode & 0o077] == []


def test_existing_folder_with_other_files_keeps_its_mode(tmp_path, project):
    home = tmp_path / "open"
    home.mkdir(mode=0o755)
    home.chmod(0o755)
    (home / "notes.txt").touch()
    volunteer(home, "status")
    assert home.stat().st_mode & 0o777 == 0o755


def test_init_data_file_is_readable_by_the_owner_only(project, folder):
    """init_data.xml contains the account key, and is in the slot while the program runs."""
    script = "stat -c %a init_data.xml > out"
    run_program(project, folder, script, copy=True)
    assert project.uploads["late_0_r0"] == b"600\n"


def test_program_environment_contains_no_secrets(project, folder, monkeypatch):
    monkeypatch.setenv("VOLUNTEER_PASSWORD", "secret")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "secret")
    run_program(project, folder, "env > out", copy=True)
    assert b"secret" not in project.uploads["late_0_r0"]
    assert os.environ["AWS_SECRET_ACCESS_KEY"] == "secret"
