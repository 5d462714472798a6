"""`manage.py try_validator` runs a validator on files, as the daemon would."""

from __future__ import annotations

import io
import json

import pytest
from django.core.management import CommandError, call_command

from daemons.science import worker
from tests import rows

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("targets_allowed")]

MOODY = "python:tests.database.moody.Moody"


@pytest.fixture(autouse=True, scope="module")
def no_worker_is_left():
    yield
    worker.stop()


@pytest.fixture
def files(tmp_path):
    """Return a function that writes texts to files and returns their paths."""

    def made(*texts, ending="txt"):
        paths = [tmp_path / f"{number}.{ending}" for number in range(1, len(texts) + 1)]
        for path, text in zip(paths, texts, strict=True):
            path.write_text(text)
        return [str(path) for path in paths]

    return made


def attempt(*words):
    """Return the output of the command and its exit status."""
    out, status = io.StringIO(), 0
    try:
        call_command("try_validator", *words, stdout=out)
    except SystemExit as end:
        status = end.code
    except CommandError as error:
        return str(error), error.returncode
    return out.getvalue(), status


def attempt_json(*words):
    out, status = attempt(*words, "--json")
    return json.loads(out), status


def test_try_validator_prints_a_table_of_matching_results(files):
    app = rows.an_app("sums", validator="numeric", validator_options={"absolute": 0.1})
    paths = files("1.0", "1.05", "2.0")
    out, status = attempt(app.name, *paths, "--quorum", "3")
    assert status == 0
    lines = out.splitlines()
    assert lines[0] == "numeric on 3 results, outputs named after the files:"
    assert [line.split() for line in lines[2:5]] == [
        ["1", paths[0], "·", "✓", "✗", "valid,", "canonical"],
        ["2", paths[1], "✓", "·", "✗", "valid"],
        ["3", paths[2], "✗", "✗", "·", "invalid"],
    ]
    assert lines[5].startswith(f"2 agree, and {paths[0]} is canonical (")


def test_exit_status_is_1_without_a_quorum(files):
    paths = files("1.0", "2.0")
    out, status = attempt(rows.an_app(validator="numeric").name, *paths)
    assert status == 1
    assert "No quorum of 2 agrees: the daemons would make more results" in out


def test_json_option_prints_the_verdicts_as_json(files):
    app = rows.an_app(validator="bitwise")
    paths = files("a", "a", "b")
    found, status = attempt_json(app.name, *paths)
    assert status == 0
    assert found.pop("seconds") >= 0
    assert found == {
        "validator": "bitwise",
        "options": {},
        "quorum": 2,
        "results": paths,
        "agreeing": [paths[:2]],
        "verdicts": dict(zip(paths, ["valid, canonical", "valid", "invalid"], strict=True)),
        "canonical": paths[0],
        "failure": "",
        "traceback": "",
    }


def test_validator_and_options_can_be_overridden(files):
    app = rows.an_app(validator="numeric", validator_options={"absolute": 5})
    paths = files("1.0", "2.0")
    assert attempt(app.name, *paths)[1] == 0
    assert attempt(app.name, *paths, "--options", '{"absolute": 0.5}')[1] == 1
    assert attempt(app.name, *paths, "--validator", "bitwise")[1] == 1
    assert attempt(app.name, *paths, "--validator", "trivial")[1] == 0


def test_several_outputs_per_result_can_be_given_in_sequence_or_in_folders(files, tmp_path):
    app = rows.an_app(validator="bitwise")
    paths = files("a", "b", "a", "b")
    found, status = attempt_json(app.name, *paths, "--outputs", "2")
    assert (status, found["results"]) == (0, [" ".join(paths[:2]), " ".join(paths[2:])])
    folders = [tmp_path / "one", tmp_path / "two"]
    for folder in folders:
        folder.mkdir()
        (folder / "out").write_text("a")
        (folder / "log").write_text("b")
    found, status = attempt_json(app.name, *map(str, folders))
    assert (status, found["results"]) == (0, [str(folder) for folder in folders])


def test_output_names_are_taken_from_the_newest_workunit(files):
    app = rows.an_app(validator="numeric")
    rows.a_workunit(app, name="wu_json", outputs=[{"open_name": "answer.json"}])
    paths = files('{"a": 1, "b": 2}', '{"b": 2, "a": 1}')
    out, status = attempt(app.name, *paths)
    assert status == 0
    assert "outputs listed as in workunit wu_json" in out


def test_an_unreadable_result_is_reported_as_an_error(files):
    paths = files("apple", "bad", "ant")
    found, status = attempt_json(rows.an_app(validator=MOODY).name, *paths)
    assert status == 0
    assert found["verdicts"][paths[1]] == "error: It says so itself."


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("raise", "RuntimeError: this cannot be"),
        ("crash", "exit status 9"),
        ("hang", "did not answer within 0.5 s"),
        ("later", "try again later: the service is away"),
    ],
)
def test_a_validator_failure_is_printed_with_its_traceback(files, text, said):
    app = rows.an_app(validator=MOODY)
    out, status = attempt(app.name, *files("apple", text), "--time-limit", "0.5")
    assert status == 1
    assert "The validator failed: " in out
    assert said in out


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["nothing", "1.txt", "2.txt"], r"There is no app 'nothing'. Hint: the apps are sums."),
        (["sums", "1.txt", "9.txt"], "Hint: give one file or one folder"),
        (["sums", "1.txt"], "at least two different results"),
        (["sums", "1.txt", "1.txt"], "at least two different results"),
        (["sums", "1.txt", "."], "give either files or folders"),
        (
            ["sums", "1.txt", "2.txt", "3.txt", "--outputs", "2"],
            "3 files cannot be divided into 2 per",
        ),
        (["sums", "1.txt", "2.txt", "--options", "{"], "not JSON"),
        (["sums", "1.txt", "2.txt", "--options", "[]"], "not a JSON object"),
        (["sums", "1.txt", "2.txt", "--options", '{"absolut": 1}'], "did you mean 'absolute'"),
        (["sums", "1.txt", "2.txt", "--validator", "numerik"], "did you mean 'numeric'"),
    ],
)
def test_usage_errors_print_a_hint_and_exit_with_status_2(
    files, tmp_path, monkeypatch, words, said
):
    rows.an_app("sums", validator="numeric")
    files("1", "2", "3")
    monkeypatch.chdir(tmp_path)
    sentence, status = attempt(*words)
    assert said in sentence
    assert "Hint: " in sentence
    assert status == 2
