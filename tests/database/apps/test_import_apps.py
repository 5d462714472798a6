"""`manage.py import_apps` publishes the apps/ folder of a BOINC project."""

from __future__ import annotations

import io
import json
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from django.core.management import CommandError, call_command

from scheduler import signing
from scheduler.models import App, AppVersion, File, PlanClass, Platform
from tests.security.test_offline_signing import offline, sign

__all__ = ["offline"]
pytestmark = pytest.mark.django_db

LINUX = "x86_64-pc-linux-gnu"
WINDOWS = "windows_x86_64"
VERSION = """<version>
  <file><physical_name>primes_1.2_lin</physical_name><main_program/></file>
  <file><physical_name>table.dat</physical_name><copy_file>0</copy_file></file>
  <is_wrapper>1</is_wrapper>
</version>"""
PLANS = """<plan_classes>
  <plan_class>
    <name> mt </name> <min_ncpus>2</min_ncpus> <max_threads> 16 </max_threads>
    <nthreads_cmdline>1</nthreads_cmdline> <projected_flops_scale>.99</projected_flops_scale>
  </plan_class>
  <plan_class>
    <name>cuda</name><gpu_type>nvidia</gpu_type><cuda/><min_gpu_ram_mb>254</min_gpu_ram_mb>
  </plan_class>
  <plan_class><name>odd</name><need_ati_libs/></plan_class>
</plan_classes>"""


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """An apps/ folder with three versions of two apps, next to a file of plan classes."""
    top = tmp_path / "project" / "apps"
    put(top / "primes/1.2" / LINUX / "version.xml", VERSION)
    put(top / "primes/1.2" / LINUX / "primes_1.2_lin", "program", executable=True)
    put(top / "primes/1.2" / LINUX / "table.dat", "table")
    put(top / "primes/1.2" / LINUX / "notes.txt", "not listed in version.xml")
    put(top / "primes/1.03" / f"{LINUX}__mt" / "primes_1.03_mt", "threads", executable=True)
    put(top / "upper/2.00" / WINDOWS / "upper.exe", "windows", executable=True)
    put(top.parent / "plan_class_spec.xml", PLANS)
    return top


def put(path: Path, text: str, *, executable: bool = False) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    if executable:
        path.chmod(0o755)


def run(*words: object, refused: bool = False) -> str:
    out = io.StringIO()
    ending = pytest.raises(CommandError) if refused else nullcontext()
    with ending as caught:
        call_command("import_apps", *map(str, words), stdout=out, stderr=out)
    return out.getvalue() + (str(caught.value) if caught else "")


def facts(*words: object, refused: bool = False) -> dict[str, Any]:
    text = run(*words, "--json", refused=refused)
    return dict(json.loads(text[text.index("{") : text.rindex("}") + 1]))


def without_odd(tree: Path) -> Path:
    path = tree.parent / "plan_class_spec.xml"
    lines = path.read_text().splitlines(keepends=True)
    path.write_text("".join(line for line in lines if "odd" not in line))
    return tree


def test_an_apps_folder_is_published_with_its_plan_classes(tree: Path) -> None:
    output = run(without_odd(tree), "--create-app")
    assert f"primes/1.2/{LINUX}: published.\n" in output
    assert f"primes/1.03/{LINUX}__mt: published.\n" in output
    assert "3 versions: 3 published, 0 published before, 0 refused." in output
    names = {
        (v.app.name, v.version_num, v.platform.name, v.plan_class) for v in AppVersion.objects.all()
    }
    assert names == {
        ("primes", 102, LINUX, ""),
        ("primes", 103, LINUX, "mt"),
        ("upper", 200, WINDOWS, ""),
    }
    assert PlanClass.objects.get(name="mt").spec == {
        "min_ncpus": 2,
        "max_threads": 16,
        "nthreads_cmdline": True,
        "projected_flops_scale": 0.99,
    }
    assert PlanClass.objects.get(name="cuda").spec["cuda"] is True


def test_version_xml_is_applied_and_unlisted_files_belong_to_the_version(tree: Path) -> None:
    run(without_odd(tree), "--create-app")
    version = AppVersion.objects.get(version_num=102)
    assert version.is_wrapper
    rows = version.files.order_by("position")
    assert [(r.open_name, r.main_program, r.copy_file) for r in rows] == [
        ("", True, False),
        ("table.dat", False, False),
        ("notes.txt", False, False),
    ]


def test_importing_the_same_folder_twice_changes_nothing(tree: Path) -> None:
    run(without_odd(tree), "--create-app")
    files = File.objects.count()
    assert "3 versions: 0 published, 3 published before, 0 refused." in run(tree)
    assert File.objects.count() == files


def test_a_dry_run_reports_what_would_be_published_and_writes_nothing(tree: Path) -> None:
    output = run(tree, "--create-app", "--dry-run", refused=True)
    assert f"primes/1.03/{LINUX}__mt: would be published." in output
    assert "plan class mt: would be written." in output
    assert "3 versions: 3 would be published, 0 published before, 0 refused." in output
    for table in (App, AppVersion, File, PlanClass, Platform):
        assert not table.objects.exists()


def test_each_refused_version_is_reported_and_the_other_versions_are_published(tree: Path) -> None:
    put(tree / "upper/x.y" / LINUX / "a", "no number")
    put(tree / "upper/1.01" / LINUX / "a", "two files")
    put(tree / "upper/1.01" / LINUX / "b", "without a description")
    put(tree / "upper/1.02" / "x86_65-linux" / "a", "unknown platform")
    put(tree / "upper/1.03" / f"{LINUX}__nowhere" / "a", "undefined plan class")
    put(tree / "README", "not a folder")
    report = facts(tree, "--create-app", refused=True)
    reasons = {one["name"]: one["reason"] for one in report["versions"] if one["reason"]}
    assert "'x.y' is not a version" in reasons[f"upper/x.y/{LINUX}"]
    assert "has 2 files and no version.xml" in reasons[f"upper/1.01/{LINUX}"]
    assert "have no platform 'x86_65-linux'" in reasons["upper/1.02/x86_65-linux"]
    assert "'nowhere' is not defined" in reasons[f"upper/1.03/{LINUX}__nowhere"]
    assert len(reasons) == 4
    [odd] = [one for one in report["plan_classes"] if one["state"] == "refused"]
    assert odd["reason"].startswith("Unknown key need_ati_libs. Hint: ")
    assert report["warnings"] == ["README is not the folder of a version, and was skipped."]
    assert AppVersion.objects.count() == 3


def test_changed_files_under_an_existing_version_are_refused(tree: Path) -> None:
    run(without_odd(tree), "--create-app")
    put(tree / "upper/2.00" / WINDOWS / "upper.exe", "changed", executable=True)
    for options in ([], ["--dry-run"]):
        output = run(tree, *options, refused=True)
        assert f"upper/2.00/{WINDOWS}: refused. upper 2.00" in output
        assert "exists with other files" in output


def test_apps_are_created_only_on_request(tree: Path) -> None:
    output = run(tree, refused=True)
    assert "There is no app 'primes'. Hint: create it by --create-app" in output
    assert not App.objects.exists()


def test_an_app_whose_versions_are_all_refused_is_not_created(tree: Path) -> None:
    put(tree / "broken/1.00" / LINUX / "a", "1")
    put(tree / "broken/1.00" / LINUX / "b", "2")
    run(tree, "--create-app", refused=True)
    assert not App.objects.filter(name="broken").exists()


@pytest.mark.parametrize(
    ("path", "words"), [("none", "There is no folder"), ("empty", "has no folder APP/VERSION")]
)
def test_a_missing_or_empty_folder_is_refused(tmp_path: Path, path: str, words: str) -> None:
    (tmp_path / "empty").mkdir()
    assert words in run(tmp_path / path, refused=True)


def test_damaged_plan_classes_are_refused_before_anything_is_published(tree: Path) -> None:
    put(tree / "plan_class_spec.xml", "<plan_classes><plan_class>")
    assert "The file of plan classes cannot be read" in run(tree, "--create-app", refused=True)
    assert not AppVersion.objects.exists()


# Signatures made on another machine


def test_an_offline_project_publishes_nothing_without_signatures(offline: Path, tree: Path) -> None:
    for options in ([], ["--dry-run"]):
        output = run(without_odd(tree), "--create-app", *options, refused=True)
        assert output.count("No signature was given for") == 3
    assert not AppVersion.objects.exists()
    assert not App.objects.exists()


def test_an_apps_folder_is_prepared_signed_offline_and_published(
    offline: Path, tree: Path, tmp_path: Path
) -> None:
    folder = tmp_path / "to sign"
    output = run(without_odd(tree), "--create-app", "--prepare", folder)
    assert "Wrote 5 files" in output
    assert (folder / "primes/1.2" / LINUX / "table.dat").read_text() == "table"
    assert not App.objects.exists()
    sign(offline, folder)
    output = run(tree, "--create-app", "--signatures", folder)
    assert "3 versions: 3 published" in output
    key = signing.code_sign_key_text()
    for version in AppVersion.objects.all():
        for row in version.files.select_related("file"):
            assert signing.verify(row.file.md5, row.signature, key)


def test_signatures_beside_the_files_are_used(offline: Path, tree: Path, tmp_path: Path) -> None:
    folder = tmp_path / "to sign"
    run(without_odd(tree), "--create-app", "--prepare", folder)
    sign(offline, folder)
    for path in folder.rglob("*.sig"):
        (tree / path.relative_to(folder)).write_text(path.read_text())
    assert "3 versions: 3 published" in run(tree, "--create-app")


def test_a_signature_by_another_key_is_refused(
    settings: Any, offline: Path, tree: Path, tmp_path: Path
) -> None:
    program = tree / "upper/2.00" / WINDOWS / "upper.exe"
    put(program.with_name("upper.exe.sig"), "0" * 256 + "\n.\n")
    settings.PROJECT = replace(settings.PROJECT, online_signing=True)
    output = run(without_odd(tree), "--create-app", "--dry-run", refused=True)
    assert "The signature beside upper.exe is not by the project's key" in output
