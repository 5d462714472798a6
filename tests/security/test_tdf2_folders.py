"""Folders of TDF2 that others can write, and names that volunteers choose."""

from __future__ import annotations

import io
import os
from dataclasses import replace
from pathlib import Path

import pytest
from django.core.management import CommandError, call_command

from scheduler import storage
from scheduler.models import App, Host
from scheduler.work.rules import tdf2_files
from tests.database.task_lists.test_tdf2 import a_task, attached, do_export, do_import, put
from tests.lists import a_scientist, an_app_with_lists, passes

TASK = "1_0\n1\n2\n3\n4\n0\ndate\n"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "in").mkdir()
    return tmp_path / "in"


@pytest.fixture
def app(settings) -> App:
    settings.PROJECT = replace(settings.PROJECT, command_apps=True)
    a_scientist()
    return an_app_with_lists(name="sh", kind="command", success_rule="empty_stderr")


def fault_of_the_file(folder: Path) -> str:
    [[file], []] = storage.read_tree(str(folder))
    assert file.text == ""
    return file.fault


def test_link_to_a_file_outside_the_folder_is_not_read(folder, tmp_path):
    (tmp_path / "secret").write_text(TASK)
    (folder / "1_0.task").symlink_to(tmp_path / "secret")
    assert fault_of_the_file(folder).startswith("The file is a symbolic link")


def test_named_pipe_and_device_do_not_stop_the_import(folder):
    os.mkfifo(folder / "1_0.task")
    assert fault_of_the_file(folder).startswith("The file is a symbolic link, or not a regular")


def test_file_that_replaces_a_task_while_it_is_read_is_not_followed(folder, tmp_path, monkeypatch):
    (tmp_path / "secret").write_text(TASK)
    task = folder / "1_0.task"
    task.write_text(TASK)
    status = task.lstat()
    task.unlink()
    task.symlink_to(tmp_path / "secret")
    monkeypatch.setattr(Path, "lstat", lambda _self: status)
    assert fault_of_the_file(folder).startswith("The file cannot be read: ")


def test_at_most_a_million_bytes_of_a_file_are_read(folder):
    with (folder / "1_0.task").open("wb") as file:
        file.truncate(1 << 40)
    assert fault_of_the_file(folder) == "The file has more than 1000000 bytes."


def test_link_to_a_folder_is_reported_and_not_entered(folder, tmp_path):
    put(tmp_path, "elsewhere/1_0.task", TASK)
    (folder / "new").symlink_to(tmp_path / "elsewhere")
    assert storage.read_tree(str(folder)) == ([], ["new"])


@pytest.mark.django_db(transaction=True)
def test_names_of_files_cannot_write_to_the_terminal(app, folder, capsys):
    put(folder, "\x1b]0;x\x07/1_0.task", a_task(1))
    put(folder, "new/\x1b[2J.task", a_task(2))
    with pytest.raises(CommandError) as refused:
        do_import(folder)
    put(folder.parent, "other/1_0.task", a_task(1))
    put(folder.parent, "other/\x1b[2J", "")
    do_import(folder.parent / "other")
    shown = capsys.readouterr()
    assert "\x1b" not in str(refused.value) + shown.out + shown.err
    assert "1 other files were ignored, such as ?[2J." in shown.err


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("name", ["é" * 254, "w" * 254, "a\u202eb", "../..", "\x1b[2J", "/"])
def test_name_of_a_computer_cannot_prevent_or_leave_the_export(app, tmp_path, name):
    put(tmp_path / "in", "open/1448978610/1_0.task", a_task(1))
    do_import(tmp_path / "in")
    passes()
    client = attached()
    client.ask_for_work()
    Host.objects.update(domain_name=name)
    [path] = do_export(tmp_path / "out")
    state, label, file = path.split("/")
    assert (state, file) == ("running", "1_0.task")
    parsed = tdf2_files.parse_list(label, state="running")
    assert parsed is not None
    assert parsed.created == 1448978610

    stderr = "<stderr_txt>\nno\n</stderr_txt>"
    client.report("1_0", state=3, exit_status=1, stderr_out=stderr, upload=None)
    passes()
    call_command("export_tdf2", str(tmp_path / "again"), batch="old")
    text = (tmp_path / "again/failed_archive/1_0.task").read_text()
    assert isinstance(tdf2_files.parse(text, stem="1_0"), tdf2_files.Task)


def test_large_output_is_exported_in_pieces(tmp_path):
    sizes: list[int] = []

    class Output(io.BytesIO):
        def read(self, size: int | None = -1, /) -> bytes:
            content = super().read(size)
            sizes.append(len(content))
            return content

    content = os.urandom(3_000_000)
    storage.TreeWriter(str(tmp_path / "out")).copy(Output(content), "completed", "1_0.out")
    assert (tmp_path / "out/completed/1_0.out").read_bytes() == content
    assert max(sizes) <= 1_000_000


@pytest.mark.django_db(transaction=True)
def test_export_into_a_folder_that_cannot_be_written_is_an_error_with_a_hint(
    app, tmp_path, monkeypatch
):
    put(tmp_path / "in", "1_0.task", a_task(1))
    do_import(tmp_path / "in")

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Path, "write_bytes", full)
    with pytest.raises(CommandError, match=r"cannot be written: No space left .* Hint: "):
        do_export(tmp_path / "out")
