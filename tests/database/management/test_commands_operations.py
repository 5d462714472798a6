"""The commands of staff: accounts, passwords, apps, work, and stopping work."""

from __future__ import annotations

import gzip
import io
import json
import tarfile
import zipfile
from argparse import ArgumentTypeError
from datetime import timedelta
from pathlib import Path

import pytest
from django.core.management import CommandError, ManagementUtility, call_command

from scheduler import signing
from scheduler.lifecycle import ReleaseState
from scheduler.management.parsing import duration
from scheduler.models import (
    Account,
    AppVersion,
    AppVersionFile,
    Batch,
    FileHold,
    Workunit,
    WorkunitFile,
)
from scheduler.people import account_keys, accounts
from scheduler.storage.app_files import archives, packages

pytestmark = pytest.mark.django_db

LINUX = "x86_64-pc-linux-gnu"


def run(*words: object) -> str:
    out = io.StringIO()
    call_command(*(str(word) for word in words), stdout=out, stderr=io.StringIO())
    return out.getvalue().strip()


def run_json(*words: object) -> dict[str, object]:
    return json.loads(run(*words, "--json"))


@pytest.fixture
def program(tmp_path: Path) -> Path:
    path = tmp_path / "sieve.py"
    path.write_text("#!/usr/bin/env python3\n")
    return path


@pytest.fixture
def app(program: Path) -> str:
    run("publish_app", "sieve", "1.00", LINUX, program, "--create-app")
    return "sieve"


@pytest.fixture
def inputs(tmp_path: Path) -> list[Path]:
    paths = [tmp_path / f"part{number}.txt" for number in range(3)]
    for path in paths:
        path.write_text(path.name)
    return paths


class TestCreateAccount:
    def test_account_key_is_printed_also_by_a_second_call(self) -> None:
        words = ("create_account", "ada@example.org", "--password", "secret")
        made = run_json(*words)
        again = run_json(*words)
        assert (made["created"], again["created"]) == (True, False)
        assert made["key"] == again["key"]
        found = f"Found account {made['account_id']} of ada@example.org; its key is {made['key']}."
        assert run(*words) == found
        owner = account_keys.find_account_by_key(str(made["key"]))
        assert owner is not None
        assert owner.account.name == "ada"

    def test_staff_option_creates_a_member_of_staff(self) -> None:
        run("create_account", "boss@example.org", "--password", "pw", "--staff")
        assert Account.objects.get().is_superuser

    def test_create_account_refuses_an_invalid_address_with_a_hint(self) -> None:
        with pytest.raises(CommandError, match=r"'nobody' is not an e-mail address\. Hint: "):
            run("create_account", "nobody", "--password", "x")


class TestChangePassword:
    def test_changepassword_replaces_the_old_password(self) -> None:
        run("create_account", "ada@example.org", "--password", "first-password")
        output = run("changepassword", "Ada@example.org", "--password", "second-password")
        assert output.startswith(
            "The password of ada@example.org is changed. Its sessions, API tokens"
        )
        backend = accounts.MasterPasswordBackend()
        assert backend.authenticate(None, "ada@example.org", "second-password") is not None
        assert backend.authenticate(None, "ada@example.org", "first-password") is None

    def test_changepassword_refuses_an_address_without_an_account(self) -> None:
        with pytest.raises(CommandError, match="No account has the e-mail address"):
            run("changepassword", "bob@x.org", "--password", "whatever")


class TestRotateKey:
    def test_rotate_key_signs_app_files_again_and_signs_the_new_key_with_the_old_key(
        self, program: Path
    ) -> None:
        old = signing.code_sign_key_text()
        run("publish_app", "sieve", "1.00", LINUX, program, "--create-app")
        output = run("rotate_key", "code-sign")
        assert output.startswith(
            "A new code-sign key is installed and 1 app files are signed by it"
        )
        file = AppVersionFile.objects.select_related("file").get()
        assert signing.verify(file.file.md5, file.signature, signing.code_sign_key_text())
        assert signing.code_sign_key_text() != old
        assert signing.rotation_signature(old) is not None

    def test_upload_grants_made_before_key_rotation_stay_valid(self) -> None:
        grant = signing.upload_grant("some_output", 100)
        assert "stay valid" in run("rotate_key", "upload-grant")
        assert signing.upload_grant("some_output", 100) != grant
        assert signing.check_upload_grant("some_output", 100, grant) is signing.Grant.GOOD


class TestPublishApp:
    def test_publish_app_publishes_a_single_file(self, program: Path) -> None:
        output = run("publish_app", "sieve", "1.02", LINUX, program, "--create-app")
        assert output == f"Published sieve 1.02 {LINUX} with 1 file."
        output = run("publish_app", "sieve", "102", LINUX, program)
        assert output == f"sieve 1.02 {LINUX} is published already, with the same 1 file."

    def test_publish_app_keeps_executable_bits_of_a_folder(self, tmp_path: Path) -> None:
        folder = tmp_path / "app"
        (folder / "lib").mkdir(parents=True)
        (folder / "main").write_text("1")
        (folder / "lib" / "data").write_text("2")
        (folder / "tool").write_text("3")
        (folder / "tool").chmod(0o755)
        run("publish_app", "a", 1, LINUX, folder, "--main-program", "main", "--create-app")
        files = AppVersion.objects.get().files.order_by("position")
        assert [(f.open_name, f.executable) for f in files] == [
            ("", True),
            ("lib/data", False),
            ("tool", True),
        ]

    @pytest.mark.parametrize("kind", ["zip", "tar.gz"])
    def test_publish_app_publishes_an_archive(self, kind: str, tmp_path: Path) -> None:
        path = tmp_path / f"app.{kind}"
        if kind == "zip":
            with zipfile.ZipFile(path, "w") as archive:
                archive.writestr("bin/main", "1")
        else:
            with tarfile.open(path, "w:gz") as archive:
                member = tarfile.TarInfo("./bin/main")
                member.size = 1
                archive.addfile(member, io.BytesIO(b"1"))
        done = run_json("publish_app", "a", 1, LINUX, path, "--create-app")
        assert str(done["files"]).startswith("['main_1_")

    @pytest.mark.parametrize("name", ["../evil", "/evil", "a/../../evil"])
    @pytest.mark.parametrize("kind", ["zip", "tar"])
    def test_an_archive_with_paths_outside_its_folder_is_refused(
        self, name: str, kind: str, tmp_path: Path
    ) -> None:
        path = tmp_path / f"app.{kind}"
        if kind == "zip":
            with zipfile.ZipFile(path, "w") as archive:
                archive.writestr(name, "1")
        else:
            with tarfile.open(path, "w") as archive:
                archive.addfile(tarfile.TarInfo(name), io.BytesIO())
        with pytest.raises(CommandError, match="is not a name for a file of an app version"):
            run("publish_app", "a", 1, LINUX, path, "--create-app")
        assert not AppVersion.objects.exists()

    def test_links_and_devices_in_packages_are_refused(self, tmp_path: Path) -> None:
        folder = tmp_path / "app"
        folder.mkdir()
        (folder / "main").symlink_to("/etc/passwd")
        tar, zipped = tmp_path / "app.tar", tmp_path / "app.zip"
        for kind in (tarfile.SYMTYPE, tarfile.LNKTYPE, tarfile.CHRTYPE):
            with tarfile.open(tar, "w") as archive:
                member = tarfile.TarInfo("main")
                member.type, member.linkname = kind, "/etc/passwd"
                archive.addfile(member)
            with pytest.raises(packages.UnreadablePackage, match="is a link or a device"):
                packages.open_package(tar).__enter__()
        with zipfile.ZipFile(zipped, "w") as archive:
            info = zipfile.ZipInfo("main")
            info.external_attr = 0o120777 << 16
            archive.writestr(info, "/etc/passwd")
        for source in (folder, zipped):
            with pytest.raises(CommandError, match="is a link or a device"):
                run("publish_app", "a", 1, LINUX, source, "--create-app")

    def test_an_archive_that_expands_beyond_the_size_limit_is_refused(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(archives, "MAX_PACKAGE_BYTES", 1000)
        path = tmp_path / "app.zip"
        with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
            archive.writestr("main", b"\0" * 1001)
        with pytest.raises(packages.UnreadablePackage, match="more than 1000 bytes"):
            packages.open_package(path).__enter__()

    @pytest.mark.parametrize(
        ("kind", "nbytes"), [(tarfile.XHDTYPE, 1 << 21), (tarfile.GNUTYPE_LONGNAME, 1 << 21)]
    )
    def test_a_tar_with_oversized_headers_is_refused(
        self, kind: bytes, nbytes: int, tmp_path: Path
    ) -> None:
        header = tarfile.TarInfo("././@header")
        header.type, header.size = kind, nbytes
        path = tmp_path / "app.tar.gz"
        path.write_bytes(gzip.compress(header.tobuf(tarfile.USTAR_FORMAT) + bytes(nbytes)))
        with pytest.raises(packages.UnreadablePackage, match="too long headers or too many files"):
            packages.open_package(path).__enter__()

    def test_an_archive_with_too_many_members_is_refused(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(archives, "MAX_MEMBERS", 10)
        tar, zipped = tmp_path / "app.tar", tmp_path / "app.zip"
        with tarfile.open(tar, "w") as archive, zipfile.ZipFile(zipped, "w") as other:
            for number in range(11):
                folder = tarfile.TarInfo(f"f{number}")
                folder.type = tarfile.DIRTYPE
                archive.addfile(folder)
                other.mkdir(f"f{number}")
        for path in (tar, zipped):
            with pytest.raises(packages.UnreadablePackage, match="more than 10 files"):
                packages.open_package(path).__enter__()

    def test_a_zip_with_an_oversized_directory_is_refused(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(archives, "_MAX_ZIP_DIRECTORY_BYTES", 1000)
        path = tmp_path / "app.zip"
        with zipfile.ZipFile(path, "w") as archive:
            for number in range(30):
                archive.writestr(f"f{number}", "")
        with pytest.raises(packages.UnreadablePackage, match="too long headers or too many files"):
            packages.open_package(path).__enter__()

    @pytest.mark.parametrize("suffix", ["", ".gz", ".bz2", ".xz"])
    def test_archive_format_is_detected_by_content_and_not_by_name(
        self, suffix: str, tmp_path: Path
    ) -> None:
        path = tmp_path / "program"
        with tarfile.open(path, f"w:{suffix[1:]}") as archive:
            long = "d" * 120 + "/main"  # needs a header of its own
            archive.addfile(tarfile.TarInfo(long), io.BytesIO())
        with packages.open_package(path) as source:
            assert list(source.files) == [long]
        if suffix:
            whole = path.read_bytes()
            path.write_bytes(whole[: len(whole) // 2])
            with pytest.raises(packages.UnreadablePackage, match="is damaged"):
                packages.open_package(path).__enter__()

    def test_a_damaged_or_missing_archive_is_refused(self, tmp_path: Path) -> None:
        path = tmp_path / "app.zip"
        with zipfile.ZipFile(path, "w") as archive:
            archive.writestr("main", b"abcdefgh")
        path.write_bytes(path.read_bytes().replace(b"abcdefgh", b"abcdefgX"))
        with pytest.raises(CommandError, match="is damaged"):
            run("publish_app", "a", 1, LINUX, path, "--create-app")
        with pytest.raises(CommandError, match="There is no file or folder"):
            run("publish_app", "a", 1, LINUX, tmp_path / "none", "--create-app")


class TestSubmitWork:
    def test_submit_work_creates_a_workunit_for_each_file(
        self, app: str, inputs: list[Path]
    ) -> None:
        done = run_json(
            *("submit_work", app, *inputs, "--quorum", 2, "--deadline", "3d"),
            *("--command-line", "--name {file}", "--outputs", "out:1000", "log"),
        )
        rows = list(Workunit.objects.order_by("id"))
        assert [row.pk for row in rows] == done["workunit_ids"]
        assert [row.command_line for row in rows] == [f"--name {path.name}" for path in inputs]
        assert {(r.min_quorum, r.target_nresults, r.delay_bound) for r in rows} == {
            (2, 2, timedelta(days=3))
        }
        assert [output["open_name"] for output in rows[0].outputs] == ["out", "log"]
        assert list(WorkunitFile.objects.values_list("open_name", flat=True)) == ["in"] * 3
        assert [row.meta for row in rows] == [{"input": path.as_posix()} for path in inputs]
        assert done["warnings"] == []

    def test_submit_work_prints_one_sentence(self, app: str) -> None:
        output = run("submit_work", app)
        assert output == f"Submitted 1 workunit of sieve: {Workunit.objects.get().name}."

    def test_submit_work_with_a_batch_uses_the_only_staff_account_or_needs_a_submitter(
        self, app: str, inputs: list[Path]
    ) -> None:
        with pytest.raises(CommandError, match="--submitter EMAIL"):
            run("submit_work", app, inputs[0], "--batch", "b")
        boss = accounts.create_staff(email="boss@example.org", password="pw")
        run("submit_work", app, inputs[0], "--batch", "b")
        assert Batch.objects.get().submitter == boss

    def test_submit_work_refuses_unknown_apps_invalid_quorums_and_missing_files(
        self, app: str, tmp_path: Path
    ) -> None:
        with pytest.raises(CommandError, match="did you mean 'sieve'"):
            run("submit_work", "seive")
        with pytest.raises(CommandError, match=r"min_quorum \(3\) is greater than target"):
            run("submit_work", app, "--quorum", 3, "--target", 2)
        with pytest.raises(CommandError, match="There is no file"):
            run("submit_work", app, tmp_path / "none")
        assert not Workunit.objects.exists()


class TestCancelWork:
    def test_cancel_work_cancels_workunits_by_name_and_id_once(self, app: str) -> None:
        one, two = (run_json("submit_work", app) for _ in range(2))
        words = ("cancel_work", *one["names"], "--id", *two["workunit_ids"])
        assert run(*words, "--reason", "wrong") == "Cancellation requested: 2 workunits."
        assert (
            run(*words)
            == "Cancellation requested: 0 workunits; unchanged: 2 already in this state."
        )
        assert set(Workunit.objects.values_list("cancel_reason", flat=True)) == {"wrong"}

    def test_cancel_work_holds_and_releases_workunits(self, app: str) -> None:
        done = run_json("submit_work", app, "--hold")
        assert run_json("cancel_work", *done["names"], "--release")["changed"] == 1
        assert run("cancel_work", *done["names"], "--hold") == "Held: 1 workunit."

    def test_cancel_work_refuses_unknown_names(self) -> None:
        with pytest.raises(CommandError, match="Not found: nobody"):
            run("cancel_work", "nobody")
        with pytest.raises(CommandError, match="No workunit is named"):
            run("cancel_work")
        with pytest.raises(CommandError, match="No account has the e-mail address"):
            run("cancel_work", "--batch", "b", "--submitter", "x@example.org")


@pytest.mark.parametrize("text", ["", "3", "3 days", "-1d", "d"])
def test_an_invalid_duration_is_refused_with_examples(text: str) -> None:
    with pytest.raises(ArgumentTypeError, match="Hint: write 90s, 30min, 12h, 3d or 1w"):
        duration(text)


class TestSubmittingMuch:
    def test_submit_work_creates_a_workunit_for_each_json_line(
        self, app: str, tmp_path: Path
    ) -> None:
        lines = tmp_path / "work.ndjson"
        lines.write_text(
            '{"name": "one", "outputs": ["out"]}\n\n{"name": "two", "min_quorum": 2}\n'
        )
        done = run_json("submit_work", app, "--ndjson", lines)
        assert done["names"] == ["one", "two"]
        assert list(Workunit.objects.order_by("id").values_list("min_quorum", flat=True)) == [1, 2]

    def test_submit_work_names_the_invalid_json_line(self, app: str, tmp_path: Path) -> None:
        lines = tmp_path / "work.ndjson"
        lines.write_text('{"name": "one"}\n{"nane": "two"}\n')
        with pytest.raises(CommandError, match=r"in entry number 2: 'nane' is not a field.*'name'"):
            run("submit_work", app, "--ndjson", lines)
        with pytest.raises(CommandError, match="cannot be read"):
            run("submit_work", app, "--ndjson", tmp_path / "none")
        with pytest.raises(CommandError, match="are both given"):
            run("submit_work", app, lines, "--ndjson", lines)
        assert not Workunit.objects.exists()

    def test_submit_work_can_create_a_batch_that_follows_another_and_keeps_outputs(
        self, app: str
    ) -> None:
        accounts.create_staff(email="boss@example.org", password="pw")
        first = run_json("submit_work", app, "--batch", "first")
        then = ("--after", first["batch_id"], "--keep-outputs", "--meta", '{"k": 1}')
        output = run("submit_work", app, "--batch", "then", *then)
        batch, workunit = Batch.objects.get(name="then"), Workunit.objects.get(batch__name="then")
        assert (batch.after_id, batch.keep_outputs) == (first["batch_id"], True)
        assert output.startswith(f"Submitted 1 workunit of sieve into batch then ({batch.pk}): ")
        assert (workunit.pending_dependency_count, workunit.outputs_kept) == (1, True)
        assert workunit.meta == {"k": 1}
        with pytest.raises(CommandError, match="is not a JSON object"):
            run("submit_work", app, "--meta", "k=1")

    def test_submit_work_leaves_no_file_holds(self, app: str, inputs: list[Path]) -> None:
        accounts.create_staff(email="boss@example.org", password="pw")
        run("submit_work", app, *inputs, "--batch", "b")
        assert WorkunitFile.objects.count() == 3
        assert not FileHold.objects.exists()


class TestLinesAndOptionsTogether:
    @pytest.fixture(autouse=True)
    def boss(self) -> Account:
        return accounts.create_staff(email="boss@example.org", password="pw")

    def test_submit_work_options_are_defaults_for_json_lines(
        self, app: str, tmp_path: Path
    ) -> None:
        lines = tmp_path / "work.ndjson"
        lines.write_text('{"name": "one"}\n{"name": "two", "min_quorum": 3}\n')
        options = ("--quorum", 2, "--outputs", "a:1000", "b", "--fpops", 1e14, "--deadline", "3d")
        run("submit_work", app, "--ndjson", lines, *options, "--meta", '{"k": 1}', "--hold")
        one, two = Workunit.objects.order_by("id")
        assert (one.min_quorum, two.min_quorum) == (2, 3)
        assert [output["open_name"] for output in one.outputs] == ["a", "b"]
        assert one.outputs[0]["max_nbytes"] == 1000
        assert (one.rsc_fpops_est, one.rsc_fpops_bound) == (1e14, 1e15)
        assert (one.delay_bound, one.meta) == (timedelta(days=3), {"k": 1})
        assert one.release_state == ReleaseState.HELD

    @pytest.mark.parametrize(
        "words", [("--open-name", "x"), ("--command-line", "{file}"), ("--input-template", "in")]
    )
    def test_submit_work_refuses_file_options_together_with_ndjson(
        self, app: str, tmp_path: Path, words: tuple[str, str]
    ) -> None:
        lines = tmp_path / "work.ndjson"
        lines.write_text('{"name": "one"}\n')
        with pytest.raises(CommandError, match=rf"{words[0]} .*--ndjson.*Hint: "):
            run("submit_work", app, "--ndjson", lines, *words)
        assert not Workunit.objects.exists()

    def test_submit_work_accepts_the_ndjson_format_of_the_api(
        self, app: str, tmp_path: Path
    ) -> None:
        lines = tmp_path / "work.ndjson"
        lines.write_text(
            '{"app": "sieve", "batch": "primes", "defaults": {"min_quorum": 2, "priority": 1}}\n'
            '{"name": "one"}\n{"name": "two"}\n{"count": 2}\n'
        )
        run("submit_work", app, "--ndjson", lines, "--priority", 5)
        rows = list(Workunit.objects.order_by("id"))
        assert [row.name for row in rows] == ["one", "two"]
        assert {(row.min_quorum, row.priority) for row in rows} == {(2, 5)}
        assert Batch.objects.get().name == "primes"
        assert rows[0].batch == Batch.objects.get()

    @pytest.mark.parametrize(
        ("text", "words", "refusal"),
        [
            ('{"app": "other"}\n{}\n', (), "'other', not 'sieve'"),
            ('{"app": "sieve", "batch": "a"}\n{}\n', ("--batch", "b"), "names a batch, and so do"),
            ('{"app": "sieve", "batsh": "a"}\n{}\n', (), "'batsh' is not a known field"),
            (
                '{"app": "sieve"}\n{}\n{"count": 2}\n',
                (),
                "1 workunits were read, but the last line has the count 2",
            ),
            ('{}\n{"count": 1}\n{}\n', (), "send the line with the count last"),
        ],
    )
    def test_submit_work_refuses_a_first_or_last_line_that_contradicts_the_command(
        self, app: str, tmp_path: Path, text: str, words: tuple[str], refusal: str
    ) -> None:
        lines = tmp_path / "work.ndjson"
        lines.write_text(text)
        with pytest.raises(CommandError, match=refusal):
            run("submit_work", app, "--ndjson", lines, *words)
        assert not Workunit.objects.exists()
        assert not Batch.objects.exists()

    def test_submit_work_warns_when_it_adds_to_an_existing_batch(self, app: str) -> None:
        first = run_json("submit_work", app, "--batch", "primes")
        assert first["warnings"] == []
        again = run_json("submit_work", app, "--batch", "primes")
        (warning,) = again["warnings"]
        assert warning.startswith("Batch 'primes' existed already, with 1 workunit; these were")


def mistake(capsys: pytest.CaptureFixture[str], *words: str) -> str:
    """Run an invalid command line, which must exit with 2, and return its standard error."""
    utility = ManagementUtility(["manage.py", *words])
    with pytest.raises(SystemExit) as ended:
        utility.execute()
    assert ended.value.code == 2
    return capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        (("submit_work",), "the following arguments are required: APP. Hint: "),
        (("submit_work", "a", "--deadlin", "3d", "--outpts", "x"), "Hint: did you mean --outputs?"),
        (("submit_work", "a", "--deadline", "-5d"), "'-5d' is not a duration. Hint: write 90s"),
        (("submit_work", "a", "--priority", "high"), "invalid int value: 'high'. Hint: "),
        (("publish_app", "a"), "are required: VERSION. Hint: "),
        (("explain",), "the following arguments are required: NAME. Hint: "),
        (("fsck", "--digst"), "Hint: did you mean --digests?"),
    ],
)
def test_a_usage_error_prints_one_line_without_the_usage(
    words: tuple[str, ...], complaint: str, capsys: pytest.CaptureFixture[str]
) -> None:
    output = mistake(capsys, *words)
    assert complaint in output
    assert len(output.splitlines()) == 1


def test_a_negative_number_is_accepted_as_an_option_value(
    capsys: pytest.CaptureFixture[str], app: str
) -> None:
    run("submit_work", app, "--priority", "-5")
    assert Workunit.objects.get().priority == -5


def test_max_errors_option_sets_max_error_results(app: str) -> None:
    run("submit_work", app, "--max-errors", "0")
    assert Workunit.objects.get().max_error_results == 0
