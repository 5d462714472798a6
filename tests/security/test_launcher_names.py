"""Names in an unsigned command line cannot lead the launcher out of its slot."""

from __future__ import annotations

import io
import os
import subprocess
import tarfile
from pathlib import Path

import pytest

from tests.pure.storage.test_launcher import IMAGE, SHELLS, Slot, slot

__all__ = ["slot"]

LEADS_OUT = [
    "../../x",
    "sub/../../../x",
    "..",
    ".",
    "sub/./x",
    "sub//x",
    "sub/",
    "back\\slash",
    "new\nline",
]
RESERVED = [
    "init_data.xml",
    "INIT_DATA.XML",
    "boinc_finish_called",
    "Boinc_temporary_exit",
    "_launcher",
    "_launcher/to/0",
    "_LAUNCHER/code",
    "_launcher.tar.gz",
    "launcher",
    "Launcher",
]


def everything(folder: Path) -> dict[str, bytes]:
    """Return every file below a folder and its content."""
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in folder.rglob("*")
        if path.is_file() and not path.is_symlink()
    }


def outside(slot: Slot) -> dict[str, bytes]:
    top = slot.path.parent.parent
    return {
        name: content
        for name, content in everything(top).items()
        if not name.startswith(("slots/0/", "projects/here/launcher"))
    }


@pytest.mark.parametrize("name", [*LEADS_OUT, *RESERVED])
@pytest.mark.parametrize("side", ["in", "out"])
def test_reserved_file_name_or_unsafe_path_is_refused(slot: Slot, name: str, side: str) -> None:
    (slot.path / ".." / ".." / "x").write_bytes(b"a file of the computer\n")
    before = outside(slot)
    (slot.inputs if side == "in" else slot.outputs).append(name)
    code, err = slot.run("command", "echo stolen")
    assert code == 1
    assert "cannot be the name of an input or output. Hint:" in err
    assert not slot.finished
    assert outside(slot) == before


@pytest.mark.parametrize("side", ["in", "out"])
def test_absolute_file_name_is_refused(slot: Slot, tmp_path: Path, side: str) -> None:
    target = tmp_path / "elsewhere"
    target.write_bytes(b"mine\n")
    (slot.inputs if side == "in" else slot.outputs).append(str(target))
    code, err = slot.run("command", "echo stolen")
    assert (code, target.read_bytes()) == (1, b"mine\n")
    assert "cannot be the name of an input or output. Hint:" in err


def test_file_names_that_differ_only_in_case_are_refused(slot: Slot) -> None:
    slot.input("Table", b"1\n")
    slot.output("table")
    code, err = slot.run("command", "echo 1")
    assert code == 1
    assert "names of inputs and outputs are the same" in err


def test_empty_file_name_is_refused(slot: Slot) -> None:
    words = slot.words("command", "echo 1", "exit_code", (), ())
    words = [word.replace("out=", "out=%") if word == "out=" else word for word in words]
    assert "out=%" in words
    done = subprocess.run(words, cwd=slot.path, capture_output=True, timeout=30, check=False)
    assert done.returncode == 1
    assert b"cannot be the name of an input or output. Hint:" in done.stderr


def test_glob_pattern_in_a_file_name_is_not_expanded(slot: Slot) -> None:
    """A pattern could match nothing when names are checked, and a file of another slot later."""
    other = slot.path.parent / "1/in"
    link = "<soft_link>../../projects/here/i9</soft_link>\n"
    said = f"mkdir ../1; printf '{link}' >../1/in; echo forged"
    words = slot.words("command", said, "exit_code", (), ())
    words = ["out=.[.]/[1]/in" if word == "out=" else word for word in words]
    assert "out=.[.]/[1]/in" in words
    subprocess.run(words, cwd=slot.path, capture_output=True, timeout=30, check=False)
    assert other.read_text() == link


@pytest.mark.parametrize("name", ["program", "Program/x"])
def test_output_name_in_the_script_folder_is_refused(slot: Slot, name: str) -> None:
    slot.archive({"run.sh": "#!/bin/sh\necho 1\n"})
    slot.outputs.append(name)
    code, err = slot.run("script")
    assert code == 1
    assert "cannot be the name of an input or output. Hint:" in err


def member(name: str, kind: bytes = tarfile.REGTYPE, link: str = "") -> tarfile.TarInfo:
    info = tarfile.TarInfo(name)
    info.type, info.linkname = kind, link
    return info


@pytest.mark.parametrize(
    "bad",
    [
        member("../../escaped"),
        member("sub/../../../escaped"),
        member("link", tarfile.SYMTYPE, "/etc/passwd"),
        member("hard", tarfile.LNKTYPE, "run.sh"),
        member("pipe", tarfile.FIFOTYPE),
    ],
    ids=lambda info: info.name,
)
def test_archive_with_links_or_names_outside_its_folder_is_refused(
    slot: Slot, bad: tarfile.TarInfo
) -> None:
    with tarfile.open(slot.project / "archive", "w:gz") as archive:
        script = b"#!/bin/sh\necho 1\n"
        info = member("run.sh")
        info.size = len(script)
        archive.addfile(info, io.BytesIO(script))
        archive.addfile(bad)
    slot.link("_launcher.tar.gz", "archive")
    slot.output("out")
    code, err = slot.run("script")
    assert code == 1
    assert "The program's archive has a link or a name that leads out of its folder." in err
    assert not (slot.path / "program").exists()
    assert not list(slot.path.parent.parent.rglob("escaped"))


# A container can access the slot, but must not access other files through the launcher.

FAKE_PODMAN = """#!/bin/sh
[ "$1" = run ] || exit 0
printf '%s\\n' "$@" >"$RECORD"
while [ "$1" != "$IMAGE" ]; do shift; done
shift
exec "$@"
"""


@pytest.fixture
def container(slot: Slot, tmp_path: Path) -> Slot:
    programs = tmp_path / "bin"
    programs.mkdir()
    (programs / "podman").write_text(FAKE_PODMAN)
    (programs / "podman").chmod(0o755)
    slot.environment = {
        "PATH": f"{programs}:{os.environ['PATH']}",
        "RECORD": str(tmp_path / "record"),
        "IMAGE": IMAGE,
    }
    return slot


def test_container_cannot_see_the_launcher_folder(container: Slot, tmp_path: Path) -> None:
    container.output("out")
    assert container.run("container", "echo 1") == (0, "")
    words = (tmp_path / "record").read_text().splitlines()
    assert words[words.index("/work/_launcher") - 1] == "--tmpfs"


def test_link_created_by_a_container_as_output_is_not_followed(
    container: Slot, tmp_path: Path
) -> None:
    secret = tmp_path / "secret"
    secret.write_text("a file of the computer\n")
    container.output("out")
    code, _err = container.run("container", f"ln -s '{secret}' out")
    assert container.sent() != b"a file of the computer\n"
    assert code == 1


def test_link_created_by_a_container_in_place_of_an_output_folder_is_not_followed(
    container: Slot, tmp_path: Path
) -> None:
    target = tmp_path / "target"
    target.mkdir()
    (target / "out").write_text("a file of the computer\n")
    container.output("sub/out")
    code, _err = container.run("container", f"sh -c 'rm -r sub; ln -s \"{target}\" sub'")
    assert container.sent() != b"a file of the computer\n"
    assert code == 1
    assert (target / "out").read_text() == "a file of the computer\n"


def test_soft_link_file_written_by_a_container_is_not_followed_at_the_next_start(
    container: Slot,
) -> None:
    (container.project / "program").write_bytes(b"signed\n")
    container.output("out")
    link = "<soft_link>../../projects/here/program</soft_link>"
    first = f"sh -c 'echo \"{link}\" >out; echo 1 >boinc_temporary_exit'"
    assert container.run("container", first)[0] == 0
    assert container.run("container", "echo evil")[0] == 0
    assert (container.project / "program").read_bytes() == b"signed\n"
    assert container.sent() == b"evil\n"


def test_launcher_is_tested_with_dash_bash_and_busybox() -> None:
    assert set(SHELLS) >= {"dash", "bash", "busybox"}
