"""Slot folders: what a program finds at its start and leaves at its end."""

from __future__ import annotations

import re
import shutil
import zlib
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from volunteer.events import Output
from volunteer.files import md5_of
from volunteer.wire.requests import CORE_VERSION, MOST_STDERR, host_info
from volunteer.wire.web import folder_name
from volunteer.wire.xml import block, leaf

if TYPE_CHECKING:
    from volunteer.records import HeldResult, Project
    from volunteer.wire.messages import FileInfo, FileRef, HostFacts

FINISH_FILE = "boinc_finish_called"
TEMPORARY_EXIT_FILE = "boinc_temporary_exit"
STDERR_FILE = "stderr.txt"
_CHUNK = 1 << 20


class SlotError(Exception):
    """The slot cannot be made ready; the message says why."""


class MissingInputError(SlotError):
    """A file that was here is gone or has another size; `name` says which."""

    def __init__(self, name: str) -> None:
        super().__init__(f"{name} is missing")
        self.name = name


@dataclass(frozen=True, slots=True)
class Home:
    """The folder of one client and the places in it."""

    path: Path

    @property
    def slots(self) -> Path:
        """Where programs run."""
        return self.path / "slots"

    def slot(self, number: int) -> Path:
        """Where one program runs."""
        return self.slots / str(number)

    def project(self, url: str) -> Path:
        """Where the files of a project are."""
        return self.path / "projects" / folder_name(url)

    def file(self, url: str, name: str) -> Path:
        """Where one file of a project is."""
        return self.project(url) / name

    def part(self, url: str, name: str) -> Path:
        """Where what has come of a file waits for the rest."""
        return self.project(url) / f"{name}.part"


def prepare(
    home: Home, project: Project, held: HeldResult, host: HostFacts, *, fresh: bool
) -> Path:
    """Make the slot ready for a first start (`fresh`, emptied) or for going on; give its path.

    Raises MissingInputError for a file to fetch again, SlotError for what cannot be mended.
    """
    slot = home.slot(held.slot)
    if fresh:
        clear(slot)
        for ref in held.offer.file_refs:
            home.file(project.url, ref.file_name).unlink(missing_ok=True)
    slot.mkdir(parents=True, exist_ok=True)
    (slot / TEMPORARY_EXIT_FILE).unlink(missing_ok=True)
    for ref in project.inputs_of(held):
        _check_input(home, project, ref)
        _place(home, project, slot, ref, copy=ref.copy_file)
    for ref in held.offer.file_refs:
        if not ref.copy_file:
            home.file(project.url, ref.file_name).parent.mkdir(parents=True, exist_ok=True)
            _place(home, project, slot, ref, copy=False)
    (slot / "init_data.xml").write_text(init_data(home, project, held, host))
    return slot


def main_program(home: Home, project: Project, held: HeldResult) -> Path:
    """Give the program to start, relative to its slot; raises SlotError if there is none."""
    names = [ref.file_name for ref in project.version_of(held).file_refs if ref.main_program]
    if not names:
        message = "The app version has no main program"
        raise SlotError(message)
    if not project.files[names[0]].info.executable:
        message = f"Main program {names[0]} is not executable"
        raise SlotError(message)
    home.file(project.url, names[0]).chmod(0o755)
    return Path("../../projects") / folder_name(project.url) / names[0]


def _check_input(home: Home, project: Project, ref: FileRef) -> None:
    """Compare sizes only, as BOINC does at each start: hashes were checked on arrival."""
    path, info = home.file(project.url, ref.file_name), project.files[ref.file_name].info
    if not path.is_file() or (info.nbytes and path.stat().st_size != info.nbytes):
        raise MissingInputError(ref.file_name)


def _place(home: Home, project: Project, slot: Path, ref: FileRef, *, copy: bool) -> None:
    """Put a soft link, which is a text file in BOINC, or the file itself into the slot.

    What stands there from an earlier start is the program's by now: it may have put the file
    itself in the place of the link, or begun to write it.
    """
    target = slot / ref.slot_name
    target.parent.mkdir(parents=True, exist_ok=True)
    if target.exists() or target.is_symlink():
        return
    if copy:
        shutil.copy2(home.file(project.url, ref.file_name), target)
        return
    physical = f"../../projects/{folder_name(project.url)}/{ref.file_name}"
    target.write_text(f"<soft_link>{physical}</soft_link>\n")


def take_outputs(home: Home, project: Project, held: HeldResult) -> tuple[Output, ...]:
    """Move copied outputs out of the slot and measure all; safe to do twice."""
    outputs = []
    for ref in held.offer.file_refs:
        path = home.file(project.url, ref.file_name)
        left = home.slot(held.slot) / ref.slot_name
        if ref.copy_file and left.is_file():
            path.parent.mkdir(parents=True, exist_ok=True)
            left.replace(path)
        info = project.files[ref.file_name].info
        if info.gzip_when_done and _fits(path, info):
            _pack(path, home.slot(held.slot) / f".packed_{ref.file_name}")
        if path.is_file():
            outputs.append(Output(ref.file_name, path.stat().st_size, md5_of(path)))
        else:
            outputs.append(Output(ref.file_name))
    return tuple(outputs)


def _fits(path: Path, info: FileInfo) -> bool:
    """Whether an output is there, and no longer than it may be before it is packed."""
    return path.is_file() and (not info.max_nbytes or path.stat().st_size <= info.max_nbytes)


def _pack(path: Path, note: Path) -> None:
    """Pack a file in its place, once: the note says what it became, however often we come back."""
    if note.is_file() and note.read_text() == md5_of(path):
        return
    part = path.with_name(f"{path.name}.gz")
    # As BOINC's clients pack, without name and time: twins of a file are twins when packed.
    packer = zlib.compressobj(wbits=31)
    with path.open("rb") as source, part.open("wb") as target:
        while chunk := source.read(_CHUNK):
            target.write(packer.compress(chunk))
        target.write(packer.flush())
    note.parent.mkdir(parents=True, exist_ok=True)
    note.write_text(md5_of(part))
    part.replace(path)


def read_stderr(slot: Path) -> str:
    """Read the end of what the program wrote to its stderr."""
    try:
        with (slot / STDERR_FILE).open("rb") as file:
            size = file.seek(0, 2)
            file.seek(max(0, size - MOST_STDERR))
            return file.read().decode("utf-8", "replace")
    except OSError:
        return ""


def finish_code(slot: Path) -> int | None:
    """Give the exit code in the finish file; None if the program did not say that it finished."""
    try:
        text = (slot / FINISH_FILE).read_text(errors="replace")
    except OSError:
        return None
    found = re.match(r"\s*(\d+)", text)
    return int(found.group(1)) if found else 0


def temporary_exit(slot: Path) -> float | None:
    """Give the seconds for which the program wants to be left alone; None if it did not ask."""
    try:
        text = (slot / TEMPORARY_EXIT_FILE).read_text(errors="replace")
    except OSError:
        return None
    found = re.match(r"\s*(\d+(?:\.\d+)?)", text)
    return float(found.group(1)) if found else 0.0


def clear(slot: Path) -> None:
    """Empty and remove a slot."""
    shutil.rmtree(slot, ignore_errors=True)


def sweep(home: Home, project: Project) -> None:
    """Delete files that nobody knows, as a kill between forgetting and deleting leaves them."""
    folder = home.project(project.url)
    for path in folder.rglob("*"):
        name = str(path.relative_to(folder))
        if path.is_file() and name.removesuffix(".part") not in project.files:
            path.unlink()


def falsify(path: Path) -> None:
    """Change one byte of a file, a digit if there is one: for demonstrations of validation."""
    content = bytearray(path.read_bytes())
    digits = [index for index, byte in enumerate(content) if byte in b"0123456789"]
    if digits:
        content[digits[-1]] = ord("0") + (content[digits[-1]] - ord("0") + 1) % 10
    elif content:
        content[-1] ^= 1
    path.write_bytes(content)


def init_data(home: Home, project: Project, held: HeldResult, host: HostFacts) -> str:
    """Write the facts that BOINC's application library reads (PROTOCOL 5.1)."""
    workunit, version = project.workunits[held.offer.wu_name], project.version_of(held)
    account = project.account
    values: dict[str, object] = {
        "major_version": CORE_VERSION[0],
        "minor_version": CORE_VERSION[1],
        "release": CORE_VERSION[2],
        "app_version": version.version_num,
        "userid": account.userid,
        "teamid": account.teamid,
        "hostid": project.hostid,
        "app_name": version.app_name,
        "user_name": account.user_name,
        "project_dir": home.project(project.url),
        "boinc_dir": home.path,
        "authenticator": project.key,
        "wu_name": workunit.name,
        "result_name": held.offer.name,
        "shm_key": -1,
        "slot": held.slot,
        "wu_cpu_time": held.cpu_time,
        "starting_elapsed_time": held.elapsed,
        "user_total_credit": account.user_total_credit,
        "user_expavg_credit": account.user_expavg_credit,
        "host_total_credit": account.host_total_credit,
        "host_expavg_credit": account.host_expavg_credit,
        "checkpoint_period": 10.0,
        "fraction_done_start": 0.0,
        "fraction_done_end": 1.0,
        "gpu_type": "",
        "gpu_device_num": -1,
        "gpu_opencl_dev_index": -1,
        "gpu_usage": 0.0,
        "ncpus": float(version.avg_ncpus),
        "rsc_fpops_est": workunit.rsc_fpops_est,
        "rsc_fpops_bound": workunit.rsc_fpops_bound,
        "rsc_memory_bound": workunit.rsc_memory_bound,
        "rsc_disk_bound": workunit.rsc_disk_bound,
        "computation_deadline": held.offer.report_deadline,
    }
    content = "".join(leaf(name, value) for name, value in values.items())
    content += host_info(host)
    if project.preferences:
        content += block("project_preferences", project.preferences + "\n")
    for ref in version.file_refs:
        content += leaf("app_file", ref.file_name)
    return block("app_init_data", content)
