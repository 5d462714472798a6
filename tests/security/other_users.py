"""Runs a function as another user of this machine, in place of an intruder."""

from __future__ import annotations

import os
import pickle
import pwd

import pytest

needs_root = pytest.mark.skipif(
    os.geteuid() != 0, reason="only root can act as another user: run it by sudo"
)
NOBODY = pwd.getpwnam("nobody").pw_uid
#: The id of a user without a name and without files.
STRANGER = 61_234


def run_as(uid, function):
    """Return what `function` returns in a process of that user; an exception is returned too."""
    read_end, write_end = os.pipe()
    child = os.fork()
    if child == 0:
        _answer(write_end, uid, function)
    os.close(write_end)
    with os.fdopen(read_end, "rb") as answer:
        said = answer.read()
    os.waitpid(child, 0)
    return pickle.loads(said)


def _answer(pipe, uid, function):
    try:
        os.setgroups([])
        os.setresgid(uid, uid, uid)
        os.setresuid(uid, uid, uid)
        answer = function()
    except BaseException as error:  # noqa: BLE001 - returned to the caller
        answer = f"{type(error).__name__}: {error}"
    try:
        os.write(pipe, pickle.dumps(answer))
    finally:
        os._exit(0)
