"""Keys and signatures, compared with those of BOINC's tools and clients."""

from __future__ import annotations

import hashlib
import os
import stat
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st

from scheduler import signing
from scheduler.signing import Grant

GOLDEN = Path(__file__).parent / "golden_keys"
KEY_FILES = {"code_sign_private", "code_sign_public", "upload_grant_keys", "account_seal_key"} | {
    "ownership_private",
    "ownership_public",
}

own_keys = hypothesis_settings(suppress_health_check=[HealthCheck.function_scoped_fixture])


def golden(name: str) -> str:
    return (GOLDEN / f"{name}.txt").read_text()


def md5(data: bytes | str) -> str:
    return hashlib.md5(data.encode() if isinstance(data, str) else data).hexdigest()


@pytest.fixture
def keys(settings, tmp_path) -> Path:
    settings.KEYS_DIR = tmp_path / "keys"
    signing.ensure_keys()
    return settings.KEYS_DIR


# Signatures of other programs


def test_captured_signature_of_an_app_file_is_valid() -> None:
    worker = (GOLDEN / "worker").read_bytes()
    assert signing.verify(md5(worker), golden("worker_signature"), golden("old_code_sign_key"))
    assert not signing.verify(
        md5(worker + b"\n"), golden("worker_signature"), golden("old_code_sign_key")
    )


def test_trap_14_key_rotation_signature_covers_the_stripped_key() -> None:
    new, old = golden("new_code_sign_key"), golden("old_code_sign_key")
    assert signing.verify(md5(new.strip()), golden("rotation_signature"), old)
    refused = golden("rotation_signature_over_unstripped")
    assert not signing.verify(md5(new.strip()), refused, old)


def test_signature_with_uppercase_digits_or_without_its_dot_is_read() -> None:
    worker = md5((GOLDEN / "worker").read_bytes())
    signature = golden("worker_signature").upper().replace(".", "")
    assert signing.verify(worker, signature, golden("old_code_sign_key"))


@pytest.mark.parametrize("nonsense", ["", ".", "zz", "00" * 128, "ff" * 128, "ff" * 4096])
def test_malformed_signature_is_invalid(nonsense) -> None:
    assert not signing.verify(md5(b""), nonsense, golden("old_code_sign_key"))


@pytest.mark.parametrize(
    "text", ["", "2048\n" + "00" * 256, "-----BEGIN PUBLIC KEY-----\nMIGf\n", "1024\n00\n.\n"]
)
def test_trap_15_key_that_clients_cannot_read_is_refused_with_a_hint(text) -> None:
    with pytest.raises(signing.BadKey, match="Hint: BOINC's clients take 1024-bit"):
        signing.verify(md5(b""), "00", text)


# Signatures of this project


def test_keys_of_a_new_project_are_accessible_to_the_owner_only(keys) -> None:
    files = {path.name for path in keys.iterdir() if not path.name.startswith(".")}
    assert files == KEY_FILES
    assert stat.S_IMODE(keys.stat().st_mode) == 0o700
    assert {stat.S_IMODE(path.stat().st_mode) for path in keys.iterdir()} == {0o600}


def test_creating_keys_twice_keeps_the_existing_keys(keys) -> None:
    before = {path: path.read_bytes() for path in keys.iterdir()}
    signing.ensure_keys()
    assert {path: path.read_bytes() for path in keys.iterdir()} == before


def test_concurrently_started_processes_use_the_same_keys(tmp_path) -> None:
    program = (
        "import sys; from django.conf import settings; from scheduler.config import ProjectConfig;"
        "settings.configure(KEYS_DIR=sys.argv[1], PROJECT=ProjectConfig());"
        "from scheduler import signing; import hashlib; signing.ensure_keys();"
        "m = hashlib.md5(b'x').hexdigest(); s = signing.sign(b'x'); t = signing.code_sign_key_text();"
        "assert signing.verify(m, s, t); print(t, signing.upload_grant('a', 1))"
    )
    command = [sys.executable, "-c", program, str(tmp_path / "keys")]
    root = Path(__file__).parents[2]
    started = [
        subprocess.Popen(command, stdout=subprocess.PIPE, cwd=root, text=True) for _ in range(4)
    ]
    said = {process.communicate(timeout=60)[0] for process in started}
    assert [process.returncode for process in started] == [0] * 4
    assert len(said) == 1
    assert {p.name for p in (tmp_path / "keys").iterdir()} == KEY_FILES | {".lock"}


def test_trap_15_public_key_has_the_text_form_that_clients_read(keys) -> None:
    lines = signing.code_sign_key_text().split("\n")
    assert lines[0] == "1024"
    assert lines[-1] == "."
    assert [len(line) for line in lines[1:-1]] == [64] * 8
    assert lines[-2] == "10001".zfill(64)
    assert int(lines[1][0], 16) >= 8  # all of the 1024 bits are used


def test_private_key_file_has_the_format_of_the_boinc_tools(keys) -> None:
    lines = (keys / "code_sign_private").read_text().split("\n")
    assert lines[0] == "1024"
    assert sum(map(len, lines[1:-2])) == 704 * 2
    assert lines[-2:] == [".", ""]


@own_keys
@given(st.binary())
def test_signature_is_valid_for_the_signed_content_only(keys, content) -> None:
    signature = signing.sign(content)
    public = signing.code_sign_key_text()
    assert signing.verify(md5(content), signature, public)
    assert not signing.verify(md5(content + b"x"), signature, public)
    assert not signing.verify(md5(content), signature, golden("old_code_sign_key"))


def test_signature_is_four_lines_and_a_dot(keys) -> None:
    lines = signing.sign(b"x").split("\n")
    assert [len(line) for line in lines] == [64, 64, 64, 64, 1, 0]


def test_missing_private_key_raises_on_signing_and_is_not_recreated(keys) -> None:
    public = signing.code_sign_key_text()
    (keys / "code_sign_private").unlink()
    signing.ensure_keys()
    assert signing.code_sign_key_text() == public
    with pytest.raises(signing.KeyMissing, match="Hint"):
        signing.sign(b"x")


def test_every_earlier_key_signs_the_current_key(keys) -> None:
    earlier = []
    for _ in range(3):
        earlier.append(signing.code_sign_key_text())
        signing.NewCodeSignKey().install()
    current = signing.code_sign_key_text()
    assert current not in earlier
    for old in earlier:
        signature = signing.rotation_signature(f"\n{old}\n")
        assert signature is not None
        assert signing.verify(md5(current), signature, old)


def test_unknown_key_gets_no_rotation_signature(keys) -> None:
    assert signing.rotation_signature(golden("old_code_sign_key")) is None


def test_interrupted_key_rotation_is_completed_at_the_next_start(keys) -> None:
    signing.NewCodeSignKey().install()
    expected = signing.code_sign_key_text()
    (keys / "code_sign_public").unlink()
    signing.ensure_keys()
    assert signing.code_sign_key_text() == expected


# Upload grants


def test_upload_grant_is_valid_for_its_name_and_size_only(keys) -> None:
    grant = signing.upload_grant("wu_1_0_r0", 1000)
    assert signing.check_upload_grant("wu_1_0_r0", 1000, grant) is Grant.GOOD
    assert signing.check_upload_grant("wu_1_0_r1", 1000, grant) is Grant.BAD
    assert signing.check_upload_grant("wu_1_0_r0", 1001, grant) is Grant.BAD


def test_whitespace_and_case_of_an_upload_grant_are_ignored(keys) -> None:
    grant = signing.upload_grant("a", 1)
    for text in (grant.strip(), f" \r\n{grant}\n ", grant.replace("\n", "\r\n"), grant.upper()):
        assert signing.check_upload_grant("a", 1, text) is Grant.GOOD


def test_upload_grant_has_the_form_of_a_signature_and_fits_client_limits(keys) -> None:
    grant = signing.upload_grant("a" * 255, 2**62)
    assert grant.endswith("\n.\n")
    assert len(grant) < 4095
    assert max(map(len, grant.split("\n"))) == 64


def test_upload_grants_of_earlier_keys_remain_valid(keys) -> None:
    first = signing.upload_grant("a", 1)
    signing.rotate_upload_grant_key()
    second = signing.upload_grant("a", 1)
    assert first != second
    assert signing.check_upload_grant("a", 1, first) is Grant.GOOD
    assert signing.check_upload_grant("a", 1, second) is Grant.GOOD


def test_grant_by_a_lost_key_differs_from_a_forged_grant(keys) -> None:
    grant = signing.upload_grant("a", 1)
    (keys / "upload_grant_keys").unlink()
    signing.ensure_keys()
    assert signing.check_upload_grant("a", 1, grant) is Grant.UNKNOWN_KEY
    assert signing.check_upload_grant("a", 1, golden("worker_signature")) is Grant.BAD


@own_keys
@given(st.text())
def test_any_other_text_is_not_a_valid_upload_grant(keys, text) -> None:
    assert signing.check_upload_grant("a", 1, text) in {Grant.BAD, Grant.UNKNOWN_KEY}


def test_trap_30_upload_grant_depends_only_on_name_and_size(keys) -> None:
    # The grant has neither host nor time: any host can use it at any time.
    assert signing.upload_grant("a", 1) == signing.upload_grant("a", 1)


@pytest.mark.parametrize("damage", ["", "\n", "zz zz\n", "00 00 00\n", "00\n", "0011 aabb\n"])
def test_damaged_grant_key_file_is_refused_with_a_hint(keys, damage) -> None:
    (keys / "upload_grant_keys").write_text(damage)
    with pytest.raises(signing.BadKey, match="Hint: restore"):
        signing.upload_grant("a", 1)


# Account keys


def test_sealed_account_key_is_unreadable_and_can_be_unsealed(keys) -> None:
    sealed = signing.seal("0123456789abcdef0123456789abcdef")
    assert b"0123456789abcdef" not in sealed
    assert signing.unseal(sealed) == "0123456789abcdef0123456789abcdef"
    assert signing.unseal(memoryview(sealed)) == "0123456789abcdef0123456789abcdef"


def test_key_sealed_by_another_project_cannot_be_opened(keys, settings, tmp_path) -> None:
    sealed = signing.seal("secret")
    settings.KEYS_DIR = tmp_path / "other"
    signing.ensure_keys()
    with pytest.raises(signing.BadKey, match="Hint: restore the account_seal_key"):
        signing.unseal(sealed)


def test_replaced_key_file_is_read_again(keys) -> None:
    sealed = signing.seal("secret")
    path = keys / "account_seal_key"
    old = path.read_text()
    path.unlink()
    signing.ensure_keys()
    newer = keys / "newer"
    newer.write_text(path.read_text() + old)
    os.replace(newer, path)  # noqa: PTH105 - the very call that an operator's editor makes
    assert signing.unseal(sealed) == "secret"
