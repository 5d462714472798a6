"""The names of the exit codes that BOINC's clients report [pure].

The names are those of BOINC's `lib/error_numbers.h`.  Programs define all other codes.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

NAMES: Final[Mapping[int, str]] = {
    192: "EXIT_STATEFILE_WRITE",
    193: "EXIT_SIGNAL",
    194: "EXIT_ABORTED_BY_CLIENT",
    195: "EXIT_CHILD_FAILED",
    196: "EXIT_DISK_LIMIT_EXCEEDED",
    197: "EXIT_TIME_LIMIT_EXCEEDED",
    198: "EXIT_MEM_LIMIT_EXCEEDED",
    199: "EXIT_CLIENT_EXITING",
    200: "EXIT_UNSTARTED_LATE",
    201: "EXIT_MISSING_COPROC",
    202: "EXIT_ABORTED_BY_PROJECT",
    203: "EXIT_ABORTED_VIA_GUI",
    204: "EXIT_UNKNOWN",
    205: "EXIT_OUT_OF_MEMORY",
    206: "EXIT_INIT_FAILURE",
    207: "EXIT_NO_SUB_TASKS",
    208: "EXIT_SUB_TASK_FAILURE",
    -108: "ERR_FOPEN",
    -112: "ERR_XML_PARSE",
    -114: "ERR_GIVEUP_DOWNLOAD",
    -115: "ERR_GIVEUP_UPLOAD",
    -119: "ERR_MD5_FAILED",
    -120: "ERR_RSA_FAILED",
    -131: "ERR_FILE_TOO_BIG",
    -144: "ERR_SHMGET",
    -147: "ERR_FORK",
    -148: "ERR_EXEC",
    -161: "ERR_NOT_FOUND",
    -162: "ERR_NO_EXIT_STATUS",
    -163: "ERR_FILE_MISSING",
    -185: "ERR_RESULT_START",
    -186: "ERR_RESULT_DOWNLOAD",
    -187: "ERR_RESULT_UPLOAD",
    -200: "ERR_WRONG_SIZE",
    -224: "ERR_HTTP_PERMANENT",
    -226: "ERR_TOO_MANY_EXITS",
}
#: Windows reports an exception, such as 0xC0000005, as a negative number below this one.
_LAST_EXCEPTION: Final = -0x10000


def label(exit_status: int) -> str:
    """Return an exit code with its name, if it has one.

    >>> label(197), label(-186), label(1), label(-1073741819)
    ('197 EXIT_TIME_LIMIT_EXCEEDED', '-186 ERR_RESULT_DOWNLOAD', '1', '-1073741819 (0xC0000005)')
    """
    if name := NAMES.get(exit_status):
        return f"{exit_status} {name}"
    if exit_status < _LAST_EXCEPTION:
        return f"{exit_status} (0x{exit_status & 0xFFFFFFFF:08X})"
    return str(exit_status)
