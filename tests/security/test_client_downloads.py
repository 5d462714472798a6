"""A program cannot lead the client's downloads out of the project's folder."""

from __future__ import annotations

import hashlib
from contextlib import contextmanager

import pytest

from tests.security.test_client_names import Client, a_reply, download, upload
from volunteer.files import DownloadError, FileDownload, fetch
from volunteer.transport import OK, Stream, UnreachableError
from volunteer.wire.messages import FileInfo

CONTENT = b"ssh-ed25519 AAAA of the attacker\n"
SECRET = b"a private file of the volunteer\n"


class Server:
    """A transport that creates a link, as a program might, before it sends CONTENT."""

    def __init__(self, link, target, *, is_cut=False):
        self.link, self.target, self.is_cut = link, target, is_cut

    @contextmanager
    def stream(self, _url, _offset):
        self.link.symlink_to(self.target)
        if self.is_cut:
            raise UnreachableError("the connection was cut")
        yield Stream(OK, 0, iter([CONTENT]))


@pytest.mark.parametrize("is_cut", [False, True])
@pytest.mark.parametrize("exists", [False, True])
def test_link_in_place_of_a_partial_file_is_not_followed(tmp_path, exists, is_cut):
    private, folder = tmp_path / "authorized_keys", tmp_path / "project"
    folder.mkdir()
    if exists:
        private.write_bytes(SECRET)
    info = FileInfo(
        "in_1", urls=("http://d/in_1",), nbytes=len(CONTENT), md5=hashlib.md5(CONTENT).hexdigest()
    )
    server = Server(folder / "in_1.part", private, is_cut=is_cut)
    with pytest.raises(DownloadError) as failed:
        fetch(server, FileDownload(info, folder / "in_1", None))
    assert not failed.value.permanent
    assert private.exists() == exists
    if exists:
        assert private.read_bytes() == SECRET
        assert private.stat().st_mode & 0o777 != 0o755


@pytest.mark.parametrize("role", ["program", "data", "output"])
def test_physical_name_with_a_folder_is_refused(role):
    """A program could replace the folder by a link before the file is written or deleted."""
    client = Client()
    client.gets(a_reply(**{role: "keys/file_1"}))
    assert "is in a folder" in client.refused()
    assert "keys/file_1" not in client.project.files


def test_slot_name_with_a_folder_is_accepted():
    client = Client()
    files = (download("app_1", executable=True, signature="aa\n."), download("in_1"))
    client.gets(a_reply(data_as="data/in", files=(*files, upload("out_1"))))
    assert not client.refused()
