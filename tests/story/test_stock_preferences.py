"""A stock client gets the preferences that its owner saved on the web site."""

from __future__ import annotations

import http.cookiejar
import re
import urllib.parse
import urllib.request

import pytest

from tests.story.project import Project
from tests.story.test_stock_replies import ask_until
from tests.story.volunteers import PASSWORD, StockClient

pytestmark = [pytest.mark.stock_client, pytest.mark.lengthy]

COMPUTING = "account/preferences/computing/"
PROJECT = "account/preferences/project/"


class Visitor:
    """A volunteer on the web site, without a browser."""

    def __init__(self, project: Project) -> None:
        self.url = project.url
        cookies = urllib.request.HTTPCookieProcessor(http.cookiejar.CookieJar())
        self.opener = urllib.request.build_opener(cookies)

    def page(self, path: str, sent: dict[str, list[str]] | None = None) -> str:
        body = urllib.parse.urlencode(sent, doseq=True).encode() if sent else None
        request = urllib.request.Request(self.url + path, body, {"Referer": self.url + path})
        with self.opener.open(request, timeout=60) as answer:
            return str(answer.read().decode())

    def fill_in(self, path: str, **changes: str) -> str:
        """Send the form of a page with other values; return the page that follows."""
        form = self.page(path).split("<main")[-1].partition("</form>")[0]
        sent: dict[str, list[str]] = {}
        for tag in re.findall(r"<input[^>]*>", form):
            name, value = (re.search(rf'\b{key}="([^"]*)"', tag) for key in ("name", "value"))
            if name and ("checkbox" not in tag or "checked" in tag):
                sent.setdefault(name[1], []).append(
                    value[1] if value else "on" if "checkbox" in tag else ""
                )
        return self.page(path, {**sent, **{name: [value] for name, value in changes.items()}})


def preferences_of(client: StockClient) -> str:
    path = client.folder / "global_prefs.xml"
    return path.read_text() if path.exists() else ""


def account_file(client: StockClient) -> str:
    [path] = client.folder.glob("account_127*.xml")
    return path.read_text()


def test_client_gets_saved_preferences_and_those_of_its_location(our_project, stock_client):
    project = our_project
    client = stock_client(project, "alice")
    client.attach()
    ask_until(client, lambda: project.count("SELECT count(*) FROM host"), what="known", every=1)
    visitor = Visitor(project)
    visitor.fill_in("account/login/", login="alice@example.org", password=PASSWORD)

    # Computing preferences
    page = visitor.fill_in(COMPUTING, idle_time_to_run="17.5")
    assert "The preferences are saved" in page
    ask_until(
        client,
        lambda: "<idle_time_to_run>17.5</idle_time_to_run>" in preferences_of(client),
        what="it has the preferences",
        every=1,
    )
    # A second change is newer than the first.
    visitor.fill_in(COMPUTING, idle_time_to_run="18.5", suspend_cpu_usage="0")
    ask_until(
        client,
        lambda: "<idle_time_to_run>18.5</idle_time_to_run>" in preferences_of(client),
        what="it has the changed preferences",
        every=1,
    )

    # Project preferences: those of its location replace the general ones.
    page = visitor.fill_in(PROJECT, resource_share="250")
    assert "The preferences are saved" in page
    ask_until(
        client,
        lambda: "<resource_share>250</resource_share>" in account_file(client),
        what="it has the resource share",
        every=1,
    )
    assert re.search(r"resource share: 250\.0", client.command("--get_project_status"))
    visitor.fill_in(f"{PROJECT}?location=school", resource_share="30")
    [host] = project.sql("SELECT id FROM host")
    visitor.fill_in(f"account/computers/{host['id']}/", venue="school")
    ask_until(
        client,
        lambda: "resource share: 30.0" in client.command("--get_project_status"),
        what="it has the resource share of its location",
        every=1,
    )
