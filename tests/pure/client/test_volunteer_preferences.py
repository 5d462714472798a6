"""Computing preferences that a project sends to our client."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from tests.pure.client.test_volunteer_state import NOON, RULES, URL, Client, a_reply
from volunteer import events
from volunteer.agent import Agent, Tools
from volunteer.config import DAY, Rules
from volunteer.display import Lines
from volunteer.host import on_batteries
from volunteer.journal import Journal
from volunteer.records import Project
from volunteer.slot import Home
from volunteer.state import advance
from volunteer.transport import HttpTransport, Response
from volunteer.wire.messages import Account, HostFacts
from volunteer.wire.replies import decode_reply
from volunteer.wire.xml import Element, parse

if TYPE_CHECKING:
    from pathlib import Path

    from volunteer.transport import Body

OTHER = "http://other.example/"
DAY_OF_TEST = 1_700_000_000
PREFERENCES = f"""<mod_time>{DAY_OF_TEST}</mod_time>
<run_on_batteries>0</run_on_batteries>
<max_ncpus_pct>50</max_ncpus_pct>
<work_buf_min_days>0.5</work_buf_min_days>
<work_buf_additional_days>0.25</work_buf_additional_days>
<start_hour>8</start_hour><end_hour>18</end_hour>
<day_prefs><day_of_week>6</day_of_week><start_hour>22</start_hour><end_hour>4</end_hour></day_prefs>
<disk_max_used_gb>7</disk_max_used_gb>
<disk_interval>300</disk_interval>
"""


def sends(client: Client, text: str, *, url: str = URL, venue: str = "", email: str = "") -> str:
    """Let a project send preferences; return the lines that the client prints."""
    body = (
        f"<scheduler_reply>\n<host_venue>{venue}</host_venue>\n<email_hash>{email}</email_hash>\n"
        f"<project_name>Example</project_name>\n"
        f"<global_preferences>\n{text}\n</global_preferences>\n</scheduler_reply>\n"
    )
    event = events.ReplyReceived(client.now, 1.0, project=url, reply=decode_reply(body.encode()))
    client.state, commands = advance(client.state, event, client.rules)
    return "\n".join(each.text for each in commands if isinstance(each, events.Print))


class Recorder(HttpTransport):
    """A transport that records requests and does not answer."""

    bodies: list[bytes]

    def post(self, url: str, body: Body, *, has_credentials: bool = False) -> Response:
        del url, has_credentials
        self.bodies.append(b"".join(body.chunks()))
        return Response(503, b"")


def agent_of(client: Client, folder: Path) -> Agent:
    transport = Recorder("p")
    transport.bodies = []
    host = HostFacts("cpid", "p", ncpus=client.rules.slots)
    return Agent(Tools(Home(folder), host, client.rules, transport, Lines()), client.state)


def request_of(client: Client, folder: Path, url: str = URL) -> Element:
    """Return the request that the client would send."""
    agent = agent_of(client, folder)
    agent._network_work(events.Ask(url, ("http://s/",), 0, 1.0, 1.0, 0.0))()
    assert isinstance(agent.transport, Recorder)
    return parse(agent.transport.bodies[0].decode(), "scheduler_request")


def working(client: Client, folder: Path) -> Element:
    part = request_of(client, folder).first("working_global_preferences")
    assert part is not None
    [raw] = part.every("global_preferences")
    return parse(f"<p>{raw.text}</p>", "p")


def test_newest_preferences_are_stored_with_their_project(
    tmp_path: Path,
) -> None:
    client = Client()
    client.state = client.state.with_project(Project(OTHER, "key", hostid=8))
    assert "new computing preferences" in sends(client, PREFERENCES)
    assert sends(client, PREFERENCES) == ""
    older = PREFERENCES.replace(str(DAY_OF_TEST), "1600000000").replace("50", "25")
    assert sends(client, older, url=OTHER) == ""
    Journal(tmp_path).save(client.state)
    state = Journal(tmp_path).load()
    assert state is not None
    assert state.received_preferences.source == URL
    assert state.received_preferences.mod_time == DAY_OF_TEST
    assert "<max_ncpus_pct>50</max_ncpus_pct>" in state.received_preferences.text
    newer = PREFERENCES.replace(str(DAY_OF_TEST), str(DAY_OF_TEST + 1))
    sends(client, newer, url=OTHER)
    assert client.state.received_preferences.source == OTHER


def test_preferences_set_the_processors_and_the_buffer() -> None:
    client = Client(Rules(slots=4, buffer_seconds=100.0))
    client.with_running("a")
    sends(client, "<mod_time>1</mod_time><run_on_batteries/><max_ncpus_pct>50</max_ncpus_pct>")
    client.gets("b", "c")
    client.happens(events.DownloadFinished, name="b_in")
    client.happens(events.DownloadFinished, name="c_in")
    started = [each.result for each in client.tick() if isinstance(each, events.Run)]
    assert started == ["b"], "two of four processors"
    client = Client(Rules(slots=4, buffer_seconds=100.0))
    sends(client, PREFERENCES)
    [ask] = [each for each in client.tick(60) if isinstance(each, events.Ask)]
    assert ask.work_seconds == 2 * 0.75 * DAY
    assert ask.work_instances == 2


@pytest.mark.parametrize(
    ("chosen", "seconds"),
    [
        ({"has_own_slots": True}, 4 * 0.75 * DAY),
        ({"has_own_buffer": True}, 2 * 100.0),
        ({"has_own_slots": True, "has_own_buffer": True}, 4 * 100.0),
        ({"ignores_preferences": True}, 4 * 100.0),
    ],
)
def test_command_line_options_override_preferences(chosen: dict[str, bool], seconds: float) -> None:
    client = Client(replace(Rules(slots=4, buffer_seconds=100.0), **chosen))  # type: ignore[arg-type]
    sends(client, PREFERENCES)
    [ask] = [each for each in client.tick(60) if isinstance(each, events.Ask)]
    assert ask.work_seconds == seconds


def ticks(client: Client, weekday: int, hour: float, *, on_batteries: bool = False) -> list[str]:
    client.now += 1
    tick = events.Tick(client.now, 1.0, weekday, hour, on_batteries)
    client.state, commands = advance(client.state, tick, client.rules)
    kinds = (events.Suspend, events.Resume, events.Run)
    return [type(each).__name__ for each in commands if isinstance(each, kinds)]


def test_programs_pause_outside_the_allowed_hours_and_on_batteries() -> None:
    client = Client().with_running("r")
    sends(client, PREFERENCES)
    assert ticks(client, 1, 12) == []
    assert ticks(client, 1, 18.1) == ["Suspend"]
    assert client.state.paused == "the preferences do not allow computing at this hour"
    assert ticks(client, 6, 23) == ["Resume"], "a day of its own, over midnight"
    assert ticks(client, 6, 12) == ["Suspend"]
    assert ticks(client, 1, 12) == ["Resume"]
    assert ticks(client, 1, 12, on_batteries=True) == ["Suspend"]
    assert client.state.paused == "this computer runs on batteries"
    assert ticks(client, 1, 12) == ["Resume"]
    elapsed = client.result().elapsed_at(client.now)
    assert elapsed < 5, "the pauses do not count"


def test_ignored_preferences_pause_nothing() -> None:
    client = Client(replace(RULES, ignores_preferences=True)).with_running("r")
    sends(client, PREFERENCES)
    assert ticks(client, 1, 20, on_batteries=True) == []


def test_preferences_of_the_venue_replace_the_general_ones(tmp_path: Path) -> None:
    client = Client()
    text = (
        f"<mod_time>{DAY_OF_TEST}</mod_time>\n<disk_max_used_gb>7</disk_max_used_gb>\n"
        '<venue name="work">\n<ram_max_used_idle_pct>30</ram_max_used_idle_pct>\n</venue>'
    )
    sends(client, text, venue="work")
    found = working(client, tmp_path)
    assert (found.number("disk_max_used_gb"), found.number("ram_max_used_idle_pct")) == (0, 30)


def test_request_contains_the_preferences_in_effect(tmp_path: Path) -> None:
    client = Client()
    before = working(client, tmp_path)
    assert before.number("mod_time") == 0
    assert before.number("work_buf_min_days") == pytest.approx(100 / DAY, abs=1e-6)
    sends(client, PREFERENCES)
    found = working(client, tmp_path)
    assert found.number("mod_time") == DAY_OF_TEST
    assert found.string("source_project") == URL
    assert not found.flag("run_on_batteries")
    assert found.number("max_ncpus_pct") == 50
    assert found.number("disk_max_used_gb") == 7
    assert (found.number("start_hour"), found.number("end_hour")) == (8, 18)
    [day] = found.every("day_prefs")
    assert day.integer("day_of_week") == 6


def test_preferences_are_sent_only_to_projects_of_the_same_account(tmp_path: Path) -> None:
    client = Client()
    accounts = {OTHER: "mine", "http://third.example/": "someone's", "http://fourth.example/": ""}
    for url, email in accounts.items():
        project = Project(url, "key", Account(email_hash=email), hostid=8)
        client.state = client.state.with_project(project)
    sends(client, PREFERENCES, email="mine")
    request = request_of(client, tmp_path, OTHER)
    [master] = request.every("global_preferences")
    assert master.text.strip() == PREFERENCES.strip()
    assert request.string("global_prefs_source_email_hash") == "mine"
    for url in list(accounts)[1:]:
        request = request_of(client, tmp_path, url)
        assert request.every("global_preferences") == []
        assert request.first("global_prefs_source_email_hash") is None


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("<mod_time>2</mod_time></scheduler_request>", "has no start tag"),
        ("<mod_time>2</mod_time><venue name='a'>", "has no end tag"),
        ("<mod_time>2</mod_time><![CDATA[", "is not an element"),
        ("<mod_time>2</mod_time><a onload='x'></a>", "is not an element"),
        ("<mod_time>2</mod_time>\x00", "control characters"),
        ("<mod_time>2</mod_time>" + "<x>1</x>" * 4000, "more than 16384 characters"),
    ],
)
def test_malformed_preferences_are_refused_with_the_reason(text: str, reason: str) -> None:
    client = Client()
    said = sends(client, text)
    assert "computing preferences are refused" in said
    assert reason in said
    assert client.state.received_preferences.source == ""


def test_preferences_of_a_project_are_limited_to_safe_ranges(tmp_path: Path) -> None:
    client = Client()
    sends(
        client,
        f"<mod_time>{NOON + 1e9}</mod_time><max_ncpus_pct>-5</max_ncpus_pct>"
        "<work_buf_min_days>1e6</work_buf_min_days>"
        "<work_buf_additional_days>-1</work_buf_additional_days>"
        "<disk_max_used_pct>900</disk_max_used_pct><disk_min_free_gb>0</disk_min_free_gb>"
        "<ram_max_used_busy_pct>nan</ram_max_used_busy_pct><disk_interval>1e99</disk_interval>"
        "<start_hour>-3</start_hour><end_hour>99</end_hour>"
        "<day_prefs><day_of_week>9</day_of_week><start_hour>1</start_hour></day_prefs>",
    )
    found = working(client, tmp_path)
    expected = {
        "mod_time": NOON,
        "max_ncpus_pct": 100,
        "work_buf_min_days": 10,
        "work_buf_additional_days": 0,
        "disk_max_used_pct": 100,
        "disk_min_free_gb": 0.1,
        "ram_max_used_busy_pct": 90,
        "disk_interval": 3600,
        "start_hour": 0,
        "end_hour": 24,
    }
    assert {name: found.number(name) for name in expected} == expected
    assert found.every("day_prefs") == []
    assert ticks(client, 1, 12) == []
    assert client.state.paused == ""


def test_unsupported_preferences_are_listed_in_a_message() -> None:
    said = sends(
        Client(),
        "<mod_time>5</mod_time><run_if_user_active>0</run_if_user_active>"
        "<cpu_usage_limit>40</cpu_usage_limit><max_bytes_sec_up>0</max_bytes_sec_up>"
        "<max_bytes_sec_down>1000</max_bytes_sec_down><suspend_cpu_usage>0</suspend_cpu_usage>"
        "<net_start_hour>1</net_start_hour><net_end_hour>2</net_end_hour>",
    )
    assert said.endswith(
        "without effect here: cpu_usage_limit, max_bytes_sec_down, run_if_user_active, "
        "net_start_hour"
    )


def test_detaching_deletes_the_preferences_of_the_project() -> None:
    client = Client()
    sends(client, PREFERENCES)
    client.happens(events.Detached)
    assert client.state.received_preferences.source == ""


def test_reply_without_preferences_keeps_the_existing_ones() -> None:
    client = Client()
    sends(client, PREFERENCES)
    client.happens(events.ReplyReceived, reply=a_reply())
    assert client.state.received_preferences.source == URL


@pytest.mark.parametrize(
    ("supplies", "expected"),
    [
        ({}, False),
        ({"BAT0": {"type": "Battery"}}, False),
        ({"AC": {"type": "Mains", "online": "1"}, "BAT0": {"type": "Battery"}}, False),
        ({"AC": {"type": "Mains", "online": "0"}, "BAT0": {"type": "Battery"}}, True),
        ({"AC": {"type": "Mains", "online": "0"}, "AC2": {"type": "Mains", "online": "1"}}, False),
    ],
)
def test_battery_state_is_read_from_linux_power_supplies(
    tmp_path: Path, supplies: dict[str, dict[str, str]], expected: bool
) -> None:
    for name, files in supplies.items():
        (tmp_path / name).mkdir()
        for file, text in files.items():
            (tmp_path / name / file).write_text(f"{text}\n")
    assert on_batteries(tmp_path) is expected
    assert on_batteries(tmp_path / "missing") is False
