"""The pictures of docs/screenshots are complete, small, and shown with a text."""

from __future__ import annotations

import re
import struct
import zlib
from dataclasses import replace

import pytest

from demo.pictures import album, camera
from demo.pictures.stage import PicturesError
from tests.house.tracked import ROOT, read, tracked

IMAGE = re.compile(r"!\[([^\]]*)\]\(([^)\s]+)\)")
SHOWN_ON_README = 3
PICTURE = album.Picture("front", "/")


def images():
    """Return the page, the text and the file of each image in a Markdown page."""
    return [
        (name, text, ((ROOT / name).parent / link).resolve())
        for name in tracked()
        if name.endswith(".md")
        for text, link in IMAGE.findall(read(name))
        if not link.startswith(("http://", "https://"))
    ]


def png(width):
    """Return the beginning of a PNG of this width."""
    header = b"IHDR" + struct.pack(">IIBBBBB", width, 1, 8, 2, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + struct.pack(">I", 13) + header + zlib.crc32(header).to_bytes(4)


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.setattr(album, "FOLDER", tmp_path)
    return tmp_path


@pytest.mark.parametrize("picture", album.PICTURES, ids=lambda picture: picture.name)
def test_picture_is_a_small_png_of_its_width(picture):
    assert album.faults(picture) == [], "Hint: make screenshots"


def test_every_file_of_the_folder_is_in_the_list_of_pictures():
    listed = {picture.file for picture in album.PICTURES}
    assert len(listed) == len(album.PICTURES)
    assert set(album.FOLDER.iterdir()) == listed


def test_every_image_on_a_page_exists_and_has_a_text():
    shown = images()
    assert shown
    assert [(page, str(path)) for page, _, path in shown if not path.is_file()] == []
    assert [(page, str(path)) for page, text, path in shown if len(text.split()) < 4] == []


def test_every_picture_is_shown_on_a_page():
    assert {picture.file for picture in album.PICTURES} - {path for _, _, path in images()} == set()


def test_readme_shows_three_pictures():
    assert sum(page == "README.md" for page, _, _ in images()) == SHOWN_ON_README


def test_missing_picture_is_a_fault(folder):
    assert album.faults(PICTURE) == ["front.png is missing."]


def test_file_of_another_type_is_a_fault(folder):
    PICTURE.file.write_bytes(b"GIF89a" + bytes(100))
    assert album.faults(PICTURE) == ["front.png is not a PNG."]


def test_other_width_is_a_fault(folder):
    PICTURE.file.write_bytes(png(390))
    assert album.faults(PICTURE) == ["front.png is 390 pixels wide, not 1280."]
    assert album.faults(replace(PICTURE, width=390)) == []


def test_large_file_is_a_fault(folder):
    PICTURE.file.write_bytes(png(1280).ljust(album.MAX_BYTES, b"\0"))
    assert album.faults(PICTURE) == []
    PICTURE.file.write_bytes(png(1280).ljust(album.MAX_BYTES + 1, b"\0"))
    assert album.faults(PICTURE) == ["front.png has 150,001 bytes, more than 150,000."]


def test_missing_chromium_is_reported_with_its_package(tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(PicturesError, match=r"Hint: apt install chromium\."):
        camera.find_chromium()
