"""Two outputs whose names the file system takes for one file are a conflict."""

from __future__ import annotations

from pathlib import Path

from scientist.models import BatchInfo, ManifestEntry, Output
from scientist.placing import Layout, Store


def test_output_names_that_collide_on_the_file_system_are_a_conflict(tmp_path: Path) -> None:
    store = Store(Layout(tmp_path / "out"), "http://p/", BatchInfo(id=1))
    incoming = store._incoming / "w"
    incoming.mkdir(parents=True)
    (incoming / "Out").write_text("the second, over the first")
    # Simulates a file system that takes both names for the same file.
    (incoming / "out").hardlink_to(incoming / "Out")
    entry = ManifestEntry(
        name="w", status="done", outputs=(Output(open_name="Out"), Output(open_name="out"))
    )
    assert not store.place(entry)
    assert store.conflicts == {"w": tmp_path / "out" / "w" / "Out"}
    assert not (tmp_path / "out" / "w").exists()
    assert "w" not in store.statuses
