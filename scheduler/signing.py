"""Creates, rotates and uses the project's keys; no other module reads a key file.

The keys are in the folder ``settings.KEYS_DIR``, which only its owner can read::

    code_sign_private, code_sign_public          RSA 1024 in BOINC's text format (PROTOCOL 4.1)
    code_sign_private.<n>, code_sign_public.<n>  earlier pairs, which sign the current public key
    code_sign_rotation.<n>                       signature by pair <n> over the current public key
    upload_grant_keys                            "<id> <secret>" a line, newest first
    upload_grant_keys.revoked                    revoked lines
    account_seal_key                             Fernet keys, one a line, newest first
    ownership_private, ownership_public          Ed25519 in PEM, for proofs of account ownership

With `ONLINE_SIGNING` off, the private halves are on another machine (docs/signing.md).  Clients
accept any signed text as a new key.  So `sign` takes content, which it checks, and not a digest.
A changed key file is read again, so that processes need no restart after a rotation.
"""

from __future__ import annotations

import contextlib
import enum
import fcntl
import functools
import hashlib
import hmac
import io
import itertools
import os
import secrets
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, Final, TypeVar

from cryptography.exceptions import InvalidSignature
from cryptography.fernet import Fernet, InvalidToken, MultiFernet
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
from cryptography.hazmat.primitives.asymmetric.rsa import (
    RSAPrivateNumbers,
    RSAPublicNumbers,
    generate_private_key,
)
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    PublicFormat,
    load_pem_private_key,
    load_pem_public_key,
)
from django.conf import settings

from scheduler.key_text import START_NBYTES, looks_like_key

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator

# This module uses descriptors, modes and versions of files, which pathlib supports only in part.
# ruff: noqa: PTH104, PTH116, PTH123

T = TypeVar("T")

_BITS: Final = 1024
_SIZE: Final = _BITS // 8
_HALF: Final = _SIZE // 2
_HEX_DIGITS: Final = frozenset("0123456789abcdefABCDEF")
_NEW_LINE: Final = "\n"
_GRANT_ID: Final = 4
_GRANT: Final = _GRANT_ID + 32
_CHUNK: Final = 1 << 20


class KeyMissing(Exception):
    """The keys folder lacks a required key."""


class BadKey(ValueError):
    """A key is damaged, or an account key cannot be decrypted. Hint: see the message."""


class KeyShaped(ValueError):
    """Clients could take the content for a public key, so it is not signed."""


class BadRotation(ValueError):
    """A signature over a new key is not by a key of this project. Hint: see the message."""


class Grant(enum.Enum):
    """The verdict on an upload grant."""

    GOOD = "good"
    BAD = "bad"
    #: Signed by a revoked key, which may be stolen.
    REVOKED = "revoked key"
    #: Well formed, but signed by a key that is not in the keys folder; an operator may restore it.
    UNKNOWN_KEY = "unknown key"


# Making keys


def ensure_keys() -> None:
    """Create missing keys in the keys folder; safe to call from several processes at once.

    A public code signing key without its private half is kept, because the private half is on
    another machine.  With `ONLINE_SIGNING` off, no code signing pair is created.
    """
    with _key_folder_locked() as folder:
        has_private = (folder / "code_sign_private").exists()
        may_make = settings.PROJECT.online_signing or has_private
        if not (folder / "code_sign_public").exists() and may_make:
            if not (folder / "code_sign_private").exists():
                _save(folder / "code_sign_private", _private_text(_new_private_key()))
            _publish_private(folder)
        if not (folder / "upload_grant_keys").exists():
            _save(folder / "upload_grant_keys", _new_grant_line())
        if not (folder / "account_seal_key").exists():
            _save(folder / "account_seal_key", Fernet.generate_key().decode() + "\n")
        _ensure_ownership_pair(folder)


class NewCodeSignKey:
    """A new code signing pair that is not installed yet."""

    def __init__(self) -> None:
        self._private = _new_private_key()

    def sign(self, content: bytes | BinaryIO) -> str:
        """Return the signature over content by the new key; raises KeyShaped."""
        return _sign(_signable_md5(content), self._private)

    def install(self, *, revoke: bool = False) -> None:
        """Install the pair, and keep the current pair to sign the rotation (PROTOCOL 4.4).

        With `revoke`, each earlier private key signs the new public key and is then deleted.
        """
        with _key_folder_locked() as folder:
            _set_aside(folder)
            _save(folder / "code_sign_private", _private_text(self._private))
            _publish_private(folder)
            if revoke:
                _sign_rotations_and_forget(folder)


def install_code_sign_key(
    public_text: str, rotation_signatures: Collection[str] = (), *, revoke: bool = False
) -> None:
    """Install a public key whose private half is on another machine.

    `rotation_signatures` are signatures over the stripped new key by the current key or earlier
    keys.  Clients that have the key of such a signature accept the new key.  With `revoke`, each
    earlier private key in the keys folder signs the new key and is then deleted.  Raises BadKey if
    `public_text` is not a public key, and BadRotation for a signature by any other key.
    """
    new = _public_text(_parse_public(public_text))
    with _key_folder_locked() as folder:
        current = folder / "code_sign_public"
        if current.exists() and current.read_text().split() != new.split():
            _check_rotations(folder, new, rotation_signatures)
            _set_aside(folder)
            (folder / "code_sign_private").unlink(missing_ok=True)
        _save(current, new)
        _keep_rotations(folder, new, rotation_signatures)
        if revoke:
            _sign_rotations_and_forget(folder)


def _set_aside(folder: Path) -> None:
    """Keep the current pair under the next number, and remove the current public key.

    With this order, a crash leaves either the complete old pair, or a private key without its
    public key, which `ensure_keys` then adds.  The two halves are always of the same pair.
    """
    number = 1 + max((int(path.suffix[1:]) for path in _old_public_paths(folder)), default=0)
    for half in ("code_sign_private", "code_sign_public"):
        if (folder / half).exists():
            _save(folder / f"{half}.{number}", (folder / half).read_text())
    (folder / "code_sign_public").unlink()


def _check_rotations(folder: Path, new: str, signatures: Collection[str]) -> None:
    digest = _md5(new.strip())
    earlier = [path.read_text() for path in _public_paths(folder)]
    for signature in signatures:
        if not any(verify(digest, signature, public) for public in earlier):
            raise BadRotation(
                "A rotation signature over the new key was not made with any of this project's "
                "keys.\n"
                "Hint: create it with `python3 sign.py rotate OLD_PRIVATE NEW_PUBLIC`, with the "
                "private half of the current key."
            )


def _keep_rotations(folder: Path, new: str, signatures: Collection[str]) -> None:
    digest = _md5(new.strip())
    for path in _old_public_paths(folder):
        for signature in signatures:
            if verify(digest, signature, path.read_text()):
                _save(folder / f"code_sign_rotation{path.suffix}", signature.strip() + "\n")


def _sign_rotations_and_forget(folder: Path) -> None:
    digest = _md5((folder / "code_sign_public").read_text().strip())
    for path in _old_public_paths(folder):
        private = folder / f"code_sign_private{path.suffix}"
        if private.exists():
            signature = _sign(digest, _parse_private(private.read_text()))
            _save(folder / f"code_sign_rotation{path.suffix}", signature)
            private.unlink()
    _sign.cache_clear()
    _loaded.clear()


def _md5(text: str) -> str:
    return hashlib.md5(text.encode(), usedforsecurity=False).hexdigest()


def has_code_sign_key() -> bool:
    """Return whether the project has a public code signing key."""
    return Path(settings.KEYS_DIR, "code_sign_public").exists()


def private_code_sign_key_is_here() -> bool:
    """Return whether the keys folder has a private code signing key, current or earlier."""
    return any(Path(settings.KEYS_DIR).glob("code_sign_private*"))


def key_faults() -> list[str]:
    """Return an error text with a hint for each key that is missing or damaged.

    A private code signing key that is not the other half of the public key is one of the errors.
    """
    checks: tuple[Callable[[], object], ...] = (
        _check_pair,
        _grant_keys,
        lambda: _load("account_seal_key", _parse_seal_keys),
        _check_ownership_pair,
    )
    faults = []
    for check in checks:
        try:
            check()
        except (KeyMissing, BadKey) as error:
            faults.append(str(error))
        except (OSError, ValueError) as error:
            faults.append(f"A key cannot be read: {error}.\nHint: restore {settings.KEYS_DIR}.")
    return faults


def _check_pair() -> None:
    public = _load("code_sign_public", _parse_public)
    with contextlib.suppress(KeyMissing):
        if _load("code_sign_private", _parse_private).public_numbers != public:
            raise BadKey(
                "The private code signing key does not belong to the public one.\nHint: restore "
                "both from the same backup: clients accept only signatures of the public key."
            )


def rotate_upload_grant_key(*, revoke: bool = False) -> None:
    """Create the key for new upload grants; with `revoke`, earlier grants become invalid."""
    with _key_folder_locked() as folder:
        path, revoked = folder / "upload_grant_keys", folder / "upload_grant_keys.revoked"
        earlier = path.read_text()
        if revoke:
            # This file is written first: after a crash the keys are in both files and still valid,
            # and the command can be repeated.
            before = revoked.read_text() if revoked.exists() else ""
            _save(revoked, earlier + before)
        _save(path, _new_grant_line() + ("" if revoke else earlier))


@contextlib.contextmanager
def _key_folder_locked() -> Iterator[Path]:
    folder = Path(settings.KEYS_DIR)
    folder.parent.mkdir(parents=True, exist_ok=True)
    folder.mkdir(mode=0o700, exist_ok=True)
    lock = os.open(folder / ".lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield folder
    finally:
        os.close(lock)


def _save(path: Path, text: str) -> None:
    """Write a key file atomically and fsync it, so that a crash cannot lose a key in use."""
    temporary = path.with_name(f".{path.name}.{secrets.token_hex(8)}")
    descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    with open(descriptor, "w", encoding="ascii") as file:
        file.write(text)
        file.flush()
        os.fsync(descriptor)
    os.rename(temporary, path)
    folder = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)


def _publish_private(folder: Path) -> None:
    private = _parse_private((folder / "code_sign_private").read_text())
    _save(folder / "code_sign_public", _public_text(private.public_numbers))


def _new_private_key() -> RSAPrivateNumbers:
    # 1024 bits are weak by current standards, but BOINC's clients accept no more (trap 15).
    return generate_private_key(65537, _BITS).private_numbers()


def _new_grant_line() -> str:
    return f"{secrets.token_hex(_GRANT_ID)} {secrets.token_hex(32)}\n"


# BOINC's formats (PROTOCOL 4.1)


def hex_block(data: bytes) -> str:
    """Return bytes in BOINC's format: 64 hex digits a line, and a final line with a dot."""
    return f"{data.hex(_NEW_LINE, -32)}\n.\n" if data else ".\n"


def read_hex_block(text: str) -> bytes:
    """Return the bytes of a hex block, in BOINC's format.

    White space is skipped.  The block ends at the first character that is not a hex digit.
    """
    digits = []
    for character in text:
        if character in _HEX_DIGITS:
            digits.append(character)
        elif not character.isspace():
            break
    return bytes.fromhex("".join(digits[: len(digits) & ~1]))


def _public_text(key: RSAPublicNumbers) -> str:
    return f"{_BITS}\n" + hex_block(key.n.to_bytes(_SIZE, "big") + key.e.to_bytes(_SIZE, "big"))


def _private_text(key: RSAPrivateNumbers) -> str:
    public = key.public_numbers
    whole = b"".join(part.to_bytes(_SIZE, "big") for part in (public.n, public.e, key.d))
    halves = (key.p, key.q, key.dmp1, key.dmq1, key.iqmp)
    return f"{_BITS}\n" + hex_block(whole + b"".join(x.to_bytes(_HALF, "big") for x in halves))


def _parse_key(text: str, nbytes: int) -> bytes:
    bits, _, block = text.strip().partition("\n")
    data = read_hex_block(block)
    if bits.strip() != str(_BITS) or len(data) != nbytes:
        raise BadKey(
            f"A key begins with {bits.strip()[:20]!r} and has {len(data)} bytes, not "
            f"'{_BITS}' and {nbytes}.\nHint: BOINC's clients take {_BITS}-bit RSA keys only, in "
            "the text format of its crypt_prog, not PEM."
        )
    return data


def _parse_public(text: str) -> RSAPublicNumbers:
    data = _parse_key(text, 2 * _SIZE)
    n, e = int.from_bytes(data[:_SIZE], "big"), int.from_bytes(data[_SIZE:], "big")
    return RSAPublicNumbers(e, n)


def _parse_private(text: str) -> RSAPrivateNumbers:
    data = _parse_key(text, 3 * _SIZE + 5 * _HALF)
    places = [0, _SIZE, 2 * _SIZE, *range(3 * _SIZE, len(data) + 1, _HALF)]
    n, e, d, p, q, dmp1, dmq1, iqmp = (
        int.from_bytes(data[start:end], "big") for start, end in itertools.pairwise(places)
    )
    return RSAPrivateNumbers(p, q, d, dmp1, dmq1, iqmp, RSAPublicNumbers(e, n))


# Signatures (PROTOCOL 4.2)


def code_sign_key_text() -> str:
    """Return the public code signing key in the format of ``<code_sign_key>``, stripped."""
    return _load("code_sign_public", _stripped)


def sign(content: bytes | BinaryIO) -> str:
    """Return the signature over content, in the format of ``<file_signature>``.

    An open file is read from its current position.  Raises KeyShaped for content that clients could
    take for a public key, and KeyMissing if the keys folder has no private key.
    """
    return _sign(_signable_md5(content), _load("code_sign_private", _parse_private))


def refuse_key_shaped(start: bytes, name: str = "The content") -> None:
    """Raise KeyShaped if clients could take content that begins with `start` for a public key."""
    if looks_like_key(start):
        raise KeyShaped(
            f"{name} could be taken for a public key by a client: a signature over it would "
            "replace the project's key. Hint: put a line of text, such as a comment, at its "
            "beginning, or compress it."
        )


def _signable_md5(content: bytes | BinaryIO) -> str:
    file = io.BytesIO(content) if isinstance(content, bytes) else content
    start = file.read(START_NBYTES)
    refuse_key_shaped(start)
    hashed = hashlib.md5(start, usedforsecurity=False)
    while chunk := file.read(_CHUNK):
        hashed.update(chunk)
    return hashed.hexdigest()


def verify(md5_hex: str, signature: str, public_text: str) -> bool:
    """Return whether a signature over content with this MD5 is by this public key.

    Raises BadKey if `public_text` is not a public key.
    """
    key = _parse_public(public_text)
    value = int.from_bytes(read_hex_block(signature), "big")
    return value < key.n and pow(value, key.e, key.n).to_bytes(_SIZE, "big") == _padded(md5_hex)


def rotation_signature(old_public_text: str) -> str | None:
    """Return the signature by a client's old key over the current public key.

    Returns None if the project does not have the old key, or no signature by it.  The signature is
    over the stripped text, because clients refuse every other form (PROTOCOL 4.4).
    """
    wanted = "".join(old_public_text.split()).lower()
    digest = _md5(code_sign_key_text())
    for path in _public_paths():
        if "".join(_load(path.name, _stripped).split()).lower() == wanted:
            return _rotation_by(path, digest)
    return None


def _rotation_by(public: Path, digest: str) -> str | None:
    """Return the signature by an earlier key over the current public key, or None.

    A stored signature is returned if it is valid.  Otherwise the earlier private key signs, if it
    is in the keys folder.
    """
    with contextlib.suppress(KeyMissing):
        signature = _load(f"code_sign_rotation{public.suffix}", _stripped)
        if verify(digest, signature, _load(public.name, _stripped)):
            return signature + "\n"
    with contextlib.suppress(KeyMissing):
        return _sign(digest, _load(f"code_sign_private{public.suffix}", _parse_private))
    return None


def _public_paths(folder: Path | None = None) -> list[Path]:
    folder = folder or Path(settings.KEYS_DIR)
    return [folder / "code_sign_public", *_old_public_paths(folder)]


def _old_public_paths(folder: Path | None = None) -> list[Path]:
    folder = folder or Path(settings.KEYS_DIR)
    return [p for p in folder.glob("code_sign_public.*") if p.suffix[1:].isdecimal()]


def _padded(md5_hex: str) -> bytes:
    """Return the digest padded as in PKCS#1 v1.5 type 1, but without a DigestInfo."""
    message = md5_hex.lower().encode()
    return b"\x00\x01" + b"\xff" * (_SIZE - 3 - len(message)) + b"\x00" + message


@functools.lru_cache(maxsize=1024)
def _sign(md5_hex: str, key: RSAPrivateNumbers) -> str:
    # Plain arithmetic, because libraries add a DigestInfo, which clients refuse, and may refuse
    # keys of 1024 bits.
    value = int.from_bytes(_padded(md5_hex), "big")
    by_p = pow(value, key.dmp1, key.p)
    by_q = pow(value, key.dmq1, key.q)
    signature = by_q + key.q * ((by_p - by_q) * key.iqmp % key.p)
    return hex_block(signature.to_bytes(_SIZE, "big"))


# Upload grants


def upload_grant(name: str, max_nbytes: int) -> str:
    """Return the content of an output file's ``<xml_signature>``: key id and HMAC-SHA256.

    The HMAC covers the name and the size, not the host or the account (PROTOCOL trap 30).  Grants
    do not expire.
    """
    return upload_granter()(name, max_nbytes)


def upload_granter() -> Callable[[str, int], str]:
    """Return a function that works like `upload_grant`, but always uses the current key."""
    key_id, secret = next(iter(_grant_keys().items()))
    return lambda name, max_nbytes: hex_block(key_id + _mac(secret, name, max_nbytes))


def check_upload_grant(name: str, max_nbytes: int, grant: str) -> Grant:
    """Return the verdict on a client's upload grant for a file of this name and maximum size.

    Grants by the current key, and by earlier keys that are not revoked, are good.
    """
    try:
        grant_bytes = bytes.fromhex("".join(grant.split()).rstrip("."))
    except ValueError:
        return Grant.BAD
    if len(grant_bytes) != _GRANT:
        return Grant.BAD
    secret = _grant_keys().get(grant_bytes[:_GRANT_ID])
    if secret is None:
        return Grant.REVOKED if grant_bytes[:_GRANT_ID] in _revoked_grants() else Grant.UNKNOWN_KEY
    good = hmac.compare_digest(grant_bytes[_GRANT_ID:], _mac(secret, name, max_nbytes))
    return Grant.GOOD if good else Grant.BAD


def _mac(secret: bytes, name: str, max_nbytes: int) -> bytes:
    text = f"<name>{name}</name><max_nbytes>{max_nbytes}</max_nbytes>"
    return hmac.digest(secret, text.encode("utf-8", "surrogateescape"), "sha256")


def _grant_keys() -> dict[bytes, bytes]:
    return _load("upload_grant_keys", _parse_grant_keys)


def _revoked_grants() -> dict[bytes, bytes]:
    try:
        return _load("upload_grant_keys.revoked", _parse_grant_keys)
    except KeyMissing:
        return {}


def _parse_grant_keys(text: str) -> dict[bytes, bytes]:
    lines = (line.split() for line in text.splitlines() if line.strip())
    try:
        keys = {bytes.fromhex(key_id): bytes.fromhex(secret) for key_id, secret in lines}
    except ValueError:
        keys = {}
    if not keys or any(len(key_id) != _GRANT_ID for key_id in keys):
        raise BadKey(
            "File upload_grant_keys is damaged.\nHint: restore it from a backup; each line is "
            "'<8 hex digits> <64 hex digits>'."
        )
    return keys


# Account keys


def seal(key: str) -> bytes:
    """Return an account key encrypted for the database."""
    return _load("account_seal_key", _parse_seal_keys).encrypt(key.encode())


def unseal(sealed: bytes) -> str:
    """Return a decrypted account key; raises BadKey if the project lacks the key that sealed it."""
    try:
        return _load("account_seal_key", _parse_seal_keys).decrypt(bytes(sealed)).decode()
    except InvalidToken:
        raise BadKey(
            "An account key cannot be decrypted.\nHint: restore the account_seal_key that it was "
            "sealed with; that file may contain several keys, one per line, newest first."
        ) from None


def _parse_seal_keys(text: str) -> MultiFernet:
    return MultiFernet([Fernet(line.strip()) for line in text.splitlines() if line.strip()])


# Proofs of account ownership


def ownership_first_line() -> str:
    """Return the first line of each statement that the ownership key signs.

    It names the purpose and the project, so that a signature is never valid for anything else.
    """
    return f"Proof of account ownership, version 1, by {settings.PROJECT.master_url}"


def sign_ownership(statement: str) -> bytes:
    """Return the signature over a statement by the ownership key, which signs nothing else.

    Raises ValueError unless the statement begins with `ownership_first_line`, and KeyMissing if the
    keys folder lacks the private key.
    """
    if not _is_ownership(statement):
        raise ValueError("The text is no statement of ownership. Hint: begin with the first line.")
    return _load("ownership_private", _parse_ownership_private).sign(statement.encode())


def is_signed_ownership(statement: str, signature: bytes) -> bool:
    """Return whether this project's ownership key signed the statement."""
    if not _is_ownership(statement):
        return False
    key = _load("ownership_public", _parse_ownership_public)
    try:
        key.verify(signature, statement.encode())
    except (InvalidSignature, UnicodeEncodeError):
        return False
    return True


def ownership_key_text() -> str:
    """Return the public key of proofs of ownership, in PEM."""
    return _load("ownership_public", _stripped) + "\n"


def _is_ownership(statement: str) -> bool:
    return statement.startswith(ownership_first_line() + "\n")


def _ensure_ownership_pair(folder: Path) -> None:
    """Create the pair if it is missing; a public key without its private half is kept."""
    private, public = folder / "ownership_private", folder / "ownership_public"
    if public.exists():
        return
    if not private.exists():
        _save(private, _ownership_private_text(Ed25519PrivateKey.generate()))
    key = _parse_ownership_private(private.read_text(encoding="ascii"))
    _save(public, _ownership_public_text(key.public_key()))


def _check_ownership_pair() -> None:
    public = _load("ownership_public", _parse_ownership_public)
    private = _load("ownership_private", _parse_ownership_private)
    if _ownership_public_text(private.public_key()) != _ownership_public_text(public):
        raise BadKey(
            "The private key of proofs of ownership does not belong to the public one.\n"
            "Hint: restore both from the same backup."
        )


def _ownership_private_text(key: Ed25519PrivateKey) -> str:
    return key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()).decode()


def _ownership_public_text(key: Ed25519PublicKey) -> str:
    return key.public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo).decode()


def _parse_ownership_private(text: str) -> Ed25519PrivateKey:
    key = load_pem_private_key(text.encode(), password=None)
    if not isinstance(key, Ed25519PrivateKey):
        raise BadKey("ownership_private is no Ed25519 key.\nHint: restore it from a backup.")
    return key


def _parse_ownership_public(text: str) -> Ed25519PublicKey:
    key = load_pem_public_key(text.encode())
    if not isinstance(key, Ed25519PublicKey):
        raise BadKey("ownership_public is no Ed25519 key.\nHint: restore it from a backup.")
    return key


# Reading key files

#: By path and reader: the version of the file, and the value that the reader returned.
_loaded: dict[tuple[str, Any], tuple[tuple[int, int, int], Any]] = {}


def _load(name: str, read: Callable[[str], T]) -> T:
    """Return ``read(text)`` for the text of a key file, cached until the file changes."""
    path = f"{settings.KEYS_DIR}/{name}"
    try:
        status = os.stat(path)
        version = (status.st_mtime_ns, status.st_ino, status.st_size)
        cached = _loaded.get((path, read))
        if cached is None or cached[0] != version:
            cached = (version, read(Path(path).read_text(encoding="ascii")))
            _loaded[path, read] = cached
    except FileNotFoundError:
        raise KeyMissing(
            f"Key file {path} is missing.\nHint: restore it from a backup; for a code signing key "
            "on another machine see docs/signing.md."
        ) from None
    value: T = cached[1]
    return value


def _stripped(text: str) -> str:
    return text.strip()
