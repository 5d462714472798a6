"""Confines the calling process irrevocably by Landlock and a system call filter.

Landlock limits which files can be opened, and hides all other processes.  Only its latest versions
cover sockets, so a seccomp filter refuses them.  Otherwise, science code could connect to
PostgreSQL's socket as the daemon's user.  Source: the kernel's
Documentation/userspace-api/landlock.rst and seccomp_filter.rst.
"""

from __future__ import annotations

import ctypes
import errno
import os
import platform
import struct
from collections.abc import Iterable
from pathlib import Path
from typing import Final

_CREATE_RULESET, _ADD_RULE, _RESTRICT_SELF = 444, 445, 446
_PR_SET_SECCOMP, _PR_SET_NO_NEW_PRIVS = 22, 38
_SECCOMP_MODE_FILTER: Final = 2
_VERSION_FLAG: Final = 1
_PATH_BENEATH: Final = 1
#: LANDLOCK_ACCESS_FS_*: bits 0 to 12 since ABI 1, REFER 13 since 2, TRUNCATE 14 since 3,
#: IOCTL_DEV 15 since 5.
_EXECUTE, _READ_FILE, _READ_DIR = 1 << 0, 1 << 2, 1 << 3
_READ: Final = _EXECUTE | _READ_FILE | _READ_DIR
#: The rights that the kernel accepts for a file that is not a folder.
_FILE_RIGHTS: Final = _EXECUTE | (1 << 1) | _READ_FILE | (1 << 14) | (1 << 15)
_FS_BITS: Final = {1: 13, 2: 14, 3: 15, 4: 15}
_LATEST_FS_BITS: Final = 16
#: Bind and connect by TCP, since ABI 4; abstract sockets and signals out of the domain, since 6.
_NET_SINCE, _SCOPES_SINCE = 4, 6
_ALL_NET: Final = 0b11
_ALL_SCOPES: Final = 0b11
#: By machine: AUDIT_ARCH_*, and the numbers of socket() and io_uring_setup().
_MACHINES: Final = {"x86_64": (0xC000003E, 41, 425), "aarch64": (0xC00000B7, 198, 425)}
_X32: Final = 0x40000000
_ALLOW, _KILL, _ERRNO = 0x7FFF0000, 0x80000000, 0x00050000


class Unavailable(OSError):
    """This kernel cannot confine by Landlock. Hint: use Linux 5.13 or later with Landlock."""


def version() -> int:
    """Return the version of the kernel's Landlock ABI, or 0 if Landlock is not available."""
    if platform.system() != "Linux" or platform.machine() not in _MACHINES:
        return 0
    abi_version: int = _libc.syscall(_CREATE_RULESET, None, ctypes.c_size_t(0), _VERSION_FLAG)
    return max(0, abi_version)


def confine(
    *, reads: Iterable[str], lists: Iterable[str], writes: Iterable[str], network: bool
) -> None:
    """Restrict this process and its children to these paths.

    Folders in `lists` can only be listed.  Paths that do not exist are skipped.  Unix sockets are
    refused.  Without `network`, all sockets are refused.  Raises `Unavailable`.
    """
    abi = version()
    if not abi:
        raise Unavailable(errno.ENOSYS, "Landlock is not available")
    everything = (1 << _FS_BITS.get(abi, _LATEST_FS_BITS)) - 1
    net = 0 if network or abi < _NET_SINCE else _ALL_NET
    scopes = _ALL_SCOPES if abi >= _SCOPES_SINCE else 0
    size = 24 if scopes else 16 if abi >= _NET_SINCE else 8
    attributes = struct.pack("=QQQ", everything, net, scopes)[:size]
    ruleset = _syscall(_CREATE_RULESET, attributes, ctypes.c_size_t(size), 0)
    try:
        for paths, access in ((lists, _READ_DIR), (reads, _READ), (writes, everything)):
            for path in paths:
                _allow(ruleset, path, access & everything)
        if _libc.prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0):
            raise Unavailable(ctypes.get_errno(), "no_new_privs cannot be set")
        _syscall(_RESTRICT_SELF, ruleset, 0)
    finally:
        os.close(ruleset)
    _refuse_sockets(network=network)


def _allow(ruleset: int, path: str, access: int) -> None:
    try:
        descriptor = os.open(path, os.O_PATH | os.O_CLOEXEC)
    except OSError:
        return
    try:
        if not Path(path).is_dir():
            access &= _FILE_RIGHTS
        rule = struct.pack("=Qi", access, descriptor)
        _syscall(_ADD_RULE, ruleset, _PATH_BENEATH, rule, 0)
    finally:
        os.close(descriptor)


def _syscall(number: int, *args: object) -> int:
    result: int = _libc.syscall(number, *args)
    if result < 0:
        code = ctypes.get_errno()
        raise Unavailable(code, os.strerror(code))
    return result


def _refuse_sockets(*, network: bool) -> None:
    """Refuse Unix sockets (without `network` all sockets), and io_uring, which bypasses filters."""
    architecture, socket_call, io_uring = _MACHINES[platform.machine()]
    refused = _ERRNO | errno.EACCES
    # Each instruction: opcode, jump if true, jump if false, value.  Offsets: 0 the call's number, 4
    # the architecture, 16 the first argument's low word (both machines are little-endian).
    load, equal, at_least, end = 0x20, 0x15, 0x35, 0x06
    program = [
        (load, 0, 0, 4),
        (equal, 1, 0, architecture),
        (end, 0, 0, _KILL),
        (load, 0, 0, 0),
        (at_least, 0, 1, _X32),
        (end, 0, 0, _ERRNO | errno.ENOSYS),
        (equal, 0, 1, io_uring),
        (end, 0, 0, _ERRNO | errno.ENOSYS),
        (equal, 1, 0, socket_call),
        (end, 0, 0, _ALLOW),
        *([(load, 0, 0, 16), (equal, 1, 0, 1), (end, 0, 0, _ALLOW)] if network else []),
        (end, 0, 0, refused),
    ]
    code = b"".join(struct.pack("=HBBI", *instruction) for instruction in program)
    buffer = ctypes.create_string_buffer(code, len(code))
    header = struct.pack("@HP", len(program), ctypes.addressof(buffer))
    if _libc.prctl(_PR_SET_SECCOMP, _SECCOMP_MODE_FILTER, header, 0, 0):
        raise Unavailable(ctypes.get_errno(), "the system call filter cannot be set")


_libc = ctypes.CDLL(None, use_errno=True)
