"""Scientists' inputs: how they are read, named and sent."""

from __future__ import annotations

import gzip
import json
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from scientist import models, store
from scientist.errors import NotFoundError, QuotaError, ServerFault, UsageError, problem
from scientist.inputs import InputFile, Work, fields_of, files_of, work_of
from scientist.submission import WorkunitNames, _Part, tag
from scientist.transport import project_url
from scientist.uploads import UnreadableInput, checked


def test_path_becomes_an_input_file_and_the_label_of_its_workunit():
    path = Path("in/a b.pdb")
    meta = {"input": "in/a b.pdb"}
    assert work_of(path) == Work((InputFile("in", path),), {"meta": meta}, label="a b")


def test_bytes_become_an_input_file_and_text_becomes_the_command_line():
    assert work_of(b"1 30").files == (InputFile("in", b"1 30"),)
    assert work_of("--seed 7").fields == {"command_line": "--seed 7"}


@pytest.mark.parametrize("content", [b"1 30", "1 30"])
def test_pair_is_read_as_name_and_content(content):
    wanted = Work((InputFile("in", b"1 30"),), {"meta": {"input": "first"}}, label="first")
    assert work_of(("first", content)) == wanted


def test_mapping_accepts_api_fields_and_their_short_names():
    one = work_of(
        {
            "name": "w",
            "quorum": 2,
            "deadline": timedelta(hours=1),
            "input_files": {"in": "x", "data": Path("d")},
            "start_after": datetime(2027, 1, 1, tzinfo=UTC),
            "meta": {"k": 1},
        }
    )
    assert one.name == "w"
    assert one.files == (InputFile("in", b"x"), InputFile("data", Path("d")))
    assert one.fields == {
        "min_quorum": 2,
        "delay_bound_seconds": 3600.0,
        "start_after": "2027-01-01T00:00:00Z",
        "meta": {"input": "d", "k": 1},
    }


def test_input_file_can_be_given_by_the_hash_of_a_stored_file():
    [known] = files_of([{"open_name": "in", "sha256": "ab", "sticky": True}])
    assert known == InputFile("in", None, {"sha256": "ab", "sticky": True})
    with pytest.raises(UsageError, match="has no open_name"):
        files_of([{"content": "x"}])


@pytest.mark.parametrize("strange", [7, None, ("a", 7), ["a"]])
def test_invalid_input_is_refused_with_the_accepted_forms(strange):
    with pytest.raises(UsageError, match="Hint: give a path"):
        work_of(strange)


def test_output_can_include_its_maximum_size():
    said = fields_of({"outputs": ["out:1000", "log"]})
    assert said == {"outputs": [{"open_name": "out", "max_nbytes": 1000}, "log"]}


def test_workunit_names_combine_batch_and_file_and_are_unique():
    names = WorkunitNames("Proteine n° 7", 3)
    assert [names.of(Work(label=one)) for one in ("a", "a", "ü b")] == [
        "Proteine_n_7_a",
        "Proteine_n_7_a-2",
        "Proteine_n_7_u_b",
    ]
    numbered = WorkunitNames("b", 100)
    assert [numbered.of(Work()) for _ in range(2)] == ["b_001", "b_002"]


def test_duplicate_workunit_name_is_refused():
    names = WorkunitNames("b", None)
    names.of(Work(name="w"))
    with pytest.raises(UsageError, match="Two workunits are called w"):
        names.of(Work(name="w"))


def test_same_key_gives_the_same_tag():
    assert tag("k") == tag("k") != tag("l")


def test_same_workunits_are_encoded_to_the_same_bytes():
    bodies = []
    for _ in range(2):
        part = _Part({"app": "a"})
        part.add({"name": "ü"})
        nbytes = part.finish()
        bodies.append(b"".join(part.body(lambda *_: None, nbytes)))
        assert b"".join(part.body(lambda *_: None, nbytes)) == bodies[-1]
        part.close()
    assert bodies[0] == bodies[1]
    lines = gzip.decompress(bodies[0]).splitlines()
    assert [json.loads(line) for line in lines] == [{"app": "a"}, {"name": "ü"}]


def test_unreadable_input_is_refused_with_the_reason(tmp_path):
    with pytest.raises(UnreadableInput, match="There is no file"):
        checked(tmp_path / "none")
    with pytest.raises(UnreadableInput, match="is a folder"):
        checked(tmp_path)
    with pytest.raises(UnreadableInput, match="not a regular file"):
        checked(Path("/dev/null"))


@pytest.mark.parametrize(
    ("said", "meant"),
    [
        ("127.0.0.1:8000", "http://127.0.0.1:8000/"),
        ("localhost", "http://localhost/"),
        ("lab.example", "https://lab.example/"),
        ("http://lab.example/manyhands/api/v1/", "http://lab.example/manyhands/"),
        ("http://[::1]:8000", "http://[::1]:8000/"),
    ],
)
def test_project_address_is_accepted_in_several_forms(said, meant):
    assert project_url(said) == meant


@pytest.mark.parametrize("said", ["", "ftp://x", "http://", "http://x:99999999/", "http://x:y/"])
def test_invalid_project_address_is_refused(said):
    with pytest.raises(UsageError, match="not the address of a project"):
        project_url(said)


def test_problem_exception_lists_the_faults_and_ends_with_the_hint():
    faults = [{"line": n, "pointer": "/name", "detail": "bad", "hint": "mend"} for n in range(12)]
    error = problem(422, {"detail": "No.", "hint": "Do.", "code": "invalid", "errors": faults})
    assert str(error).startswith("No.\n  line 0, /name: bad Hint: mend\n")
    assert "... and 2 more." in str(error)
    assert str(error).endswith("Hint: Do.")
    assert len(error.errors) == 12
    assert error.as_json()["errors"] == faults
    assert isinstance(problem(404, {}), NotFoundError)
    assert isinstance(problem(403, {"code": "quota_exceeded"}), QuotaError)
    assert isinstance(problem(503, {}), ServerFault)


def test_responses_are_typed_and_unknown_fields_are_ignored():
    batch = models.read(
        models.BatchInfo,
        {
            "id": 7,
            "app": None,
            "created_at": "2027-01-01T00:00:00Z",
            "news": [1],
            "progress": {"total": 3, "done": 2, "failed": 1},
        },
    )
    assert batch.created_at == datetime(2027, 1, 1, tzinfo=UTC)
    assert batch.progress.is_complete
    assert batch.app == ""
    entry = models.read(models.ManifestEntry, {"outputs": [{"open_name": "out", "nbytes": 3}]})
    assert entry.outputs == (models.Output(open_name="out", nbytes=3),)


def test_logins_are_stored_readable_by_their_owner_only(tmp_path, monkeypatch):
    monkeypatch.setenv("MANYHANDS_CONFIG", str(tmp_path / "config"))
    assert store.load() == store.Logins()
    logins = store.Logins("http://a/", {"http://a/": store.Login("mh_x", "a@b", 3, ("read",))})
    path = store.save(logins)
    assert store.load() == logins
    assert path.stat().st_mode & 0o777 == 0o600
    assert path.parent.stat().st_mode & 0o777 == 0o700
    path.write_text("{")
    with pytest.raises(store.UnreadableLogins, match="cannot be read"):
        store.load()
