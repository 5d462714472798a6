"""Chooses the folder in which the processes of a web server share their counters.

`prometheus_client` reads its environment variable when it is imported, so `project.wsgi` calls
`prepare` before it imports the rooms of the project.  The folder is named after the server's parent
process.  So its workers share one folder, whatever started the server, the counts of a replaced
worker are kept, and a new server starts with an empty folder.  `manage.py serve` empties a folder
that the operator chose.
"""

from __future__ import annotations

import os
import re
import shutil
import socket
import tempfile
from contextlib import suppress
from pathlib import Path
from typing import Final

#: The variable that prometheus_client reads.  If the operator sets it, `prepare` does nothing.
VARIABLE: Final = "PROMETHEUS_MULTIPROC_DIR"
#: The files of prometheus_client: the type of the metrics, and the id of the process.
_COUNTER_FILE: Final = re.compile(r"(counter|histogram|summary|gauge_[a-z]+)_[0-9]+\.db")
#: A folder of another machine or container is deleted if nothing has changed in it for this time;
#: a web process writes every few seconds.
_FORGOTTEN_AFTER_SECONDS: Final = 86_400.0


def prepare(var_dir: Path, parent: int | None, *, now: float) -> Path | None:
    """Create the folder of the server with the parent process `parent`; delete folders of others.

    Sets the environment variable.  Does nothing and returns None if it is set already, or if there
    is no parent process, because then no other process shares the counters.
    """
    if parent is None or os.environ.get(VARIABLE):
        return None
    folder = var_dir / "run" / "metrics" / _name(parent)
    folder.mkdir(parents=True, exist_ok=True)
    _delete_old(folder.parent, now=now)
    os.environ[VARIABLE] = str(folder)
    return folder


def empty(folder: Path) -> None:
    """Delete the files of counters in a folder that the operator chose; create it if it is missing.

    Deletes only files with the names of prometheus_client, no links and nothing in subfolders.
    Raises OSError if the path is not a folder or cannot be written to.
    """
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryFile(dir=folder):
        pass  # raises OSError if the workers could not create files
    for path in folder.iterdir():
        if _COUNTER_FILE.fullmatch(path.name) and path.is_file() and not path.is_symlink():
            path.unlink()


def forget_dead_processes(folder: str) -> None:
    """Delete the gauges of processes that have ended; their counters are kept."""
    for path in Path(folder).glob("gauge_live*_*.db"):
        pid = path.stem.rpartition("_")[2]
        if pid.isdecimal() and not _exists(int(pid)):
            path.unlink(missing_ok=True)


def _name(pid: int) -> str:
    """Return a name for a process of this machine that no later process gets."""
    return f"{socket.gethostname()}-{pid}-{_started_at(pid)}"


def _started_at(pid: int) -> str:
    """Return the start time of a process in ticks since the boot, or "0" if it has ended."""
    with suppress(OSError, IndexError):
        # The name of the program, in parentheses, may contain spaces.
        return Path(f"/proc/{pid}/stat").read_text(encoding="ascii").rpartition(")")[2].split()[19]
    return "0"


def _delete_old(parent_folder: Path, *, now: float) -> None:
    own_prefix = f"{socket.gethostname()}-"
    for folder in parent_folder.iterdir():
        host, _, pid = folder.name.rpartition("-")[0].rpartition("-")
        with suppress(OSError):
            if f"{host}-" == own_prefix and pid.isdecimal():
                is_old = folder.name != _name(int(pid))
            else:
                times = [path.stat().st_mtime for path in folder.iterdir()]
                is_old = now - max(times, default=folder.stat().st_mtime) > _FORGOTTEN_AFTER_SECONDS
            if is_old:
                shutil.rmtree(folder, ignore_errors=True)


def _exists(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        pass
    return True
