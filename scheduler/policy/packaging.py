"""What a folder of files is, as one version of an app [pure].

A package is a mapping of relative names to contents, or to paths of files that have them.
``version.xml`` in it follows BOINC's ``update_versions`` (PROTOCOL 7.5); without one there is a
single file, or a main program is named.
Files beside it that are called ``<name>.sig`` are signatures made elsewhere.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field

from lxml import etree

from scheduler.policy.names import clash, name_fault

VERSION_XML = "version.xml"
SIGNATURE_SUFFIX = ".sig"

#: BOINC's names for the computers that its clients run on.
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

#: Where a POSIX shell runs programs that are no binaries: the platforms of scripts and containers.
UNIX_PLATFORMS = (
    "x86_64-pc-linux-gnu",
    "i686-pc-linux-gnu",
    "aarch64-unknown-linux-gnu",
    "arm-unknown-linux-gnueabihf",
    "x86_64-apple-darwin",
    "arm64-apple-darwin",
)
#: What a script's archive has at its top, and is run.
RUN = "run.sh"

#: Windows opens devices by these names, whatever follows the dot.
_DEVICES = re.compile(r"(?i)(con|prn|aux|nul|com[0-9]|lpt[0-9])(\..*)?")
_IMAGE = re.compile(
    r"([A-Za-z0-9.-]+(:[0-9]{1,5})?/)?[a-z0-9]+([._-]+[a-z0-9]+)*(/[a-z0-9]+([._-]+[a-z0-9]+)*)*"
    r"@sha256:[0-9a-f]{64}"
)
_MAX_IMAGE = 400

_PART = re.compile(r"[^/\\\x00-\x1f\x7f<>&%:]{1,200}")
_FLAGS = {"main_program", "copy_file", "executable"}


class BadPackage(ValueError):
    """A package cannot be an app version. Hint: the message says what to change."""


@dataclass(frozen=True, slots=True)
class PackedFile:
    """One file of a package: its name there, the name the program opens, and its part.

    `content` is the bytes themselves, or the path of a file that has them.
    """

    name: str
    open_name: str
    content: bytes | str
    main_program: bool = False
    executable: bool = False
    copy_file: bool = False
    signature: str | None = None


@dataclass(frozen=True, slots=True)
class Package:
    """The files of a version, main program first, and what ``version.xml`` says beside."""

    files: tuple[PackedFile, ...]
    facts: Mapping[str, str] = field(default_factory=dict)
    #: Its main program is the launcher, which the server has written.
    launched: bool = False


def unpack(
    files: Mapping[str, bytes | str],
    *,
    main_program: str | None = None,
    executables: Collection[str] = (),
) -> Package:
    """Read a package; raises `BadPackage`.

    `executables` names further files that the program starts; the main program always is one.
    """
    for name in files:
        check_relative(name)
    package = _unpacked(files, main_program, executables)
    _check_slot_names(package.files)
    return package


def _unpacked(
    files: Mapping[str, bytes | str], main_program: str | None, executables: Collection[str]
) -> Package:
    if VERSION_XML in files:
        return _by_description(files, main_program, executables)
    signed = {n for n in files if n.removesuffix(SIGNATURE_SUFFIX) in files.keys() - {n}}
    names = sorted(files.keys() - signed)
    main = _main_program(names, main_program)
    return Package(
        tuple(
            PackedFile(
                name=name,
                open_name="" if name == main else name,
                content=files[name],
                main_program=name == main,
                executable=name == main or name in executables,
                signature=_signature(files, name),
            )
            for name in sorted(names, key=lambda name: (name != main, name))
        )
    )


def _check_slot_names(files: Iterable[PackedFile]) -> None:
    """Raise `BadPackage` unless clients can place all files in one slot.

    A main program without a logical name has its physical name there, which cannot clash.
    """
    names = [file.open_name for file in files if file.open_name]
    hint = "Hint: rename the file, or give it another <logical_name> in version.xml."
    for name in names:
        if why := name_fault(name):
            msg = f"{name[:80]!r} is not a name that a program can open in its folder: it {why}."
            raise BadPackage(f"{msg} {hint}")
    if pair := clash(names):
        msg = f"The names {pair[0]!r} and {pair[1]!r} cannot be in one folder on every computer."
        raise BadPackage(f"{msg} {hint}")


def version_number(text: str) -> int:
    """Read 123 or 1.23, which is the same version; raises `BadPackage`.

    >>> version_number("1.02"), version_number("7")
    (102, 7)
    """
    if found := re.fullmatch(r"([0-9]{1,7})\.([0-9][0-9])", text):
        return int(found[1]) * 100 + int(found[2])
    if re.fullmatch(r"[0-9]{1,9}", text):
        return int(text)
    msg = f"{text[:40]!r} is no version. Hint: write 123, or 1.23, which is the same."
    raise BadPackage(msg)


def check_relative(name: str) -> None:
    """Raise `BadPackage` unless a name stays inside its folder on every system."""
    parts = name.split("/")
    if any(
        part in {".", ".."} or not _PART.fullmatch(part) or _DEVICES.fullmatch(part)
        for part in parts
    ):
        msg = (
            f"{name[:80]!r} is not a name for a file of an app version. "
            "Hint: use relative names without .. and without < > & % : and backslashes."
        )
        raise BadPackage(msg)


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
            f"The archive has no {RUN} at its top. Hint: it is what is started, "
            f"as `./{RUN} INPUT`; there are {', '.join(sorted(names)[:10]) or 'no files'}."
        )
    raise BadPackage(msg)


def check_image(image: str) -> None:
    """Raise `BadPackage` unless a container's image is named by its digest, for good."""
    if _IMAGE.fullmatch(image) and len(image) <= _MAX_IMAGE:
        return
    if not image:
        msg = "No image is named. Hint: a container's version is its image, name@sha256:DIGEST."
    elif "@" not in image and not re.search(r"\s", image):
        msg = (
            f"{image[:200]!r} names an image by a tag, and what that stands for changes. "
            "Hint: give name@sha256:DIGEST, "
            "as `podman image inspect --format '{{.RepoDigests}}' IMAGE` says it."
        )
    else:
        msg = f"{image[:200]!r} names no image. Hint: write name@sha256: and 64 hexadecimal digits."
    raise BadPackage(msg)


def _main_program(names: list[str], wanted: str | None) -> str:
    if not names:
        msg = "The package has no files. Hint: give a file, a folder or an archive with a program."
        raise BadPackage(msg)
    if wanted is None:
        if len(names) == 1:
            return names[0]
        msg = (
            f"The package has {len(names)} files and no version.xml. Hint: name the one to start "
            f"as the main program: {', '.join(names[:10])}."
        )
        raise BadPackage(msg)
    if wanted not in names:
        msg = (
            f"The main program {wanted!r} is not in the package. "
            f"Hint: it has {', '.join(names[:10])}."
        )
        raise BadPackage(msg)
    return wanted


def _signature(files: Mapping[str, bytes | str], name: str) -> str | None:
    text = files.get(name + SIGNATURE_SUFFIX)
    return text.decode("ascii", "replace").strip() + "\n" if isinstance(text, bytes) else None


def is_description(name: str) -> bool:
    """Whether `unpack` reads a file of this name itself: then it wants its bytes."""
    return name == VERSION_XML or name.endswith(SIGNATURE_SUFFIX)


def _by_description(
    files: Mapping[str, bytes | str], main_program: str | None, executables: Collection[str]
) -> Package:
    text = files[VERSION_XML]
    root = _parse(text if isinstance(text, bytes) else b"")
    listed = [_described(element, files, executables) for element in root.iterfind("file")]
    mains = [file for file in listed if file.main_program]
    if main_program is not None and [file.name for file in mains] != [main_program]:
        msg = (
            f"version.xml does not name {main_program!r} as its main program. "
            "Hint: name it there, or nowhere else."
        )
        raise BadPackage(msg)
    if len(mains) != 1:
        msg = (
            f"version.xml names {len(mains)} main programs. "
            "Hint: put <main_program/> into exactly one <file>."
        )
        raise BadPackage(msg)
    names = [file.name for file in listed]
    if repeated := sorted({name for name in names if names.count(name) > 1}):
        msg = f"version.xml lists {', '.join(repeated)} more than once. Hint: list each file once."
        raise BadPackage(msg)
    facts = {element.tag: (element.text or "").strip() for element in root if element.tag != "file"}
    return Package(tuple(sorted(listed, key=lambda file: not file.main_program)), facts)


def _parse(text: bytes) -> etree._Element:
    parser = etree.XMLParser(
        resolve_entities=False,
        no_network=True,
        load_dtd=False,
        remove_comments=True,
        remove_pis=True,
    )
    try:
        root = etree.fromstring(text, parser)
    except etree.XMLSyntaxError as error:
        msg = f"version.xml cannot be read: {error}. Hint: correct it there."
        raise BadPackage(msg) from error
    if root.tag != "version":
        msg = f"version.xml begins with <{root.tag}>. Hint: its outermost element is <version>."
        raise BadPackage(msg)
    return root


def _described(
    element: etree._Element, files: Mapping[str, bytes | str], executables: Collection[str]
) -> PackedFile:
    name = (element.findtext("physical_name") or "").strip()
    if name not in files:
        msg = (
            f"version.xml lists {name!r}, which is not in the package. "
            "Hint: <physical_name> is the file's name in the folder."
        )
        raise BadPackage(msg)
    open_name = (element.findtext("logical_name") or "").strip()
    if open_name:
        check_relative(open_name)
    flags = {flag for flag in _FLAGS if element.find(flag) is not None}
    main = "main_program" in flags
    return PackedFile(
        name=name,
        open_name=open_name or ("" if main else name),
        content=files[name],
        main_program=main,
        executable=main or "executable" in flags or name in executables,
        copy_file="copy_file" in flags,
        signature=_signature(files, name),
    )
