"""Each page of the site has a row in the API guide, with a twin or a reason."""

from __future__ import annotations

import re

import pytest
from django.urls import Resolver404, resolve

from tests.faces.api_schema import PREFIX, schema
from tests.faces.site_pages import pages
from tests.house.tracked import read

#: A row of the table: the pages, their twins, and a remark.
ROW = re.compile(r"^\| (`/[^|]*) \| ([^|]*)\| ([^|]*)\|$", re.MULTILINE)
OPERATION = re.compile(r"`(GET|POST|PUT|PATCH|DELETE) (/[^`]*)`")
COMPATIBLE = re.compile(r"`(\w+\.php)[^`]*`")


def rows() -> dict[str, tuple[str, str]]:
    """Return the twins and the remark of each page in the table."""
    section = read("docs/api.md").partition("\n## Pages and their twins\n")[2].partition("\n## ")[0]
    table = {}
    for names, twins, remark in ROW.findall(section):
        for name in re.findall(r"`([^`]*)`", names):
            assert name not in table, f"{name} has two rows"
            table[name] = (twins.strip(), remark.strip())
    return table


def row_of(path: str) -> str | None:
    """Return the name of a page's row: its path, or the longest beginning of it with `...`."""
    table = rows()
    if path in table:
        return path
    groups = [name for name in table if name.endswith("...") and path.startswith(name[:-3])]
    return max(groups, key=len, default=None)


@pytest.mark.parametrize("path", sorted(pages().values()))
def test_page_has_a_row(path):
    assert row_of(path) is not None, (
        f"docs/api.md has no row for {path}. Hint: add it to “Pages and their twins”."
    )


def test_every_row_is_of_a_page():
    used = {row_of(path) for path in pages().values()}
    assert sorted(rows().keys() - used) == []


@pytest.mark.parametrize("name", sorted(rows()))
def test_row_has_a_twin_or_a_reason(name):
    twins, remark = rows()[name]
    operations, scripts = OPERATION.findall(twins), COMPATIBLE.findall(twins)
    assert operations or scripts or (twins == "none" and remark)
    for method, path in operations:
        described = schema()["paths"].get(PREFIX + path, {})
        assert method.lower() in described, f"{method} {path}"
    for script in scripts:
        try:
            module = resolve(f"/{script}").func.__module__
        except Resolver404:
            module = "none"
        assert module.startswith("scheduler.boinc."), f"{script} is served by {module}"


def test_pages_that_change_credentials_have_no_twin():
    """Decision 38: a stolen token neither takes an account over nor erases it."""
    for name in ("account_change_password", "account_change_email", "account_erase", "mfa_index"):
        row = row_of(pages()[name])
        assert row is not None
        twins, remark = rows()[row]
        assert twins == "none"
        assert "decisions/0038" in remark
