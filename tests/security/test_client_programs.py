"""The volunteer's client starts only what the code-sign key has signed."""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.pure.client.fake_project import ACCOUNT_KEY, SCRIPT, FakeProject, Work, public_key, sign
from volunteer import cli

#: Each test runs the client several times, with the pauses of its protocol.
pytestmark = pytest.mark.lengthy

CLIENT = Path(__file__).resolve().parents[2] / "client"
FAST = ("--backoff-scale", "0.002", "--poll", "0")


@pytest.fixture
def project():
    with FakeProject() as running:
        yield running


def volunteer(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, str(CLIENT), *arguments, "--dir", str(folder)],
        capture_output=True,
        text=True,
        timeout=60,
        env=dict(os.environ),
        check=False,
    )


@pytest.fixture
def folder(tmp_path: Path, project: FakeProject) -> Path:
    home = tmp_path / "home"
    assert cli.main(["attach", project.url, "--key", ACCOUNT_KEY, "--dir", str(home)]) == 0
    return home


def files_of(folder: Path) -> Path:
    [found] = (folder / "projects").iterdir()
    return found


def file_info(project: FakeProject, name: str, content: bytes, *words: str) -> str:
    project.downloads[name] = content
    return (
        f"<file_info><name>{name}</name><url>{project.url}download/{name}</url>"
        f"<md5_cksum>{hashlib.md5(content).hexdigest()}</md5_cksum>"
        f"<nbytes>{len(content)}</nbytes>{''.join(words)}</file_info>"
    )


def app(program: str, *, result: str = "late_0", output: str = "late_0_r0", url: str = "") -> str:
    return f"""<app><name>late</name></app>
<app_version><app_name>late</app_name><version_num>1</version_num>
<platform>x86_64-pc-linux-gnu</platform><flops>1e9</flops>
<file_ref><file_name>{program}</file_name><main_program/></file_ref></app_version>
<file_info><name>{output}</name><url>{url}file_upload_handler</url>
<max_nbytes>1000</max_nbytes></file_info>
<workunit><name>late</name><app_name>late</app_name></workunit>
<result><name>{result}</name><wu_name>late</wu_name>
<platform>x86_64-pc-linux-gnu</platform><version_num>1</version_num>
<report_deadline>4e9</report_deadline>
<file_ref><file_name>{output}</file_name><open_name>out</open_name></file_ref></result>"""


def marking(path: Path) -> bytes:
    """Return a program that creates the file `path`, and must never run."""
    return f"#!/bin/sh\necho ran > {path}\necho 0 > boinc_finish_called\n".encode()


def run_late_app(project: FakeProject, folder: Path, extra: str) -> str:
    """Offer the result `late_0`, run the client until it ends, and return its report."""
    project.extra = extra
    offer = project.fail

    def once(path: str, body: bytes):
        if "late_0" in project.reported:
            project.extra = ""
        return offer(path, body)

    project.fail = once
    volunteer(folder, "run", "--until-idle", *FAST)
    return project.reported.get("late_0", "")


def test_sticky_file_that_becomes_the_main_program_needs_a_signature(tmp_path, project, folder):
    mark = tmp_path / "mark"
    sticky = file_info(project, "data_1", marking(mark), "<sticky/><executable/>")
    project.extra = file_info(project, "data_1", marking(mark), "<sticky/>")
    volunteer(folder, "run", "--once", *FAST)
    assert (files_of(folder) / "data_1").exists(), "an input needs no signature"

    report = run_late_app(project, folder, sticky + app("data_1", url=project.url))

    assert not mark.exists()
    assert "<exit_status>-186</exit_status>" in report
    assert "<error_code>-123 (no signature)</error_code>" in report


def test_sticky_file_with_a_signature_is_accepted_as_a_program(tmp_path, project, folder):
    link = rb"$(sed 's/<soft_link>\(.*\)<\/soft_link>/\1/' out)"
    program = b'#!/bin/sh\necho fine > "%s"\necho 0 > boinc_finish_called\n' % link
    project.extra = file_info(project, "data_1", program, "<sticky/>")
    volunteer(folder, "run", "--once", *FAST)
    signed = file_info(
        project, "data_1", program, "<sticky/><executable/>",
        f"<file_signature>\n{sign(program)}\n</file_signature>",
    )  # fmt: skip

    report = run_late_app(project, folder, signed + app("data_1", url=project.url))

    assert "<exit_status>0</exit_status>" in report
    assert project.uploads["late_0_r0"] == b"fine\n"


def test_program_that_changed_on_disk_is_not_started(tmp_path, project, folder):
    project.offers = [Work("first", "upper")]
    volunteer(folder, "run", "--once", *FAST)
    program, mark = files_of(folder) / "worker_1", tmp_path / "mark"
    assert program.read_bytes() == SCRIPT
    # The same length and modification time, as an attacker would choose to hide the change.
    times = (program.stat().st_atime_ns, program.stat().st_mtime_ns)
    program.write_bytes(marking(mark).ljust(len(SCRIPT), b"\n"))
    os.utime(program, ns=times)

    project.offers = [Work("second", "upper")]
    ran = volunteer(folder, "run", "--until-idle", *FAST)

    assert not mark.exists()
    assert program.read_bytes() == SCRIPT, "the signed program was fetched again"
    assert project.uploads["second_0_r0"] == b"SOME TEXT\n", ran.stdout


def test_program_downloaded_by_an_earlier_client_version_is_verified(tmp_path, project, folder):
    """The state lacks the SHA-256 of verified bytes, as in earlier versions."""
    project.offers = [Work("first", "upper")]
    volunteer(folder, "run", "--once", *FAST)
    state = json.loads((folder / "state.json").read_text())
    [held] = state["state"]["projects"].values()
    held["files"]["worker_1"].pop("signed_sha256", None)
    held["files"]["worker_1"].pop("role", None)
    (folder / "state.json").write_text(json.dumps(state))
    mark = tmp_path / "mark"
    (files_of(folder) / "worker_1").write_bytes(marking(mark).ljust(len(SCRIPT), b"\n"))

    project.offers = [Work("second", "upper")]
    volunteer(folder, "run", "--until-idle", *FAST)

    assert not mark.exists()
    assert project.uploads["second_0_r0"] == b"SOME TEXT\n"


def test_program_replaced_by_a_link_is_not_started(tmp_path, project, folder):
    project.offers = [Work("first", "upper")]
    volunteer(folder, "run", "--once", *FAST)
    mark, elsewhere = tmp_path / "mark", tmp_path / "elsewhere"
    elsewhere.write_bytes(marking(mark).ljust(len(SCRIPT), b"\n"))
    elsewhere.chmod(0o755)
    program = files_of(folder) / "worker_1"
    program.unlink()
    program.symlink_to(elsewhere)

    project.offers = [Work("second", "upper")]
    volunteer(folder, "run", "--until-idle", *FAST)

    assert not mark.exists()
    assert not program.is_symlink()
    assert project.uploads["second_0_r0"] == b"SOME TEXT\n"


@pytest.mark.parametrize("name", ["worker_1", "WORKER_1"])
def test_output_cannot_overwrite_a_program(tmp_path, project, folder, name):
    project.offers = [Work("first", "upper")]
    volunteer(folder, "run", "--once", *FAST)
    program = b"#!/bin/sh\necho 0 > boinc_finish_called\n"
    signed = file_info(
        project, "late_1", program, "<executable/>",
        f"<file_signature>\n{sign(program)}\n</file_signature>",
    )  # fmt: skip

    report = run_late_app(project, folder, signed + app("late_1", output=name, url=project.url))

    assert (files_of(folder) / "worker_1").read_bytes() == SCRIPT
    assert not project.uploads.get(name)
    assert "<exit_status>-185</exit_status>" in report
    assert name in report


def test_executable_input_without_signature_is_refused(tmp_path, project, folder):
    project.offers = [Work("wu", "upper")]
    sticky = file_info(project, "tool", marking(tmp_path / "mark"), "<sticky/><executable/>")
    project.extra = sticky
    volunteer(folder, "run", "--once", *FAST)
    assert not (files_of(folder) / "tool").exists()


def test_signature_of_a_published_file_cannot_replace_the_code_sign_key(tmp_path, project, folder):
    """The signature of a file whose content is a key must not rotate the key."""
    project.offers = [Work("first", "upper")]
    volunteer(folder, "run", "--once", *FAST)
    foreign = public_key(seed=2).encode()
    signature = sign(foreign)
    published = file_info(
        project, "notes.txt", foreign, f"<sticky/><file_signature>\n{signature}\n</file_signature>"
    )
    project.extra = published
    volunteer(folder, "run", "--once", *FAST)
    project.extra = (
        f"<code_sign_key>\n{foreign.decode()}\n</code_sign_key>"
        f"<code_sign_key_signature>\n{signature}\n</code_sign_key_signature>"
    )
    ran = volunteer(folder, "run", "--once", *FAST)
    project.extra = ""
    volunteer(folder, "run", "--once", *FAST)
    assert public_key() in project.requests[-1]
    assert foreign.decode() not in project.requests[-1]
    assert "keeping the old code-sign key" in ran.stdout


@pytest.mark.parametrize(
    "change",
    [
        lambda key: key + "\nand a few words of a file",
        lambda key: key.replace("1024\n", "1024\n\n"),
        lambda key: "01024" + key[4:],
    ],
)
def test_code_sign_key_in_non_canonical_form_is_refused(project, folder, change):
    project.offers = [Work("first", "upper")]
    volunteer(folder, "run", "--once", *FAST)
    foreign = change(public_key(seed=2))
    project.extra = (
        f"<code_sign_key>\n{foreign}\n</code_sign_key><code_sign_key_signature>\n"
        f"{sign(foreign.encode())}\n</code_sign_key_signature>"
    )
    volunteer(folder, "run", "--once", *FAST)
    project.extra = ""
    volunteer(folder, "run", "--once", *FAST)
    assert public_key() in project.requests[-1]


def test_new_code_sign_key_with_a_valid_signature_replaces_the_old_key(project, folder):
    project.offers = [Work("first", "upper")]
    volunteer(folder, "run", "--once", *FAST)
    new = public_key(seed=2)
    project.extra = (
        f"<code_sign_key>\n{new}\n</code_sign_key><code_sign_key_signature>\n"
        f"{sign(new.encode())}\n</code_sign_key_signature>"
    )
    volunteer(folder, "run", "--once", *FAST)
    project.extra = ""
    volunteer(folder, "run", "--once", *FAST)
    assert new in project.requests[-1]
