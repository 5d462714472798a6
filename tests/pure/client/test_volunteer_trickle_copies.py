"""Copies of trickles for further addresses of a project (`<trickle_up_urls>`)."""

from __future__ import annotations

from dataclasses import replace

from tests.pure.client.test_volunteer_state import URL, Client, a_reply
from volunteer import events
from volunteer.events import Replicate

FIRST, SECOND = "http://first.example/cgi", "https://second.example/cgi"


def copies(client: Client, seconds: float = 10.0) -> list[tuple[str, list[str]]]:
    """Return where copies are sent now, and their texts."""
    commands = [each for each in client.tick(seconds) if isinstance(each, Replicate)]
    return [(each.url, [trickle.text for trickle in each.trickles]) for each in commands]


def writes(client: Client, text: str) -> None:
    client.happens(events.TrickleWritten, result="r", text=text)


def test_each_trickle_is_copied_once_to_each_trickle_up_url() -> None:
    client = Client().with_running("r")
    client.gets(trickle_up_urls=(FIRST, SECOND, FIRST))
    writes(client, "one")
    assert copies(client) == [(FIRST, ["one"]), (SECOND, ["one"])]
    client.happens(events.RequestFailed, reason="no answer")
    client.happens(events.TricklesReplicated, url=FIRST, reason="HTTP 500")
    assert copies(client, 100) == [], "the project gets it again, the others do not"
    client.gets(trickle_up_urls=(FIRST, SECOND), message_ack=True)
    writes(client, "two")
    assert copies(client) == [(FIRST, ["two"])], "the other address still gets the first"
    client.happens(events.TricklesReplicated, url=SECOND)
    client.gets(trickle_up_urls=(SECOND,))
    writes(client, "three")
    assert copies(client) == [(SECOND, ["three"])]


def test_reply_without_trickle_up_urls_stops_the_copies() -> None:
    client = Client().with_running("r")
    client.gets(trickle_up_urls=(FIRST,))
    client.gets()
    writes(client, "one")
    assert copies(client) == []


def test_unsafe_trickle_up_urls_are_refused_with_one_message_each() -> None:
    client = Client().with_running("r")
    unsafe = ("file:///etc/passwd", "http://h/" + "x" * 300)
    said = client.happens(events.ReplyReceived, reply=a_reply(trickle_up_urls=(*unsafe, FIRST)))
    texts = [each.text for each in said if isinstance(each, events.Print)]
    assert len([text for text in texts if "not an http or https address" in text]) == 2
    assert client.project.trickle_up_urls == (FIRST,)
    again = client.happens(events.ReplyReceived, reply=a_reply(trickle_up_urls=(*unsafe, FIRST)))
    assert not [each for each in again if isinstance(each, events.Print) and "copied" in each.text]


def test_https_project_copies_no_trickles_to_http_urls() -> None:
    client = Client(scheduler_urls=("https://s/",)).with_running("r")
    said = client.happens(events.ReplyReceived, reply=a_reply(trickle_up_urls=(FIRST, SECOND)))
    assert client.project.trickle_up_urls == (SECOND,)
    assert any(
        "it is not encrypted" in each.text for each in said if isinstance(each, events.Print)
    )


def test_at_most_eight_trickle_up_urls_are_used() -> None:
    client = Client().with_running("r")
    urls = tuple(f"http://h{number}.example/" for number in range(20))
    client.gets(trickle_up_urls=urls)
    assert client.project.trickle_up_urls == urls[:8]


def test_detach_removes_a_project_with_unfinished_trickle_copies() -> None:
    client = Client().with_running("r")
    client.gets(trickle_up_urls=(FIRST,))
    writes(client, "one")
    assert copies(client)
    client.happens(events.Detached)
    client.happens(events.TricklesReplicated, url=FIRST)
    assert URL not in client.state.projects
    assert replace(client.state, busy=frozenset()).projects == {}
