"""Published app versions are signed, have permanent file names and never change."""

from __future__ import annotations

import hashlib
from datetime import UTC, datetime

import pytest

from scheduler import signing, storage
from scheduler.apps import app_versions
from scheduler.models import App, AppVersion, AppVersionFile, File, Platform

pytestmark = pytest.mark.django_db

NOON = datetime(2026, 6, 1, 12, tzinfo=UTC)
LINUX = "x86_64-pc-linux-gnu"
PROGRAM = b"#!/usr/bin/env python3\nprint(17)\n"


def publish(files: dict[str, bytes] | None = None, **options: object) -> app_versions.Published:
    facts = {"app": "sieve", "version_num": 1, "platform": LINUX, "create_app": True, "now": NOON}
    return app_versions.publish(
        files={"sieve.py": PROGRAM} if files is None else files, **(facts | options)
    )


def md5(content: bytes) -> str:
    return hashlib.md5(content, usedforsecurity=False).hexdigest()


def test_a_single_program_becomes_a_signed_version_with_app_and_platform() -> None:
    done = publish()
    version = AppVersion.objects.get()
    assert (done.created, done.version) == (True, version)
    assert (version.app.name, version.platform.name) == ("sieve", LINUX)
    (row,) = version.files.all()
    assert (row.main_program, row.executable, row.open_name) == (True, True, "")
    key = signing.code_sign_key_text()
    assert signing.verify(md5(PROGRAM), row.signature, key)
    assert not signing.verify(md5(b"other"), row.signature, key)


def test_trap_04_physical_names_carry_version_and_hash_and_are_on_disk() -> None:
    """PROTOCOL trap 4."""
    (name,) = publish().file_names
    digest = hashlib.sha256(PROGRAM).hexdigest()
    assert name.startswith(f"sieve_1_{digest[:16]}_")
    assert name.endswith(".py")
    assert storage.download_path(name).read_bytes() == PROGRAM
    file = File.objects.get(name=name)
    assert (file.md5, file.sha256, file.nbytes) == (md5(PROGRAM), digest, len(PROGRAM))


def test_publishing_the_same_version_twice_changes_nothing() -> None:
    first, second = publish(), publish()
    assert (second.created, second.version, second.file_names) == (
        False,
        first.version,
        first.file_names,
    )
    assert AppVersionFile.objects.count() == 1


def test_changed_files_under_an_existing_version_number_are_refused() -> None:
    """PROTOCOL trap 5."""
    publish()
    with pytest.raises(app_versions.VersionExists, match="set version_num to 2, for example"):
        publish({"sieve.py": b"changed"})
    assert File.objects.count() == 1
    assert publish({"sieve.py": b"changed"}, version_num=2).created


def test_another_plan_class_creates_a_separate_version() -> None:
    publish()
    assert publish({"sieve.py": b"threads"}, plan_class="mt").created


def test_unchanged_files_keep_their_names_in_the_next_version() -> None:
    files = {"sieve.py": PROGRAM, "table.bin": b"\0" * 10}
    first = publish(files, main_program="sieve.py")
    second = publish(files | {"sieve.py": b"new"}, main_program="sieve.py", version_num=2)
    assert first.file_names[1] == second.file_names[1]
    assert first.file_names[0] != second.file_names[0]


def test_main_program_is_listed_first_and_other_files_keep_their_open_names() -> None:
    files = {"a/table.bin": b"1", "z.py": b"2", "helper": b"3"}
    publish(files, main_program="z.py", executables={"helper"})
    rows = AppVersionFile.objects.order_by("position")
    assert [(r.open_name, r.main_program, r.executable) for r in rows] == [
        ("", True, True),
        ("a/table.bin", False, False),
        ("helper", False, True),
    ]


VERSION_XML = b"""<version>
  <!-- as update_versions reads it -->
  <file><physical_name>lib.so</physical_name><logical_name>libm.so</logical_name><copy_file/></file>
  <file><physical_name>prog</physical_name><main_program/></file>
  <api_version>8.1</api_version><beta/>
</version>"""


def test_version_xml_describes_the_files() -> None:
    """PROTOCOL 7.5; a file that version.xml does not list is not part of the version."""
    files = {"version.xml": VERSION_XML, "prog": b"1", "lib.so": b"2", "README": b"3"}
    version = publish(files).version
    assert (version.api_version, version.beta) == ("8.1", True)
    rows = version.files.order_by("position")
    assert [(r.open_name, r.main_program, r.copy_file) for r in rows] == [
        ("", True, False),
        ("libm.so", False, True),
    ]


def described(version: str = "", file: str = "") -> bytes:
    return (
        "<version><file><physical_name>prog</physical_name><main_program/></file><file>"
        f"<physical_name>lib.so</physical_name>{file}</file>{version}</version>"
    ).encode()


def published_with(version: str = "", file: str = "", **options: object) -> AppVersion:
    files = {"version.xml": described(version, file), "prog": b"1", "lib.so": b"2"}
    return publish(files, **options).version


def test_a_flag_of_version_xml_that_is_0_is_not_set() -> None:
    off = "<beta>0</beta><dont_throttle>0</dont_throttle><is_wrapper> 0 </is_wrapper>"
    version = published_with(
        off, "<main_program>0</main_program><copy_file>0</copy_file><executable>0</executable>"
    )
    assert (version.beta, version.dont_throttle, version.is_wrapper) == (False, False, False)
    library = version.files.get(open_name="lib.so")
    assert (library.main_program, library.copy_file, library.executable) == (False, False, False)


def test_a_flag_of_version_xml_that_is_empty_or_1_is_set() -> None:
    version = published_with(
        "<beta>1</beta><dont_throttle/><needs_network>1</needs_network><is_wrapper/>"
        "<file_prefix>bin</file_prefix>",
        "<copy_file>1</copy_file><executable>1</executable><gzip>0</gzip>",
    )
    assert version.beta
    assert (version.dont_throttle, version.needs_network, version.is_wrapper) == (True, True, True)
    assert version.file_prefix == "bin"
    library = version.files.get(open_name="lib.so")
    assert (library.copy_file, library.executable) == (True, True)


@pytest.mark.parametrize(
    ("version", "file", "words"),
    [
        ("", "<gzip/>", "keeps no compressed copies. Hint: remove it"),
        ("", "<url>http://x/</url>", "downloaded from this server only. Hint: remove it"),
        ("", "<sticky/>", "has <sticky> for lib.so, which has no effect. Hint: remove it"),
        ("", "<copy_fil/>", "did you mean <copy_file>"),
        ("", "<copy_file>yes</copy_file>", "is 'yes'. Hint: write 1 or 0"),
        ("<dont_throtle/>", "", "did you mean <dont_throttle>"),
        ("<cmdline>-x</cmdline>", "", "has <cmdline>, which has no effect"),
        (f"<file_prefix>{'x' * 256}</file_prefix>", "", "at most 255 printable characters"),
        ("<file_prefix>../x</file_prefix>", "", "which leads out of its folder"),
        ("<file_prefix>/x</file_prefix>", "", "which leads out of its folder"),
    ],
)
def test_unsupported_elements_of_version_xml_are_refused(
    version: str, file: str, words: str
) -> None:
    with pytest.raises(app_versions.BadPackage, match=words):
        published_with(version, file)


API = b"\x7fELF" + bytes(3000) + b"API_VERSION_8.3.0"


@pytest.mark.parametrize(
    "program",
    [
        API,
        API + bytes(2_000_000),
        bytes(2**20 - 8) + b"API_VERSION_8.3.0\0" + bytes(9),
        bytes(2**20 - 2) + b"API_VERSION_8.3.0\0",
    ],
    ids=["end", "start", "across chunks", "at a chunk's end"],
)
def test_api_version_is_read_from_the_program(program: bytes) -> None:
    assert publish({"prog": program}).version.api_version == "8.3.0"


def test_version_xml_overrides_the_api_version_of_the_program() -> None:
    files = {"version.xml": described("<api_version>7.5.0</api_version>"), "lib.so": b""}
    assert publish(files | {"prog": API}).version.api_version == "7.5.0"


def test_a_program_without_boincs_library_has_no_api_version() -> None:
    assert publish({"prog": b"API_VERSION_x API_VERSION_8"}).version.api_version == ""


@pytest.mark.parametrize(
    ("xml", "words"),
    [
        (b"<version>", "version.xml cannot be read"),
        (b"<app/>", "begins with <app>"),
        (b"<version/>", "names 0 main programs"),
        (b"<version><file><physical_name>x</physical_name></file></version>", "lists 'x', which"),
        (
            b"""<version><file><physical_name>prog</physical_name><main_program/>
            <logical_name>../prog</logical_name></file></version>""",
            "'../prog' is not a name",
        ),
        (
            b"""<!DOCTYPE v [<!ENTITY e SYSTEM "file:///etc/passwd">]><version><file>
            <physical_name>&e;</physical_name></file></version>""",
            "lists ''",
        ),
    ],
)
def test_a_faulty_version_xml_is_refused(xml: bytes, words: str) -> None:
    with pytest.raises(app_versions.BadPackage, match=words):
        publish({"version.xml": xml, "prog": b"1"})


@pytest.mark.parametrize("name", ["../x", "/x", "a//b", "a/../b", "a\\b", "C:x", "a\nb", "a%b", ""])
def test_file_names_with_unsafe_paths_are_refused(name: str) -> None:
    with pytest.raises(app_versions.BadPackage, match="is not a name for a file"):
        publish({name: b"1"})
    assert not App.objects.exists()


def test_a_package_with_several_files_must_name_its_main_program() -> None:
    with pytest.raises(app_versions.BadPackage, match=r"name the one to start.*: a, b\."):
        publish({"a": b"1", "b": b"2"})
    with pytest.raises(app_versions.BadPackage, match="'c' is not in the package"):
        publish({"a": b"1", "b": b"2"}, main_program="c")
    with pytest.raises(app_versions.BadPackage, match="has no files"):
        publish({})


def test_an_unknown_app_is_refused_and_the_error_suggests_a_similar_name() -> None:
    publish()
    with pytest.raises(app_versions.UnknownApp, match="did you mean 'sieve'"):
        publish(app="seive", create_app=False)
    with pytest.raises(app_versions.UnknownApp, match="is not a name for an app"):
        publish(app="a b")


def test_an_unknown_platform_is_refused_unless_create_platform_is_set() -> None:
    with pytest.raises(app_versions.UnknownPlatform, match="did you mean 'x86_64-pc-linux-gnu'"):
        publish(platform="x86_64-linux-gnu")
    assert not Platform.objects.exists()
    assert publish(platform="mips-irix", create_platform=True).created


def test_an_external_signature_is_used_only_if_made_with_the_project_key() -> None:
    signature = signing.sign(PROGRAM)
    done = publish({"sieve.py": PROGRAM, "sieve.py.sig": signature.encode()})
    row = done.version.files.get()
    assert signing.verify(md5(PROGRAM), row.signature, signing.code_sign_key_text())
    with pytest.raises(app_versions.BadSignature, match=r"beside sieve\.py is not by the project"):
        publish({"sieve.py": b"x", "sieve.py.sig": signature.encode()}, version_num=2)


def test_a_version_number_of_zero_is_refused() -> None:
    with pytest.raises(app_versions.BadPackage, match="version_num is 0"):
        publish(version_num=0)
