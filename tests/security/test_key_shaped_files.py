"""Files that clients could take for a public key are never signed."""

from __future__ import annotations

import io

import pytest
from cryptography.hazmat.primitives.asymmetric import rsa
from django.core.management import CommandError, call_command
from hypothesis import given
from hypothesis import strategies as st

from scheduler import signing, storage
from scheduler.apps import app_versions, key_rotation
from scheduler.models import AppVersion, AppVersionFile, File
from tests.conftest import NOON
from tests.work import LINUX

pytestmark = pytest.mark.django_db


def a_key() -> str:
    """Return a new public key in BOINC's format."""
    numbers = rsa.generate_private_key(65537, 1024).public_key().public_numbers()
    both = numbers.n.to_bytes(128, "big") + numbers.e.to_bytes(128, "big")
    return "1024\n" + "\n".join(both.hex()[i : i + 64] for i in range(0, 512, 64)) + "\n."


KEY = a_key()
PROGRAM = b"#!/bin/sh\necho 1\n"

#: Texts that a client could take for a key, or whose beginning it could.
KEY_SHAPED = {
    "a key": KEY.encode(),
    "its file": KEY.encode() + b"\n",
    "blanks before": b"  \r\n\t" + KEY.encode(),
    "a sign": b"+" + KEY.encode(),
    "a negative size": b"-" + KEY.encode(),
    "words after the size": KEY.replace("1024\n", "1024 bits\n").encode(),
    "digits run on": KEY.replace("1024\n", "1024abc\n").encode(),
    "blank lines between": KEY.replace("1024\n", "1024\n\n  \n").encode(),
    "carriage returns": KEY.replace("\n", "\r\n").encode(),
    "capital letters": KEY.upper().encode(),
    "a prefix that %x skips": KEY.replace("1024\n", "1024\n0x").encode(),
    "a sign before the digits": KEY.replace("1024\n", "1024\n+").encode(),
    "words after the key": KEY.encode() + b"\nand a story.\n",
    "bytes after the key": KEY.encode() + bytes(range(256)),
    # A client keeps 4095 characters of the text, but verifies the signature of the whole text.
    "a megabyte after the key": KEY.encode() + b"\n" + b"x" * 1_000_000,
    "a short one": b"5\nff\n.",
}


def publish(files: dict[str, bytes], **more: object) -> app_versions.Published:
    facts: dict[str, object] = {"app": "sieve", "version_num": 1, "platform": LINUX}
    return app_versions.publish(
        files=files, main_program="sieve", create_app=True, now=NOON, **(facts | more)
    )


@pytest.mark.parametrize("name", KEY_SHAPED)
def test_publishing_a_key_shaped_file_is_refused(name: str) -> None:
    with pytest.raises(app_versions.BadPackage, match=r"table .*could be taken .* key.* Hint:"):
        publish({"sieve": PROGRAM, "table": KEY_SHAPED[name]})
    assert not AppVersion.objects.exists()


def test_publishing_a_key_shaped_main_program_is_refused() -> None:
    with pytest.raises(app_versions.BadPackage, match="could be taken"):
        publish({"sieve": KEY.encode()})


def test_key_shaped_file_with_a_valid_signature_is_refused(monkeypatch) -> None:
    content = KEY.encode()
    # Signed by a tool that does not check contents.
    signature = signing._sign(
        storage.stage_bytes(content).digest.md5,
        signing._load("code_sign_private", signing._parse_private),
    )
    with pytest.raises(app_versions.BadPackage, match="could be taken"):
        publish({"sieve": PROGRAM, "table": content, "table.sig": signature.encode()})


def test_signing_accepts_content_but_not_a_digest() -> None:
    assert not hasattr(signing, "sign_digest")
    assert signing.sign(PROGRAM) == signing.sign(io.BytesIO(PROGRAM))
    with pytest.raises(signing.KeyShaped, match="Hint:"):
        signing.sign(KEY.encode())


@pytest.mark.parametrize(
    "content",
    [
        PROGRAM,
        b"",
        b"1024\n",
        b"1024 abc\n",
        b"17 numbers\nq\n",
        b"x 1024\nabc\n",
        b"0.5\nx\n",
        b"\x7fELF\x02\x01",
        b"\x1f\x8b\x08\x00",
        b"# 1024\nabcdef\n",
    ],
)
def test_contents_that_are_not_key_shaped_are_signed(content: bytes) -> None:
    assert signing.verify(
        storage.stage_bytes(content).digest.md5,
        signing.sign(content),
        signing.code_sign_key_text(),
    )


def as_clients_read(text: bytes) -> bytes | None:
    """Parse a key as clients before 8.2: sscanf("%d"), the line after, then sscanf("%2x")."""
    text = text.split(b"\0")[0]
    blank = b" \t\n\v\f\r"
    number = text.lstrip(blank)
    if number[:1] in {b"+", b"-"}:
        number = number[1:]
    if not number[:1].isdigit():
        return None
    _, newline, rest = text.partition(b"\n")
    if not newline:
        return None
    found = bytearray()
    while rest:
        if rest[:1] in {bytes([c]) for c in blank}:
            rest = rest[1:]
            continue
        pair = rest[:2]
        pair = pair[1:] if pair[:1] in {b"+", b"-"} else pair
        digits = pair[:1] if pair[:1] and pair[:1] in b"0123456789abcdefABCDEF" else b""
        if not digits:
            break
        found += b"0"
        rest = rest[2:]
    return bytes(found) or None


ALPHABET = [b"1", b"024", b"a", b"F", b"x", b"\n", b" ", b"\r", b"\t", b"-", b"+", b".", b"0x"]


@given(st.lists(st.sampled_from(ALPHABET), max_size=14).map(b"".join))
def test_signing_refuses_contents_that_a_client_parses_as_a_key(content: bytes) -> None:
    if as_clients_read(content) or as_clients_read(content.strip()):
        with pytest.raises(signing.KeyShaped):
            signing.sign(content)


def test_hygiene_lists_published_key_shaped_files_and_rotation_refuses_them(capsys) -> None:
    done = publish({"sieve": PROGRAM})
    staged = storage.stage_bytes(KEY.encode())
    storage.publish(staged, "table_1")
    digest = staged.digest
    file = File.objects.create(
        name="table_1", sha256=digest.sha256, md5=digest.md5, nbytes=digest.nbytes, created_at=NOON
    )
    AppVersionFile.objects.create(
        app_version=done.version, file=file, position=1, open_name="table", signature="00"
    )
    call_command("hygiene", "--dry-run")
    out = capsys.readouterr()
    assert "table_1" in out.out + out.err
    assert "could be taken for a key" in out.out + out.err
    with pytest.raises(CommandError, match=r"table_1.* could be taken"):
        call_command("rotate_key", "code-sign")


def test_key_rotation_signs_the_new_key_with_the_old_key() -> None:
    old = signing.code_sign_key_text()
    publish({"sieve": PROGRAM})
    key_rotation.rotate(now=NOON)
    signature = signing.rotation_signature(old)
    new = signing.code_sign_key_text()
    assert signature is not None
    assert signing.verify(storage.stage_bytes(new.encode()).digest.md5, signature, old)
