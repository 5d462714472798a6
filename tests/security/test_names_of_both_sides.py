"""Names that the server accepts are accepted by the volunteer client."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from scheduler.apps.rules import packaging
from scheduler.apps.rules.packaging import BadPackage
from scheduler.files.download_files import physical_name
from scheduler.files.rules import refused_names
from scheduler.results.facts import output_name, result_name
from scheduler.work.submission.facts import NewFile, NewOutput, NewWorkunit
from scheduler.work.submission.rules import new_workunits
from volunteer.names import name_fault, shared_name

NOON = datetime(2026, 6, 1, 12, tzinfo=UTC)
PLAIN = NewWorkunit(outputs=(NewOutput(open_name="result of the work"),))
SHA256 = "0123456789abcdef" * 4

#: Names that the client refuses, and that earlier servers accepted.
REFUSED = [
    "x.part", "X.Part", "x.unzipped", "a.part/b", "init_data.xml", "Init_Data.XML", "stderr.txt",
    "sub/stdout.txt", "boinc_finish_called", "BOINC_x", "a/boinc_y", ".hidden", "a/.hidden", "a//b",
    "trickle_up.xml", "Trickle_Down_7", "a/", "./a", "~x", "a.", "a /b", "nul", "AUX.txt", "com1", "con .x", "conin$", "a\u202eb", "a\x85b",
]  # fmt: skip
#: Names in BOINC's own templates, samples and scripts, or in this project's documents.
USUAL = [
    "in", "out", "out.part1", "part", "unzipped", "a.partial", "stderr", "stderr.txt.gz", "init_data",
    "boinc", "my_boinc_x", "console.txt", "com10", "sub/dir/in.dat", "genome v2.fa", "-r", "übung.txt",
    "a.b.c", "out_0", "trickle_up", "trickle_down", "init_data.xml.bak", "part.txt", "common", "lpt",
]  # fmt: skip

#: Texts made of the parts that rules check, so that examples are often near a limit.
PIECES = st.sampled_from(
    ["a", "A", "b", "out", "x.part", ".part", ".unzipped", "boinc_", "BOINC_", "init_data.xml",
     "stderr.txt", "stdout.txt", "trickle_up.xml", "trickle_down_", "con", "Com1", "nul", "conout$", ".", "..", "/", "~", " ", "%", "\\",
     "\t", "\x7f", "\u202e", "ß", "ss", "é", "e\u0301", "ſ", "İ", "K", "_", "-", "+", "=", "1", "\u00b9"]
)  # fmt: skip
NAMES = st.lists(PIECES, min_size=1, max_size=5).map("".join) | st.text(max_size=12)


def faults(workunit: NewWorkunit) -> list[str]:
    found = new_workunits.faults([workunit], max_output_bytes=1 << 40, now=NOON)
    return [str(fault) for fault in found.get(0, ())]


def work(inputs: list[str], outputs: list[str], **changes: object) -> NewWorkunit:
    return replace(
        PLAIN,
        input_files=tuple(NewFile(open_name=name, content=b"") for name in inputs),
        outputs=tuple(NewOutput(open_name=name) for name in outputs),
        **changes,
    )


@pytest.mark.parametrize("name", REFUSED)
@pytest.mark.parametrize("side", ["input", "output"])
def test_file_name_that_clients_refuse_is_refused_at_submission(name: str, side: str) -> None:
    assert name_fault(name)
    given_names = ([name], ["out"]) if side == "input" else (["in"], [name])
    [fault] = faults(work(*given_names))
    assert "not a name that a program can open" in fault
    assert "Hint: " in fault


@pytest.mark.parametrize("name", USUAL)
def test_usual_file_name_is_accepted(name: str) -> None:
    assert faults(work([name], ["the result"])) == []
    assert faults(work(["the table"], [name])) == []
    packaging.unpack({"run": b"x", name: b"y"}, main_program="run")


@pytest.mark.parametrize(
    ("one", "other"),
    [("Out", "out"), ("stra\u00dfe", "STRASSE"), ("\u00e9", "e\u0301"), ("a", "a/b"), ("A/b", "a")],
)
def test_file_names_that_conflict_on_some_file_systems_are_refused(one: str, other: str) -> None:
    for workunit in (work([one], [other]), work([one, other], ["r"]), work([], [one, other])):
        [fault] = faults(workunit)
        assert "cannot be in one folder on every computer" in fault
        assert repr(one) in fault
        assert repr(other) in fault


@pytest.mark.parametrize("name", ["boinc", "boinc_7", "BOINC_x", "con.7", "Nul.a.b"])
def test_workunit_name_that_gives_outputs_a_refused_name_is_refused(name: str) -> None:
    [fault] = faults(replace(PLAIN, name=name))
    assert "not a name for a workunit" in fault


@pytest.mark.parametrize(
    "name", ["con", "wu.part", "boincx", "init_data.xml", "range_7", "a.unzipped"]
)
def test_workunit_name_that_gives_outputs_an_accepted_name_is_accepted(name: str) -> None:
    assert faults(replace(PLAIN, name=name)) == []


@given(
    inputs=st.lists(NAMES, max_size=3),
    outputs=st.lists(NAMES, max_size=3),
    name=st.none() | NAMES,
)
@example(inputs=["in"], outputs=["out"], name="con.1")
@example(inputs=["a/b"], outputs=["A"], name=None)
def test_client_accepts_workunit_file_names_that_the_server_accepts(
    inputs: list[str], outputs: list[str], name: str | None
) -> None:
    workunit = work(inputs, outputs, name=name)
    if faults(workunit):
        return
    in_slot = inputs + outputs
    assert [name_fault(each) for each in in_slot] == [""] * len(in_slot)
    assert shared_name(in_slot) == ""
    made = output_name(result_name(name or "wu", 10**9), 2**62, 99)
    assert name_fault(made) == ""
    for each in inputs:
        assert name_fault(physical_name(each, SHA256, 7)) == ""


@given(names=st.lists(NAMES, min_size=1, max_size=4, unique=True))
@example(names=["x", "a.part"])
def test_client_accepts_app_version_file_names_that_the_server_accepts(names: list[str]) -> None:
    try:
        package = packaging.unpack(dict.fromkeys(names, b"x"), main_program=names[0])
    except BadPackage:
        return
    physical = [
        physical_name(file.name, SHA256, number) for number, file in enumerate(package.files)
    ]
    slot = [file.open_name or name for file, name in zip(package.files, physical, strict=True)]
    assert [name_fault(each) for each in slot + physical] == [""] * (2 * len(slot))
    assert shared_name(slot) == ""


@given(hint=NAMES | st.text(alphabet="abcon.prt_/BOINC", max_size=30))
@example(hint="boinc_data.txt")
@example(hint="x.part")
@example(hint="con.tar.gz")
def test_client_accepts_physical_names_generated_by_the_server(hint: str) -> None:
    made = physical_name(hint, SHA256, 1295)
    assert name_fault(made) == ""
    assert SHA256[:16] in made


@given(name=st.text(alphabet="abcdeoinprtux0123456789_.+=-BOINC", min_size=1, max_size=40))
@example(name="boinc")
@example(name="boinc_zip")
@example(name="con.x")
def test_client_accepts_output_names_of_generated_workunit_names(name: str) -> None:
    app = name.lstrip(".+=-").replace("..", "")
    if not new_workunits.NAME_PATTERN.fullmatch(app) or ".." in app:
        return
    assert (
        name_fault(output_name(result_name(f"{refused_names.usable(f'{app}_ab12')}_0", 0), 1, 0))
        == ""
    )


@pytest.mark.parametrize(
    "files", [{"run": b"", "data.part": b""}, {"run": b"", "Data": b"", "data": b""},
              {"run": b"", ".config": b""}, {"run": b"", "boinc_app": b""}],
)  # fmt: skip
def test_version_with_file_names_that_clients_refuse_is_refused(files: dict[str, bytes]) -> None:
    with pytest.raises(BadPackage, match="Hint: rename the file"):
        packaging.unpack(files, main_program="run")


def test_main_program_with_a_name_that_clients_refuse_is_accepted() -> None:
    package = packaging.unpack({"boinc_app": b""}, main_program="boinc_app")
    assert package.files[0].open_name == ""
    assert not name_fault(physical_name("boinc_app", SHA256, 1))


@pytest.mark.parametrize(("logical", "ok"), [("stderr.txt", False), ("model", True)])
def test_logical_names_in_version_xml_are_checked(logical: str, ok: bool) -> None:
    text = (
        "<version><file><physical_name>run</physical_name><main_program/></file><file>"
        f"<physical_name>m</physical_name><logical_name>{logical}</logical_name></file></version>"
    )
    files = {"version.xml": text.encode(), "run": b"", "m": b""}
    if ok:
        assert packaging.unpack(files).files[1].open_name == logical
        return
    with pytest.raises(BadPackage, match="which clients use themselves"):
        packaging.unpack(files)
