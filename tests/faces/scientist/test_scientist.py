"""The scientist's program and the API: output, effects and refusals."""

from __future__ import annotations

import csv
import functools
import json
import os
from datetime import timedelta
from pathlib import Path

import httpx
import pytest
from django.utils import timezone

from daemons import transitioner
from scheduler.models import (
    App,
    Batch,
    Dependency,
    IdempotencyKey,
    Queue,
    Submitter,
    UsageSample,
    Workunit,
)
from scheduler.people import accounts
from scientist import Project, batches, cli, store, submission, transport, uploads
from scientist.commands import submitting
from scientist.futures import WorkunitFuture
from scientist.inputs import Work
from tests.conftest import NOON
from tests.faces.scientists_wire import Wire, changed, cut, lost
from tests.rows import (
    a_host,
    a_result,
    an_account,
    an_app,
    an_app_version,
    settled,
    update,
)
from tests.scientists import Scientist, a_batch, done_in, failed_in, in_batch

pytestmark = pytest.mark.django_db

URL = "http://testserver/"


@pytest.fixture
def wire(monkeypatch) -> Wire:
    """Connect the program to the project by a `Wire`; shorten waits between attempts."""
    made = Wire()
    monkeypatch.setattr(transport.httpx, "Client", functools.partial(httpx.Client, transport=made))
    monkeypatch.setitem(Project.__init__.__kwdefaults__, "patience", 0.2)
    # A request in another thread would not see the rows of the test's transaction.
    monkeypatch.setattr(uploads, "_MAX_CONCURRENT", 1)
    monkeypatch.setattr(transport.random, "uniform", lambda *_: 0.01)
    return made


@pytest.fixture
def eve() -> Scientist:
    return Scientist(email="eve@example.org", name="Eve", is_superuser=True)


@pytest.fixture
def run(wire, eve, monkeypatch, tmp_path, capsys):
    """Return a function that runs a command as Eve: (exit code, stdout, stderr)."""
    monkeypatch.setenv("MANYHANDS_CONFIG", str(tmp_path / "config"))
    monkeypatch.setenv("MANYHANDS_URL", URL)
    monkeypatch.setenv("MANYHANDS_TOKEN", eve.token)
    monkeypatch.setenv("COLUMNS", "100")
    monkeypatch.chdir(tmp_path)

    def command(*words: object) -> tuple[int, str, str]:
        capsys.readouterr()
        try:
            code = cli.main([str(word) for word in words])
        except SystemExit as ended:
            code = int(ended.code or 0)
        said = capsys.readouterr()
        return code, said.out, said.err

    return command


@pytest.fixture
def fold():
    return an_app("fold")


def workunits():
    return list(Workunit.objects.order_by("id").prefetch_related("input_files__file"))


# Logging in


def test_login_stores_a_token_and_logout_revokes_it(run, monkeypatch):
    monkeypatch.delenv("MANYHANDS_TOKEN")
    monkeypatch.delenv("MANYHANDS_URL")
    digest = accounts.password_digest(email="ann@example.org", password="a long password")
    accounts.create_account(
        email="ann@example.org", passwd_hash=digest, name="Ann", by_staff=True, now=NOON
    )
    code, said, _ = run("login", URL, "--email", "ann@example.org", "--password", "a long password")
    assert (code, said) == (0, f"logged in to {URL} as ann@example.org (read, submit)\n")
    login = store.load().projects[URL]
    assert login.token not in said
    code, said, _ = run("whoami")
    assert code == 0
    assert "ann@example.org" in said
    assert run("logout")[:2] == (0, f"logged out of {URL}\n")
    code, _, complaint = run("whoami")
    assert code == 7
    assert "Hint: scientist login URL --email E" in complaint
    assert run("whoami", "--url", URL, "--token", login.token)[0] == 7


@pytest.fixture
def chief(monkeypatch) -> tuple[str, ...]:
    """Return the options with which a superuser logs in, as in the README."""
    monkeypatch.delenv("MANYHANDS_TOKEN")
    monkeypatch.delenv("MANYHANDS_URL")
    accounts.create_staff(email="admin@localhost.org", password="a long password", now=NOON)
    return ("login", URL, "--email", "admin@localhost.org", "--password", "a long password")


def test_login_without_scopes_can_create_and_publish_an_app(run, chief, tmp_path):
    (tmp_path / "run.sh").write_text("#!/bin/sh\ncat in\n")
    code, said, _ = run(*chief)
    assert (code, said.split("(")[1]) == (0, "read, submit, publish, manage)\n")
    code, said, complaint = run("app", "publish", "shout", "run.sh", "--create")
    assert code == 0, complaint
    assert "created app shout (script)" in said
    assert "published shout 1.00" in said


@pytest.mark.parametrize(
    ("scopes", "missing"), [(["read", "submit"], "manage"), (["read", "manage"], "publish")]
)
def test_publishing_without_a_required_scope_shows_the_scope_and_the_login_command(
    run, chief, tmp_path, scopes, missing
):
    (tmp_path / "run.sh").write_text("#!/bin/sh\ncat in\n")
    assert run(*chief, *(word for scope in scopes for word in ("--scope", scope)))[0] == 0
    code, _, complaint = run("app", "publish", "shout", "run.sh", "--create")
    assert code == 4
    assert f"The token lacks the scope '{missing}'." in complaint
    assert f"scientist login URL --email E --scope {missing}" in complaint


@pytest.mark.parametrize(
    ("words", "code", "complaint"),
    [
        (["--email", "eve@example.org", "--password", "wrong"], 7, "e-mail address and password"),
        (["--email", "eve@example.org"], 2, "The password is missing"),
        ([], 2, "The e-mail address is missing."),
        (["--token", "mh_nothing"], 7, "The token is unknown"),
        (["--token", "with space"], 2, "has invalid characters"),
    ],
)
def test_refused_login_shows_the_reason_and_stores_no_token(
    run, monkeypatch, words, code, complaint
):
    monkeypatch.delenv("MANYHANDS_TOKEN")
    got, said, error = run("login", URL, *words)
    assert (got, said) == (code, "")
    assert complaint in error
    assert "\nHint: " in error
    assert store.load().projects == {}


def test_url_of_no_project_and_unreachable_project_show_different_errors(run, wire):
    code, _, complaint = run("list", "--url", f"{URL}elsewhere/")
    assert code == 3
    assert "does not answer as a Manyhands project" in complaint
    wire.is_down = True
    code, _, complaint = run("list")
    assert code == 3
    assert complaint.startswith(f"scientist: No answer from {URL}: Connection refused.\nHint: ")
    assert run("list", "--url", "ftp://x/")[0] == 2


def test_missing_command_shows_help_and_help_fits_80_columns(run, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    code, said, complaint = run()
    assert (code, said) == (2, "")
    assert "submit workunits; all are created, or none" in complaint
    for words in ([], ["submit"], ["show"], ["app", "create"]):
        code, said, _ = run(*words, "--help")
        assert code == 0
        # Choices of an option are not broken across lines.
        assert all(len(line) <= 80 or "{" in line for line in said.splitlines()), said


def test_errors_are_json_with_the_option_json(run):
    code, said, complaint = run("show", "nothing", "--json")
    assert (code, said) == (5, "")
    assert json.loads(complaint)["detail"] == "You have no batch, workunit or result 'nothing'."


# Submitting


def test_each_file_with_any_name_becomes_a_workunit(run, fold, tmp_path):
    names = ["a b.txt", "蛋白質.txt", "-x.txt", "q'u\"o.txt"]
    for number, name in enumerate(names):
        (tmp_path / name).write_bytes(b"%d\xff" % number)
    code, said, complaint = run("submit", "fold", "--json", "--", *names)
    assert (code, complaint) == (0, "")
    reply = json.loads(said)
    assert reply["count"] == 4
    made = workunits()
    prefix = reply["batch"]["name"]
    assert [one.name.removeprefix(f"{prefix}_") for one in made] == [
        "a_b",
        "u86cbu767du8cea",
        "x",
        "q_u_o",
    ]
    assert [one.input_files.get().open_name for one in made] == ["in"] * 4
    assert all(one.outputs_kept for one in made)


def test_files_with_the_same_name_in_two_folders_become_two_workunits(run, fold, tmp_path):
    for folder in "ab":
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "x.txt").write_text(folder)
    code, _, _ = run("submit", "fold", "a/x.txt", "b/x.txt", "--batch", "Twice!")
    assert code == 0
    first, second = (one.name for one in workunits())
    assert first.startswith("Twice_-")
    assert second == f"{first}-2"


def test_file_used_by_several_workunits_is_uploaded_once(run, fold, wire, tmp_path):
    (tmp_path / "long").write_bytes(os.urandom(50_000))
    (tmp_path / "again").write_bytes((tmp_path / "long").read_bytes())
    (tmp_path / "shared").write_bytes(b"short")
    assert run("submit", "fold", "long", "again", "--input", "grid=shared")[0] == 0
    assert len(wire.paths("PUT")) == 2
    rows = [{f.open_name: f.file.nbytes for f in one.input_files.all()} for one in workunits()]
    assert rows == [{"grid": 5, "in": 50_000}] * 2
    assert run("submit", "fold", "long", "--batch", "later")[0] == 0
    assert len(wire.paths("PUT")) == 2


def test_parameters_are_inserted_into_command_lines_and_stored_in_meta(run, fold):
    code, _, _ = run(
        "submit", "fold", "--param", "seed=1..3", "--param", "mode=a,b", "--count", "2",
        "--command-line", "--seed {seed} {mode} {index}", "--quorum", "2", "--deadline", "3d",
        "--output", "out:5k", "--meta", "study=7", "--meta", "who=me", "--priority", "4",
    )  # fmt: skip
    assert code == 0
    made = workunits()
    assert len(made) == 12
    assert (made[0].command_line, made[-1].command_line) == ("--seed 1 a 1", "--seed 3 b 12")
    assert made[-1].meta == {"seed": "3", "mode": "b"}
    assert {one.min_quorum for one in made} == {2}
    assert made[0].delay_bound.days == 3
    assert made[0].outputs[0]["max_nbytes"] == 5000
    batch = Batch.objects.get()
    assert (batch.meta, batch.priority) == ({"study": 7, "who": "me"}, 4)


def test_ndjson_lines_become_workunits_and_can_refer_to_files(run, fold, tmp_path):
    (tmp_path / "a.txt").write_text("1 30")
    lines = [
        {
            "name": "mine",
            "command_line": "7",
            "input_files": [{"open_name": "in", "path": "a.txt"}],
        },
        {"quorum": 2, "input_files": {"data": "text"}},
    ]
    (tmp_path / "w.ndjson").write_text("\n\n".join(map(json.dumps, lines)))
    assert run("submit", "fold", "--ndjson", "w.ndjson")[0] == 0
    first, second = workunits()
    assert (first.name, first.command_line, second.min_quorum) == ("mine", "7", 2)
    assert second.input_files.get().open_name == "data"


@pytest.mark.parametrize(
    ("line", "complaint"),
    [
        ("{", "Line 2 is not JSON"),
        ("7", "Line 2 is not a JSON object"),
        ('{"input_files": [{"open_name": "in", "path": "none"}]}', "There is no file none"),
        ('{"input_files": [7]}', "Line 2: "),
        ('{"deadline": "soon"}', "'soon' is not a duration"),
    ],
)
def test_invalid_ndjson_line_is_reported_and_nothing_is_submitted(
    run, fold, tmp_path, line, complaint
):
    (tmp_path / "w.ndjson").write_text('{"command_line": "1"}\n' + line)
    code, _, said = run("submit", "fold", "--ndjson", "w.ndjson")
    assert code == 2
    assert complaint in said
    assert Workunit.objects.count() == 0


def test_an_unknown_field_is_reported_with_a_suggestion(run, fold, tmp_path):
    (tmp_path / "w.ndjson").write_text('{"deadline": "3d"}\n{"delay_bound": 7}\n')
    code, _, said = run("submit", "fold", "--ndjson", "w.ndjson")
    assert code == 4
    assert "'delay_bound' is not a field of a workunit." in said
    assert "Hint: did you mean 'delay_bound_seconds'?" in said


def test_refusal_by_the_project_is_shown_with_its_hint(run, fold):
    code, _, said = run("submit", "fold", "--count", "2", "--field", "min_quorum=-1")
    assert code == 4
    assert "min_quorum" in said
    assert "Hint: " in said
    assert Workunit.objects.count() == 0


@pytest.mark.parametrize(
    ("quota", "words", "complaint", "hint"),
    [
        (
            {"max_unfinished_workunits": 3},
            ["--count", "4"],
            "0 unfinished workunits; 4 more would exceed the limit of 3",
            "submit fewer, wait, or ask the project's staff for a higher limit.",
        ),
        (
            {"max_kept_bytes": 5},
            ["--input-text", "far too long"],
            "bytes of files, and the limit is 5",
            "give up files, retire batches, or ask the project's staff for a higher limit.",
        ),
        (
            {"max_kept_bytes": 5},
            ["--count", "1", "--input", "long"],
            "bytes of files, and the limit is 5",
            "give up files, retire batches, or ask the project's staff for a higher limit.",
        ),
    ],
)
def test_submission_above_a_quota_shows_the_quota_and_a_hint(
    run, fold, monkeypatch, quota, words, complaint, hint
):
    bob = Scientist(email="bob@example.org", name="Bob")
    Submitter.objects.create(account=bob.account, all_apps=True, created_at=NOON, **quota)
    monkeypatch.setenv("MANYHANDS_TOKEN", bob.token)
    Path("long").write_bytes(b"x" * 100_000)
    code, said, told = run("submit", "fold", *words)
    assert (code, said) == (4, "")
    assert complaint in told
    assert f"Hint: {hint}" in told
    code, _, told = run("submit", "fold", *words, "--json")
    assert (code, json.loads(told)["error"]) == (4, "QuotaError")
    assert (json.loads(told)["code"], json.loads(told)["hint"]) == ("quota_exceeded", hint)
    assert Workunit.objects.count() == 0
    assert not Batch.objects.exists()


def test_batch_can_follow_another_batch_given_by_name(run, fold):
    run("submit", "fold", "--count", "1", "--batch", "first")
    code, _, _ = run(
        "submit", "fold", "--count", "1", "--after", "first", "--after-any", "--expires", "2d"
    )
    assert code == 0
    second = Batch.objects.order_by("id").last()
    assert (second.after.name, second.after_any) == ("first", True)
    assert second.expire_at is not None
    assert workunits()[-1].pending_dependency_count == 1


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        ([], "There is nothing to submit."),
        (["none.txt"], "There is no file none.txt"),
        (["folder"], "give the files in it: folder/*"),
        (["/dev/null"], "not a regular file"),
        (["--count", "0"], "not a whole number of at least 1"),
        (["--deadline", "soon", "--count", "1"], "not a duration"),
        (["a.txt", "--input-text", "x"], "not both"),
        (["a.txt", "--ndjson", "-"], "cannot be combined with files"),
        (["--command-line", "{seed}"], "Unknown placeholder {seed}"),
        (["--param", "s=1..2", "--param", "s=3..4"], "given twice"),
        (["--from-file", "none"], "cannot be read"),
        (["--input", "none", "--count", "1"], "There is no file none"),
        (["--meta", "x", "--count", "1"], "is not metadata"),
        (["--field", "x", "--count", "1"], "is not a field"),
        (["--ndjson", "empty"], "no workunits to submit"),
    ],
)
def test_invalid_submit_options_are_refused_before_a_request_is_sent(
    run, fold, tmp_path, wire, words, complaint
):
    (tmp_path / "folder").mkdir()
    (tmp_path / "a.txt").write_text("1")
    (tmp_path / "empty").write_text("")
    code, _, said = run("submit", "fold", *words)
    assert code == 2
    assert complaint in said
    assert "Hint: " in said or "cannot be read" in said
    assert wire.paths("POST") == []


@pytest.fixture
def nobody(monkeypatch):
    """Run the test as another user if it is run by root, who can read every file."""
    monkeypatch.setenv("MANYHANDS_CONFIG", "/nowhere")
    before = os.geteuid()
    if before == 0:
        os.seteuid(65534)
    yield
    os.seteuid(before)


def test_unreadable_file_is_reported_by_name(run, fold, tmp_path, request):
    (tmp_path / "secret").touch(mode=0)
    request.getfixturevalue("nobody")
    code, _, said = run("submit", "fold", "secret")
    assert code == 2
    assert "secret: Permission denied." in said


def test_unknown_app_is_reported_by_name(run):
    code, _, said = run("submit", "fald", "--count", "1")
    assert code == 5
    assert "There is no app 'fald'." in said


def test_retry_after_a_lost_reply_creates_no_second_submission(run, fold, wire):
    wire.faults.append(("workunits", lost))
    assert run("submit", "fold", "--count", "3")[0] == 0
    assert wire.paths("POST").count("workunits") == 2
    first, second = [one for one in wire.seen if one.url.path.endswith("/workunits")]
    assert first.headers["Idempotency-Key"] == second.headers["Idempotency-Key"]
    assert first.content == second.content
    assert Workunit.objects.count() == 3


def test_a_submission_with_a_lost_reply_can_be_repeated_by_its_key(run, fold, wire, monkeypatch):
    monkeypatch.setitem(Project.__init__.__kwdefaults__, "patience", 0.0)
    wire.faults.append(("workunits", lost))
    code, _, said = run("submit", "fold", "--count", "3")
    assert code == 3
    assert "The project may have created the workunits." in said
    key = said.split("--key ")[1].split(":")[0]
    assert Workunit.objects.count() == 3
    assert run("submit", "fold", "--count", "3", "--key", key)[0] == 0
    assert Workunit.objects.count() == 3
    assert Batch.objects.count() == 1
    assert IdempotencyKey.objects.filter(key__startswith=key).count() == 1


def test_submission_without_the_scope_submit_is_refused(run, fold, eve, monkeypatch):
    from scheduler.people import api_tokens

    _, text = api_tokens.create(account=eve.account, name="r", scopes=("read",), now=NOON)
    code, _, said = run("submit", "fold", "--count", "1", "--token", text)
    assert code == 4
    assert "scope" in said


# Watching


def test_submission_with_watch_and_json_prints_json_lines(run, fold, wire):
    def over(_request, answer):
        done = Workunit.objects.get()
        settled(done, a_result(done, "valid"), assimilate_state=2, transition_at=None)
        return answer

    wire.faults.append(("workunits", over))
    code, said, _ = run("submit", "fold", "--count", "1", "--watch", "--json")
    lines = [json.loads(line) for line in said.splitlines()]
    assert code == 0
    assert [one["kind"] for one in lines] == ["submitted", "progress"]
    assert (lines[0]["count"], bool(lines[0]["key"])) == (1, True)
    assert "has no version yet" in lines[0]["warnings"][0]
    assert {json.dumps(one["batch"]) for one in lines} == {json.dumps(lines[0]["batch"])}
    assert (lines[1]["done"], lines[1]["total"]) == (1, 1)


def test_watch_ends_with_the_batch_and_its_exit_status_shows_failures(run, eve):
    batch = a_batch("b", submitter=eve.account)
    done_in(batch)
    code, said, _ = run("watch", "b")
    assert code == 0
    assert said.endswith("b: 100 % · 1 done · 0 failed\n")
    failed_in(batch)
    code, said, _ = run("watch", batch.pk, "--json")
    assert code == 6
    assert json.loads(said)["failed"] == 1


# Fetching


@pytest.fixture
def batch(eve):
    made = a_batch("b", submitter=eve.account)
    for number in range(3):
        done_in(made, b"answer %d" % number, name=f"w{number}")
    failed_in(made, name="broken")
    return made


OURS = {"MANIFEST.ndjson", "MANIFEST.csv"}


def files_in(folder: Path) -> dict[str, bytes]:
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file() and ".scientist" not in path.parts and path.name not in OURS
    }


WHOLE = {f"w{number}/out": b"answer %d" % number for number in range(3)}


def test_fetch_downloads_each_output_once_into_a_folder_per_workunit(run, batch, tmp_path):
    code, said, _ = run("fetch", "b", "out", "--json")
    reply = json.loads(said)
    assert (code, reply["brought"], reply["failed"]) == (0, 3, ["broken"])
    assert files_in(tmp_path / "out") == WHOLE
    text = (tmp_path / "out/MANIFEST.ndjson").read_text()
    lines = [json.loads(line) for line in text.splitlines()]
    assert {one["name"]: one["status"] for one in lines} == {
        **dict.fromkeys(["w0", "w1", "w2"], "done"),
        "broken": "failed",
    }
    assert all(one["outputs"][0]["sha256"] for one in lines if one["status"] == "done")
    code, said, _ = run("fetch", "b", "out", "--json")
    assert (code, json.loads(said)["brought"], json.loads(said)["already"]) == (0, 0, 3)


def test_fetch_with_flat_and_failed_writes_flat_files_and_failure_reasons(run, batch, tmp_path):
    assert run("fetch", "b", "out", "--flat", "--failed")[0] == 0
    found = files_in(tmp_path / "out")
    assert found["w0.out"] == b"answer 0"
    assert found["broken.stderr.txt"].startswith(b"broken failed: CANCELLED")


def the_manifest_of(folder: Path) -> list[str]:
    lines = (folder / "MANIFEST.ndjson").read_text().splitlines()
    return sorted(json.loads(line)["name"] for line in lines)


@pytest.mark.parametrize(("flag", "name"), [("--flat", "w1.out"), ("--failed", "w1/out")])
def test_fetch_never_overwrites_a_file_of_the_user(run, batch, tmp_path, flag, name):
    mine = tmp_path / "out" / name
    mine.parent.mkdir(parents=True)
    mine.write_text("a year of work")
    for _ in range(2):
        code, _, said = run("fetch", "b", "out", flag)
        assert code == 1
        assert f"1 workunit could not be placed because other files are in the way: out/{name}" in (
            " ".join(said.split())
        )
        assert "Hint: move them away and fetch again" in said
        assert mine.read_text() == "a year of work"
        assert {"w0", "w2"} <= set(the_manifest_of(tmp_path / "out")) <= {"broken", "w0", "w2"}
    mine.unlink()
    assert run("fetch", "b", "out", flag)[0] == 0
    assert mine.read_bytes() == b"answer 1"


def test_fetch_with_flat_reports_workunits_whose_file_names_collide(run, batch, tmp_path):
    for name, open_name in (("broken.stderr", "x.txt"), ("MANIFEST", "x.ndjson")):
        done_in(batch, b"mine", name=name, outputs=[{"open_name": open_name}])
    code, _, said = run("fetch", "b", "out", "--flat", "--failed")
    assert code == 1
    assert "2 workunits could not be placed" in said
    assert "out/MANIFEST.ndjson (of MANIFEST), out/broken.stderr.txt (of broken)" in said
    found = files_in(tmp_path / "out")
    assert found["broken.stderr.txt"] == b"mine"
    assert the_manifest_of(tmp_path / "out") == ["broken.stderr", "w0", "w1", "w2"]
    assert run("fetch", "b", "folders")[0] == 0
    assert files_in(tmp_path / "folders")["MANIFEST/x.ndjson"] == b"mine"


@pytest.mark.parametrize("link", ["w1", "w1.out", "MANIFEST.ndjson", "MANIFEST.csv", ".scientist"])
def test_fetch_writes_nothing_through_a_symbolic_link_in_the_folder(run, batch, tmp_path, link):
    (tmp_path / "away").mkdir()
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / link).symlink_to(tmp_path / "away")
    code, _, said = run("fetch", "b", "out", *(["--flat"] if link == "w1.out" else []))
    assert code == 1
    assert f"out/{link} (of w1)" in said or f"its {link} is a link to somewhere else" in said
    assert not list((tmp_path / "away").iterdir())


def test_fetch_does_not_accept_files_of_another_project_with_the_same_names(run, batch, tmp_path):
    run("fetch", "b", "out")
    kept = tmp_path / "out" / "MANIFEST.ndjson"
    kept.write_text(kept.read_text().replace('"sha256": "', '"sha256": "0'))
    for state in (tmp_path / "out" / ".scientist").glob("batch-*.json"):
        state.unlink()
    for path in (tmp_path / "out").glob("w?/out"):
        path.write_text("of the other project")
    code, _, said = run("fetch", "b", "out")
    assert code == 1
    assert "3 workunits could not be placed" in said
    assert set(files_in(tmp_path / "out").values()) == {b"of the other project"}


def test_a_killed_fetch_can_be_repeated(run, batch, tmp_path):
    run("fetch", "b", "out", "--flat")
    (tmp_path / "out" / "MANIFEST.ndjson").unlink()
    for state in (tmp_path / "out" / ".scientist").glob("batch-*.json"):
        state.unlink()
    code, said, _ = run("fetch", "b", "out", "--flat", "--json")
    assert (code, json.loads(said)["brought"]) == (0, 3)


def test_next_fetch_downloads_only_later_outputs(run, batch, tmp_path):
    run("fetch", "b", "out")
    update(done_in(batch, b"late", name="late"), finished_at=timezone.now())
    code, said, _ = run("fetch", "b", "out", "--json")
    assert (code, json.loads(said)["brought"]) == (0, 1)
    assert files_in(tmp_path / "out") == WHOLE | {"late/out": b"late"}


def test_interrupted_fetch_resumes_and_completes(run, eve, wire, tmp_path, monkeypatch):
    batch = a_batch("b", submitter=eve.account)
    whole = {f"w{number}/out": b"%d" % number * 30_000 for number in range(3)}
    for name, content in whole.items():
        done_in(batch, content, name=name.partition("/")[0])
    # The first file and half of the second arrive.
    wire.faults += [("outputs", lambda _, answer: answer), ("outputs", cut(45_000))]
    monkeypatch.setattr("scientist.fetching._MAX_TRIES", 1)
    code, _, said = run("fetch", "b", "out")
    assert code == 3
    assert "\nHint: " in said
    assert files_in(tmp_path / "out") == {"w0/out": whole["w0/out"]}
    assert run("fetch", "b", "out")[0] == 0
    assert files_in(tmp_path / "out") == whole
    assert not list((tmp_path / "out/.scientist").glob("incoming-*"))


def test_fetch_retries_a_broken_download_automatically(run, batch, wire, tmp_path):
    wire.faults += [("outputs", lambda _, answer: answer), ("outputs", cut(700))]
    assert run("fetch", "b", "out")[0] == 0
    assert files_in(tmp_path / "out") == WHOLE


@pytest.mark.parametrize("is_cut", [True, False])
def test_retried_fetch_counts_the_files_of_the_first_attempt_as_downloaded(run, eve, wire, is_cut):
    batch = a_batch("b", submitter=eve.account)
    contents = [b"%d" % number * 30_000 for number in range(3)]
    for number, content in enumerate(contents):
        done_in(batch, content, name=f"w{number}")
    # Only w0 is complete, or all but w1, which is received twice.
    fault = cut(45_000) if is_cut else changed(contents[1], contents[0])
    wire.faults += [("outputs", lambda _, answer: answer), ("outputs", fault)]
    code, said, _ = run("fetch", "b", "out", "--json")
    summary = json.loads(said)
    assert (code, summary["brought"], summary["already"]) == (0, 3, 0)
    assert summary["nbytes"] >= sum(map(len, contents))


def test_fetch_discards_a_file_that_was_damaged_in_transit(run, batch, wire, tmp_path, monkeypatch):
    spoil = changed(b"answer 1", b"ANSWER 1")
    wire.faults += [("outputs", lambda _, answer: answer), ("outputs", spoil)]
    monkeypatch.setattr("scientist.fetching._MAX_TRIES", 1)
    code, _, said = run("fetch", "b", "out")
    assert code == 1
    assert "1 workunit arrived damaged: w1." in said
    assert files_in(tmp_path / "out") == {k: v for k, v in WHOLE.items() if k != "w1/out"}
    assert run("fetch", "b", "out")[0] == 0
    assert files_in(tmp_path / "out") == WHOLE


@pytest.mark.parametrize("name", ["../../x", "/etc/x1", "a/../../b"])
def test_fetch_refuses_a_file_name_outside_the_folder(run, batch, wire, tmp_path, name):
    spoil = changed(b"w1/out".ljust(100, b"\0"), f"w1/{name}".encode().ljust(100, b"\0"))
    wire.faults += [("outputs", lambda _, answer: answer), ("outputs", _mended(spoil))]
    code, _, said = run("fetch", "b", "out")
    assert code == 1
    assert "unsafe name" in said
    assert set(files_in(tmp_path / "out")) <= set(WHOLE)
    # Folders of the project's files have short hexadecimal names.
    assert not {"x", "x1", "b"} & {path.name for path in tmp_path.rglob("*") if path.is_file()}


def test_fetch_refuses_a_symbolic_link_in_the_archive(run, batch, wire, tmp_path):
    def link(content: bytes) -> bytes:
        place = content.index(b"w1/out") + 156
        return content[:place] + b"2" + content[place + 1 :]

    def fault(request, answer):
        content = link(answer.read())
        return httpx.Response(200, content=_summed(content))

    wire.faults += [("outputs", lambda _, answer: answer), ("outputs", fault)]
    code, _, said = run("fetch", "b", "out")
    assert code == 1
    assert "not a regular file" in said


def _mended(spoil):
    """Return a fault that changes the archive and corrects its checksums."""

    def fault(request, answer):
        return httpx.Response(200, content=_summed(spoil(request, answer).read()))

    return fault


def _summed(content: bytes) -> bytes:
    """Return the archive with recomputed checksums of all headers."""
    blocks = bytearray(content)
    for start in range(0, len(blocks) - 512, 512):
        head = blocks[start : start + 512]
        if head[257:262] == b"ustar":
            head[148:156] = b" " * 8
            blocks[start + 148 : start + 156] = b"%06o\0 " % sum(head)
    return bytes(blocks)


def test_folder_that_cannot_be_created_is_reported_by_name(run, batch, tmp_path):
    (tmp_path / "out").write_text("a file")
    code, _, said = run("fetch", "b", "out")
    assert code == 1
    assert "The folder out cannot be used" in said


# Showing, retrying, ending


def test_list_and_show_print_batches_workunits_and_results(run, batch, fold):
    code, said, _ = run("list")
    assert code == 0
    assert said.splitlines()[1].split()[:2] == [str(batch.pk), "b"]
    code, said, _ = run("list", "workunits", "b", "--status", "failed")
    assert [line.split()[1:3] for line in said.splitlines()[1:]] == [["broken", "failed"]]
    assert "CANCELLED" in said
    assert len(json.loads(run("list", "workunits", "b", "--json", "--limit", "2")[1])) == 2
    code, said, _ = run("list", "results", "b")
    assert (code, len(said.splitlines())) == (0, 4)
    assert [line.split()[2:4] for line in said.splitlines()[1:]] == [["over/success", "valid"]] * 3
    for which in ("b", "w0", "w0_0"):
        code, said, complaint = run("show", which)
        assert (code, complaint) == (0, ""), which
        assert which in said
    assert json.loads(run("show", "workunit", "w0", "--json")[1])["status"] == "done"


@pytest.fixture
def computed(eve) -> Workunit:
    """Return a workunit of which one attempt failed, one timed out, and one is running."""
    unit = in_batch(a_batch("b", submitter=eve.account), name="w", min_quorum=1, target_nresults=1)
    hours = [NOON - timedelta(hours=number) for number in range(10)]
    a_result(unit, "error", stderr="no such file\n", sent_at=hours[9], received_at=hours[8])
    a_result(unit, "noreply", created_at=hours[8], cpu_time=30.0, elapsed_time=60.0)
    result = a_result(unit, "sent", created_at=hours[5], host=a_host())
    for fraction, cpu_time in ((0.25, 60.0), (0.5, 210.0)):
        usage = {"cpu_time": cpu_time, "elapsed_time": fraction * 400, "memory_bytes": 5e6}
        at = NOON + timedelta(minutes=fraction)
        UsageSample.objects.create(result_id=result.pk, at=at, fraction_done=fraction, **usage)
    return unit


def test_history_prints_the_rounds_with_their_usage_and_errors(run, computed):
    code, said, _ = run("history", "w")
    lines = [line.split() for line in said.splitlines()]
    assert code == 0
    assert ["round", "2,", "after", "1", "failure", "and", "1", "time-out"] in lines
    table = [line for line in lines if line and line[0] in {"0", "1", "2"}]
    assert table[1][-1] == "0.50"
    assert table[2][-4:] == ["1.50", "5.0", "MB", "50%"]
    assert "client error" in said
    assert said.rstrip().endswith("stderr of round 0\nno such file")


def test_history_prints_the_number_of_a_replica_if_there_are_several(run, eve):
    unit = in_batch(a_batch("b", submitter=eve.account), name="w")
    for stderr in ("first", "second"):
        a_result(unit, "error", created_at=NOON - timedelta(days=1), stderr=stderr)
    said = run("history", "w")[1]
    assert any(line.split()[:2] == ["round", "replica"] for line in said.splitlines())
    assert "stderr of round 0, replica 1\nsecond" in said


def test_history_as_json_has_the_rounds_the_attempts_and_the_statistics(run, computed):
    shown = json.loads(run("history", computed.pk, "--json")[1])
    assert (shown["round"], shown["fails"], shown["timeouts"]) == (2, 1, 1)
    assert shown["timeline"]["0:error"] == "no such file"
    assert [attempt["round"] for attempt in shown["history"]] == [0, 1, 2]
    assert shown["statistics"]["errors"] == 1


def test_log_of_a_history_has_a_line_for_each_move(run, eve):
    in_batch(a_batch("b", submitter=eve.account), name="w")
    transitioner.run_pass(now=NOON, limit=9)
    assert all("nothing -> UNSENT" in line for line in run("history", "w", "--log")[1].splitlines())


def test_history_of_a_workunit_that_was_never_sent_has_a_hint(run, eve):
    in_batch(a_batch("b", submitter=eve.account), name="w")
    code, said, _ = run("history", "w")
    assert (code, "Hint: scientist show workunit w shows what it waits for." in said) == (0, True)
    assert run("history", "none")[0] == 5


def test_number_is_read_as_a_batch_id_and_an_ambiguity_is_reported(run, eve):
    first = a_batch("b", submitter=eve.account)
    other = a_batch(str(first.pk), submitter=eve.account)
    unit = in_batch(first, name="b")
    for command in (["show"], ["watch"], ["list", "workunits"]):
        if command == ["watch"]:
            settled(unit, a_result(unit, "valid"), assimilate_state=2, transition_at=None)
        code, _, told = run(*command, first.pk)
        assert code == 0
        assert f"this is batch {first.pk}; the batch named {first.pk} is {other.pk}." in told
    assert run("show", first.pk, "--json")[2] == ""
    assert json.loads(run("show", first.pk, "--json")[1])["name"] == "b"
    assert json.loads(run("show", "workunit", unit.pk, "--json")[1])["name"] == "b"
    assert run("show", other.pk)[2] == ""

    code, said, told = run("show", "b")
    assert (code, f"batch {first.pk}" in said) == (0, True)
    assert "this is the batch b; scientist show workunit b shows the workunit of this name." in told
    code, _, told = run("show", 10**6)
    assert code == 5
    assert "You have no batch 1000000." in told
    assert "Hint: try scientist show workunit 1000000, or show result 1000000;" in told

    by_name = a_batch("987654321", submitter=eve.account)
    code, said, told = run("show", "987654321", "--json")
    assert (json.loads(said)["id"], told) == (by_name.pk, "")


def test_list_of_results_refuses_the_option_app(run):
    code, _, complaint = run("list", "results", "--app", "prog")
    assert code == 2
    assert "--app applies to batches and workunits, not to results." in complaint


def test_batches_and_workunits_of_other_accounts_are_not_found(run, wire):
    theirs = a_batch("theirs", submitter=an_account())
    in_batch(theirs, name="their-workunit")
    other = Scientist(email="mallory@example.org")
    for words in (["show", "theirs"], ["watch", theirs.pk], ["cancel", "their-workunit", "--yes"]):
        code, said, complaint = run(*words, "--token", other.token)
        assert (code, said) == (5, ""), words
        assert "You have no" in complaint or "no such thing" in complaint


def test_cancel_requires_confirmation_and_shows_the_number_of_workunits(run, eve, monkeypatch):
    batch = a_batch("b", submitter=eve.account)
    one = in_batch(batch, name="one")
    in_batch(batch, name="two")
    code, _, said = run("cancel", "b")
    assert code == 2
    assert "Cancel 2 unfinished workunits of 2 of batch b?" in said
    assert run("cancel", "one", "--yes")[0] == 0
    one.refresh_from_db()
    assert one.cancel_requested_at is not None
    code, said, _ = run("cancel", "b", "--yes", "--reason", "a mistake")
    assert code == 0
    assert "cancelled 1 unfinished workunit of 2 of batch b" in said or "cancelled 2" in said
    assert run("cancel", "none", "--yes")[0] == 5


def test_retry_resubmits_cancelled_workunits_only_if_they_are_named(run, batch):
    assert run("retry", "b")[0] == 2
    code, said, _ = run("retry", "b", "--failed")
    assert (code, said) == (
        0,
        "submitted 0 workunits of b again · 1 were cancelled: name them to retry them\n",
    )
    code, said, _ = run("retry", "b", "broken")
    assert (code, said) == (0, "submitted 1 workunit of b again\n")
    assert Workunit.objects.filter(name="broken.2").exists()


def test_retire_requires_a_finished_batch_and_confirmation(run, batch):
    running = in_batch(batch)
    code, _, said = run("retire", "b", "--yes")
    assert (code, "Hint: " in said) == (4, True)
    settled(running, assimilate_state=2)
    assert run("retire", "b")[0] == 2
    assert run("retire", "b", "--yes")[0] == 0
    batch.refresh_from_db()
    assert batch.retired_at is not None


def test_status_and_stats_print_figures(run, batch):
    code, said, _ = run("status")
    lines = [" ".join(line.split()) for line in said.splitlines()]
    assert code == 0
    assert {"results over 3", "daemon last seen waiting", "app versions title"} <= set(lines)
    assert [line for line in lines if line.startswith("transitioner never ")]
    assert run("stats", "--by", "batch")[0] == 0
    code, said, _ = run("stats", "--by", "app", "--since", "2025-12-01", "--until", "2026-01-31")
    assert code == 0
    assert "processor time" in said
    assert run("stats", "--since", "nonsense")[0] == 2


# Apps


def test_folder_with_a_run_sh_is_published_as_a_script_app(run, tmp_path):
    folder = tmp_path / "prog"
    folder.mkdir()
    (folder / "run.sh").write_text("#!/bin/sh\n")
    code, said, _ = run("app", "publish", "prog", "prog", "--create", "--quorum", "2")
    assert code == 0
    assert "created app prog (script)" in said
    assert "published prog 1.00 for " in said
    code, said, _ = run("app", "publish", "prog", "prog")
    assert code == 0
    assert "was published before, with the same files" in said
    (folder / "run.sh").write_text("#!/bin/sh\n# better\n")
    code, _, complaint = run("app", "publish", "prog", "prog")
    assert code == 4
    assert "exists with other files" in complaint
    assert "prog" in run("app", "list")[1]
    assert json.loads(run("app", "show", "prog", "--json")[1])["app"]["kind"] == "script"


@pytest.mark.parametrize(
    ("words", "code", "complaint"),
    [
        (["nope", "prog.sh"], 5, "There is no app 'nope'."),
        (["fold", "none"], 2, "There is no file none"),
        (["fold", "prog.sh", "--image", "x"], 2, "has more than one source"),
        (["fold", "prog.sh", "--version", "one"], 4, "is not a version"),
    ],
)
def test_publishing_with_invalid_arguments_is_refused(run, fold, tmp_path, words, code, complaint):
    (tmp_path / "prog.sh").write_text("#!/bin/sh\n")
    got, _, said = run("app", "publish", *words)
    assert (got, complaint in said) == (code, True), said


def test_app_show_prints_the_versions_of_the_app(run, fold):
    an_app_version(fold, version_num=100)
    assert "1.00" in run("app", "show", "fold")[1]


def test_max_errors_option_sets_max_error_results(run, fold):
    assert run("submit", "fold", "--command-line", "1", "--max-errors", "0")[0] == 0
    assert workunits()[0].max_error_results == 0
    code, _, said = run("submit", "fold", "--command-line", "1", "--max-errors", "-1")
    assert (code, "'-1' is not a whole number of at least 0. Hint: " in said) == (2, True)


def test_when_all_tried_and_max_errors_options_are_stored_in_the_app(run):
    assert run("app", "create", "lab", "--when-all-tried", "fail", "--max-errors", "1")[0] == 0
    lab = App.objects.get()
    assert (lab.fail_when_all_tried, lab.workunit_defaults) == (True, {"max_error_results": 1})
    assert json.loads(run("app", "show", "lab", "--json")[1])["app"]["name"] == "lab"


# Watching: changes, errors, and a project that is unreachable


@pytest.fixture
def watched(eve, monkeypatch):
    """Return a batch, its workunits, and a list of functions that the watcher's sleeps call."""
    batch = a_batch("b", submitter=eve.account)
    workunits = [in_batch(batch, transition_at=None) for _ in range(2)]
    happenings = []

    def sleep(_seconds):
        happenings.pop(0)()

    monkeypatch.setattr(
        batches.Batch.snapshots, "__kwdefaults__", {"sleep": sleep, "with_troubles": True}
    )
    return batch, workunits, happenings


def done(workunit):
    settled(workunit, a_result(workunit, "valid"), assimilate_state=2, transition_at=None)
    update(workunit, finished_at=timezone.now())


def test_piped_watch_prints_a_line_only_when_progress_changes(run, watched):
    _, (one, two), happenings = watched
    happenings += [lambda: done(one), *[lambda: None] * 3, lambda: done(two)]
    code, said, _ = run("watch", "b")
    assert code == 0
    assert [line.split(" b: ")[1].split(" %")[0] for line in said.splitlines()] == [
        "0",
        "50",
        "100",
    ]


def test_watch_prints_since_when_the_project_does_not_answer(run, watched, wire):
    _, (one, two), happenings = watched
    happenings += [
        lambda: setattr(wire, "is_down", True),
        lambda: None,
        lambda: setattr(wire, "is_down", False),
        lambda: (done(one), done(two)),
    ]
    code, said, _ = run("watch", "b")
    lines = said.splitlines()
    assert code == 0
    assert ["no answer from the project since" in line for line in lines] == [
        False,
        True,
        False,
        False,
    ]


def test_watch_and_show_print_the_last_error(run, watched):
    _, (one, two), happenings = watched

    def fail():
        a_result(one, "error", exit_status=17, stderr="ValueError: bad\n")
        a_result(two, "sent")

    happenings += [fail, lambda: (done(one), done(two))]
    _, said, _ = run("watch", "b", "--json")
    kinds = [json.loads(line) for line in said.splitlines()]
    (told,) = [one["sentences"] for one in kinds if one["kind"] == "troubles"]
    assert "failed with exit status 17" in told[0]
    assert "its stderr ends: ValueError: bad" in told[0]
    assert told[0] in " ".join(run("show", "b")[1].split())


# Ctrl-C while work is submitted


def interrupt(*_):
    raise KeyboardInterrupt


def test_ctrl_c_before_the_first_request_submits_nothing(run, fold, monkeypatch):
    def works(*_):
        yield Work(fields={"command_line": "1"})
        interrupt()

    monkeypatch.setattr(submitting, "works_of", lambda *_: (works(), 2))
    code, _, complaint = run("submit", "fold", "--count", "2")
    assert (code, complaint) == (130, "scientist: Interrupted: nothing was submitted.\n")
    assert not Batch.objects.exists()


def test_ctrl_c_during_a_request_shows_the_batch_and_the_cancel_command(run, fold, wire):
    wire.faults.append(("workunits", interrupt))
    code, _, complaint = run("submit", "fold", "--count", "3")
    batch = Batch.objects.get()
    assert code == 130
    assert f"the project may still create the workunits of batch {batch.name}" in complaint
    for command in (f"scientist watch {batch.name}", f"scientist cancel {batch.name}"):
        assert command in complaint
    assert run("cancel", batch.name, "--yes")[0] == 0
    wire.faults.append(("workunits", interrupt))
    _, _, complaint = run("submit", "fold", "--count", "3", "--batch", "mine", "--json")
    assert json.loads(complaint)["error"] == "Interrupted"


def test_ctrl_c_in_a_submission_of_several_requests_aborts_the_batch(run, fold, wire, monkeypatch):
    monkeypatch.setattr(submission, "MAX_WORKUNITS", 2)
    wire.faults += [("workunits", lambda _request, answer: answer), ("workunits", interrupt)]
    code, _, complaint = run("submit", "fold", "--count", "5", "--batch", "long")
    batch = Batch.objects.get()
    assert code == 130
    assert f"Interrupted: batch long ({batch.pk}) was aborted" in complaint
    assert batch.state == Batch.State.ABORTED


def test_submission_reports_how_many_workunits_the_batch_had_before(run, fold):
    words = ("submit", "fold", "--count", "2", "--batch", "squares", "--json")
    assert json.loads(run(*words)[1])["workunits_before"] == 0
    assert json.loads(run(*words)[1])["workunits_before"] == 2


def test_ctrl_c_does_not_abort_a_batch_that_had_workunits_before(run, fold, wire, monkeypatch):
    assert run("submit", "fold", "--count", "2", "--batch", "long")[0] == 0
    monkeypatch.setattr(submission, "MAX_WORKUNITS", 2)
    wire.faults += [("workunits", lambda _request, answer: answer), ("workunits", interrupt)]
    code, _, complaint = run(
        "submit", "fold", "--count", "5", "--batch", "long", "--command-line", "again {index}"
    )
    batch = Batch.objects.get()
    assert code == 130
    assert f"batch long ({batch.pk}) had workunits before" in complaint
    assert batch.state != Batch.State.ABORTED
    assert not Workunit.objects.exclude(cancel_requested_at=None).exists()


# The table of inputs and outputs


def test_original_input_file_name_is_stored_in_meta(run, fold, tmp_path):
    (tmp_path / "a").mkdir()
    names = ["größe ☃.txt", "x.txt", "a/x.txt"]
    for name in names:
        (tmp_path / name).write_text(name)
    assert run("submit", "fold", *names)[0] == 0
    assert [one.meta for one in workunits()] == [{"input": name} for name in names]
    assert run("submit", "fold", "x.txt", "--param", "t=1,2", "--command-line", "{t}")[0] == 0
    assert [one.meta for one in workunits()[3:]] == [{"input": "x.txt", "t": t} for t in "12"]


def test_input_file_names_in_ndjson_lines_are_stored_in_meta(run, fold, tmp_path):
    for name in ("ö.txt", "b.txt"):
        (tmp_path / name).write_text("1")
    one = {"input_files": [{"open_name": "in", "path": "ö.txt"}]}
    two = {"input_files": [*one["input_files"], {"open_name": "more", "path": "b.txt"}]}
    lines = [one, two, {**one, "meta": {"input": "my own word", "t": 1}}]
    (tmp_path / "work.ndjson").write_text("\n".join(map(json.dumps, lines)))
    assert run("submit", "fold", "--ndjson", "work.ndjson")[0] == 0
    assert [one.meta for one in workunits()] == [
        {"input": "ö.txt"},
        {"input": {"in": "ö.txt", "more": "b.txt"}},
        {"input": "my own word", "t": 1},
    ]


def test_undecodable_input_file_name_is_stored_with_a_replacement_character(run, fold, tmp_path):
    path = os.fsencode(tmp_path) + b"/\xff.txt"
    Path(os.fsdecode(path)).write_text("1")
    assert run("submit", "fold", os.fsdecode(b"\xff.txt"))[0] == 0
    assert workunits()[0].meta == {"input": "\ufffd.txt"}


@pytest.mark.parametrize("flat", [False, True])
def test_fetch_writes_a_csv_table_of_parameters_inputs_and_outputs(run, eve, tmp_path, flat):
    batch = a_batch("b", submitter=eve.account)
    done_in(batch, name="w1", meta={"input": "größe ☃.txt", "t": 0.5, "status": "mine"})
    failed_in(batch, name="w2", meta={"input": "x,y.txt", "l": [1, 2]})
    assert run("fetch", "b", "got", *["--flat"] * flat)[0] == 0
    table = tmp_path / "got" / "MANIFEST.csv"
    with table.open(newline="", encoding="utf-8") as file:
        rows = {row["workunit"]: row for row in csv.DictReader(file)}
    out = "w1.out" if flat else "w1/out"
    assert (tmp_path / "got" / out).is_file()
    head = {"workunit": "w1", "status": "done", "errors": "", "meta.status": "mine", "l": ""}
    assert rows["w1"] == head | {"input": "größe ☃.txt", "t": "0.5", "out": out}
    head = {"workunit": "w2", "status": "failed", "errors": "CANCELLED", "meta.status": "", "t": ""}
    assert rows["w2"] == head | {"input": "x,y.txt", "l": "[1, 2]", "out": ""}


def test_fetch_does_not_overwrite_a_csv_table_of_another_program(run, eve, tmp_path):
    batch = a_batch("b", submitter=eve.account)
    done_in(batch, name="w1")
    (tmp_path / "got").mkdir()
    table = tmp_path / "got" / "MANIFEST.csv"
    table.write_text("mine\n")
    code, _, complaint = run("fetch", "b", "got")
    assert (code, table.read_text()) == (1, "mine\n")
    assert "Hint: " in complaint
    table.unlink()
    assert run("fetch", "b", "got")[0] == 0
    assert table.read_text().startswith("workunit,status,errors")


# Reasons of a standstill


@pytest.fixture
def short(eve):
    """Create a batch that waits for a second account; the first contacts the project."""
    batch = a_batch("b", submitter=eve.account)
    an_app_version(batch.app)
    workunits = [in_batch(batch, transition_at=None) for _ in range(2)]
    host = a_host(an_account("lone"), rpc_at=timezone.now())
    for workunit in workunits:
        a_result(workunit, "success", host=host)
        a_result(workunit)
    return batch, workunits


SHORT = "2 workunits wait for another account: a quorum of 2 needs 2 accounts"


def test_show_prints_that_a_quorum_lacks_an_account(run, short):
    said = " ".join(run("show", "b")[1].split())
    assert SHORT in said
    assert "is not known yet" not in said


def test_piped_watch_prints_once_that_a_quorum_lacks_an_account(run, short, monkeypatch):
    _, workunits = short
    happenings = [*[lambda: None] * 2, lambda: [done(one) for one in workunits]]
    monkeypatch.setattr(
        batches.Batch.snapshots,
        "__kwdefaults__",
        {"sleep": lambda _: happenings.pop(0)(), "with_troubles": True},
    )
    code, said, _ = run("watch", "b")
    assert code == 0
    assert [SHORT in line for line in said.splitlines()] == [False, True, False]


def test_json_lines_of_watch_contain_the_cause_and_number_of_waiting_workunits(
    run, short, monkeypatch
):
    _, workunits = short
    monkeypatch.setattr(
        batches.Batch.snapshots,
        "__kwdefaults__",
        {"sleep": lambda _: [done(one) for one in workunits], "with_troubles": True},
    )
    lines = [json.loads(line) for line in run("watch", "b", "--json")[1].splitlines()]
    waits = [one["waits"] for one in lines if one["kind"] == "waits"]
    assert [[(one["cause"], one["workunits"]) for one in each] for each in waits] == [
        [("account_short", 2)],
        [],
    ]


def test_status_prints_why_unsent_workunits_of_the_project_wait(run, short):
    said = " ".join(run("status")[1].split())
    assert SHORT in said


# Task lists


def test_bundle_commands_list_show_and_create_task_lists(run, fold):
    code, said, _ = run("bundle", "list")
    assert (code, said.startswith("There are no task lists. Hint: ")) == (0, True)
    words = ("--count", 4, "--command-line", "--seed {index}", "--takes", "1s")
    assert run("submit", "fold", *words, "--batch", "grouped", "--bundle-size", 2)[0] == 0
    assert run("submit", "fold", *words, "--batch", "single")[0] == 0
    assert list(Batch.objects.order_by("id").values_list("bundle_size", flat=True)) == [2, None]
    names = [workunit.name for workunit in workunits() if workunit.batch.name == "single"]
    code, said, complaint = run("bundle", "create", "single", *names[:2], "--json")
    assert (code, complaint) == (0, "")
    made = json.loads(said)
    assert [one["name"] for one in made["workunits"]] == names[:2]
    code, said, _ = run("bundle", "list", "single", "--state", "open")
    assert code == 0
    heading, row = said.splitlines()
    assert heading.split()[:4] == ["id", "batch", "state", "label"]
    assert row.split()[:3] == [str(made["id"]), str(made["batch"]), "open"]
    shown = run("bundle", "show", made["id"])[1]
    assert names[0] in shown
    assert names[1] in shown
    assert run("bundle", "list", "grouped")[1].startswith("There are no task lists.")
    assert run("bundle", "show", 999)[0] == 5
    code, _, complaint = run("bundle", "create", "single", names[0])
    assert code == 4
    assert names[0] in complaint


# Queues


def test_queue_commands_create_list_change_show_and_delete(run):
    words = ("--limit", "3", "--order", "fifo", "--at", "* 07:00 50", "--at", "1 18:30 none")
    code, said, complaint = run("queue", "create", "nightly", *words, "--trusted")
    assert (code, complaint) == (0, "")
    assert "* 07:00 50" in said
    queue = Queue.objects.get()
    assert (queue.max_in_progress, queue.order, queue.trusted) == (3, "fifo", True)
    code, said, _ = run("queue", "list")
    assert code == 0
    assert said.splitlines()[1].split() == ["nightly", "fifo", "0", "0", "0", "3"]
    host = a_host()
    assert run("queue", "change", "nightly", "--limit", "none", "--allow-hosts", host.pk)[0] == 0
    assert run("queue", "change", "nightly", "--no-schedule", "--not-trusted")[0] == 0
    shown = json.loads(run("queue", "show", "nightly", "--json")[1])
    assert shown["max_in_progress"] is None
    assert shown["allowed_hosts"] == [host.pk]
    assert (shown["schedule"], shown["trusted"], shown["order"]) == ([], False, "fifo")
    assert run("queue", "delete", "nightly")[:2] == (0, "deleted queue nightly\n")
    assert not Queue.objects.exists()


def test_host_commands_list_show_and_limit(run):
    host = a_host(domain_name="node-1", p_ncpus=8, m_nbytes=16e9)
    a_host(domain_name="node-2")
    code, said, complaint = run("host", "list", "--name", "node-1")
    assert (code, complaint) == (0, "")
    assert said.splitlines()[1].split()[:3] == [str(host.pk), "node-1", "8"]
    code, said, complaint = run("host", "limit", host.pk, "3")
    assert (code, complaint) == (0, "")
    host.refresh_from_db()
    assert host.max_in_progress == 3
    assert json.loads(run("host", "show", host.pk, "--json")[1])["max_in_progress"] == 3
    assert run("host", "limit", host.pk, "none")[0] == 0
    host.refresh_from_db()
    assert host.max_in_progress is None
    assert run("host", "limit", host.pk, "-1")[0] == 2
    assert run("host", "show", 10**6)[0] == 5


def test_host_commands_take_the_name_of_a_host(run):
    host = a_host(domain_name="node 1?#%2F")
    assert run("host", "limit", host.domain_name, "3")[0] == 0
    host.refresh_from_db()
    assert host.max_in_progress == 3
    assert json.loads(run("host", "show", host.domain_name, "--json")[1])["id"] == host.pk
    other = a_host(domain_name=host.domain_name)
    code, _, complaint = run("host", "show", host.domain_name)
    assert code != 0
    assert f"{host.pk}, {other.pk}" in complaint
    assert run("host", "show", "a/b")[0] == 2
    assert run("host", "show", "no-such-node")[0] == 5


def test_the_balance_is_changed_and_printed(run):
    for name in ("urgent", "lab", "rest"):
        Queue.objects.create(name=name, created_at=NOON)
    words = ("--group", "urgent,lab", "--group", "rest", "--at", "* 00:00 9", "--time-zone", "UTC")
    code, said, complaint = run("queue", "balance", *words)
    assert (code, complaint) == (0, "")
    assert "urgent, lab" in said
    shown = json.loads(run("queue", "balance", "--json")[1])
    assert shown["queues"] == [["urgent", "lab"], ["rest"]]
    assert shown["max_tasks"] == {"* 00:00": 9}
    limits = Queue.objects.order_by("pk").values_list("max_in_progress", flat=True)
    assert list(limits) == [5, 4, 0]
    code, _, complaint = run("queue", "change", "lab", "--limit", "7")
    assert code == 4
    assert "The balance sets the limit of queue lab" in complaint
    assert run("queue", "balance", "--no-queues")[0] == 0
    assert not Queue.objects.filter(balance_group__isnull=False).exists()
    assert run("queue", "balance", "--group", "a,,b")[0] == 2
    assert run("queue", "balance", "--group", "none")[0] == 4


@pytest.mark.parametrize(
    ("words", "code", "text"),
    [
        (("change", "nightly"), 2, "Nothing to change was given."),
        (("change", "nightly", "--limit", "x"), 2, "Hint: write 0, 1, 2"),
        (("change", "nightly", "--at", "07:00"), 2, "is not an entry of a schedule"),
        (("change", "nightly", "--at", "* 7:00 5"), 4, "Hint: write a weekday"),
        (("change", "nightly", "--deny-hosts", "a,b"), 2, "is not a list of ids"),
        (("show", "a/b"), 2, "is not a queue's name"),
        (("show", "none"), 5, ""),
    ],
)
def test_queue_commands_explain_what_is_wrong(run, words, code, text):
    Queue.objects.create(name="nightly", created_at=NOON)
    answer = run("queue", *words)
    assert answer[0] == code
    assert text in answer[2]


def test_work_is_submitted_to_a_queue_with_an_infinite_deadline(run, fold, tmp_path):
    an_app_version(fold)
    queue = Queue.objects.create(name="lab", trusted=True, created_at=NOON)
    (tmp_path / "in").write_text("1")
    code, _, complaint = run("submit", "fold", "in", "--queue", "lab", "--deadline", "inf")
    assert code == 0, complaint
    [workunit] = workunits()
    assert workunit.queue == queue
    assert workunit.delay_bound.days > 36_500
    code, _, complaint = run("submit", "fold", "in", "--queue", "lap")
    assert code == 4
    assert "There is no queue 'lap'" in complaint
    assert "Hint: check the spelling" in complaint


# Graphs

GRAPH = {
    "workunits": [
        {"name": "movie", "command_line": "--join", "after": ["left", "right"]},
        {"name": "left", "command_line": "1", "after": ["scene"]},
        {"name": "right", "command_line": "2", "after": ["scene"]},
        {"name": "scene", "command_line": "--split"},
    ]
}


def test_graph_is_submitted_from_a_file_and_drawn(run, fold, tmp_path):
    path = tmp_path / "graph.json"
    path.write_text(json.dumps(GRAPH))
    code, out, _ = run("submit", "fold", "--dag", path, "--batch", "film", "--json")
    assert code == 0
    assert json.loads(out)["count"] == 4
    edges = {
        (edge.parent.name.rpartition("_")[2], edge.child.name.rpartition("_")[2])
        for edge in Dependency.objects.select_related("parent", "child")
    }
    assert edges == {("scene", "left"), ("scene", "right"), ("left", "movie"), ("right", "movie")}
    code, out, _ = run("show", "film", "--graph", "film.svg")
    assert (code, out) == (0, "drew 4 workunits in film.svg\n")
    drawing = (tmp_path / "film.svg").read_text()
    assert drawing.count("<path") == 4
    code, out, _ = run("show", "batch", "film", "--graph", "-")
    assert (code, out) == (0, drawing)
    # The file can be submitted again, because its names are local.
    code, _, _ = run("submit", "fold", "--dag", path)
    assert (code, Workunit.objects.count()) == (0, 8)


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        (("submit", "fold", "--dag", "graph.json", "--count", "2"), "--dag cannot be combined"),
        (("submit", "fold", "--dag", "none.json"), "none.json cannot be read"),
        (("show", "workunit", "film", "--graph", "x.svg"), "is not a batch"),
        (("show", "film", "--graph", "none/x.svg"), "cannot be written"),
    ],
)
def test_wrong_commands_for_graphs_are_refused(run, fold, tmp_path, words, complaint):
    (tmp_path / "graph.json").write_text(json.dumps(GRAPH))
    run("submit", "fold", "--dag", "graph.json", "--batch", "film")
    code, _, told = run(*words)
    assert code == 2
    assert complaint in told
    assert "Hint:" in told


def test_map_waits_for_futures_of_an_earlier_submission(run, wire, eve, fold):
    with Project(URL, token=eve.token) as project:
        first = project.map("fold", ["1", "2", "3"])
        second = project.map("fold", ["7", "8"], after=first)
        # A future that is read from `second` would start a thread that polls.
        one = WorkunitFuture(second.names[0], lambda _name: False)
        third = project.map("fold", ["9"], after=[one])
    group = Workunit.objects.get(is_group=True)
    parents = Dependency.objects.filter(child=group).values_list("parent__name", flat=True)
    assert set(parents) == set(first.names)
    waiting = Dependency.objects.filter(parent=group).values_list("child__name", flat=True)
    assert set(waiting) == set(second.names)
    last = Dependency.objects.get(child__name=third.names[0])
    assert last.parent.name == second.names[0]


def test_many_futures_are_joined_by_groups_of_groups(run, wire, eve, fold, monkeypatch):
    monkeypatch.setattr("scientist.drafts.MAX_JOINED", 2)
    with Project(URL, token=eve.token) as project:
        first = project.map("fold", ["1", "2", "3", "4", "5"])
        second = project.map("fold", ["6"], after=first)
    assert Workunit.objects.filter(is_group=True).count() == 3 + 2 + 1
    parents = {second.names[0]}
    for count in (1, 2, 3, 5):
        edges = Dependency.objects.filter(child__name__in=parents)
        parents = set(edges.values_list("parent__name", flat=True))
        assert len(parents) == count
    assert parents == set(first.names)


def test_map_still_follows_a_batch(run, wire, eve, fold):
    with Project(URL, token=eve.token) as project:
        first = project.map("fold", ["1"])
        project.map("fold", ["2"], after=first.batch.name)
    assert Batch.objects.order_by("id").last().after.name == first.batch.name


# Holding


def test_hold_and_release_change_workunits_and_batches(run, eve, fold):
    batch = a_batch("b", submitter=eve.account, app=fold)
    one, two = in_batch(batch, name="one"), in_batch(batch, name="two")
    assert run("hold", "one", "--code", "-7")[:2] == (0, "1 workunit held\n")
    one.refresh_from_db()
    assert (one.release_state, one.hold_code) == (2, -7)
    assert run("hold", "b")[1] == "2 workunits held\n"
    assert run("release", "b")[1] == "2 workunits released\n"
    assert run("release", "two")[1] == "0 workunits released · 1 not held\n"
    two.refresh_from_db()
    assert (two.release_state, two.hold_code) == (3, None)


def test_hold_refuses_a_taken_code_with_a_hint(run, eve, fold):
    in_batch(a_batch("b", submitter=eve.account, app=fold), name="one")
    code, _, err = run("hold", "one", "--code", "-2")
    assert code != 0
    assert "which means queued" in err
    assert "use -3, -4" in err


# Search and submission from a query


def test_search_lists_rows_that_match_a_filter(run, eve, fold):
    batch = a_batch("b", submitter=eve.account, app=fold)
    in_batch(batch, name="one", priority=7)
    in_batch(batch, name="two")
    code, out, _ = run("search", "workunits", '{"priority": {"gte": 7}}', "--json")
    assert code == 0
    assert [row["name"] for row in json.loads(out)] == ["one"]
    code, _, err = run("search", "workunits", '{"$where": "1"}')
    assert (code, "There is no field '$where'" in err) == (4, True)
    assert "write a JSON object" in run("search", "workunits", "{x")[2]


def test_submit_query_fills_a_template_from_a_csv(run, eve, fold, tmp_path):
    (tmp_path / "seeds.csv").write_text("seed\n1\n2\n")
    template = '{"name": "w{document.seed}", "outputs": ["out"]}'
    words = ("submit-query", "fold", "--template", template, "--csv", "seeds.csv", "--batch", "q")
    code, out, err = run(*words, "--dry-run")
    assert code == 0, err
    assert out.startswith("2 workunits would be submitted")
    assert not Workunit.objects.exists()
    assert run(*words)[1] == "submitted 2 workunits in batch q\n"
    assert sorted(Workunit.objects.values_list("name", flat=True)) == ["w1", "w2"]
