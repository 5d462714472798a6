"""Prepares slot folders for programs, and collects outputs from them."""

from __future__ import annotations

import contextlib
import hashlib
import os
import re
import shutil
import zlib
from dataclasses import dataclass
from pathlib import Path
from typing import IO, TYPE_CHECKING

from volunteer import safe_files
from volunteer.events import Output
from volunteer.files import digests_of
from volunteer.intake import output_fault, slot_fault
from volunteer.records import HeldResult, Project, TrickleDown, file_names
from volunteer.sandbox import Program
from volunteer.signature import verifies
from volunteer.wire.computing import GlobalPreferences, write_preferences
from volunteer.wire.preferences import project_preferences
from volunteer.wire.requests import CORE_VERSION, MAX_STDERR_LENGTH, host_info
from volunteer.wire.web import folder_name
from volunteer.wire.xml import block, encode, leaf, leaves

if TYPE_CHECKING:
    from volunteer.wire.messages import FileInfo, FileRef, HostFacts

FINISH_FILE = "boinc_finish_called"
TEMPORARY_EXIT_FILE = "boinc_temporary_exit"
STDERR_FILE = "stderr.txt"
TRICKLE_UP_FILE = "trickle_up.xml"
UPLOAD_REQUEST_PREFIX = "boinc_ufr_"
UPLOAD_STATUS_PREFIX = "boinc_ufs_"
# The server drops longer trickles.
MAX_TRICKLE_BYTES = 64 * 1024
_CHUNK = 1 << 20
# Files that a program writes for the client have one or two lines.
_MAX_NOTE = 4096
_MAX_FILE_BYTES = 1 << 62
# A line of Manyhands' launcher, the signed main program of apps of the kind container.
_CONTAINER_LAUNCHER = b"\nkind='container'\n"


class SlotError(Exception):
    """A slot or a file in it cannot be used. The message contains the reason."""


class MissingInputError(SlotError):
    """The downloaded file `name` is missing or has changed."""

    def __init__(self, name: str) -> None:
        super().__init__(f"{name} is missing or was changed")
        self.name = name


@dataclass(frozen=True, slots=True)
class Home:
    """The folder of one client and the paths in it."""

    path: Path

    @property
    def slots(self) -> Path:
        return self.path / "slots"

    def slot(self, number: int) -> Path:
        return self.slots / str(number)

    def project(self, url: str) -> Path:
        """Return the folder of a project's files."""
        return self.path / "projects" / folder_name(url)

    def file(self, url: str, name: str) -> Path:
        return self.project(url) / name

    def relative(self, url: str, name: str) -> str:
        """Return the name of a project's file relative to the folder of the client."""
        return f"projects/{folder_name(url)}/{name}"

    def part(self, url: str, name: str) -> Path:
        """Return the path of a partial download."""
        return self.project(url) / f"{name}.part"


def prepare(
    home: Home, project: Project, held_result: HeldResult, init_data_xml: str, *, fresh: bool
) -> Path:
    """Prepare the slot of a result for a start or restart, and return the path of the slot.

    If `fresh` is set, the slot is emptied and existing outputs are deleted first. Every file of the
    app version is read and verified. Raises MissingInputError for a file that must be downloaded
    again, and SlotError or OSError for permanent faults.
    """
    slot = home.slot(held_result.slot)
    if fault := slot_fault(project, held_result.offer) or output_fault(project, held_result.offer):
        raise SlotError(fault)
    if fresh:
        clear(slot)
        for ref in held_result.offer.file_refs:
            safe_files.remove(home.path, home.relative(project.url, ref.file_name))
    safe_files.make_folder(home.path, f"slots/{held_result.slot}")
    safe_files.remove(slot, TEMPORARY_EXIT_FILE)
    # A program of an earlier start may have written this file without ending.
    safe_files.remove(slot, FINISH_FILE)
    for ref in project.version_of(held_result).file_refs:
        sha256 = _verify_program(home, project, ref)
        if project.files[ref.file_name].info.executable:
            _restore(home, project, slot, ref, sha256)
        else:
            _place(home, project, slot, ref, copy=ref.copy_file)
    _place_data(home, project, held_result, slot)
    with safe_files.created(slot, "init_data.xml") as file:
        file.write(encode(init_data_xml))
    for trickle in held_result.trickles_down:
        write_trickle_down(slot, trickle)
    return slot


def _place_data(home: Home, project: Project, held_result: HeldResult, slot: Path) -> None:
    """Put the inputs into the slot, and links or folders for the outputs."""
    for ref in project.input_refs(held_result.offer):
        _check_input(home, project, ref)
        _place(home, project, slot, ref, copy=ref.copy_file)
    for ref in project.output_refs(held_result.offer):
        if ref.copy_file:
            safe_files.make_folder(slot, str(Path(ref.slot_name).parent))
        else:
            home.file(project.url, ref.file_name).parent.mkdir(parents=True, exist_ok=True)
            _place(home, project, slot, ref, copy=False)


def main_program(home: Home, project: Project, held_result: HeldResult) -> Path:
    """Return the path of the main program relative to the slot, and make it executable.

    Raises SlotError if the app version has no executable main program. `prepare` must be called
    first, because it verifies the program.
    """
    names = [ref.file_name for ref in project.version_of(held_result).file_refs if ref.main_program]
    if not names:
        raise SlotError("The app version has no main program")
    if not project.files[names[0]].info.executable:
        raise SlotError(f"Main program {names[0]} is not executable")
    with safe_files.opened(home.path, home.relative(project.url, names[0])) as file:
        os.fchmod(file.fileno(), 0o755)
    return Path("../../projects") / folder_name(project.url) / names[0]


def confined_program(home: Home, project: Project, held_result: HeldResult, slot: Path) -> Program:
    """Return the folders and resources that the program of a result may use."""
    version, workunit = project.version_of(held_result), project.workunit_of(held_result)
    names = set(file_names([*project.app_versions.values(), workunit]))
    present = [home.file(project.url, name) for name in sorted(names)]
    main = next(ref.file_name for ref in version.file_refs if ref.main_program)
    start = safe_files.read_start(home.path, home.relative(project.url, main), _MAX_NOTE) or b""
    return Program(
        home.path,
        slot,
        home.project(project.url),
        tuple(path for path in present if path.is_file() and not path.is_symlink()),
        writes_project=any(not ref.copy_file for ref in project.output_refs(held_result.offer)),
        needs_network=version.needs_network,
        needs_containers=_CONTAINER_LAUNCHER in start,
        max_file_bytes=int(min(max(workunit.rsc_disk_bound, 0), _MAX_FILE_BYTES)),
    )


def _verify_program(home: Home, project: Project, ref: FileRef) -> str:
    """Verify a file of the app version and return its SHA-256.

    The SHA-256 must equal the SHA-256 that was stored when the signature was verified at download.
    A state that an earlier version of the client wrote contains no SHA-256. In this case, the
    signature is verified now. Raises MissingInputError if the file is missing or differs, so that
    it is downloaded again.
    """
    file = project.files[ref.file_name]
    try:
        digests = digests_of(home.path, home.relative(project.url, ref.file_name))
    except OSError as error:
        raise MissingInputError(ref.file_name) from error
    if file.signed_sha256:
        is_signed = digests.sha256 == file.signed_sha256
    else:
        is_signed = verifies(digests.md5, file.info.signature, project.code_sign_key)
    if not is_signed:
        raise MissingInputError(ref.file_name)
    return digests.sha256


def _check_input(home: Home, project: Project, ref: FileRef) -> None:
    """Raise MissingInputError if an input is missing or has a wrong size.

    Only the size is compared, as in BOINC, because the MD5 was verified at download.
    """
    info = project.files[ref.file_name].info
    try:
        with safe_files.opened(home.path, home.relative(project.url, ref.file_name)) as file:
            size = os.fstat(file.fileno()).st_size
    except OSError as error:
        raise MissingInputError(ref.file_name) from error
    if info.nbytes and size != info.nbytes:
        raise MissingInputError(ref.file_name)


def _place(home: Home, project: Project, slot: Path, ref: FileRef, *, copy: bool) -> None:
    """Put a soft link (a text file in BOINC) or a copy of the file into the slot.

    An existing file is kept, because the program of an earlier start may have replaced the link by
    a file or changed the copy.
    """
    slot.mkdir(parents=True, exist_ok=True)
    if safe_files.exists(slot, ref.slot_name):
        return
    if copy:
        _copy_into_slot(home, project, slot, ref)
        return
    with safe_files.created(slot, ref.slot_name, 0o644) as target:
        target.write(_soft_link(project, ref))


def _soft_link(project: Project, ref: FileRef) -> bytes:
    physical = f"../../projects/{folder_name(project.url)}/{ref.file_name}"
    return f"<soft_link>{physical}</soft_link>\n".encode()


def _copy_into_slot(home: Home, project: Project, slot: Path, ref: FileRef) -> None:
    name = home.relative(project.url, ref.file_name)
    _copy(home.path, name, slot, ref.slot_name, kept_mode=0o777)


def _copy(source_root: Path, source: str, root: Path, name: str, *, kept_mode: int = 0) -> None:
    """Copy a plain file. `kept_mode` is the mask of the permissions that are copied."""
    with safe_files.opened(source_root, source) as file:
        mode = os.fstat(file.fileno()).st_mode & kept_mode
        with safe_files.created(root, name, mode | safe_files.PRIVATE) as target:
            shutil.copyfileobj(file, target, _CHUNK)


def _restore(home: Home, project: Project, slot: Path, ref: FileRef, sha256: str) -> None:
    """Put an executable file of the app version into the slot, or replace a changed file there."""
    if ref.copy_file:
        with contextlib.suppress(OSError):
            if digests_of(slot, ref.slot_name).sha256 == sha256:
                return
        _copy_into_slot(home, project, slot, ref)
    elif safe_files.read_start(slot, ref.slot_name, _MAX_NOTE) != _soft_link(project, ref):
        with safe_files.created(slot, ref.slot_name, 0o644) as target:
            target.write(_soft_link(project, ref))


def take_outputs(home: Home, project: Project, held_result: HeldResult) -> tuple[Output, ...]:
    """Move copied outputs out of the slot, and return all outputs with size and MD5.

    Outputs are compressed if the project requires it. A repeated call returns the same outputs. An
    output that is a link is returned with a fault, because the target of the link may be a private
    file of the volunteer.
    """
    return tuple(
        _take_output(home, project, held_result, ref)
        for ref in project.output_refs(held_result.offer)
    )


def take_upload_requests(
    home: Home, project: Project, held_result: HeldResult
) -> tuple[Output, ...]:
    """Delete the upload requests of a running program, and return the requested outputs.

    A requested output that does not exist is returned without a size. A copied output stays in the
    slot, so that the program can still read it.
    """
    slot = home.slot(held_result.slot)
    outputs = []
    for ref in project.output_refs(held_result.offer):
        request = UPLOAD_REQUEST_PREFIX + ref.slot_name
        if not _exists(slot, request):
            continue
        _remove(slot, request)
        name = home.relative(project.url, ref.file_name)
        try:
            if ref.copy_file:
                _copy(slot, ref.slot_name, home.path, name)
            digests = digests_of(home.path, name)
        except FileNotFoundError:
            outputs.append(Output(ref.file_name))
        except OSError as error:
            outputs.append(Output(ref.file_name, fault=str(error)))
        else:
            outputs.append(Output(ref.file_name, digests.nbytes, digests.md5))
    return tuple(outputs)


def write_upload_status(slot: Path, name: str, status: int) -> None:
    """Write the status of an upload into the slot, where BOINC's library reads it.

    The status is 0 for a finished upload and negative for an error.
    """
    with safe_files.created(slot, UPLOAD_STATUS_PREFIX + name, 0o644) as file:
        file.write(f"<status>{status}</status>\n".encode())


def take_trickle(slot: Path) -> str:
    """Delete the trickle that the program wrote, and return its text.

    Returns an empty string if there is no trickle. Raises SlotError if the trickle is too long or
    is not a plain file. The trickle is deleted in any case.
    """
    if not _exists(slot, TRICKLE_UP_FILE):
        return ""
    content = safe_files.read_start(slot, TRICKLE_UP_FILE, MAX_TRICKLE_BYTES + 1)
    _remove(slot, TRICKLE_UP_FILE)
    if content is None:
        raise SlotError(f"{TRICKLE_UP_FILE} is not a plain file")
    if len(content) > MAX_TRICKLE_BYTES:
        raise SlotError(f"the trickle has more than {MAX_TRICKLE_BYTES} bytes")
    return content.decode("utf-8", "replace").strip()


def write_trickle_down(slot: Path, trickle: TrickleDown) -> None:
    """Write a message of the project into the slot, where BOINC's library reads it."""
    with safe_files.created(slot, f"trickle_down_{trickle.time}", 0o644) as file:
        file.write(encode(trickle.text))


def _exists(slot: Path, name: str) -> bool:
    with contextlib.suppress(OSError):
        return safe_files.exists(slot, name)
    return False


def _remove(slot: Path, name: str) -> None:
    # A folder with this name is not removed, but it affects only the program that created it.
    with contextlib.suppress(OSError):
        safe_files.remove(slot, name)


def _take_output(home: Home, project: Project, held_result: HeldResult, ref: FileRef) -> Output:
    slot, name = home.slot(held_result.slot), home.relative(project.url, ref.file_name)
    try:
        if ref.copy_file and safe_files.exists(slot, ref.slot_name):
            safe_files.move(slot, ref.slot_name, home.path, name)
        info = project.files[ref.file_name].info
        if info.gzip_when_done and _fits(home, name, info):
            _pack(home, name, slot, f".packed_{ref.file_name}")
        digests = digests_of(home.path, name)
    except FileNotFoundError:
        return Output(ref.file_name)
    except safe_files.UnsafeFileError as error:
        return Output(ref.file_name, fault=str(error))
    return Output(ref.file_name, digests.nbytes, digests.md5)


def _fits(home: Home, name: str, info: FileInfo) -> bool:
    """Return whether the uncompressed output is within its size limit."""
    with safe_files.opened(home.path, name) as file:
        return not info.max_nbytes or os.fstat(file.fileno()).st_size <= info.max_nbytes


def _pack(home: Home, name: str, slot: Path, note: str) -> None:
    """Compress an output with gzip in place.

    The MD5 of the compressed file is written to the file `note` in the slot. If the output has
    this MD5, an earlier call has compressed it, and nothing is done.
    """
    noted = safe_files.read_start(slot, note, _MAX_NOTE)
    if noted and noted.decode("ascii", "replace") == digests_of(home.path, name).md5:
        return
    slot.mkdir(parents=True, exist_ok=True)
    # The header has no name and time, as in BOINC's clients, so that the compressed forms of
    # identical files are identical.
    packer = zlib.compressobj(wbits=31)
    digest = hashlib.md5(usedforsecurity=False)
    with (
        safe_files.opened(home.path, name) as source,
        safe_files.created(home.path, name) as target,
    ):
        while chunk := source.read(_CHUNK):
            _write(target, digest, packer.compress(chunk))
        _write(target, digest, packer.flush())
        # Written before the compressed file replaces the original.
        with safe_files.created(slot, note) as noting:
            noting.write(digest.hexdigest().encode())


def _write(target: IO[bytes], digest: hashlib._Hash, content: bytes) -> None:
    target.write(content)
    digest.update(content)


def keep_text(slot: Path, name: str, target: Path) -> None:
    """Copy a file of the slot to a path of this computer; a missing file is skipped."""
    try:
        with safe_files.opened(slot, name) as source:
            target.parent.mkdir(parents=True, exist_ok=True)
            with target.open("wb") as copy:
                shutil.copyfileobj(source, copy, _CHUNK)
    except FileNotFoundError:
        return


def read_stderr(slot: Path) -> str:
    """Return the end of the program's stderr, or an empty string if it cannot be read."""
    try:
        with safe_files.opened(slot, STDERR_FILE) as file:
            size = file.seek(0, 2)
            file.seek(max(0, size - MAX_STDERR_LENGTH))
            return file.read(MAX_STDERR_LENGTH).decode("utf-8", "replace")
    except OSError:
        return ""


def finish_code(slot: Path) -> int | None:
    """Return the exit code in the finish file of a slot, or None if there is no such file."""
    code = _number_in(slot, FINISH_FILE)
    return None if code is None else int(code)


def temporary_exit(slot: Path) -> float | None:
    """Return the delay in seconds that a temporary exit requests, or None without a request."""
    return _number_in(slot, TEMPORARY_EXIT_FILE)


def _number_in(slot: Path, name: str) -> float | None:
    """Return the number at the beginning of a file.

    Returns 0 if the file does not begin with a number, and None if the file cannot be read.
    """
    content = safe_files.read_start(slot, name, _MAX_NOTE)
    if content is None:
        return None
    match = re.match(rb"\s*(\d{1,9}(?:\.\d{1,9})?)", content)
    return float(match[1]) if match else 0.0


def clear(slot: Path) -> None:
    """Delete the folder of a slot with its content, or a link or file in place of the folder."""
    if slot.is_symlink() or slot.is_file():
        slot.unlink()
    shutil.rmtree(slot, ignore_errors=True)


def sweep(home: Home, project: Project) -> None:
    """Delete links, and files that the state does not contain, from the folder of a project.

    Such files remain if the client is killed.
    """
    folder = home.project(project.url)
    for path in folder.rglob("*"):
        name = str(path.relative_to(folder))
        is_link = path.is_symlink()
        if is_link or (path.is_file() and name.removesuffix(".part") not in project.files):
            path.unlink()


def falsify(path: Path) -> None:
    """Change one byte of a file, if possible a digit, to demonstrate validation."""
    content = bytearray(path.read_bytes())
    digits = [index for index, byte in enumerate(content) if byte in b"0123456789"]
    if digits:
        content[digits[-1]] = ord("0") + (content[digits[-1]] - ord("0") + 1) % 10
    elif content:
        content[-1] ^= 1
    path.write_bytes(content)


def init_data(
    home: Home,
    project: Project,
    held_result: HeldResult,
    host: HostFacts,
    share: float,
    computing_preferences: GlobalPreferences,
) -> str:
    """Return the content of `init_data.xml` for BOINC's application library (PROTOCOL 5.1).

    `share` is the part of this computer that the project gets, from 0 to 1.
    `computing_preferences` are the preferences in force.
    """
    workunit, version = project.workunit_of(held_result), project.version_of(held_result)
    account = project.account
    preferences = project_preferences(project.preferences, project.venue)
    content = leaves(
        major_version=CORE_VERSION[0],
        minor_version=CORE_VERSION[1],
        release=CORE_VERSION[2],
        app_version=version.version_num,
        userid=account.userid,
        teamid=account.teamid,
        hostid=project.hostid,
        app_name=version.app_name,
        plan_class=version.plan_class or None,
        team_name=account.team_name or None,
        user_name=account.user_name or None,
        project_dir=home.project(project.url),
        boinc_dir=home.path,
        authenticator=project.key,
        wu_name=workunit.name,
        result_name=held_result.name,
        # -1: the shared memory is the file `boinc_mmap_file`.
        shm_key=-1,
        slot=held_result.slot,
        # Programs with BOINC's library end when this process no longer exists.
        client_pid=os.getpid(),
        wu_cpu_time=held_result.cpu_time,
        starting_elapsed_time=held_result.elapsed,
        using_sandbox=0,
        vm_extensions_disabled=0,
        user_total_credit=account.user_total_credit,
        user_expavg_credit=account.user_expavg_credit,
        host_total_credit=account.host_total_credit,
        host_expavg_credit=account.host_expavg_credit,
        resource_share_fraction=share,
        checkpoint_period=computing_preferences.disk_interval,
        fraction_done_start=0.0,
        fraction_done_end=1.0,
        gpu_type="",
        gpu_device_num=-1,
        gpu_opencl_dev_index=-1,
        gpu_usage=0.0,
        ncpus=float(project.processors_of(held_result)),
        rsc_fpops_est=workunit.rsc_fpops_est,
        rsc_fpops_bound=workunit.rsc_fpops_bound,
        rsc_memory_bound=workunit.rsc_memory_bound,
        rsc_disk_bound=workunit.rsc_disk_bound,
        # An element of ours: the server's launcher does not kill a program before the client.
        max_termination_time=workunit.max_termination_time,
        computation_deadline=held_result.offer.report_deadline,
        vbox_window=0,
        # The client has set the priority, which child processes inherit.
        no_priority_change=1,
        process_priority=-1,
        process_priority_special=-1,
    )
    if preferences.specific:
        content += block("project_preferences", preferences.specific + "\n")
    content += host_info(host)
    content += write_preferences(computing_preferences)
    for ref in version.file_refs:
        content += leaf("app_file", ref.file_name)
    return block("app_init_data", content)
