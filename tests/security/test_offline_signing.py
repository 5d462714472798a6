"""A public project publishes by signatures that were made on another machine."""

from __future__ import annotations

import hashlib
import importlib.util
import io
import json
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from django.core.management import CommandError, call_command
from django.utils import timezone
from hypothesis import given
from hypothesis import strategies as st

from project.management.commands import serve
from scheduler import signing
from scheduler.apps import app_versions, key_rotation
from scheduler.boinc.wire import uploads
from scheduler.key_text import looks_like_key
from scheduler.models import App, AppVersion, AppVersionFile, AuditEntry
from tests.conftest import NOON
from tests.faces.api.test_api_publishing import RUN, an_app, send, staff
from tests.faces.boinc import test_upload
from tests.scripted_client import a_client
from tests.security.test_key_shaped_files import KEY_SHAPED
from tests.work import LINUX

__all__ = ["staff"]
pytestmark = [pytest.mark.django_db, pytest.mark.lengthy]

ROOT = Path(__file__).parents[2]
SIGNER = ROOT / "signer" / "sign.py"
GOLDEN = ROOT / "tests" / "pure" / "golden_keys"
SCRIPT = "#!/bin/sh\nawk '{ sum += $1 } END { print sum }' \"$1\"\n"


def md5(content: bytes) -> str:
    return hashlib.md5(content).hexdigest()


def run(*words: object) -> str:
    out = io.StringIO()
    call_command(*map(str, words), stdout=out)
    return out.getvalue().strip()


def signer(*words: object, answer: str = "", code: int = 0) -> str:
    """Run the tool as on the other machine, where the project cannot be imported."""
    done = subprocess.run(
        [sys.executable, "-I", str(SIGNER), *map(str, words)],
        input=answer,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
        cwd="/",
        env={"PATH": os.environ["PATH"]},
    )
    assert done.returncode == code, done.stdout + done.stderr
    return done.stdout + done.stderr


@pytest.fixture
def offline(settings, tmp_path) -> Path:
    """A public project; returns the folder of the other machine, which has the private key."""
    machine = tmp_path / "other machine"
    signer("new-key", machine)
    settings.KEYS_DIR = tmp_path / "keys"
    settings.PROJECT = replace(settings.PROJECT, online_signing=False)
    signing.ensure_keys()
    run("rotate_key", "code-sign", "--public-key", machine / "code_sign_public")
    return machine


@pytest.fixture
def script(tmp_path) -> Path:
    folder = tmp_path / "sum"
    folder.mkdir()
    (folder / "run.sh").write_text(SCRIPT)
    return folder


def sign(machine: Path, folder: Path) -> None:
    signer("sign", folder, "--key", machine / "code_sign_private", "--yes")


NEW = ("--create-app", "--kind", "script")


# Signing without an operator


@pytest.mark.parametrize(
    ("master_url", "said", "expected"),
    [
        ("http://127.0.0.1:8000/", "", "True"),
        ("http://lab.example/", "", "True"),
        ("https://volunteers.example/", "", "False"),
        ("https://volunteers.example/", "true", "True"),
        ("http://lab.example/", "false", "False"),
    ],
)
def test_https_project_signs_on_the_server_only_with_online_signing(
    tmp_path, master_url: str, said: str, expected: str
) -> None:
    program = "from project import settings; print(settings.PROJECT.online_signing)"
    environment = os.environ | {
        "MASTER_URL": master_url,
        "ONLINE_SIGNING": said,
        "VAR_DIR": str(tmp_path),
        "DATABASE_URL": "postgresql://nobody@127.0.0.1/none",
    }
    done = subprocess.run(
        [sys.executable, "-c", program],
        env=environment,
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.strip() == expected, done.stderr


def test_publishing_without_signatures_is_refused_and_signs_nothing(offline, script) -> None:
    with pytest.raises(CommandError, match=r"No signature .* sum_launcher, sum\.tar\.gz.* Hint: "):
        run("publish_app", "sum", "1.00", script, *NEW)
    assert not AppVersion.objects.exists()
    with pytest.raises(signing.KeyMissing):
        signing.sign(b"anything")


def test_private_key_on_the_server_is_not_used_if_online_signing_is_off(settings, script) -> None:
    settings.PROJECT = replace(settings.PROJECT, online_signing=False)
    assert signing.private_code_sign_key_is_here()
    with pytest.raises(CommandError, match="No signature was given"):
        run("publish_app", "sum", "1.00", script, *NEW)
    with pytest.raises(CommandError, match="ONLINE_SIGNING is off"):
        run("rotate_key", "code-sign")


def test_public_project_creates_no_code_sign_key_and_refuses_to_serve_without_it(
    settings, tmp_path
) -> None:
    settings.KEYS_DIR = tmp_path / "none"
    settings.PROJECT = replace(
        settings.PROJECT, online_signing=False, master_url="https://volunteers.example/"
    )
    signing.ensure_keys()
    assert not list(settings.KEYS_DIR.glob("code_sign*"))
    assert (settings.KEYS_DIR / "upload_grant_keys").exists()
    with pytest.raises(CommandError, match=r"no code signing key.*\nHint: .*sign\.py new-key"):
        serve.check_keys()


def test_version_can_be_prepared_without_a_code_sign_key(settings, script, tmp_path) -> None:
    settings.KEYS_DIR = tmp_path / "none"
    settings.PROJECT = replace(settings.PROJECT, online_signing=False)
    signing.ensure_keys()
    assert "Wrote 2 files" in run(
        "publish_app", "sum", "1.00", script, *NEW, "--prepare", tmp_path / "to sign"
    )


def test_package_with_a_file_named_to_sign_json_is_refused(script, tmp_path) -> None:
    native = tmp_path / "native"
    native.mkdir()
    (native / "sieve").write_bytes(b"#!/bin/sh\n")
    (native / "to-sign.json").write_text("{}")
    words = ("publish_app", "sieve", "1.00", LINUX, native, "--main-program", "sieve")
    with pytest.raises(CommandError, match=r"has a file to-sign\.json"):
        run(*words, "--create-app", "--prepare", tmp_path / "to sign")


def test_serve_warns_of_a_private_key_in_a_public_project(settings, capsys, offline) -> None:
    settings.PROJECT = replace(settings.PROJECT, master_url="https://volunteers.example/")
    serve.check_keys()
    assert capsys.readouterr().err == ""
    (settings.KEYS_DIR / "code_sign_private").write_text("a copy")
    serve.check_keys()
    assert "a private code signing key is in" in capsys.readouterr().err


# From the shell, the API and the SDK


def test_script_app_is_prepared_signed_offline_and_published(offline, script, tmp_path) -> None:
    folder = tmp_path / "to sign"
    output = run("publish_app", "sum", "1.00", script, *NEW, "--prepare", folder)
    assert "sum.tar.gz, sum_launcher" in output
    assert not App.objects.exists()
    sign(offline, folder)
    assert "is signed by" in signer("check", folder, "--key", offline / "code_sign_public")
    output = run("publish_app", "sum", "1.00", script, *NEW, "--signatures", folder)
    assert output.startswith("Published sum 1.00")
    for row in AppVersionFile.objects.select_related("file"):
        assert signing.verify(row.file.md5, row.signature, signing.code_sign_key_text())
    # Publishing the same version again needs no signature.
    assert "published already" in run("publish_app", "sum", "1.00", script)
    events = set(AuditEntry.objects.values_list("event", flat=True))
    assert "version_published" in events
    assert "file_signed" not in events


def test_signature_of_other_content_or_by_another_key_is_refused(offline, script, tmp_path) -> None:
    folder, other = tmp_path / "to sign", tmp_path / "other"
    run("publish_app", "sum", "1.00", script, *NEW, "--prepare", folder)
    sign(offline, folder)
    (script / "run.sh").write_text(SCRIPT + "echo more\n")
    with pytest.raises(CommandError, match=r"sum\.tar\.gz\.sig is not a signature by the project"):
        run("publish_app", "sum", "1.00", script, *NEW, "--signatures", folder)
    run("publish_app", "sum", "1.00", script, *NEW, "--prepare", other)
    signer("new-key", tmp_path / "stranger")
    sign(tmp_path / "stranger", other)
    with pytest.raises(CommandError, match="is not a signature by the project"):
        run("publish_app", "sum", "1.00", script, *NEW, "--signatures", other)
    assert not AppVersion.objects.exists()


def test_native_program_is_published_with_the_sig_files_in_its_folder(offline, tmp_path) -> None:
    program = tmp_path / "sieve"
    program.write_bytes(b"\x7fELF program")
    folder = tmp_path / "to sign"
    new = ("publish_app", "sieve", "1.00", LINUX)
    run(*new, program, "--create-app", "--prepare", folder)
    assert (folder / "sieve").read_bytes() == program.read_bytes()
    sign(offline, folder)
    (folder / "to-sign.json").unlink()
    assert "Published sieve 1.00" in run(*new, folder, "--create-app")


def test_api_publishes_only_with_valid_signatures(offline, staff, tmp_path) -> None:
    app = an_app()
    answer = send(staff, ("run.sh", RUN))
    assert answer.status_code == 422
    assert answer.json()["code"] == "signature_missing"
    path, folder = tmp_path / "run.sh", tmp_path / "to sign"
    path.write_bytes(RUN)
    run("publish_app", app.name, "1.00", path, "--prepare", folder)
    sign(offline, folder)
    texts = [one.read_text() for one in folder.glob("*.sig")]
    assert len(texts) == 2
    answer = send(staff, ("run.sh", RUN), signatures=texts)
    assert answer.status_code == 201, answer.content
    wrong = send(staff, ("run.sh", RUN), version="1.01", signatures=[texts[0], "00ff\n.\n"])
    assert (wrong.status_code, wrong.json()["code"]) == (422, "bad_signature")


def test_signing_on_the_server_is_recorded_in_the_audit_log(script) -> None:
    run("publish_app", "sum", "1.00", script, *NEW)
    assert AuditEntry.objects.filter(event="file_signed", subject="sum_launcher").exists()
    entry = AuditEntry.objects.filter(event="version_published").first()
    assert entry is not None
    assert entry.subject.startswith("sum 1.00")


# The tool on the other machine


def test_signing_tool_shows_the_files_and_requires_confirmation(offline, script, tmp_path) -> None:
    folder = tmp_path / "to sign"
    run("publish_app", "sum", "1.00", script, *NEW, "--prepare", folder)
    said = signer("sign", folder, "--key", offline / "code_sign_private", answer="\n", code=1)
    digest = hashlib.sha256((folder / "sum_launcher").read_bytes()).hexdigest()
    assert digest in said
    assert f"{(folder / 'sum_launcher').stat().st_size}" in said
    assert "Nothing was signed" in said
    assert not list(folder.glob("*.sig"))
    signer("sign", folder, "--key", offline / "code_sign_private", answer="y\n")
    assert len(list(folder.glob("*.sig"))) == 2


def a_folder(folder: Path, content: bytes, name: str = "table") -> Path:
    folder.mkdir()
    (folder / name).write_bytes(content)
    one = {
        "name": name,
        "nbytes": len(content),
        "sha256": hashlib.sha256(content).hexdigest(),
        "md5": md5(content),
    }
    (folder / "to-sign.json").write_text(json.dumps({"files": [one]}))
    return folder


def test_signing_tool_refuses_key_shaped_contents(offline, tmp_path) -> None:
    for number, content in enumerate(KEY_SHAPED.values()):
        folder = a_folder(tmp_path / str(number), content)
        said = signer("sign", folder, "--key", offline / "code_sign_private", "--yes", code=1)
        assert "could be taken for a public key" in said
        assert not (folder / "table.sig").exists()


def test_signing_tool_refuses_files_changed_or_outside_the_folder(offline, tmp_path) -> None:
    folder = a_folder(tmp_path / "changed", b"#!/bin/sh\n")
    (folder / "table").write_bytes(b"#!/bin/sh\nrm -rf ~\n")
    key = ("--key", offline / "code_sign_private", "--yes")
    assert "differs from the manifest" in signer("sign", folder, *key, code=1)
    (tmp_path / "outside").write_bytes(b"x")
    folder = a_folder(tmp_path / "leads out", b"x")
    text = (folder / "to-sign.json").read_text()
    (folder / "to-sign.json").write_text(text.replace('"table"', '"../outside"'))
    assert "outside its folder" in signer("sign", folder, *key, code=1)
    assert not (tmp_path / "outside.sig").exists()


@given(
    st.lists(
        st.sampled_from([b"1", b"024", b"a", b"G", b"\n", b" ", b"\r", b"\x85", b"-", b"+", b"."]),
        max_size=12,
    ).map(b"".join)
    | st.binary(max_size=40)
)
def test_signing_tool_and_server_detect_the_same_key_shaped_contents(content: bytes) -> None:
    assert tool().looks_like_key(content) == looks_like_key(content)


def tool():
    if "sign_tool" not in sys.modules:
        spec = importlib.util.spec_from_file_location("sign_tool", SIGNER)
        assert spec is not None
        assert spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        sys.modules["sign_tool"] = module
        spec.loader.exec_module(module)
    return sys.modules["sign_tool"]


def test_private_key_is_readable_by_its_owner_only_and_never_overwritten(tmp_path) -> None:
    machine = tmp_path / "machine"
    signer("new-key", machine)
    assert (machine / "code_sign_private").stat().st_mode & 0o777 == 0o600
    before = (machine / "code_sign_private").read_text()
    assert "exists already" in signer("new-key", machine, code=1)
    assert (machine / "code_sign_private").read_text() == before


# BOINC's own tool


def test_signatures_made_by_boinc_crypt_prog_are_accepted(settings, tmp_path) -> None:
    settings.KEYS_DIR = tmp_path / "keys"
    settings.PROJECT = replace(settings.PROJECT, online_signing=False)
    signing.ensure_keys()
    run("rotate_key", "code-sign", "--public-key", GOLDEN / "crypt_prog_public.txt")
    signature = GOLDEN / "crypt_prog_signature.txt"
    new = ("publish_app", "sieve", "1.00", LINUX, GOLDEN / "crypt_prog_program", "--create-app")
    assert "Published sieve 1.00" in run(*new, "--signatures", signature)


def test_signing_tool_makes_the_same_signature_as_crypt_prog(tmp_path) -> None:
    content = (GOLDEN / "crypt_prog_program").read_bytes()
    folder = a_folder(tmp_path / "to sign", content, "program")
    signer("sign", folder, "--key", GOLDEN / "crypt_prog_private.txt", "--yes")
    made = (folder / "program.sig").read_text()
    assert made == (GOLDEN / "crypt_prog_signature.txt").read_text()


# New keys, and stolen keys


def test_key_rotation_can_be_signed_on_another_machine(offline, script, tmp_path) -> None:
    folder = tmp_path / "to sign"
    run("publish_app", "sum", "1.00", script, *NEW, "--prepare", folder)
    sign(offline, folder)
    run("publish_app", "sum", "1.00", script, *NEW, "--signatures", folder)
    client = a_client()
    client.ask()
    old = client.code_sign_key
    assert old == signing.code_sign_key_text()

    new = tmp_path / "new"
    signer("new-key", new)
    signer("rotate", offline / "code_sign_private", new / "code_sign_public", "--yes")
    all_files = tmp_path / "all files"
    run("rotate_key", "code-sign", "--prepare", all_files)
    install = ("rotate_key", "code-sign", "--public-key", new / "code_sign_public")
    vouched = ("--rotation-signature", new / "rotation.sig")
    with pytest.raises(CommandError, match="No signature was given"):
        run(*install, *vouched)
    assert signing.code_sign_key_text() == old, "nothing has changed"
    sign(new, all_files)
    run(*install, *vouched, "--signatures", all_files)

    reply = client.ask(code_sign_key=old)
    assert reply.code_sign_key == signing.code_sign_key_text() != old
    assert signing.verify(
        md5(reply.code_sign_key.encode()), reply.code_sign_key_signature or "", old
    )
    for row in AppVersionFile.objects.select_related("file"):
        assert signing.verify(row.file.md5, row.signature, signing.code_sign_key_text())


def test_a_rotation_signature_by_another_key_is_refused(offline, tmp_path) -> None:
    for name in ("new", "stranger"):
        signer("new-key", tmp_path / name)
    public = tmp_path / "new" / "code_sign_public"
    signer("rotate", tmp_path / "stranger" / "code_sign_private", public, "--yes")
    before = signing.code_sign_key_text()
    install = ("rotate_key", "code-sign", "--public-key", public)
    with pytest.raises(CommandError, match="was not made with any of this project's keys"):
        run(*install, "--rotation-signature", tmp_path / "new" / "rotation.sig")
    with pytest.raises(CommandError, match="has 704 bytes"):
        run("rotate_key", "code-sign", "--public-key", tmp_path / "new" / "code_sign_private")
    assert signing.code_sign_key_text() == before


def test_revoking_the_key_deletes_it_and_republishes_versions(settings, script, tmp_path) -> None:
    settings.KEYS_DIR = tmp_path / "keys"
    signing.ensure_keys()
    run("publish_app", "sum", "1.00", script, *NEW)
    old = signing.code_sign_key_text()
    before = set(AppVersion.objects.all())
    output = run("rotate_key", "code-sign", "--revoke")
    assert "Published sum 1.01" in output
    assert all(version.deprecated for version in AppVersion.objects.filter(version_num=100))
    new = AppVersion.objects.filter(deprecated=False)
    assert {version.version_num for version in new} == {101}
    assert len(new) == len(before)
    for row in AppVersionFile.objects.select_related("file"):
        assert signing.verify(row.file.md5, row.signature, signing.code_sign_key_text())
    # Clients with the old key still get the new one; the old key cannot sign anything else.
    signature = signing.rotation_signature(old)
    assert signature is not None
    assert signing.verify(md5(signing.code_sign_key_text().encode()), signature, old)
    assert sorted(p.name for p in settings.KEYS_DIR.glob("code_sign*")) == [
        "code_sign_private",
        "code_sign_public",
        "code_sign_public.1",
        "code_sign_rotation.1",
    ]
    assert AuditEntry.objects.filter(event="key_revoked", subject="code signing key").exists()


def test_key_revocation_can_be_signed_on_another_machine(offline, script, tmp_path) -> None:
    folder = tmp_path / "to sign"
    run("publish_app", "sum", "1.00", script, *NEW, "--prepare", folder)
    sign(offline, folder)
    run("publish_app", "sum", "1.00", script, *NEW, "--signatures", folder)
    old = signing.code_sign_key_text()
    new, again = tmp_path / "new", tmp_path / "again"
    signer("new-key", new)
    signer("rotate", offline / "code_sign_private", new / "code_sign_public", "--yes")
    run("rotate_key", "code-sign", "--revoke", "--prepare", again)
    install = ("rotate_key", "code-sign", "--revoke", "--public-key", new / "code_sign_public")
    vouched = ("--rotation-signature", new / "rotation.sig")
    with pytest.raises(CommandError, match="No signature was given"):
        run(*install, *vouched)
    assert signing.code_sign_key_text() == old
    sign(new, again)
    assert "Published sum 1.01" in run(*install, *vouched, "--signatures", again)
    assert signing.rotation_signature(old) is not None


def test_key_rotation_is_refused_if_a_published_file_was_changed(
    script, settings, tmp_path
) -> None:
    settings.KEYS_DIR = tmp_path / "keys"
    signing.ensure_keys()
    run("publish_app", "sum", "1.00", script, *NEW)
    row = AppVersionFile.objects.select_related("file").first()
    assert row is not None
    from scheduler import storage

    path = storage.download_path(row.file.name)
    path.chmod(0o644)
    path.write_bytes(b"#!/bin/sh\nrm -rf ~\n")
    before = signing.code_sign_key_text()
    with pytest.raises(CommandError, match="has changed: its SHA-256 is"):
        run("rotate_key", "code-sign")
    assert signing.code_sign_key_text() == before


def test_upload_with_a_grant_of_a_revoked_key_gets_a_transient_error() -> None:
    upload = test_upload.request_for()
    assert "are revoked" in run("rotate_key", "upload-grant", "--revoke")
    assert signing.check_upload_grant(upload.name, upload.max_nbytes, upload.grant) is (
        signing.Grant.REVOKED
    )
    reply = test_upload.call(uploads.encode_request(upload, test_upload.DATA)).reply
    assert (reply.status, test_upload.arrived()) == (1, None)
    assert test_upload.send().status == 0
    assert AuditEntry.objects.filter(event="key_revoked", subject="upload grant key").exists()


# Launchers


def test_versions_with_an_old_launcher_are_listed_and_republished(
    script, monkeypatch, capsys
) -> None:
    launchers = importlib.import_module("scheduler.storage.app_files.launcher")
    template = launchers._template()
    monkeypatch.setattr(launchers, "_template", lambda: template + b"# older\n")
    run("publish_app", "sum", "1.00", script, *NEW)
    monkeypatch.setattr(launchers, "_template", lambda: template)
    call_command("hygiene", "--dry-run")
    assert "sum 1.00" in "".join(capsys.readouterr())
    output = run("republish_apps")
    assert "Published sum 1.01" in output
    current = AppVersion.objects.filter(deprecated=False)
    assert {version.version_num for version in current} == {101}
    [archive] = {v.files.get(position=1).file for v in current}
    [old] = {v.files.get(position=1).file for v in AppVersion.objects.filter(version_num=100)}
    assert archive == old
    call_command("hygiene", "--dry-run")
    assert "older launcher" not in "".join(capsys.readouterr())
    assert run("republish_apps") == "There is nothing to publish again."


def test_republishing_can_be_signed_on_another_machine(offline, script, tmp_path) -> None:
    first, second = tmp_path / "first", tmp_path / "second"
    run("publish_app", "sum", "1.00", script, *NEW, "--prepare", first)
    sign(offline, first)
    run("publish_app", "sum", "1.00", script, *NEW, "--signatures", first)
    with pytest.raises(CommandError, match="No signature"):
        run("republish_apps", "--all")
    run("republish_apps", "--all", "--prepare", second)
    sign(offline, second)
    assert "Published sum 1.01" in run("republish_apps", "--all", "--signatures", second)


def test_republished_native_version_keeps_file_names_and_requirements() -> None:
    app_versions.publish(
        app="sieve",
        version_num=7,
        platform=LINUX,
        files={"bin.tool": b"#!/bin/sh\n", "table": b"words\n"},
        main_program="bin.tool",
        create_app=True,
        now=NOON,
    )
    AppVersion.objects.update(avg_ncpus=2.5, min_core_version=71000)
    run("republish_apps", "--all")
    [new] = AppVersion.objects.filter(deprecated=False)
    assert (new.version_num, new.avg_ncpus, new.min_core_version) == (8, 2.5, 71000)
    rows = list(new.files.select_related("file").order_by("position"))
    assert [(row.open_name, row.main_program) for row in rows] == [("", True), ("table", False)]


def test_files_with_the_same_base_name_are_republished_separately(offline, tmp_path) -> None:
    native = tmp_path / "native"
    for name in ("a/table", "b/table"):
        (native / name).parent.mkdir(parents=True)
        (native / name).write_text(f"words of {name}\n")
    (native / "sieve").write_bytes(b"#!/bin/sh\n")
    words = ("publish_app", "sieve", "1.00", LINUX, native, "--main-program", "sieve")
    first, second = tmp_path / "first", tmp_path / "second"
    run(*words, "--create-app", "--prepare", first)
    sign(offline, first)
    run(*words, "--create-app", "--signatures", first)
    run("republish_apps", "--all", "--prepare", second)
    sign(offline, second)
    assert "Published sieve 1.01" in run("republish_apps", "--all", "--signatures", second)
    [new] = AppVersion.objects.filter(deprecated=False)
    opened = new.files.order_by("position").values_list("open_name", flat=True)
    assert list(opened) == ["", "a/table", "b/table"]


def test_key_rotation_without_revoking_republishes_no_versions(settings, script, tmp_path) -> None:
    settings.KEYS_DIR = tmp_path / "keys"
    signing.ensure_keys()
    run("publish_app", "sum", "1.00", script, *NEW)
    done = key_rotation.rotate(now=timezone.now())
    assert not done.republished
    assert not AppVersion.objects.exclude(version_num=100).exists()
