"""Downloads, uploads and the journal: interrupted, repeated and damaged."""

from __future__ import annotations

import gzip
import hashlib
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from tests.pure.client.fake_project import public_key, sign
from volunteer.files import DownloadError, FileDownload, fetch
from volunteer.journal import DamagedJournalError, Journal, load_state
from volunteer.records import HeldFile, HeldResult, Phase, Project, State, Verdict
from volunteer.slot import Home, falsify, sweep, take_outputs
from volunteer.transport import PARTIAL, Body, Response, Stream, UnreachableError
from volunteer.uploads import FileUpload, UploadError, send
from volunteer.wire.messages import AppVersion, FileInfo, FileRef, Result, Workunit

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

CONTENT = bytes(range(256)) * 100
MD5 = hashlib.md5(CONTENT).hexdigest()
GOOD = b"<data_server_reply><status>0</status><file_size>0</file_size></data_server_reply>"


def a_file(**changes: object) -> FileInfo:
    fields: dict[str, object] = {"urls": ("http://a/f",), "nbytes": len(CONTENT), "md5": MD5}
    return FileInfo("f", **(fields | changes))  # type: ignore[arg-type]


class FakeTransport:
    """A transport that gets responses from a function, and records requests."""

    def __init__(self, answer: Callable[[str, bytes], Response]) -> None:
        self._answer = answer
        self.sent: list[tuple[str, bytes]] = []

    def get(self, url: str, *, has_credentials: bool = False) -> Response:
        del has_credentials
        self.sent.append((url, b""))
        return self._answer(url, b"")

    def post(self, url: str, body: Body, *, has_credentials: bool = False) -> Response:
        del has_credentials
        content = b"".join(body.chunks())
        self.sent.append((url, content))
        return self._answer(url, content)

    @contextmanager
    def stream(self, url: str, offset: int) -> Iterator[Stream]:
        """Yield the part of the function's response after the offset."""
        answer = self.get(url)
        if not answer.is_good:
            yield Stream(answer.status, 0)
            return
        status = PARTIAL if offset else answer.status
        yield Stream(status, offset, iter([answer.content[offset:]]))

    def close(self) -> None:
        """Do nothing, because there is no connection."""


def transport(*answers: Response | Exception) -> FakeTransport:
    left = list(answers)

    def answer(_url: str, _body: bytes) -> Response:
        given = left.pop(0)
        if isinstance(given, Exception):
            raise given
        return given

    return FakeTransport(answer)


def test_complete_and_verified_download_is_put_in_place(tmp_path: Path) -> None:
    path = tmp_path / "deep" / "f"
    info = a_file(executable=True, signature=sign(CONTENT))
    fetch(transport(Response(200, CONTENT)), FileDownload(info, path, public_key()))
    assert path.read_bytes() == CONTENT
    assert path.stat().st_mode & 0o100
    assert [found.name for found in path.parent.iterdir()] == ["f"]


def test_input_file_is_never_made_executable(tmp_path: Path) -> None:
    path = tmp_path / "f"
    fetch(transport(Response(200, CONTENT)), FileDownload(a_file(executable=True), path, None))
    assert not path.stat().st_mode & 0o111


def test_interrupted_download_resumes_before_its_uncertain_end(tmp_path: Path) -> None:
    path = tmp_path / "f"
    with pytest.raises(DownloadError) as caught:
        fetch(transport(Response(200, CONTENT[:20_000])), FileDownload(a_file(), path, None))
    assert not caught.value.permanent
    assert (tmp_path / "f.part").stat().st_size == 15_000
    fetch(transport(Response(200, CONTENT)), FileDownload(a_file(), path, None))
    assert path.read_bytes() == CONTENT


@pytest.mark.parametrize(
    ("info", "answer", "code", "permanent"),
    [
        (a_file(), Response(200, b"x" * len(CONTENT)), "-119", True),
        (a_file(nbytes=5), Response(200, CONTENT), "-200", True),
        (a_file(), Response(404, b""), "-224", True),
        (a_file(), Response(503, b""), "-184", False),
        (a_file(), UnreachableError("no route"), "-184", False),
        (a_file(urls=()), Response(200, CONTENT), "-224", True),
    ],
)
def test_download_with_unexpected_content_or_status_is_refused(
    tmp_path: Path, info: FileInfo, answer: Response | Exception, code: str, *, permanent: bool
) -> None:
    with pytest.raises(DownloadError) as caught:
        fetch(transport(answer), FileDownload(info, tmp_path / "f", None))
    assert caught.value.code.startswith(code)
    assert caught.value.permanent is permanent
    assert not (tmp_path / "f").exists()


@pytest.mark.parametrize(
    ("signature", "code"),
    [("", "-123"), (sign(b"another"), "-120"), (sign(CONTENT, seed=2), "-120")],
)
def test_program_without_a_valid_project_signature_is_refused(
    tmp_path: Path, signature: str, code: str
) -> None:
    wanted = FileDownload(a_file(signature=signature), tmp_path / "f", public_key())
    with pytest.raises(DownloadError) as caught:
        fetch(transport(Response(200, CONTENT)), wanted)
    assert caught.value.code.startswith(code)
    assert list(tmp_path.iterdir()) == []


def test_signed_program_needs_no_md5(tmp_path: Path) -> None:
    info = a_file(signature=sign(CONTENT), md5="")
    fetch(transport(Response(200, CONTENT)), FileDownload(info, tmp_path / "f", public_key()))
    assert (tmp_path / "f").read_bytes() == CONTENT


def test_next_download_address_is_tried_after_a_failure(tmp_path: Path) -> None:
    info = a_file(urls=("http://a/f", "http://b/f"))
    port = transport(Response(404, b""), Response(200, CONTENT))
    fetch(port, FileDownload(info, tmp_path / "f", None))
    assert [url for url, _ in port.sent] == ["http://a/f", "http://b/f"]


def test_compressed_download_is_unpacked_up_to_its_expected_size(tmp_path: Path) -> None:
    info = a_file(urls=(), gzipped_urls=("http://a/f.gz",))
    fetch(
        transport(Response(200, gzip.compress(CONTENT))), FileDownload(info, tmp_path / "f", None)
    )
    assert (tmp_path / "f").read_bytes() == CONTENT
    bomb = gzip.compress(bytes(10_000_000))
    with pytest.raises(DownloadError, match="bytes instead of"):
        fetch(transport(Response(200, bomb)), FileDownload(info, tmp_path / "g", None))


def an_output(path: Path, content: bytes, *, resume: bool = False, urls: int = 1) -> FileUpload:
    path.write_bytes(content)
    info = FileInfo(
        "out", upload_urls=tuple(f"http://u{n}/" for n in range(urls)), max_nbytes=10**6
    )
    return FileUpload(info, path, len(content), hashlib.md5(content).hexdigest(), resume)


def test_small_output_is_uploaded_in_one_request(tmp_path: Path) -> None:
    port = transport(Response(200, GOOD))
    send(port, an_output(tmp_path / "out", b"tiny"))
    ((_, body),) = port.sent
    assert body.endswith(b"<offset>0</offset>\n<data>\ntiny")


def test_large_output_is_uploaded_after_a_size_query(tmp_path: Path) -> None:
    has = GOOD.replace(b"<file_size>0", b"<file_size>20000")
    port = transport(Response(200, has), Response(200, GOOD))
    send(port, an_output(tmp_path / "out", CONTENT))
    assert b"<get_file_size>out</get_file_size>" in port.sent[0][1]
    assert port.sent[1][1].partition(b"<data>\n")[2] == CONTENT[20_000:]


def test_complete_upload_on_the_server_is_not_sent_again(tmp_path: Path) -> None:
    has = GOOD.replace(b"<file_size>0", b"<file_size>4")
    port = transport(Response(200, has))
    send(port, an_output(tmp_path / "out", b"tiny", resume=True))
    assert len(port.sent) == 1


@pytest.mark.parametrize(
    ("answer", "permanent"),
    [
        (Response(200, b"<status>-1</status>"), True),
        (Response(200, b"<status>1</status>"), False),
        (Response(200, b"<html>"), False),
        (Response(404, b""), False),
        (Response(500, b""), False),
        (UnreachableError("no route"), False),
    ],
)
def test_only_upload_status_minus_1_is_permanent(
    tmp_path: Path, answer: Response | Exception, *, permanent: bool
) -> None:
    with pytest.raises(UploadError) as caught:
        send(transport(answer), an_output(tmp_path / "out", b"tiny"))
    assert caught.value.permanent is permanent


def test_refused_upload_is_tried_at_the_next_address(tmp_path: Path) -> None:
    port = transport(Response(200, b"<status>-1</status>"), Response(200, GOOD))
    send(port, an_output(tmp_path / "out", b"tiny", urls=2))
    assert len(port.sent) == 2


def a_state() -> State:
    held = HeldResult(
        Result("r", "w", "p", 1, file_refs=(FileRef("out", "out"),)),
        phase=Phase.UPLOADING,
        verdict=Verdict(5, 0),
        stderr="odd \udcff bytes",
        outputs=("out",),
    )
    project = Project(
        "http://h/",
        "key",
        files={"out": HeldFile(FileInfo("out"))},
        app_versions={"app p 1 ": AppVersion("app", 1, "p")},
        workunits={"w": Workunit("w", "app")},
        results={"r": held},
    )
    return State("cpid").with_project(project)


def test_journal_loads_the_saved_state(tmp_path: Path) -> None:
    Journal(tmp_path).save(a_state().starting("ask http://h/"))
    assert load_state(tmp_path) == a_state()
    assert Journal(tmp_path).current.stat().st_mode & 0o077 == 0


def test_journal_stores_every_change_of_the_state(tmp_path: Path) -> None:
    journal, state = Journal(tmp_path), a_state()
    project = state.projects["http://h/"]
    names = [f"r{number}" for number in range(3)]
    for name in names:
        held = HeldResult(Result(name, "wu"))
        journal.save(state := state.with_project(project := project.with_result(held)))
        assert journal.load() == state
    for name in names:
        project = project.with_result(replace(project.results[name], phase=Phase.READY))
        journal.save(state := state.with_project(project))
        assert journal.load() == state
    project = replace(project, results={}, files={})
    journal.save(state := state.with_project(project))
    assert journal.load() == state


def test_incomplete_temporary_file_of_the_journal_is_ignored(tmp_path: Path) -> None:
    journal = Journal(tmp_path)
    journal.save(a_state())
    (tmp_path / "state.writing").write_text('{"format": 1, "state": {"host_c')
    assert journal.load() == a_state()


@pytest.mark.parametrize(
    "damage", ["", "{", '{"format": 1}', "[]", '{"format": 1, "state": {"projects": 3}}']
)
def test_damaged_journal_falls_back_to_the_previous_one(tmp_path: Path, damage: str) -> None:
    journal = Journal(tmp_path)
    journal.save(a_state())
    journal.save(State("newer"))
    journal.current.write_text(damage)
    assert journal.load() == a_state()


def test_two_damaged_journals_raise_an_error_with_a_hint(tmp_path: Path) -> None:
    journal = Journal(tmp_path)
    journal.save(a_state())
    journal.save(a_state())
    journal.previous.unlink()
    for path in (journal.current, journal.previous):
        path.write_text("{")
    with pytest.raises(DamagedJournalError, match="Hint: move"):
        journal.load()


def test_new_folder_gets_its_own_host_cpid(tmp_path: Path) -> None:
    assert len(load_state(tmp_path).host_cpid) == 32
    assert load_state(tmp_path).projects == {}


def test_unknown_files_are_deleted(tmp_path: Path) -> None:
    home, project = Home(tmp_path), a_state().projects["http://h/"]
    for name in ("out", "out.part", "forgotten", "deep/forgotten.part"):
        path = home.file(project.url, name)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()
    sweep(home, project)
    folder = home.project(project.url)
    assert sorted(path.name for path in folder.rglob("*") if path.is_file()) == ["out", "out.part"]


@pytest.mark.parametrize(
    ("honest", "altered"),
    [(b"p 7\nend\n", b"p 8\nend\n"), (b"9", b"0"), (b"ab", b"ac"), (b"", b"")],
)
def test_falsified_file_differs_in_one_byte(tmp_path: Path, honest: bytes, altered: bytes) -> None:
    path = tmp_path / "out"
    path.write_bytes(honest)
    falsify(path)
    assert path.read_bytes() == altered


# Compressed outputs


def to_be_packed(home: Home, content: bytes, **changes: object) -> tuple[Project, HeldResult]:
    """Return a project and its result, whose output is on disk and is to be compressed."""
    info = FileInfo("out", upload_urls=("http://a/u",), gzip_when_done=True, **changes)  # type: ignore[arg-type]
    project = Project("http://h/", "key", files={"out": HeldFile(info)})
    path = home.file("http://h/", "out")
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)
    refs = (FileRef("out", "out"),)
    return project, HeldResult(Result("r", "w", "p", 1, file_refs=refs), slot=0)


def test_output_is_compressed_only_once(tmp_path: Path) -> None:
    home = Home(tmp_path)
    project, held = to_be_packed(home, CONTENT)
    once = take_outputs(home, project, held)
    assert take_outputs(home, project, held) == once
    packed = home.file("http://h/", "out").read_bytes()
    assert gzip.decompress(packed) == CONTENT
    assert packed[4:8] == bytes(4)  # no time stamp, so that equal outputs are packed alike
    assert once[0].nbytes == len(packed)
    assert once[0].md5 == hashlib.md5(packed).hexdigest()


def test_output_already_compressed_by_its_program_is_compressed_again(tmp_path: Path) -> None:
    home = Home(tmp_path)
    project, held = to_be_packed(home, gzip.compress(CONTENT))
    take_outputs(home, project, held)
    packed = home.file("http://h/", "out").read_bytes()
    assert gzip.decompress(gzip.decompress(packed)) == CONTENT


def test_size_limit_applies_to_the_uncompressed_output(tmp_path: Path) -> None:
    home = Home(tmp_path)
    project, held = to_be_packed(home, CONTENT, max_nbytes=len(CONTENT) - 1)
    [output] = take_outputs(home, project, held)
    assert output.nbytes == len(CONTENT)
