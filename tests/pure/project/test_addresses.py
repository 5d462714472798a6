"""The settings follow a recorded change of the project's address."""

from __future__ import annotations

import json
import os
import runpy

import pytest

from project.env import BadSetting
from project.upkeep import addresses
from tests.house.tracked import ROOT

OLD, NEW = "http://old.example/x/", "https://new.example/"


@pytest.fixture
def read(monkeypatch, tmp_path):
    """Return a function that runs the settings module with this MASTER_URL and these addresses."""
    umask = os.umask(0o777)
    os.umask(umask)
    for name in ("ALLOWED_HOSTS", "ONLINE_SIGNING", "POOL_WAIT_URL"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("VAR_DIR", str(tmp_path))
    monkeypatch.setenv("SECRET_KEY", "secret")
    monkeypatch.setenv("DATABASE_URL", "postgresql://ada@db.example/manyhands")

    def run(master_url, *recorded):
        monkeypatch.setenv("MASTER_URL", master_url)
        (tmp_path / "addresses.json").write_text(json.dumps({"addresses": recorded}))
        return runpy.run_path(str(ROOT / "project" / "settings.py"))

    yield run
    os.umask(umask)


@pytest.mark.parametrize("configured", [OLD, NEW])
def test_master_url_may_be_the_old_or_the_new_address(read, configured):
    settings = read(configured, NEW, OLD)
    assert settings["PROJECT"].master_url == NEW
    assert settings["PROJECT"].former_urls == (OLD,)
    assert settings["PROJECT"].online_signing is False, "the new address is public"


def test_the_web_server_answers_under_both_names(read):
    settings = read(OLD, NEW, OLD)
    assert settings["ALLOWED_HOSTS"][:2] == ["new.example", "old.example"]
    assert {"https://new.example", "http://old.example"} <= set(settings["CSRF_TRUSTED_ORIGINS"])


def test_an_unrecorded_master_url_makes_all_recorded_addresses_former(read):
    project = read("https://newest.example/", NEW, OLD)["PROJECT"]
    assert project.master_url == "https://newest.example/"
    assert project.former_urls == (NEW, OLD)


@pytest.mark.parametrize(
    "text", ["", "{", "[]", '{"addresses": 1}', '{"addresses": ["x"]}', '{"addresses": [1]}']
)
def test_a_damaged_list_of_addresses_is_an_error(tmp_path, text):
    (tmp_path / "addresses.json").write_text(text)
    with pytest.raises(BadSetting, match=r"addresses\.json"):
        addresses.recorded(tmp_path)
