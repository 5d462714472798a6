"""Clients without S3 support download inputs and programs from an S3 store."""

from __future__ import annotations

import pytest

from tests import store
from tests.story.project import APP
from tests.story.test_stock_replies import ask_until

pytestmark = pytest.mark.stock_client


def test_clients_download_from_the_s3_store_and_finished_inputs_are_deleted_there(
    make_project, stock_client, our_client, monkeypatch
):
    for name, value in store.KEYS.items():
        monkeypatch.setenv(name, value)
    with store.a_server_process() as endpoint:
        bucket = store.a_bucket(endpoint)
        address = f"s3://{bucket.bucket}/ours?endpoint={endpoint}"
        project = make_project(STORAGE_URL=address, PURGE_AFTER="3600")
        project.start()
        project.publish()
        stock, ours = stock_client(project, "alice"), our_client(project, "bob")
        stock.attach()
        ours.start()

        [name] = project.submit({"a": "13\n17\n"}, quorum=2)
        assert len(store.keys_in(bucket)) == 2, "the program and its input"
        [row] = project.sql("SELECT name FROM file WHERE name NOT LIKE 'mersenne%%'")

        over = "SELECT count(*) FROM workunit WHERE assimilate_state = 2"
        ask_until(stock, lambda: project.count(over), what="it is computed", within=90)
        answer = project.folder / "var" / "results" / APP / name / "out"
        assert answer.read_text().startswith("13 prime")
        assert f"Finished download of {row['name']}" in stock.messages()
        gone = "SELECT count(*) = 1 FROM file"
        project.wait(lambda: project.count(gone), within=30, what="the input is deleted")
        assert ["mersenne" in key for key in store.keys_in(bucket)] == [True]
        folder = project.folder / "var" / "download"
        assert not [path for path in folder.rglob("*") if path.is_file()]
        assert "0 violations" in project.fsck()
