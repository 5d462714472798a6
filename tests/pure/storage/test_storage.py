"""Storage: atomic publishing, partial uploads, locks, and repair of archives."""

from __future__ import annotations

import ctypes
import doctest
import errno
import fcntl
import gzip
import hashlib
import io
import os
import stat
import threading
import time
from datetime import date
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st

from scheduler import storage
from scheduler.storage import archive, names, syncing

DAY = date(2026, 1, 2)

own_folders_are_fine = hypothesis_settings(
    suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None
)


@pytest.fixture
def var(settings, tmp_path) -> Path:
    settings.VAR_DIR = tmp_path / "var"
    return settings.VAR_DIR


@pytest.fixture
def no_fsync(monkeypatch) -> None:
    """Disable fsync, which would be slow in a test with a hundred examples."""
    monkeypatch.setattr(os, "fsync", lambda _: None)


@pytest.fixture(params=["attributes", "sidecars"])
def either_way(request, var, monkeypatch) -> Path:
    """Run a test on a file system with extended attributes, and on one without."""
    if request.param == "sidecars":

        def none(*_):
            raise OSError(errno.ENOTSUP, "not here")

        monkeypatch.setattr(os, "setxattr", none)
        monkeypatch.setattr(os, "getxattr", none)
    return var


def digest_of(data: bytes) -> storage.Digest:
    return storage.Digest(
        len(data), hashlib.md5(data).hexdigest(), hashlib.sha256(data).hexdigest()
    )


def upload(name: str, data: bytes, offset: int = 0) -> storage.Digest:
    with storage.begin_upload(name, offset) as arriving:
        arriving.write(data)
        return arriving.finish(md5=None)


def leave_partial(name: str, data: bytes, offset: int = 0) -> None:
    with storage.begin_upload(name, offset) as arriving:
        arriving.write(data)


def files_under(folder: Path) -> set[str]:
    return {str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file()}


# Names


def test_fan_out_directories_are_those_of_boinc() -> None:
    assert doctest.testmod(names).failed == 0
    assert int(storage.fan_out("wu_1_0_r0"), 16) < 1024


@pytest.mark.parametrize(
    "name",
    ["", ".", "..", "a..b", ".hidden", "a%20", "a/b", "/a", "a\\b", "a\n", "a\0", "a\x7f", " a", "a ",
     "a<b", "a&b", 'a"b', "a\udcff", "a" * 256, "é" * 128],
)  # fmt: skip
def test_invalid_file_name_is_refused_with_a_hint(name) -> None:
    with pytest.raises(storage.BadFileName, match="Hint: use letters"):
        storage.check_name(name)


@pytest.mark.parametrize(
    "name", ["a", "wu_1_0_r0", "worker_1.00_x86_64-pc-linux-gnu", "a b", "é", "a" * 255]
)
def test_valid_file_name_can_be_published_and_uploaded(var, name) -> None:
    storage.check_name(name)
    storage.publish(storage.stage_bytes(b"in"), name)
    leave_partial(name, b"o")
    upload(name, b"ut", offset=1)
    assert storage.download_path(name).read_bytes() == b"in"
    assert storage.upload_path(name).read_bytes() == b"out"
    assert storage.delete_uploads([name]) == storage.delete_downloads([name]) == {}
    assert files_under(var) == set()


def test_download_url_path_is_quoted() -> None:
    assert storage.download_url_path("a b#?.txt").endswith("/a%20b%23%3F.txt")


# Downloads


@pytest.mark.parametrize(
    "stage", [storage.stage_bytes, lambda data: storage.stage_file(io.BytesIO(data))]
)
def test_staged_file_is_not_public_until_published(either_way, stage) -> None:
    staged = stage(b"content")
    assert staged.digest == digest_of(b"content")
    assert {name.rpartition(".")[2] for name in files_under(either_way)} <= {"staged", "digest"}
    storage.publish(staged, "a_1")
    assert storage.download_path("a_1") == either_way / "download" / storage.fan_out("a_1") / "a_1"
    file, digest = storage.open_download("a_1")
    with file:
        assert (file.read(), digest) in {(b"content", staged.digest), (b"content", None)}
    assert not any((either_way / "download").glob("*/.*.staged*"))


def test_staged_files_are_spread_over_the_download_folders(var) -> None:
    # In a single folder, each new file would search past the inodes of files deleted before.
    staged = [storage.stage_file(io.BytesIO(b"content")) for _ in range(100)]
    assert len({one.path.parent for one in staged}) > 50
    assert {one.path.parent.parent for one in staged} == {var / "download"}
    for one in staged:
        storage.discard(one)
    assert files_under(var) == set()


@pytest.mark.parametrize("as_path", [True, False])
def test_file_is_staged_from_a_path_or_an_open_file(var, tmp_path, as_path) -> None:
    data = os.urandom(3_000_000)
    source = tmp_path / "source"
    source.write_bytes(data)
    with source.open("rb") as file:
        staged = storage.stage_file(source if as_path else file)
    assert staged.digest == digest_of(data)
    assert staged.path.read_bytes() == data


def test_read_error_while_staging_leaves_no_file(var) -> None:
    class Broken(io.BytesIO):
        def read(self, *_):
            raise OSError(errno.EIO, "disk on fire")

    with pytest.raises(OSError, match="disk on fire"):
        storage.stage_file(Broken())
    assert files_under(var) == set()


def test_publishing_the_same_content_twice_is_allowed(either_way) -> None:
    for _ in range(2):
        storage.publish(storage.stage_bytes(b"content"), "a_1")
    assert storage.download_path("a_1").read_bytes() == b"content"


def test_trap_04_published_name_cannot_be_reused_for_other_content(either_way) -> None:
    storage.publish(storage.stage_bytes(b"version 1"), "worker")
    staged = storage.stage_file(io.BytesIO(b"version 2"))
    with pytest.raises(storage.FileNameTaken, match="version or content hash in the name"):
        storage.publish(staged, "worker")
    assert storage.download_path("worker").read_bytes() == b"version 1"
    storage.discard(staged)
    storage.discard(staged)
    assert not staged.path.exists()


def test_publishing_works_on_file_systems_without_hard_links(var, monkeypatch) -> None:
    def no_links(*_):
        raise PermissionError(errno.EPERM, "no links here")

    monkeypatch.setattr(os, "link", no_links)

    def staged(data):
        return storage.stage_file(io.BytesIO(data))

    storage.publish(staged(b"content"), "a_1")
    assert storage.download_path("a_1").read_bytes() == b"content"
    storage.publish(staged(b"content"), "b_1")
    with pytest.raises(storage.FileNameTaken):
        storage.publish(staged(b"other"), "a_1")


def test_published_files_are_readable_by_the_group_of_the_web_server(var) -> None:
    storage.publish(storage.stage_bytes(b"content"), "a_1")
    assert stat.S_IMODE(storage.download_path("a_1").stat().st_mode) & 0o440 == 0o440


def test_downloads_are_deleted_in_a_batch_and_failures_are_named(either_way) -> None:
    for name in ("a_1", "b_1"):
        storage.publish(storage.stage_bytes(name.encode()), name)
    storage.sync_downloads(["a_1", "b_1"])
    failures = storage.delete_downloads(["a_1", "b_1", "absent", "../etc/passwd"])
    assert set(failures) == {"../etc/passwd"}
    assert not storage.download_path("a_1").exists()


# Uploads


def test_finished_upload_is_found_with_its_digest(either_way) -> None:
    assert upload("out_0", b"residues") == digest_of(b"residues")
    leave_partial("out_1", b"half")
    found = storage.finished_uploads(["out_0", "out_1", "out_2"])
    assert found == {"out_0": digest_of(b"residues")}
    with storage.open_upload("out_0") as file:
        assert file.read() == b"residues"
    with pytest.raises(FileNotFoundError):
        storage.open_upload("out_1")


def test_file_without_a_stored_digest_is_hashed(var) -> None:
    upload("out_0", b"residues")
    os.removexattr(storage.upload_path("out_0"), storage.DIGEST_ATTRIBUTE)
    assert storage.finished_uploads(["out_0"]) == {"out_0": digest_of(b"residues")}


def test_digest_stored_for_another_size_is_ignored(either_way) -> None:
    upload("out_0", b"residues")
    os.truncate(storage.upload_path("out_0"), 3)  # as after a power failure
    assert storage.finished_uploads(["out_0"]) == {"out_0": digest_of(b"res")}


def test_truncated_digest_sidecar_is_ignored(var) -> None:
    path = storage.upload_path("out_0")
    upload("out_0", b"residues")
    os.removexattr(path, storage.DIGEST_ATTRIBUTE)
    path.with_name(".out_0.digest").write_bytes(b"torn")
    assert storage.finished_uploads(["out_0"]) == {"out_0": digest_of(b"residues")}


def test_digest_attribute_fits_into_an_ext4_inode(var) -> None:
    upload("out_0", b"residues")
    path = storage.upload_path("out_0")
    if b"manyhands" not in b"".join(os.fsencode(a) for a in os.listxattr(path)):
        pytest.skip("no extended attributes here")
    assert len(os.getxattr(path, storage.DIGEST_ATTRIBUTE)) == 56


def test_finished_upload_cannot_be_opened_again(var) -> None:
    upload("out_0", b"residues")
    with pytest.raises(storage.UploadFinished):
        storage.begin_upload("out_0", 0)
    assert files_under(var / "upload") == {f"{storage.fan_out('out_0')}/out_0"}


def test_upload_resumes_from_any_offset_that_has_arrived(var) -> None:
    leave_partial("out_0", b"residXXX")
    with pytest.raises(storage.UploadGap, match="8"):
        storage.begin_upload("out_0", 9)
    assert upload("out_0", b"ues", offset=5) == digest_of(b"residues")


def test_upload_with_a_wrong_digest_is_discarded(var) -> None:
    with storage.begin_upload("out_0", 0) as arriving:
        arriving.write(b"residues")
        with pytest.raises(storage.DigestMismatch):
            arriving.finish(md5="0" * 32)
    assert files_under(var) == set()
    assert storage.upload_size("out_0") == storage.UploadSize(0, finished=False)


def test_upload_in_progress_is_locked_against_other_writers(var) -> None:
    with storage.begin_upload("out_0", 0) as arriving:
        for attempt in (
            lambda: storage.begin_upload("out_0", 0),
            lambda: storage.upload_size("out_0"),
        ):
            with pytest.raises(storage.UploadLocked):
                attempt()
        assert "is being written" in storage.delete_uploads(["out_0"])["out_0"]
        arriving.write(b"residues")
        arriving.finish(md5=None)
    assert storage.upload_size("out_0") == storage.UploadSize(8, finished=True)


@pytest.mark.parametrize(
    "what_the_other_does", ["finishes", "discards", "finishes, and it is deleted"]
)
def test_writer_that_waited_for_the_lock_sees_the_new_state_of_the_file(
    var, monkeypatch, what_the_other_does
) -> None:
    """Another request finishes or deletes the partial file between our open and our lock."""
    other = storage.begin_upload("out_0", 0)
    other.write(b"first")
    lock = fcntl.flock

    def the_other_goes_first(descriptor, operation):
        monkeypatch.setattr(fcntl, "flock", lock)
        if what_the_other_does == "discards":
            with pytest.raises(storage.DigestMismatch):
                other.finish(md5="0" * 32)
        else:
            other.finish(md5=None)
        other.__exit__(None, None, None)
        if what_the_other_does == "finishes, and it is deleted":
            storage.delete_uploads(["out_0"])
        lock(descriptor, operation)

    monkeypatch.setattr(fcntl, "flock", the_other_goes_first)
    if what_the_other_does == "finishes":
        with pytest.raises(storage.UploadFinished):
            storage.begin_upload("out_0", 0)
        assert storage.upload_path("out_0").read_bytes() == b"first"
    else:
        upload("out_0", b"second")
        assert storage.upload_path("out_0").read_bytes() == b"second"


def test_deleting_uploads_also_deletes_partial_files_and_sidecars(either_way) -> None:
    upload("out_0", b"residues")
    leave_partial("out_1", b"half")
    assert storage.delete_uploads(["out_0", "out_1", "out_2"]) == {}
    assert files_under(either_way) == set()


def test_deletion_failures_are_named_and_other_files_are_deleted(var) -> None:
    storage.upload_path("out_0").mkdir(parents=True)
    upload("out_1", b"residues")
    failures = storage.delete_uploads(["out_0", "..", "out_1"])
    assert set(failures) == {"out_0", ".."}
    assert all(failures.values())
    assert not storage.upload_path("out_1").exists()


@pytest.mark.parametrize("waits", [False, True], ids=["quick disk", "slow disk"])
def test_many_files_are_deleted_on_fast_and_slow_disks(var, monkeypatch, waits) -> None:
    names = [f"out_{number}" for number in range(60)]
    for name in names:
        storage.put_upload(name, b"residues", md5=None)
    storage.upload_path("bad").mkdir(parents=True)
    if waits:
        unlink = os.unlink
        monkeypatch.setattr(os, "unlink", lambda path: (time.sleep(0.001), unlink(path)))
    threads = set()
    access = os.access
    monkeypatch.setattr(
        os, "access", lambda *given: (threads.add(threading.get_ident()), access(*given))[1]
    )
    assert set(storage.delete_uploads([*names, "bad", ".."])) == {"bad", ".."}
    assert files_under(var / "upload") == set()
    assert len(threads) > 1 or not waits


# Uploads in one piece


def not_here(number):
    def refuse(*_args, **_kwargs):
        raise OSError(number, "not here")

    return refuse


def no_nameless_files(monkeypatch) -> None:
    opened = os.open

    def open_named(path, flags, *rest):
        if flags & os.O_TMPFILE == os.O_TMPFILE:
            raise OSError(errno.ENOTSUP, "not here")
        return opened(path, flags, *rest)

    monkeypatch.setattr(os, "open", open_named)


@pytest.mark.parametrize("lacks", ["nothing", "nameless files", "attributes", "links"])
def test_complete_upload_is_stored_even_without_optional_file_system_features(
    var, monkeypatch, lacks
) -> None:
    if lacks == "nameless files":
        no_nameless_files(monkeypatch)
    if lacks == "attributes":
        monkeypatch.setattr(os, "setxattr", not_here(errno.ENOTSUP))
        monkeypatch.setattr(os, "getxattr", not_here(errno.ENOTSUP))
    if lacks == "links":
        monkeypatch.setattr(os, "link", not_here(errno.EPERM))
    digest = storage.put_upload("out_0", b"residues", md5=digest_of(b"residues").md5.upper())
    assert digest == digest_of(b"residues")
    assert storage.finished_uploads(["out_0"]) == {"out_0": digest}
    with pytest.raises(storage.UploadFinished):
        storage.put_upload("out_0", b"another", md5=None)
    with pytest.raises(storage.DigestMismatch):
        storage.put_upload("out_1", b"residues", md5="0" * 32)
    names = {name.rpartition("/")[2] for name in files_under(var)}
    assert names == {"out_0"} | ({".out_0.digest"} if lacks == "attributes" else set())


def test_slower_upload_does_not_replace_a_complete_one(var) -> None:
    with storage.begin_upload("out_0", 0) as slow:
        slow.write(b"slow")
        storage.put_upload("out_0", b"whole", md5=None)
        with pytest.raises(storage.UploadFinished):
            slow.finish(md5=None)
    assert storage.upload_path("out_0").read_bytes() == b"whole"
    assert files_under(var / "upload") == {f"{storage.fan_out('out_0')}/out_0"}


def test_crash_between_linking_and_unlinking_an_upload_is_repaired(var, monkeypatch) -> None:
    with monkeypatch.context() as patch, storage.begin_upload("out_0", 0) as arriving:
        arriving.write(b"residues")
        patch.setattr("scheduler.storage.uploads.unlink", not_here(errno.EIO))
        with pytest.raises(OSError, match="not here"):
            arriving.finish(md5=None)
    assert len(files_under(var / "upload")) == 2
    with pytest.raises(storage.UploadFinished):
        storage.begin_upload("out_0", 0)
    assert files_under(var / "upload") == {f"{storage.fan_out('out_0')}/out_0"}


def test_complete_upload_is_synced_if_upload_fsync_is_set(var, settings, monkeypatch) -> None:
    synced = []
    monkeypatch.setattr(os, "fsync", synced.append)
    storage.put_upload("out_0", b"residues", md5=None)
    assert synced == []
    settings.UPLOAD_FSYNC = True
    storage.put_upload("out_1", b"residues", md5=None)
    assert len(synced) == 2  # the file and its folder


def test_resumable_upload_is_synced_if_upload_fsync_is_set(var, settings, monkeypatch) -> None:
    synced = []
    monkeypatch.setattr(os, "fsync", synced.append)
    upload("out_0", b"residues")
    assert synced == []
    settings.UPLOAD_FSYNC = True
    upload("out_1", b"residues")
    assert len(synced) == 2  # the file and its folder


# Results and the archive


def test_kept_result_is_a_copy_and_replaces_an_older_one(var) -> None:
    data = os.urandom(300_000)
    upload("out_0", data)
    storage.write_result(app="mersenne", relative="wu_1/out", data=b"older")
    path = Path(storage.keep_result(upload_name="out_0", app="mersenne", relative="wu_1/out"))
    assert path == var / "results" / "mersenne" / "wu_1" / "out"
    assert path.read_bytes() == data
    storage.delete_uploads(["out_0"])
    assert path.read_bytes() == data
    assert files_under(var) == {"results/mersenne/wu_1/out"}


def test_result_is_copied_without_kernel_support_for_copying(var, monkeypatch) -> None:
    def not_here(*_):
        raise OSError(errno.EXDEV, "other disk")

    monkeypatch.setattr(os, "link", not_here)
    monkeypatch.setattr(os, "copy_file_range", not_here)
    upload("out_0", b"residues")
    path = Path(storage.keep_result(upload_name="out_0", app="mersenne", relative="out"))
    assert path.read_bytes() == b"residues"


@pytest.mark.parametrize("relative", ["", "../out", "/etc/passwd", "a//b", "a/../b", "a/"])
def test_result_path_outside_the_folder_is_refused(var, relative) -> None:
    with pytest.raises(storage.BadFileName):
        storage.write_result(app="mersenne", relative=relative, data=b"")


def test_keeping_a_result_without_an_upload_leaves_no_file(var) -> None:
    with pytest.raises(FileNotFoundError):
        storage.keep_result(upload_name="out_0", app="mersenne", relative="out")
    assert files_under(var) == set()


def test_results_and_their_parent_folders_are_synced_once(var, monkeypatch) -> None:
    paths = [storage.write_result(app="a", relative=f"b/{i}", data=b"x") for i in range(3)]
    synced = []
    monkeypatch.setattr(
        os, "fsync", lambda fd: synced.append(str(Path(f"/proc/self/fd/{fd}").readlink()))
    )
    storage.sync_results(paths)
    folders = [str(var / "results" / part) for part in ("", "a", "a/b")]
    assert sorted(synced) == sorted([*map(str, paths), *(f.rstrip("/") for f in folders)])


@pytest.mark.parametrize("many", [3, 20])
@pytest.mark.parametrize("kernel", ["new", "old", "without syncfs"])
def test_many_results_are_synced_by_one_syncfs_call_if_supported(var, monkeypatch, kernel, many):
    paths = [storage.write_result(app="a", relative=f"{i}/out", data=b"x") for i in range(many)]
    files, systems = [], []
    monkeypatch.setattr(os, "fsync", files.append)
    monkeypatch.setattr(syncing, "_syncfs", lambda folder: systems.append(folder) or True)
    if kernel == "old":
        monkeypatch.setattr(syncing, "_SYNCFS_REPORTS_ERRORS", (99, 0))
    if kernel == "without syncfs":
        monkeypatch.setattr(syncing, "_libc", object())
    storage.sync_results(paths)
    at_once = many == 20 and kernel == "new"
    assert (len(systems), len(files)) == ((1, 0) if at_once else (0, 2 * many + 2))


def test_sync_error_is_raised(var, monkeypatch):
    paths = [storage.write_result(app="a", relative=f"{i}", data=b"x") for i in range(20)]
    storage.sync_results(paths)

    class Libc:
        def __init__(self, number):
            self.number = number

        def syncfs(self, _descriptor):
            ctypes.set_errno(self.number)
            return -1

    monkeypatch.setattr(syncing, "_libc", Libc(errno.ENOSPC))
    with pytest.raises(OSError, match="No space left"):
        storage.sync_results(paths)
    monkeypatch.setattr(syncing, "_libc", Libc(errno.ENOSYS))
    storage.sync_results(paths)


def test_keeping_a_result_twice_leaves_one_file(var):
    upload("out_0", b"residues")
    upload("out_1", b"others")
    for name, data in (("out_0", b"residues"), ("out_0", b"residues"), ("out_1", b"others")):
        path = Path(storage.keep_result(upload_name=name, app="mersenne", relative="wu_1/out"))
        assert path.read_bytes() == data
    assert files_under(var / "results") == {"mersenne/wu_1/out"}


def test_archive_appends_gzip_members_readable_by_standard_tools(var) -> None:
    path = storage.append_archive(DAY, [b'{"id": 1}', b'{"id": 2}\n'])
    storage.append_archive(DAY, [])
    storage.append_archive(DAY, [b'{"id": 3}'])
    assert path == var / "archive" / "2026-01-02.jsonl.gz"
    assert list(storage.read_archive(path)) == [b'{"id": 1}', b'{"id": 2}', b'{"id": 3}']
    assert gzip.decompress(path.read_bytes()) == b'{"id": 1}\n{"id": 2}\n{"id": 3}\n'


@own_folders_are_fine
@given(
    batches=st.lists(
        st.lists(st.binary(max_size=30).map(bytes.hex).map(str.encode), min_size=1),
        min_size=1,
        max_size=5,
    ),
    data=st.data(),
)
def test_incomplete_tail_of_an_archive_is_removed_by_the_next_append(
    var, no_fsync, batches, data
) -> None:
    (var / "archive" / "2026-01-02.jsonl.gz").unlink(missing_ok=True)
    whole, start = [], 0
    for batch in batches[:-1]:
        start = storage.append_archive(DAY, batch).stat().st_size
        whole += batch
    ours = dict(archive._ends)
    path = storage.append_archive(DAY, batches[-1])  # written by a process that crashes
    torn = path.read_bytes()
    path.write_bytes(
        torn[: data.draw(st.integers(start, len(torn) - 1))]
        + data.draw(st.sampled_from([b"", b"\xff\xff\xff"]))
    )
    archive._ends.clear()
    if data.draw(st.booleans()):
        archive._ends.update(ours)  # this process appended before the crash, and does so again
    storage.append_archive(DAY, [b"after"])
    assert list(storage.read_archive(path)) == [*whole, b"after"]


def test_replaced_archive_file_is_read_again_before_an_append(var) -> None:
    path = storage.append_archive(DAY, [b"a line of ours"])
    path.write_bytes(gzip.compress(b"what an operator merged from two servers\n", mtime=0))
    storage.append_archive(DAY, [b"after"])
    assert list(storage.read_archive(path)) == [
        b"what an operator merged from two servers",
        b"after",
    ]


def test_archive_appends_of_two_processes_do_not_remove_each_other(var) -> None:
    storage.append_archive(DAY, [b"ours"])
    ours = dict(archive._ends)
    archive._ends.clear()
    storage.append_archive(DAY, [b"theirs"])
    archive._ends.update(ours)
    path = storage.append_archive(DAY, [b"ours again"])
    assert list(storage.read_archive(path)) == [b"ours", b"theirs", b"ours again"]
