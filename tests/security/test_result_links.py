"""`fsck --digests` reads no file outside `results`, whatever a plug-in left there."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from scheduler import storage
from scheduler.files import file_checks
from tests import rows

pytestmark = pytest.mark.django_db

CONTENT = b"answer"
TIME_LIMIT_SECONDS = 10


@pytest.fixture(autouse=True)
def time_limit() -> Iterator[None]:
    """Fail instead of waiting for ever in `open`."""

    def stop(*_: object) -> None:
        pytest.fail(f"The check did not end within {TIME_LIMIT_SECONDS} s.")

    before = signal.signal(signal.SIGALRM, stop)
    signal.alarm(TIME_LIMIT_SECONDS)
    yield
    signal.alarm(0)
    signal.signal(signal.SIGALRM, before)


@pytest.fixture
def answer() -> Path:
    """Return the path of an output that was copied to `results`."""
    workunit = rows.a_workunit(rows.an_app())
    result = rows.a_result(workunit, "valid", output=CONTENT, uploaded=True)
    rows.settled(workunit, result, assimilate_state=2)
    name = result.output_files.get().name
    app = workunit.app.name
    return Path(storage.keep_result(upload_name=name, app=app, relative=f"{workunit.name}/out"))


@pytest.fixture
def failure() -> Path:
    """Return the path of the file that describes a failed workunit in `results`."""
    app = rows.an_app()
    workunit = rows.settled(rows.a_workunit(app), assimilate_state=2)
    return storage.write_result(app=app.name, relative=f"{workunit.name}/FAILED.json", data=b"{}")


@pytest.fixture
def outside(tmp_path: Path) -> Path:
    """Return a folder outside `results`, with files of the right names and contents."""
    folder = tmp_path / "outside"
    folder.mkdir()
    (folder / "out").write_bytes(CONTENT)
    (folder / "FAILED.json").write_bytes(b"{}")
    return folder


def replace_by_link(path: Path, outside: Path) -> None:
    path.unlink()
    path.symlink_to(outside / path.name)


def replace_by_dangling_link(path: Path, outside: Path) -> None:
    path.unlink()
    path.symlink_to(outside / "nothing")


def replace_by_pipe(path: Path, _outside: Path) -> None:
    path.unlink()
    os.mkfifo(path)


def replace_by_folder(path: Path, _outside: Path) -> None:
    path.unlink()
    path.mkdir()


def replace_folder_by_link(path: Path, outside: Path) -> None:
    path.unlink()
    path.parent.rmdir()
    path.parent.symlink_to(outside)


def replace_folder_of_app_by_link(path: Path, outside: Path) -> None:
    (outside / path.parent.name).symlink_to(outside)
    path.unlink()
    path.parent.rmdir()
    path.parents[1].rmdir()
    path.parents[1].symlink_to(outside)


def replace_folder_by_file(path: Path, _outside: Path) -> None:
    path.unlink()
    path.parent.rmdir()
    path.parent.write_bytes(CONTENT)


@pytest.mark.parametrize("kind", ["answer", "failure"])
@pytest.mark.parametrize(
    ("replace", "named", "reason"),
    [
        (replace_by_link, "file", "is a symbolic link, not a regular file"),
        (replace_by_dangling_link, "file", "is a symbolic link, not a regular file"),
        (replace_by_pipe, "file", "is a named pipe, not a regular file"),
        (replace_by_folder, "file", "is a folder, not a regular file"),
        (replace_folder_by_link, "folder", "is a symbolic link, not a folder"),
        (replace_folder_of_app_by_link, "app", "is a symbolic link, not a folder"),
        (replace_folder_by_file, "folder", "is a file, not a folder"),
    ],
)
def test_anything_but_a_regular_file_is_a_violation_and_is_not_read(
    request, outside, kind, replace, named, reason
):
    path = request.getfixturevalue(kind)
    assert file_checks.wrong_answers() == []
    names = {"file": path.name, "folder": path.parent.name, "app": path.parents[1].name}
    replace(path, outside)
    (violation,) = file_checks.wrong_answers()
    assert violation.name == "/".join(path.parts[-3:])
    assert violation.detail == f"was not read: {names[named]!r} {reason}. {file_checks.REMOVE}"


def test_results_on_another_disk_can_be_checked(settings, answer, tmp_path):
    """Operators may make `results` itself a symbolic link."""
    results = settings.VAR_DIR / "results"
    results.rename(tmp_path / "disk")
    results.symlink_to(tmp_path / "disk")
    assert file_checks.wrong_answers() == []
    answer.write_bytes(b"other")
    assert len(file_checks.wrong_answers()) == 1
