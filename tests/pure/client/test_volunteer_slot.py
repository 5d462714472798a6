"""The client puts files into a slot, and keeps files that a program put there."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, cast

import pytest

from volunteer import host
from volunteer.slot import Home, _place
from volunteer.wire.messages import FileRef, HostFacts
from volunteer.wire.requests import host_info

if TYPE_CHECKING:
    from volunteer.records import Project

PROJECT = cast("Project", SimpleNamespace(url="http://example.org/"))


def test_soft_link_file_names_the_target_and_copy_contains_the_file(tmp_path: Path) -> None:
    home = Home(tmp_path)
    home.project(PROJECT.url).mkdir(parents=True)
    home.file(PROJECT.url, "x_1").write_text("content")
    _place(home, PROJECT, tmp_path / "slot", FileRef("x_1", "data/in"), copy=False)
    _place(home, PROJECT, tmp_path / "slot", FileRef("x_1", "copy"), copy=True)
    link = (tmp_path / "slot" / "data" / "in").read_text()
    assert link == "<soft_link>../../projects/example.org/x_1</soft_link>\n"
    assert (tmp_path / "slot" / "copy").read_text() == "content"


def test_file_written_in_place_of_a_link_is_kept(tmp_path: Path) -> None:
    home = Home(tmp_path)
    home.project(PROJECT.url).mkdir(parents=True)
    kept = home.file(PROJECT.url, "x_1")
    kept.write_text("content")
    slot = tmp_path / "slot"
    slot.mkdir()
    (slot / "out").write_text("half of it")
    (slot / "in").symlink_to(kept)
    for name in ("out", "in"):
        _place(home, PROJECT, slot, FileRef("x_1", name), copy=False)
    assert (slot / "out").read_text() == "half of it"
    assert kept.read_text() == "content", "nobody writes through a symbolic link"


@pytest.mark.parametrize(
    ("engines", "found"),
    [
        ({}, ""),
        ({"podman": "echo 4.3.1"}, "4.3.1"),
        ({"podman": "exit 125", "docker": "echo 24.0.5"}, "24.0.5"),
        ({"docker": "echo Cannot connect >&2; exit 1"}, ""),
        ({"docker": "echo '<no value>'"}, ""),
    ],
)
def test_container_support_requires_a_working_engine(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, engines: dict[str, str], found: str
) -> None:
    for name, line in engines.items():
        (tmp_path / name).write_text(f"#!/bin/sh\n{line}\n")
        (tmp_path / name).chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    assert host._container_engine() == found
    said = host_info(HostFacts(host_cpid="", platform="", container_engine=found))
    assert (f"<docker_version>{found}</docker_version>" in said) is bool(found)
