#!/usr/bin/env python3
"""Sign the files of app versions on a machine without network.

This file needs only Python's standard library (3.9 or newer): copy it to the machine with the
private key.  Keys and signatures are in BOINC's text format, compatible with BOINC's
crypt_prog.  docs/signing.md describes the procedure.

    python3 sign.py new-key FOLDER               create code_sign_private and code_sign_public
    python3 sign.py sign DIR                     sign what `manage.py ... --prepare DIR` wrote
    python3 sign.py rotate OLD_PRIVATE NEW_PUBLIC    sign a new public key by an old key
    python3 sign.py check DIR                    verify the .sig files in a folder

The private key is read from --key FILE, or from code_sign_private in the current folder.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import re
import secrets
import sys
from pathlib import Path
from typing import BinaryIO, NamedTuple

BITS = 1024  # the only size that BOINC's clients accept
SIZE = BITS // 8
HALF = SIZE // 2
EXPONENT = 65537
PRIVATE, PUBLIC, MANIFEST, SUFFIX = "code_sign_private", "code_sign_public", "to-sign.json", ".sig"
CHUNK = 1 << 20
#: Error probability of a random 512-bit candidate after this many rounds: below 2**-100.
MILLER_RABIN_ROUNDS = 40
SMALL_PRIMES = [n for n in range(3, 2000, 2) if all(n % d for d in range(3, int(n**0.5) + 1, 2))]

#: `looks_like_key` examines this many bytes; clients store at most 4095 characters of a key.
START_NBYTES = 8192
BLANK = b" \t\n\v\f\r\x85\xa0"
INTEGER = re.compile(rb"[+-]?[0-9]")
HEX = re.compile(rb"[+-]?[0-9A-Fa-f]")


class Refused(Exception):
    """The request was refused, and nothing was signed. The message has a hint."""


class PrivateKey(NamedTuple):
    """The numbers of a private key, in the order of BOINC's format."""

    n: int
    e: int
    d: int
    p: int
    q: int
    dmp1: int
    dmq1: int
    iqmp: int


class Content(NamedTuple):
    """A file to be signed: its name, its size and its digests."""

    name: str
    nbytes: int
    sha256: str
    md5: str


def looks_like_key(start: bytes) -> bool:
    """Return whether clients could take a content that begins with `start` for a public key.

    A client accepts any text that its key has signed as the project's new key, so a signature over
    such a file would give its author control of the project.
    """
    start = start[:START_NBYTES]
    text = start.lstrip(BLANK)
    if not INTEGER.match(text):
        return False
    if b"\n" in start[: len(start) - len(text)]:
        return True
    _, line_feed, rest = text.partition(b"\n")
    return bool(line_feed and HEX.match(rest.lstrip(BLANK)))


# BOINC's text format


def hex_block(data: bytes) -> str:
    """Format bytes as BOINC does: lines of 64 digits, and a last line with a full stop."""
    return data.hex("\n", -32) + "\n.\n"


def read_hex_block(text: str) -> bytes:
    """Read a hex block: white space is skipped, the first other character ends it."""
    digits = []
    for character in text:
        if character in "0123456789abcdefABCDEF":
            digits.append(character)
        elif not character.isspace():
            break
    return bytes.fromhex("".join(digits[: len(digits) & ~1]))


def read_key(text: str, nbytes: int, name: str) -> bytes:
    """Return the bytes of a key of this length; raises Refused for anything else."""
    bits, _, block = text.strip().partition("\n")
    data = read_hex_block(block)
    if bits.strip() != str(BITS) or len(data) != nbytes:
        kind = "public" if nbytes == 2 * SIZE else "private"
        raise Refused(
            f"{name} is not a {BITS}-bit {kind} key in BOINC's text format.\n"
            "Hint: create one with `python3 sign.py new-key FOLDER`; clients accept no other size."
        )
    return data


def private_text(key: PrivateKey) -> str:
    """Format a private key as BOINC's crypt_prog does."""
    whole = b"".join(part.to_bytes(SIZE, "big") for part in key[:3])
    return f"{BITS}\n" + hex_block(whole + b"".join(part.to_bytes(HALF, "big") for part in key[3:]))


def public_text(n: int, e: int) -> str:
    """Format a public key as BOINC's crypt_prog does."""
    return f"{BITS}\n" + hex_block(n.to_bytes(SIZE, "big") + e.to_bytes(SIZE, "big"))


def parse_private(text: str, name: str) -> PrivateKey:
    """Read a private key, and check that its numbers are consistent; raises Refused."""
    data = read_key(text, 3 * SIZE + 5 * HALF, name)
    ends = [SIZE, 2 * SIZE, 3 * SIZE] + [3 * SIZE + i * HALF for i in range(1, 6)]
    key = PrivateKey(*(int.from_bytes(data[a:b], "big") for a, b in zip([0, *ends], ends)))
    fits = key.p * key.q == key.n and key.q * key.iqmp % key.p == 1
    if not fits or key.dmp1 != key.d % (key.p - 1) or key.dmq1 != key.d % (key.q - 1):
        raise Refused(f"{name} is damaged: its numbers are inconsistent.\nHint: restore it.")
    return key


def parse_public(text: str, name: str) -> tuple[int, int]:
    """Read the modulus and the exponent of a public key; raises Refused."""
    data = read_key(text, 2 * SIZE, name)
    n, e = int.from_bytes(data[:SIZE], "big"), int.from_bytes(data[SIZE:], "big")
    if n.bit_length() != BITS or e < 3 or e % 2 == 0:
        raise Refused(f"{name} is not a usable public key.\nHint: create another one.")
    return n, e


# RSA


def new_key() -> PrivateKey:
    """Return a private key of two random primes."""
    while True:
        p, q = new_prime(), new_prime()
        n = p * q
        if n.bit_length() != BITS or abs(p - q) < 1 << (HALF * 8 - 100):
            continue
        d = pow(EXPONENT, -1, (p - 1) * (q - 1))
        key = PrivateKey(n, EXPONENT, d, p, q, d % (p - 1), d % (q - 1), pow(q, -1, p))
        probe = secrets.randbelow(n)
        if pow(raw_power(probe, key), EXPONENT, n) == probe:
            return key


def new_prime() -> int:
    """Return a random prime of half the key's length, whose two highest bits are set."""
    while True:
        candidate = secrets.randbits(HALF * 8) | 3 << (HALF * 8 - 2) | 1
        if candidate % EXPONENT != 1 and is_prime(candidate):
            return candidate


def is_prime(n: int) -> bool:
    """Return whether an odd number above 4 000 000 is prime, by the Miller-Rabin test."""
    if any(n % prime == 0 for prime in SMALL_PRIMES):
        return False
    odd, twos = n - 1, 0
    while odd % 2 == 0:
        odd, twos = odd // 2, twos + 1
    for _ in range(MILLER_RABIN_ROUNDS):
        x = pow(secrets.randbelow(n - 3) + 2, odd, n)
        if x in (1, n - 1):
            continue
        for _ in range(twos - 1):
            x = x * x % n
            if x == n - 1:
                break
        else:
            return False
    return True


def raw_power(value: int, key: PrivateKey) -> int:
    """Return value ** d % n, by the Chinese remainder theorem."""
    by_p, by_q = pow(value, key.dmp1, key.p), pow(value, key.dmq1, key.q)
    return by_q + key.q * ((by_p - by_q) * key.iqmp % key.p)


def padded(md5: str) -> int:
    """Pad the hex digits of a digest by PKCS#1 v1.5 type 1; BOINC leaves out the DigestInfo."""
    message = md5.encode()
    block = b"\x00\x01" + b"\xff" * (SIZE - 3 - len(message)) + b"\x00" + message
    return int.from_bytes(block, "big")


def signature_over(md5: str, key: PrivateKey) -> str:
    """Return the signature over content of this digest; raises Refused if it does not verify."""
    value = raw_power(padded(md5), key)
    text = hex_block(value.to_bytes(SIZE, "big"))
    if not verifies(md5, text, key.n, key.e):
        raise Refused(
            "The signature does not verify.\nHint: check whether the key file is damaged."
        )
    return text


def verifies(md5: str, signature: str, n: int, e: int) -> bool:
    """Return whether a signature over content of this digest verifies with this public key."""
    value = int.from_bytes(read_hex_block(signature), "big")
    return value < n and pow(value, e, n) == padded(md5)


# Files


def hash_file(path: Path, name: str) -> Content:
    """Hash a file; raises Refused for a file that could be taken for a key."""
    try:
        with path.open("rb") as file:
            return hashed(file, name)
    except OSError as error:
        raise Refused(f"{path} cannot be read: {error.strerror}.\nHint: check the path.") from error


def hashed(file: BinaryIO, name: str) -> Content:
    """Hash an open file; raises Refused for a file that could be taken for a key."""
    md5, sha256, nbytes = hashlib.md5(), hashlib.sha256(), 0  # noqa: S324 - BOINC's protocol
    chunk = file.read(START_NBYTES)
    if looks_like_key(chunk):
        raise Refused(
            f"{name} could be taken for a public key by a client: with a signature it would "
            "replace the project's key. NOTHING was signed.\n"
            "Hint: find out who requested this signature. Use `rotate` to sign your own new key."
        )
    while chunk:
        md5.update(chunk)
        sha256.update(chunk)
        nbytes += len(chunk)
        chunk = file.read(CHUNK)
    return Content(name, nbytes, sha256.hexdigest(), md5.hexdigest())


def prepared(folder: Path) -> list[Content]:
    """Return the entries of a folder's manifest; raises Refused if the files differ from it."""
    try:
        listed = json.loads((folder / MANIFEST).read_text(encoding="utf-8"))["files"]
        wanted = [Content(f["name"], f["nbytes"], f["sha256"], f["md5"]) for f in listed]
    except OSError as error:
        raise Refused(
            f"There is no {MANIFEST} in {folder}.\n"
            "Hint: use the folder that `manage.py publish_app ... --prepare DIR` wrote."
        ) from error
    except (ValueError, KeyError, TypeError) as error:
        raise Refused(f"{folder / MANIFEST} is damaged.\nHint: copy the folder again.") from error
    contents = []
    for entry in wanted:
        inside = not Path(entry.name).is_absolute() and ".." not in Path(entry.name).parts
        if not inside or not entry.name.isprintable():
            raise Refused(
                f"{MANIFEST} names {entry.name!r}, outside its folder.\nHint: do not sign."
            )
        content = hash_file(folder / entry.name, entry.name)
        if content != entry:
            raise Refused(
                f"{entry.name} differs from the manifest: its SHA-256 is {content.sha256}.\n"
                "Hint: copy the folder again."
            )
        contents.append(content)
    if not contents:
        raise Refused(f"{folder / MANIFEST} lists no files.\nHint: prepare the version again.")
    return contents


def write_new(path: Path, text: str, mode: int = 0o644) -> None:
    """Write a file that must not exist yet, and sync it to the disk."""
    try:
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode)
    except FileExistsError:
        raise Refused(f"{path} exists already.\nHint: move it away, or use another name.") from None
    with open(descriptor, "w", encoding="ascii") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())


def read_text(path: Path) -> str:
    """Return the text of a key or signature file; raises Refused if it cannot be read."""
    try:
        return path.read_text(encoding="ascii", errors="replace")
    except OSError as error:
        raise Refused(f"{path} cannot be read: {error.strerror}.\nHint: check the path.") from error


def confirmed(question: str) -> bool:
    """Ask on the terminal; return whether the answer is y or yes."""
    print(question, end=" [y/N] ", flush=True)
    return sys.stdin.readline().strip().lower() in {"y", "yes"}


# Commands


def make_key(folder: Path) -> None:
    """Create a pair of keys in a folder."""
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    for name in (PRIVATE, PUBLIC):
        if (folder / name).exists():
            raise Refused(f"{folder / name} exists already.\nHint: use another folder.")
    key = new_key()
    write_new(folder / PRIVATE, private_text(key), 0o600)
    public = public_text(key.n, key.e)
    write_new(folder / PUBLIC, public)
    print(f"Created {folder / PRIVATE} (keep it here) and {folder / PUBLIC} (for the server).")
    print(f"SHA-256 of the public key: {fingerprint(public)}")


def fingerprint(public: str) -> str:
    """Return the digest that identifies a public key: the SHA-256 of the stripped text."""
    return hashlib.sha256(public.strip().encode()).hexdigest()


def sign(folder: Path, key_path: Path, *, yes: bool) -> None:
    """Print the files of a manifest, and sign them after confirmation."""
    key = parse_private(read_text(key_path), str(key_path))
    contents = prepared(folder)
    print(f"{'bytes':>12}  {'SHA-256':<64}  file")
    for content in contents:
        print(f"{content.nbytes:>12}  {content.sha256}  {content.name}")
    print(f"SHA-256 of the signing key's public half: {fingerprint(public_text(key.n, key.e))}")
    count = f"{len(contents)} file{'s' if len(contents) > 1 else ''}"
    if not yes and not confirmed(f"Sign {count}? Every volunteer's computer will run them."):
        raise Refused("Nothing was signed.\nHint: answer y to sign.")
    for content in contents:
        # Read again, so that exactly the files that were shown are signed.
        if hash_file(folder / content.name, content.name) != content:
            raise Refused(
                f"{content.name} has changed in the meantime.\nHint: copy the folder again."
            )
        path = folder / f"{content.name}{SUFFIX}"
        path.unlink(missing_ok=True)
        write_new(path, signature_over(content.md5, key))
    print(f"Signed {count}: the .sig files are in {folder}.")


def rotate(old: Path, new: Path, output: Path | None, *, yes: bool) -> None:
    """Sign a public key by an old private key, so that clients accept it."""
    key = parse_private(read_text(old), str(old))
    n, e = parse_public(read_text(new), str(new))
    text = public_text(n, e).strip()
    if n == key.n:
        raise Refused(f"{new} is the public half of {old}.\nHint: use the new public key.")
    print(f"The new public key has the SHA-256 {fingerprint(text)}.")
    if not yes and not confirmed("Sign it? Every client will replace the project's key with it."):
        raise Refused("Nothing was signed.\nHint: answer y to sign.")
    md5 = hashlib.md5(text.encode()).hexdigest()  # noqa: S324 - BOINC's protocol
    path = output or new.with_name("rotation.sig")
    write_new(path, signature_over(md5, key))
    print(f"Wrote {path}: pass it to `manage.py rotate_key code-sign --rotation-signature`.")


def check(folder: Path, key_path: Path) -> None:
    """Verify every signature of a folder by a public key."""
    n, e = parse_public(read_text(key_path), str(key_path))
    wrong = [
        content.name
        for content in prepared(folder)
        if not verifies(content.md5, read_text(folder / f"{content.name}{SUFFIX}"), n, e)
    ]
    if wrong:
        raise Refused(f"Not signed by {key_path}: {', '.join(wrong)}.\nHint: sign them again.")
    print(f"Every file of {folder} is signed by {key_path}.")


def main(words: list[str] | None = None) -> int:
    """Run one command; returns the exit status."""
    parser = argparse.ArgumentParser(
        description="Sign the files of app versions on a machine without network."
    )
    commands = parser.add_subparsers(dest="command", required=True)
    command = commands.add_parser("new-key", help="create a pair of keys")
    command.add_argument("folder", type=Path)
    command = commands.add_parser("sign", help="sign what `--prepare DIR` wrote")
    command.add_argument("folder", type=Path, metavar="DIR")
    command.add_argument("--key", type=Path, default=Path(PRIVATE), help=f"default: {PRIVATE}")
    command.add_argument("--yes", action="store_true", help="do not ask")
    command = commands.add_parser("rotate", help="sign a new public key by an old private key")
    command.add_argument("old", type=Path, metavar="OLD_PRIVATE")
    command.add_argument("new", type=Path, metavar="NEW_PUBLIC")
    command.add_argument("--output", type=Path, help="default: rotation.sig beside NEW_PUBLIC")
    command.add_argument("--yes", action="store_true", help="do not ask")
    command = commands.add_parser("check", help="verify the .sig files in a folder")
    command.add_argument("folder", type=Path, metavar="DIR")
    command.add_argument("--key", type=Path, default=Path(PUBLIC), help=f"default: {PUBLIC}")
    options = parser.parse_args(words)
    try:
        if options.command == "new-key":
            make_key(options.folder)
        elif options.command == "sign":
            sign(options.folder, options.key, yes=options.yes)
        elif options.command == "rotate":
            rotate(options.old, options.new, options.output, yes=options.yes)
        else:
            check(options.folder, options.key)
    except Refused as refused:
        print(f"sign.py: {refused}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
