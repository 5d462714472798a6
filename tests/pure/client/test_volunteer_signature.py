"""The client verifies signatures of real projects and rejects invalid ones."""

from __future__ import annotations

import hashlib
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.pure.client.fake_project import public_key, sign
from volunteer.signature import (
    BadKeyError,
    read_hex_block,
    read_public_key,
    verifies,
    verifies_text,
    write_hex_block,
)
from volunteer.wire.replies import decode_reply

Golden = Callable[[str], bytes]


def test_program_signature_of_a_real_project_is_valid(golden: Golden) -> None:
    reply = decode_reply(golden("first_work.resp"))
    digest = hashlib.md5(golden("worker_download.resp")).hexdigest()
    assert digest == reply.files[0].md5
    assert verifies(digest, reply.files[0].signature, reply.code_sign_key)
    assert not verifies("0" * 32, reply.files[0].signature, reply.code_sign_key)


def test_invalid_or_empty_signature_is_refused(golden: Golden) -> None:
    reply = decode_reply(golden("sig_errors.resp"))
    files = {file.name: file for file in reply.files}
    digest = files["w_badsig"].md5
    assert not verifies(digest, files["w_badsig"].signature, reply.code_sign_key)
    assert not verifies(digest, "", reply.code_sign_key)


def test_key_rotation_signature_must_cover_the_stripped_key(golden: Golden) -> None:
    old = decode_reply(golden("first_work.resp")).code_sign_key
    good = decode_reply(golden("key_rotate.resp"))
    raw = decode_reply(golden("key_rotate_raw.resp"))
    assert verifies_text(good.code_sign_key, good.code_sign_key_signature, old)
    assert not verifies_text(raw.code_sign_key, raw.code_sign_key_signature, old)


@pytest.mark.parametrize(
    "text",
    ["", "2048\nabcd.", "-----BEGIN PUBLIC KEY-----", "1024\nabcd\n.", "1024\n" + "00" * 256 + "."],
)
def test_malformed_public_keys_are_refused(text: str) -> None:
    with pytest.raises(BadKeyError):
        read_public_key(text)
    assert not verifies("0" * 32, sign(b""), text)


def test_signature_of_the_test_project_is_valid_for_its_own_key_only() -> None:
    digest = hashlib.md5(b"program").hexdigest()
    assert verifies(digest, sign(b"program"), public_key())
    assert not verifies(digest, sign(b"program", seed=2), public_key())


@given(st.binary(max_size=200))
def test_hex_block_is_unchanged_by_a_round_trip(content: bytes) -> None:
    assert read_hex_block(write_hex_block(content)) == content
