"""On a full disk uploads are deferred with one log line, and resume afterwards."""

from __future__ import annotations

import contextlib
import errno
import os
import resource
import subprocess

import pytest

from scheduler import signing, storage
from scheduler.boinc import uploads as face
from scheduler.boinc.wire import uploads
from scheduler.boinc.wire.uploads import UploadReply
from tests.faces.boinc.test_upload import DATA, arrived, ask_size, call, request_for

SIZES = {"small, whole": DATA[:1000], "large, in parts": DATA}
FULL = UploadReply.later("No space left on server")


def send(name, data) -> UploadReply:
    return call(uploads.encode_request(request_for(name, data), data)).reply


@pytest.fixture(autouse=True)
def reserve_is_eaten(own_folders, monkeypatch) -> None:
    """Disable the check of free space, as if it had passed before the disk became full."""
    signing.ensure_keys()
    monkeypatch.setattr("django.conf.settings.MIN_FREE_BYTES", -(2**62))
    monkeypatch.setattr(face, "_disk_full_logged_at", -1e9)


@contextlib.contextmanager
def a_tiny_disk(settings, monkeypatch):
    folder = settings.VAR_DIR / "upload"
    folder.mkdir(parents=True)
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=256k", "tmpfs", folder],
        check=False,
        capture_output=True,
    )
    if mounted.returncode:
        pytest.skip("a file system of our own may not be mounted here")
    try:
        filler = folder / "filler"
        with contextlib.suppress(OSError):
            filler.write_bytes(bytes(2**20))
        yield filler.unlink
    finally:
        subprocess.run(["umount", "-l", folder], check=True)


@contextlib.contextmanager
def a_limit_of_the_process(settings, monkeypatch):
    before = resource.getrlimit(resource.RLIMIT_FSIZE)

    def lift():
        resource.setrlimit(resource.RLIMIT_FSIZE, before)

    resource.setrlimit(resource.RLIMIT_FSIZE, (500, before[1]))
    try:
        yield lift
    finally:
        lift()


@contextlib.contextmanager
def a_kernel_that_says_so(settings, monkeypatch):
    def full(*_):
        raise OSError(errno.ENOSPC, "full")

    with monkeypatch.context() as patch:
        patch.setattr(os, "write", full)
        yield patch.undo


@pytest.mark.parametrize("data", SIZES.values(), ids=SIZES)
@pytest.mark.parametrize("disk", [a_tiny_disk, a_limit_of_the_process, a_kernel_that_says_so])
def test_full_disk_defers_uploads_which_succeed_once_there_is_space(
    settings, monkeypatch, caplog, disk, data
):
    with disk(settings, monkeypatch) as make_room:
        assert [send(f"out_{number}", data) for number in range(5)] == [FULL] * 5
        assert [record.getMessage() for record in caplog.records] == ["upload_disk_full"]
        assert arrived("out_0") is None
        assert ask_size("out_0").file_size in range(len(data))
        make_room()
        assert send("out_0", data) == UploadReply.done()
        assert arrived("out_0") == data
        assert storage.delete_uploads([f"out_{number}" for number in range(5)]) == {}
        kept = [path.name for path in storage.upload_path("x").parents[1].rglob("*")]
        assert not [name for name in kept if "out_" in name]


def test_uploads_below_the_free_space_reserve_are_logged_only_once(monkeypatch, caplog):
    monkeypatch.setattr("django.conf.settings.MIN_FREE_BYTES", 2**62)
    assert send("out_0", DATA) == send("out_1", DATA)
    assert [record.getMessage() for record in caplog.records] == ["upload_disk_full"]
