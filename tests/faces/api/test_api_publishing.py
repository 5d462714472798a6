"""Versions of apps of every kind, published over the API."""

from __future__ import annotations

import hashlib
import io
import tarfile
import zipfile

import pytest
from django.core.files.uploadedfile import SimpleUploadedFile
from django.test import Client
from django.utils import timezone

from scheduler import signing, storage
from scheduler.apps import apps
from scheduler.apps.rules.packaging import UNIX_PLATFORMS
from scheduler.models import App, AppVersion, PlanClass
from scheduler.people import api_tokens, submitters
from tests.rows import an_account

pytestmark = pytest.mark.django_db

RUN = b'#!/bin/sh\necho "$@"\n'
LINUX = "x86_64-pc-linux-gnu"
IMAGE = "docker.io/library/alpine@sha256:" + "0a" * 32


def speaks(account) -> Client:
    _, text = api_tokens.create(
        account=account,
        name="t",
        scopes=api_tokens.default_scopes(account),
        now=timezone.now(),
    )
    return Client(headers={"Authorization": f"Bearer {text}"})


@pytest.fixture
def staff() -> Client:
    return speaks(an_account(is_superuser=True))


def an_app(kind: str = "script", **facts) -> App:
    return apps.create(name="wave", kind=kind, now=timezone.now(), **facts)


def send(client: Client, *files: tuple[str, bytes], **fields):
    sent = [SimpleUploadedFile(name, content) for name, content in files]
    said = {"version": "1.00"} | ({"file": sent} if sent else {}) | fields
    return client.post("/api/v1/apps/wave/versions", said)


def packed(files: dict[str, bytes], kind: str = "gz", mode: int = 0o644) -> bytes:
    target = io.BytesIO()
    if kind == "zip":
        with zipfile.ZipFile(target, "w") as archive:
            for name, content in files.items():
                archive.writestr(name, content)
    else:
        with tarfile.open(fileobj=target, mode=f"w:{kind}") as archive:
            for name, content in files.items():
                info = tarfile.TarInfo(name)
                info.size, info.mode, info.uname, info.mtime = len(content), mode, "ada", 1e9
                archive.addfile(info, io.BytesIO(content))
    return target.getvalue()


def unpacked(version: AppVersion) -> dict[str, tuple[bytes, int]]:
    row = version.files.get(open_name=storage.ARCHIVE_NAME)
    with tarfile.open(storage.download_path(row.file.name)) as archive:
        return {
            member.name: (archive.extractfile(member).read(), member.mode)  # type: ignore[union-attr]
            for member in archive
        }


def test_script_is_published_as_a_signed_version_for_every_unix_platform(staff) -> None:
    an_app()
    answer = send(staff, ("run.sh", RUN))
    assert answer.status_code == 201, answer.content
    reply = answer.json()
    assert [one["platform"] for one in reply] == list(UNIX_PLATFORMS)
    assert reply[0]["version"] == "1.00"
    assert [file["main_program"] for file in reply[0]["files"]] == [True, False]
    version = AppVersion.objects.get(pk=reply[0]["id"])
    assert unpacked(version) == {"run.sh": (RUN, 0o755)}
    for row in version.files.all():
        content = storage.download_path(row.file.name).read_bytes()
        md5 = hashlib.md5(content, usedforsecurity=False).hexdigest()
        assert signing.verify(md5, row.signature, signing.code_sign_key_text())
    main = version.files.get(main_program=True)
    assert main.executable
    assert storage.download_path(main.file.name).read_bytes().startswith(b"#!/bin/sh\n")


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("p.tar", ""),
        ("p.tar.gz", "gz"),
        ("p.tgz", "gz"),
        ("p.tar.bz", "bz2"),
        ("p.tar.bz2", "bz2"),
        ("p.tar.xz", "xz"),
        ("p.zip", "zip"),
    ],
)
def test_same_files_in_any_archive_format_are_the_same_version(staff, name, kind) -> None:
    an_app()
    files = {"run.sh": RUN, "lib/table": b"17\n", "lib/tool": b"#!/bin/sh\n"}
    assert send(staff, ("plain.tar.gz", packed(files))).status_code == 201
    answer = send(staff, (name, packed(dict(reversed(files.items())), kind)))
    assert answer.status_code == 200, answer.content
    found = unpacked(AppVersion.objects.first())
    assert found["lib/tool"][1] == found["run.sh"][1] == 0o755
    assert found["lib/table"] == (b"17\n", 0o644)


def test_other_files_for_an_existing_version_are_refused_with_a_free_number(staff) -> None:
    an_app()
    assert send(staff, ("run.sh", RUN)).status_code == 201
    assert send(staff, ("run.sh", RUN), version="1.05").status_code == 201
    answer = send(staff, ("run.sh", RUN + b"#"))
    assert (answer.status_code, answer.json()["code"]) == (409, "version_exists")
    assert "set version_num to 106" in answer.json()["hint"]
    assert AppVersion.objects.count() == 2 * len(UNIX_PLATFORMS)


def test_version_is_added_for_all_given_platforms_or_for_none(staff) -> None:
    an_app()
    assert send(staff, ("run.sh", RUN), platforms=[LINUX]).status_code == 201
    answer = send(staff, ("run.sh", RUN), platforms=[LINUX, "riscv64-unknown-linux-gnu"])
    assert answer.status_code == 201
    answer = send(staff, ("run.sh", RUN), platforms=["i686-pc-linux-gnu", "i686-linux"])
    assert (answer.status_code, answer.json()["code"]) == (422, "unknown_platform")
    assert "did you mean 'i686-pc-linux-gnu'" in answer.json()["hint"]
    assert AppVersion.objects.count() == 2


@pytest.mark.usefixtures("command_apps")
def test_command_app_version_contains_only_the_launcher(staff) -> None:
    an_app("command")
    answer = send(staff, platforms=[LINUX])
    assert answer.status_code == 201, answer.content
    assert len(answer.json()[0]["files"]) == 1
    assert send(staff, platforms=[LINUX]).status_code == 200
    answer = send(staff, ("run.sh", RUN), version="2.00")
    assert answer.status_code == 422
    assert "whose versions have no files" in answer.json()["detail"]


def test_undefined_plan_class_is_refused(staff) -> None:
    an_app()
    answer = send(staff, ("run.sh", RUN), platforms=[LINUX], plan_class="mt")
    assert answer.status_code == 422, answer.content
    assert "Plan class 'mt' is not defined" in answer.json()["detail"]
    assert "manage.py plan_class set mt FILE" in answer.json()["hint"]
    assert not AppVersion.objects.exists()
    PlanClass.objects.create(name="mt", spec={}, created_at=timezone.now())
    answer = send(staff, ("run.sh", RUN), platforms=[LINUX], plan_class="mt")
    assert answer.status_code == 201, answer.content


def test_container_version_uses_the_image_digest_and_the_docker_plan_class(staff) -> None:
    an_app("container")
    answer = send(staff, image=IMAGE, platforms=[LINUX])
    assert answer.status_code == 201, answer.content
    [said] = answer.json()
    assert (said["image"], said["plan_class"]) == (IMAGE, "docker")
    assert PlanClass.objects.get(name="docker").spec == {"docker": True}
    main = AppVersion.objects.get().files.get()
    assert f"image='{IMAGE}'".encode() in storage.download_path(main.file.name).read_bytes()
    assert send(staff, image=IMAGE, platforms=[LINUX]).status_code == 200
    other = IMAGE.replace("0a", "0b")
    assert send(staff, image=other, platforms=[LINUX]).status_code == 409


@pytest.mark.parametrize(
    ("image", "words"),
    [
        ("alpine", "by a tag"),
        ("docker.io/library/alpine:3.20", "by a tag"),
        ("alpine@sha256:0a", "is not an image"),
        ("alpine:3.20@sha256:" + "0a" * 32, "is not an image"),
        ("a'; rm -rf $HOME; '@sha256:" + "0a" * 32, "is not an image"),
        ("$(id)@sha256:" + "0a" * 32, "is not an image"),
        (None, "No image is named"),
    ],
)
def test_missing_tagged_or_malformed_image_is_refused(staff, image, words) -> None:
    an_app("container")
    answer = send(staff, **({} if image is None else {"image": image}))
    assert answer.status_code == 422
    assert words in answer.json()["detail"]
    assert answer.json()["hint"]


def test_native_app_accepts_several_files_and_requires_a_platform(staff) -> None:
    an_app("native")
    answer = send(staff, ("wave", b"\x7fELF..."), platforms=[LINUX])
    assert answer.status_code == 201, answer.content
    files = (("wave", b"\x7fELF..."), ("table", b"1"))
    answer = send(staff, *files, platforms=[LINUX], version="2", main_program="wave")
    assert answer.status_code == 201, answer.content
    assert [file["open_name"] for file in answer.json()[0]["files"]] == ["", "table"]
    answer = send(staff, ("wave", b"\x7fELF..."), version="3")
    assert "no platform is given" in answer.json()["detail"]


LINKS = [
    (tarfile.SYMTYPE, "/etc/passwd"),
    (tarfile.SYMTYPE, "../../etc/passwd"),
    (tarfile.SYMTYPE, "nothing"),
    (tarfile.SYMTYPE, "link"),
    (tarfile.LNKTYPE, "/etc/passwd"),
    (tarfile.CHRTYPE, ""),
    (tarfile.FIFOTYPE, ""),
]


@pytest.mark.parametrize(("kind", "target"), LINKS)
def test_archive_with_devices_or_links_to_outside_is_refused(staff, kind, target) -> None:
    an_app()
    content = io.BytesIO()
    with tarfile.open(fileobj=content, mode="w") as archive:
        member = tarfile.TarInfo("run.sh")
        member.size = len(RUN)
        archive.addfile(member, io.BytesIO(RUN))
        link = tarfile.TarInfo("link")
        link.type, link.linkname = kind, target
        archive.addfile(link)
    answer = send(staff, ("p.tar", content.getvalue()))
    assert answer.status_code == 422
    assert answer.json()["detail"] == "link in p.tar is a link or a device."


def test_links_inside_an_archive_are_replaced_by_copies(staff) -> None:
    an_app()
    content = io.BytesIO()
    with tarfile.open(fileobj=content, mode="w") as archive:
        for name, target, kind in (
            ("lib/short.so", "long.so", tarfile.SYMTYPE),
            ("other.so", "lib/short.so", tarfile.LNKTYPE),
        ):
            link = tarfile.TarInfo(name)
            link.type, link.linkname = kind, target
            archive.addfile(link)
        for name, text in (("run.sh", RUN), ("lib/long.so", b"so")):
            member = tarfile.TarInfo(name)
            member.size = len(text)
            archive.addfile(member, io.BytesIO(text))
    assert send(staff, ("p.tar", content.getvalue())).status_code == 201
    found = unpacked(AppVersion.objects.first())
    assert [found[name][0] for name in ("lib/long.so", "lib/short.so", "other.so")] == [b"so"] * 3


@pytest.mark.parametrize("kind", ["gz", "zip"])
@pytest.mark.parametrize(
    "name",
    [
        "../x",
        "/etc/x",
        "a/../../x",
        "a\\b",
        "C:x",
        "a\nb",
        "%2e%2e/x",
        "nul",
        "lib/COM1.txt",
        "a//b",
    ],
)
def test_archive_member_outside_its_folder_is_refused(staff, name, kind) -> None:
    an_app()
    answer = send(staff, ("p", packed({"run.sh": RUN, name: b"1"}, kind)))
    assert answer.status_code == 422
    assert "is not a name for a file of an app version" in answer.json()["detail"]
    assert not AppVersion.objects.exists()


@pytest.mark.parametrize(
    ("files", "words", "hint"),
    [
        (
            {"wave/run.sh": RUN},
            "has wave/run.sh, but no run.sh at its top",
            "the contents of wave/",
        ),
        ({"main.py": RUN}, "has no run.sh at its top", "the archive has main.py"),
        ({"run.sh": b"#!/bin/sh\r\nls\r\n"}, "has Windows line ends", "Unix line ends"),
    ],
)
def test_archive_without_a_runnable_run_sh_at_its_top_is_refused(staff, files, words, hint) -> None:
    an_app()
    answer = send(staff, ("p.tar.gz", packed(files)))
    assert answer.status_code == 422
    assert words in answer.json()["detail"]
    assert hint in answer.json()["hint"]


@pytest.mark.parametrize(
    ("name", "content", "words"),
    [
        ("table.csv", b"1,2\n", "neither a script nor an archive"),
        ("p.tar.gz", packed({"run.sh": RUN * 1000})[:80], "is damaged"),
        ("p.zip", packed({"run.sh": RUN}, "zip").replace(RUN, RUN[::-1]), "is damaged"),
    ],
    ids=["a table", "half an archive", "another content"],
)
def test_file_that_is_not_a_script_or_an_intact_archive_is_refused(
    staff, name, content, words
) -> None:
    an_app()
    answer = send(staff, (name, content))
    assert answer.status_code == 422, answer.content
    assert words in answer.json()["detail"]


def test_invalid_publishing_form_is_refused(staff) -> None:
    an_app()
    assert send(staff, ("run.sh", RUN), version="one").status_code == 422
    assert send(staff, ("run.sh", RUN), version="0").status_code == 422
    answer = send(staff, ("run.sh", RUN), platform=LINUX)
    assert answer.status_code == 400
    assert "do you mean 'platforms'" in answer.json()["errors"][0]["hint"]
    answer = staff.post("/api/v1/apps/wave/versions", {"version": 1}, "application/json")
    assert answer.status_code == 415
    assert send(staff).json()["detail"].startswith("App wave is of kind script, and no file is")
    answer = staff.post(
        "/api/v1/apps/wave/versions",
        b"",
        "multipart/form-data; boundary=x",
        CONTENT_LENGTH="9" * 10,
    )
    assert answer.status_code == 413
    assert staff.post("/api/v1/apps/none/versions", {"version": "1"}).status_code == 404


def test_only_managers_of_an_app_can_publish_for_it() -> None:
    app = an_app()
    ada, bob = an_account(), an_account()
    submitters.allow(ada, apps=[app], may_manage=True, now=timezone.now())
    submitters.allow(bob, apps=[app], now=timezone.now())
    assert send(speaks(bob), ("run.sh", RUN)).status_code == 403
    assert send(speaks(ada), ("run.sh", RUN)).status_code == 201
    assert send(Client(), ("run.sh", RUN)).status_code == 401


def test_publishing_for_six_platforms_takes_at_most_85_statements(
    staff, django_assert_max_num_queries
) -> None:
    an_app()
    with django_assert_max_num_queries(85):
        send(staff, ("run.sh", RUN))


def test_version_is_published_for_a_share_of_the_hosts(staff):
    an_app()
    answer = send(staff, ("run.sh", RUN), rollout_percent="5")
    assert answer.status_code == 201
    assert {each["rollout_percent"] for each in answer.json()} == {5}
    version = AppVersion.objects.first()
    shown = staff.get(f"/api/v1/app-versions/{version.pk}").json()
    assert (shown["rollout_percent"], shown["max_error_percent"]) == (5, None)
    assert (shown["min_rollback_results"], shown["rolled_back_at"]) == (50, None)


def test_version_is_published_with_an_automatic_roll_back(staff):
    an_app()
    fields = {"max_error_percent": "8", "min_rollback_results": "30"}
    answer = send(staff, ("run.sh", RUN), rollout_percent="5", **fields)
    assert answer.status_code == 201
    for each in answer.json():
        assert (each["max_error_percent"], each["min_rollback_results"]) == (8, 30)


@pytest.mark.parametrize(
    "field",
    [
        {"max_error_percent": "100"},
        {"max_error_percent": "-1"},
        {"min_rollback_results": "0"},
        {"min_rollback_results": "1000001"},
    ],
)
def test_roll_back_out_of_range_is_refused(staff, field):
    an_app()
    assert send(staff, ("run.sh", RUN), **field).status_code == 400
    assert not AppVersion.objects.exists()


@pytest.mark.parametrize("percent", ["-1", "101", "x"])
def test_share_of_the_hosts_out_of_range_is_refused(staff, percent):
    an_app()
    assert send(staff, ("run.sh", RUN), rollout_percent=percent).status_code == 400
    assert not AppVersion.objects.exists()
