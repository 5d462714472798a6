"""Files have no local paths or foreign package indexes; licenses are complete."""

from __future__ import annotations

import re
from importlib.metadata import distributions

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from tests.house.tracked import ROOT, read, tracked

#: Package indexes and home folders of the machine on which a file was written.
STRANGE = re.compile(
    r"/work/(?:main|shared|notes)|/home/(?!boinc|user|you)\w+/|/root/\w|/opt/pypi"
    r"|--(?:extra-)?index-url|--trusted-host|--find-links|files\.pythonhosted"
)
BINARY = (".png", ".mo")


def texts() -> list[str]:
    here = "tests/house/test_tree.py"
    return [
        name
        for name in tracked()
        if name != here
        and not name.startswith("tests/golden/")
        and not name.endswith(BINARY)
        and (name in {"Makefile", ".ci/run"} or "." in name.rpartition("/")[2])
    ]


@pytest.mark.parametrize("name", texts())
def test_file_contains_no_local_path_or_package_index(name):
    text = read(name)
    assert STRANGE.findall(text) == []


@pytest.mark.parametrize("name", ["requirements.txt", "requirements-dev.txt"])
def test_every_requirement_is_pinned_with_a_hash_and_installed_as_a_wheel(name):
    text = read(name)
    assert text.startswith("--only-binary :all:\n")
    blocks = re.findall(r"^[a-z0-9].*?(?=^[a-z0-9]|\Z)", text, re.MULTILINE | re.DOTALL)
    assert len(blocks) > 10
    for block in blocks:
        first = block.splitlines()[0]
        assert re.match(r"[a-z0-9._-]+(\[[a-z,]+\])?==\S+( ; .+)? \\\n", block), first
        assert "--hash=sha256:" in block, first


def test_pins_name_the_extras_that_other_packages_require():
    # pip before 23.3 takes the newest release for `coverage[toml]` although `coverage` is pinned, and
    # refuses it because it has no hash.
    pinned = read("requirements-dev.txt")
    required = {
        f"{canonicalize_name(requirement.name)}[{extra}]"
        for distribution in distributions()
        for requirement in map(Requirement, distribution.requires or [])
        for extra in requirement.extras
        if requirement.marker is None or requirement.marker.evaluate({"extra": ""})
    }
    assert "coverage[toml]" in required
    assert [name for name in sorted(required) if f"\n{name}==" not in pinned] == []


def test_requirements_and_dev_requirements_pin_the_same_versions():
    def pins(name):
        return dict(re.findall(r"^([a-z0-9._-]+)(?:\[.*\])?==(\S+)", read(name), re.MULTILINE))

    run, dev = pins("requirements.txt"), pins("requirements-dev.txt")
    assert {n: v for n, v in dev.items() if n in run and run[n] != v} == {}


def test_client_dependencies_are_in_the_server_requirements():
    declared = re.search(
        r"^dependencies = \[(.*?)\]", read("client/pyproject.toml"), re.MULTILINE | re.DOTALL
    )
    assert declared
    names = re.findall(r'"([a-z0-9-]+)', declared[1])
    pinned = read("requirements.txt")
    assert [name for name in names if f"\n{name}==" not in pinned] == []


def test_generated_files_are_not_tracked():
    made = ("var/", ".venv/")
    assert [name for name in tracked() if name.startswith(made) or name.endswith(".pyc")] == []


def test_license_file_is_the_complete_apache_license():
    text = (ROOT / "LICENSE").read_text(encoding="utf-8")
    assert "Apache License" in text
    assert "Version 2.0, January 2004" in text
    assert "END OF TERMS AND CONDITIONS" in text
