"""Verifies RSA signatures of app files and keys in BOINC's own format.

A public key is written as its decimal number of bits, and a block of hexadecimal digits that
contains the modulus and the exponent in 128 bytes each. To sign a file, BOINC pads the *hexadecimal
digits* of its MD5 as in PKCS#1 type 1, without DigestInfo, and applies RSA to the result.
Cryptography libraries do not verify this format, so this module computes it with `pow`.
"""

from __future__ import annotations

import hashlib
import hmac
import re
from dataclasses import dataclass

KEY_BYTES = 128
_DIGEST_LENGTH = 32
_LINE_BYTES = 32
_MIN_EXPONENT = 3
_MIN_BITS = 512
_HEX_DIGITS = frozenset("0123456789abcdefABCDEF")
_BITS = re.compile(r"[0-9]{1,9}")


class BadKeyError(ValueError):
    """The text is not a public key in BOINC's format. The message contains the reason."""


@dataclass(frozen=True, slots=True)
class PublicKey:
    """The numbers of an RSA key of at most 1024 bits."""

    modulus: int
    exponent: int


def read_hex_block(text: str) -> bytes:
    r"""Return the bytes of a hex block.

    White space is skipped. Any other character that is not a hexadecimal digit ends the block.

    >>> read_hex_block("00ff\n10\n.\nrest")
    b'\x00\xff\x10'
    """
    digits: list[str] = []
    for character in text:
        if character in _HEX_DIGITS:
            digits.append(character)
        elif not character.isspace():
            break
    return bytes.fromhex("".join(digits[: len(digits) // 2 * 2]))


def write_hex_block(content: bytes) -> str:
    r"""Return a hex block with 32 bytes per line and a last line with a full stop.

    >>> write_hex_block(b"\x00\xff")
    '00ff\n.\n'
    """
    lines = [
        content[start : start + _LINE_BYTES].hex() + "\n"
        for start in range(0, len(content), _LINE_BYTES)
    ]
    return "".join(lines) + ".\n"


def read_public_key(text: str, *, exact: bool = False) -> PublicKey:
    """Return the public key in a text.

    Raises BadKeyError for another format and for a key of more than 1024 bits. If `exact` is set,
    the error is also raised for a key that BOINC's tools never write. Such a key has other spacing
    or upper-case digits, text after the key, an exponent that is even or below 3, or a modulus
    below 512 bits.
    """
    bits, _, block = text.strip().partition("\n")
    if not _BITS.fullmatch(bits.strip()) or not 0 < int(bits) <= KEY_BYTES * 8:
        raise BadKeyError(
            f"A code-sign key begins with its size, at most 1024 bits, not with {bits!r:.40}."
        )
    content = read_hex_block(block)
    if len(content) != 2 * KEY_BYTES:
        raise BadKeyError(
            f"A code-sign key has {2 * KEY_BYTES} bytes; this key has {len(content)}."
        )
    modulus = int.from_bytes(content[:KEY_BYTES], "big")
    if modulus == 0:
        raise BadKeyError("The modulus of the code-sign key is zero.")
    key = PublicKey(modulus, int.from_bytes(content[KEY_BYTES:], "big"))
    if exact:
        if text.replace("\r\n", "\n").strip() != f"{int(bits)}\n{write_hex_block(content)}".strip():
            raise BadKeyError(
                "The code-sign key is not in lines of 64 lower-case hexadecimal digits."
            )
        if key.exponent < _MIN_EXPONENT or key.exponent % 2 == 0:
            raise BadKeyError(f"The exponent of the code-sign key is {key.exponent}.")
        if modulus.bit_length() < _MIN_BITS:
            raise BadKeyError(f"The modulus of the code-sign key has {modulus.bit_length()} bits.")
    return key


def verifies(md5_hex: str, signature: str, key_text: str) -> bool:
    """Return whether the key in `key_text` signed content with this MD5.

    Returns False if the key or the signature cannot be read.
    """
    try:
        key = read_public_key(key_text)
    except BadKeyError:
        return False
    signed = int.from_bytes(read_hex_block(signature), "big")
    if not 0 < signed < key.modulus:
        return False
    recovered = pow(signed, key.exponent, key.modulus).to_bytes(KEY_BYTES, "big")
    length = (key.modulus.bit_length() + 7) // 8
    return hmac.compare_digest(recovered, _padded(md5_hex, length))


def verifies_text(text: str, signature: str, key_text: str) -> bool:
    """Return whether the key in `key_text` signed a text, such as a new code-sign key."""
    digest = hashlib.md5(text.encode(), usedforsecurity=False).hexdigest()
    return verifies(digest, signature, key_text)


def _padded(md5_hex: str, length: int) -> bytes:
    """Return the hex MD5 in PKCS#1 type 1 padding of `length` bytes.

    The result has 128 bytes, of which the first are zero if `length` is smaller.
    """
    message = md5_hex.encode()
    padding = b"\xff" * (length - 3 - _DIGEST_LENGTH)
    return (b"\x00\x01" + padding + b"\x00" + message).rjust(KEY_BYTES, b"\x00")
