"""Reads a folder of files as one version of an app.

A package is a mapping of relative names to contents, or to paths of files.  A ``version.xml`` in it
follows BOINC's ``update_versions`` (PROTOCOL 7.5); without one, the package has a single file, or
the caller names the main program.  Files named ``<name>.sig`` are signatures from another machine.

This module uses no database, files or clock.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace
from difflib import get_close_matches
from typing import TYPE_CHECKING

from scheduler.apps.rules.xml_files import BadXmlFile, read_root
from scheduler.files.rules.refused_names import clash, name_fault

if TYPE_CHECKING:
    from lxml import etree

VERSION_XML = "version.xml"
SIGNATURE_SUFFIX = ".sig"

#: The platforms of BOINC's clients, by BOINC's names.
KNOWN_PLATFORMS = (
    "x86_64-pc-linux-gnu",
    "i686-pc-linux-gnu",
    "aarch64-unknown-linux-gnu",
    "arm-unknown-linux-gnueabihf",
    "riscv64-unknown-linux-gnu",
    "powerpc64le-unknown-linux-gnu",
    "windows_x86_64",
    "windows_intelx86",
    "windows_arm64",
    "x86_64-apple-darwin",
    "arm64-apple-darwin",
    "i686-apple-darwin",
    "aarch64-android-linux-gnu",
    "arm-android-linux-gnu",
    "x86_64-pc-freebsd__generic",
)

#: The platforms with a POSIX shell, which the launcher of scripts and containers needs.
UNIX_PLATFORMS = (
    "x86_64-pc-linux-gnu",
    "i686-pc-linux-gnu",
    "aarch64-unknown-linux-gnu",
    "arm-unknown-linux-gnueabihf",
    "x86_64-apple-darwin",
    "arm64-apple-darwin",
)
#: The file at the top of a script's archive that is run.
RUN = "run.sh"

#: Windows opens devices by these names, with any suffix.
_DEVICES = re.compile(r"(?i)(con|prn|aux|nul|com[0-9]|lpt[0-9])(\..*)?")
_IMAGE = re.compile(
    r"([A-Za-z0-9.-]+(:[0-9]{1,5})?/)?[a-z0-9]+([._-]+[a-z0-9]+)*(/[a-z0-9]+([._-]+[a-z0-9]+)*)*"
    r"@sha256:[0-9a-f]{64}"
)
_MAX_IMAGE = 400

_PART = re.compile(r"[^/\\\x00-\x1f\x7f<>&%:]{1,200}")
_FILE_FLAGS = ("main_program", "copy_file", "executable")
_FILE_ELEMENTS = (*_FILE_FLAGS, "physical_name", "logical_name", "gzip", "url")
#: The elements of `version.xml` other than files: flags, then texts with their maximum lengths.
VERSION_FLAGS = ("beta", "dont_throttle", "needs_network", "is_wrapper")
_VERSION_TEXTS = {"api_version": 15, "file_prefix": 255}
#: The text that BOINC's library puts into every program, as `strings` prints it.
_API_VERSION = re.compile(rb"API_VERSION_([0-9]{1,4}\.[0-9]{1,4}\.[0-9]{1,4})[^0-9.]")


class BadPackage(ValueError):
    """The package or the order is not valid. Hint: change it as the message describes."""


@dataclass(frozen=True, slots=True)
class PackedFile:
    """One file of a package: its name, the name that the program opens, and its role.

    `content` contains the bytes of the file, or its path.
    """

    name: str
    open_name: str
    content: bytes | str
    main_program: bool = False
    executable: bool = False
    copy_file: bool = False
    signature: str | None = None


@dataclass(frozen=True, slots=True)
class FileRoles:
    """The names and roles that a publisher sets for files of a package without ``version.xml``.

    `open_names` are the names that the program opens, by file name.  `executables` are further
    files that the program starts, and `copies` files that are copied to the slot, not linked.
    """

    open_names: Mapping[str, str] = field(default_factory=dict)
    executables: frozenset[str] = frozenset()
    copies: frozenset[str] = frozenset()

    def __bool__(self) -> bool:
        return bool(self.file_names)

    @property
    def file_names(self) -> frozenset[str]:
        """The names of all files that have a name or a role."""
        return frozenset(self.open_names) | self.executables | self.copies


_NO_ROLES = FileRoles()


@dataclass(frozen=True, slots=True)
class Package:
    """The files of a version, main program first, and the other elements of ``version.xml``.

    `facts` contains the texts by element name.  A flag of `VERSION_FLAGS` that is set has an empty
    text.
    """

    files: tuple[PackedFile, ...]
    facts: Mapping[str, str] = field(default_factory=dict)
    #: Whether the main program is the server's launcher.
    launched: bool = False


def unpack(
    files: Mapping[str, bytes | str],
    *,
    main_program: str | None = None,
    executables: Collection[str] = (),
    with_unlisted: bool = False,
    roles: FileRoles = _NO_ROLES,
) -> Package:
    """Read a package; raises `BadPackage`.

    `executables` names further files that the program starts; the main program is always included.
    `roles` are those of files of a package without ``version.xml``.
    `with_unlisted` adds the files that ``version.xml`` does not list, as BOINC's server does.
    """
    for name in files:
        check_relative(name)
    _check_roles(files, roles)
    executables = {*executables, *roles.executables}
    package = _unpacked(files, main_program, executables, with_unlisted=with_unlisted, roles=roles)
    _check_slot_names(package.files)
    return package


def _unpacked(
    files: Mapping[str, bytes | str],
    main_program: str | None,
    executables: Collection[str],
    *,
    with_unlisted: bool,
    roles: FileRoles,
) -> Package:
    if VERSION_XML in files:
        package = _by_description(files, main_program, executables)
        return _with_unlisted(package, files, executables) if with_unlisted else package
    names = sorted(files.keys() - _signature_names(files))
    main = _main_program(names, main_program)
    return Package(
        tuple(
            _packed(
                name,
                {"main_program": name == main, "copy_file": name in roles.copies},
                files,
                executables,
                open_name=roles.open_names.get(name, ""),
            )
            for name in sorted(names, key=lambda name: (name != main, name))
        )
    )


def _check_roles(files: Mapping[str, bytes | str], roles: FileRoles) -> None:
    """Raise `BadPackage` for roles of a file that is not in the package, and for a bad name."""
    if roles and VERSION_XML in files:
        msg = "The package has a version.xml, which sets the names and roles of its files."
        raise BadPackage(f"{msg} Hint: change version.xml, or leave it out.")
    if unknown := sorted(roles.file_names - files.keys()):
        raise BadPackage(
            f"{unknown[0][:80]!r} is not in the package. "
            f"Hint: it has {', '.join(sorted(files)[:10]) or 'no files'}."
        )
    for open_name in roles.open_names.values():
        check_relative(open_name)


def _packed(
    name: str,
    flags: Mapping[str, bool],
    files: Mapping[str, bytes | str],
    executables: Collection[str],
    *,
    open_name: str = "",
) -> PackedFile:
    main = flags.get("main_program", False)
    return PackedFile(
        name=name,
        open_name=open_name or ("" if main else name),
        content=files[name],
        main_program=main,
        executable=main or flags.get("executable", name in executables),
        copy_file=flags.get("copy_file", False),
        signature=_signature(files, name),
    )


def _signature_names(files: Mapping[str, bytes | str]) -> set[str]:
    return {n for n in files if n.removesuffix(SIGNATURE_SUFFIX) in files.keys() - {n}}


def _with_unlisted(
    package: Package, files: Mapping[str, bytes | str], executables: Collection[str]
) -> Package:
    listed = {file.name for file in package.files}
    others = files.keys() - listed - _signature_names(files) - {VERSION_XML}
    unlisted = [_packed(name, {}, files, executables) for name in sorted(others)]
    return replace(package, files=(*package.files, *unlisted))


def find_api_version(content: bytes) -> str:
    """Return the version of BOINC's API that a program contains, or an empty string.

    A version at the very end of `content` is not found, because it may be incomplete.

    >>> find_api_version(b"...API_VERSION_8.3.0" + bytes(9))
    '8.3.0'
    """
    match = _API_VERSION.search(content)
    return match[1].decode() if match else ""


def _check_slot_names(files: Iterable[PackedFile]) -> None:
    """Raise `BadPackage` unless clients can place all files in one slot.

    A main program without a logical name has its physical name in the slot, which cannot clash.
    """
    names = [file.open_name for file in files if file.open_name]
    hint = "Hint: rename the file, or give it another logical name (<logical_name> in version.xml)."
    for name in names:
        if why := name_fault(name):
            msg = f"{name[:80]!r} is not a name that a program can open in its folder: it {why}."
            raise BadPackage(f"{msg} {hint}")
    if pair := clash(names):
        msg = f"The names {pair[0]!r} and {pair[1]!r} cannot be in one folder on every computer."
        raise BadPackage(f"{msg} {hint}")


def version_number(text: str) -> int:
    """Parse a version number such as 123, or 1.23 with the same meaning; raises `BadPackage`.

    >>> version_number("1.02"), version_number("7")
    (102, 7)
    """
    if match := re.fullmatch(r"([0-9]{1,7})\.([0-9][0-9])", text):
        return int(match[1]) * 100 + int(match[2])
    if re.fullmatch(r"[0-9]{1,9}", text):
        return int(text)
    msg = f"{text[:40]!r} is not a version. Hint: write 123, or 1.23 with the same meaning."
    raise BadPackage(msg)


def folder_version_number(text: str) -> int:
    """Parse the name of a version's folder like BOINC: 1.2 means 1.02; raises `BadPackage`.

    >>> folder_version_number("1.2"), folder_version_number("1.20"), folder_version_number("7")
    (102, 120, 7)
    """
    if match := re.fullmatch(r"([0-9]{1,7})\.([0-9])", text):
        return int(match[1]) * 100 + int(match[2])
    return version_number(text)


def check_relative(name: str) -> None:
    """Raise `BadPackage` unless a name stays inside its folder on every system."""
    parts = name.split("/")
    if any(
        part in {".", ".."} or not _PART.fullmatch(part) or _DEVICES.fullmatch(part)
        for part in parts
    ):
        raise BadPackage(
            f"{name[:80]!r} is not a name for a file of an app version. "
            "Hint: use relative names without .. and without < > & % : and backslashes."
        )


def check_script(names: Collection[str]) -> None:
    """Raise `BadPackage` unless the files of a script have ``run.sh`` at their top."""
    for name in names:
        check_relative(name)
    if RUN in names:
        return
    deeper = sorted(name for name in names if name.endswith(f"/{RUN}"))
    if deeper:
        msg = (
            f"The archive has {deeper[0]}, but no {RUN} at its top. "
            f"Hint: pack the contents of {deeper[0].removesuffix('/' + RUN)}/, not the folder."
        )
    else:
        msg = (
            f"The archive has no {RUN} at its top. Hint: it is started as "
            f"`./{RUN} INPUT`; the archive has {', '.join(sorted(names)[:10]) or 'no files'}."
        )
    raise BadPackage(msg)


def check_image(image: str) -> None:
    """Raise `BadPackage` unless a container's image is named by its digest."""
    if _IMAGE.fullmatch(image) and len(image) <= _MAX_IMAGE:
        return
    if not image:
        msg = "No image is named. Hint: a container's version is its image, name@sha256:DIGEST."
    elif "@" not in image and not re.search(r"\s", image):
        msg = (
            f"{image[:200]!r} names an image by a tag, whose content may change. "
            "Hint: give name@sha256:DIGEST, "
            "as `podman image inspect --format '{{.RepoDigests}}' IMAGE` prints it."
        )
    else:
        msg = (
            f"{image[:200]!r} is not an image. Hint: write name@sha256: and 64 hexadecimal digits."
        )
    raise BadPackage(msg)


def _main_program(names: list[str], wanted: str | None) -> str:
    if not names:
        msg = "The package has no files. Hint: give a file, a folder or an archive with a program."
        raise BadPackage(msg)
    if wanted is None:
        if len(names) == 1:
            return names[0]
        raise BadPackage(
            f"The package has {len(names)} files and no version.xml. Hint: name the one to start "
            f"as the main program: {', '.join(names[:10])}."
        )
    if wanted not in names:
        raise BadPackage(
            f"The main program {wanted!r} is not in the package. "
            f"Hint: it has {', '.join(names[:10])}."
        )
    return wanted


def _signature(files: Mapping[str, bytes | str], name: str) -> str | None:
    text = files.get(name + SIGNATURE_SUFFIX)
    return text.decode("ascii", "replace").strip() + "\n" if isinstance(text, bytes) else None


def is_description(name: str) -> bool:
    """Return whether `unpack` reads the content of a file with this name."""
    return name == VERSION_XML or name.endswith(SIGNATURE_SUFFIX)


def _by_description(
    files: Mapping[str, bytes | str], main_program: str | None, executables: Collection[str]
) -> Package:
    text = files[VERSION_XML]
    root = _parse(text if isinstance(text, bytes) else b"")
    listed = [_described(element, files, executables) for element in root.iterfind("file")]
    mains = [file for file in listed if file.main_program]
    if main_program is not None and [file.name for file in mains] != [main_program]:
        raise BadPackage(
            f"version.xml does not name {main_program!r} as its main program. "
            "Hint: put <main_program/> into its <file>, or do not give main_program."
        )
    if len(mains) != 1:
        raise BadPackage(
            f"version.xml names {len(mains)} main programs. "
            "Hint: put <main_program/> into exactly one <file>."
        )
    names = [file.name for file in listed]
    if repeated := sorted({name for name in names if names.count(name) > 1}):
        msg = f"version.xml lists {', '.join(repeated)} more than once. Hint: list each file once."
        raise BadPackage(msg)
    ordered = tuple(sorted(listed, key=lambda file: not file.main_program))
    return Package(ordered, _version_facts(root))


def _version_facts(root: etree._Element) -> dict[str, str]:
    """Return the elements other than files; raises `BadPackage` for an unknown element."""
    facts = {}
    for element in root:
        tag, text = str(element.tag), (element.text or "").strip()
        if tag == "file":
            continue
        if tag in VERSION_FLAGS:
            if _is_true(element):
                facts[tag] = ""
        elif tag in _VERSION_TEXTS:
            max_length = _VERSION_TEXTS[tag]
            if len(text) > max_length or not text.isprintable():
                msg = f"<{tag}> of version.xml is {text[:80]!r}. Hint: give at most {max_length}"
                raise BadPackage(f"{msg} printable characters.")
            if tag == "file_prefix" and text and (fault := name_fault(text)):
                msg = f"<file_prefix> of version.xml is {text[:80]!r}, which {fault}"
                raise BadPackage(f"{msg}. Hint: give the name of a folder inside the slot.")
            if text:
                facts[tag] = text
        else:
            raise BadPackage(_unknown(tag, "", ("file", *VERSION_FLAGS, *_VERSION_TEXTS)))
    return facts


def _unknown(tag: str, place: str, known_tags: Collection[str]) -> str:
    near = get_close_matches(tag, known_tags, n=1)
    hint = f"did you mean <{near[0]}>?" if near else "remove it."
    return f"version.xml has <{tag[:80]}>{place}, which has no effect. Hint: {hint}"


def _is_true(element: etree._Element) -> bool:
    """Parse a flag by BOINC's rule: an empty text or 1 is true, and 0 is false.

    Raises `BadPackage` for any other text.
    """
    text = (element.text or "").strip()
    if text in {"", "1", "0"}:
        return text != "0"
    raise BadPackage(f"<{element.tag}> of version.xml is {text[:80]!r}. Hint: write 1 or 0.")


def _parse(text: bytes) -> etree._Element:
    try:
        return read_root(text, "version", title="version.xml")
    except BadXmlFile as error:
        raise BadPackage(str(error)) from error


def _described(
    element: etree._Element, files: Mapping[str, bytes | str], executables: Collection[str]
) -> PackedFile:
    name = (element.findtext("physical_name") or "").strip()
    if name not in files:
        raise BadPackage(
            f"version.xml lists {name!r}, which is not in the package. "
            "Hint: <physical_name> is the file's name in the folder."
        )
    open_name = (element.findtext("logical_name") or "").strip()
    if open_name:
        check_relative(open_name)
    return _packed(name, _file_flags(element, name), files, executables, open_name=open_name)


def _file_flags(element: etree._Element, name: str) -> dict[str, bool]:
    """Return the flags of a file that `version.xml` sets to true or false."""
    flags = {}
    for part in element:
        tag = str(part.tag)
        if tag not in _FILE_ELEMENTS:
            raise BadPackage(_unknown(tag, f" for {name}", _FILE_ELEMENTS))
        if tag == "url":
            msg = f"version.xml has <url> for {name}, but programs are downloaded from this server"
            raise BadPackage(f"{msg} only. Hint: remove it; the file itself is in the package.")
        if tag == "gzip" and _is_true(part):
            msg = f"version.xml has <gzip> for {name}, but this server keeps no compressed copies."
            raise BadPackage(f"{msg} Hint: remove it; a proxy can compress downloads.")
        if tag in _FILE_FLAGS:
            flags[tag] = _is_true(part)
    return flags
