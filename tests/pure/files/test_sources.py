"""Sources of programs: public addresses, but not this server or its network."""

from __future__ import annotations

import pytest

from scheduler.files.rules import sources
from scheduler.files.rules.sources import BadSource, Place


@pytest.mark.parametrize(
    ("url", "place"),
    [
        ("http://bla.fasel/p-v1.zip", Place("http", "bla.fasel", 80, "/p-v1.zip")),
        ("https://a.org:8443/x?y=1", Place("https", "a.org", 8443, "/x?y=1")),
        ("https://[2001:db8::1]/x#part", Place("https", "2001:db8::1", 443, "/x")),
        ("rsync://a.org/mod/p.tar", Place("rsync", "a.org", 873, "/mod/p.tar")),
        ("rsync:a.org::mod/p.tar", Place("rsync", "a.org", 873, "/mod/p.tar")),
        ("https://a.org", Place("https", "a.org", 443, "/")),
    ],
)
def test_source_address_is_split_into_its_parts(url: str, place: Place) -> None:
    assert sources.read(url) == place


@pytest.mark.parametrize(
    ("url", "words"),
    [
        ("file:///etc/passwd", "does not fetch file addresses"),
        ("ftp://a.org/x.zip", "does not fetch ftp addresses"),
        ("gopher://a.org/x", "does not fetch gopher"),
        ("/etc/passwd", "does not fetch such addresses"),
        ("rsync:/etc/passwd", "a file of this server"),
        ("rsync:a.org:p.zip", "requires a log-in"),
        ("rsync://a.org/mod", "not a file of an rsync server"),
        ("rsync://a.org/mod/", "not a file of an rsync server"),
        ("rsync://a.org/mod/*.tar", "not a file of an rsync server"),
        ("rsync://a.org/mod/x;id", "not a file of an rsync server"),
        ("https://ada:secret@a.org/x", "contains a password"),
        ("https://a.org/x y", "is not a"),
        ("https://a.org/\r\nHost: b", "is not a"),
        ("https://a.org/\u00fc", "is not a"),
        ("https://a.org/\U0001f600", "is not a"),
        ("https://a.org:99999/x", "is not a"),
        ("https://a.org:0/x", "has no valid host"),
        ("https:///x", "has no valid host"),
        ("https://-oProxyCommand=id/x", "has no valid host"),
        ("rsync://-e.sh/mod/x", "has no valid host"),
        ("https://a.org/" + "x" * 1000, "1000 characters at most"),
        ("https://[::1/x", "is not a"),
    ],
)
def test_unsupported_addresses_are_refused_with_a_hint(url: str, words: str) -> None:
    with pytest.raises(BadSource, match=r"Hint: ") as refused:
        sources.read(url)
    assert words in str(refused.value)


@pytest.mark.parametrize(
    "address",
    [
        "127.0.0.1",
        "127.8.8.8",
        "0.0.0.0",
        "10.0.0.1",
        "172.16.0.1",
        "192.168.1.1",
        "169.254.169.254",
        "100.64.0.1",
        "192.0.2.1",
        "224.0.0.1",
        "255.255.255.255",
        "240.0.0.1",
        "::",
        "::1",
        "fe80::1",
        "fe80::1%eth0",
        "fc00::1",
        "ff02::1",
        "::ffff:127.0.0.1",
        "::ffff:192.168.0.1",
        "2002:7f00:1::",
        "64:ff9b::7f00:1",
        "64:ff9b::a00:1",
        "2001:0:4136:e378:8000:63bf:3fff:fdd2",
        "2001:db8::1",
        "nonsense",
    ],
)
def test_private_addresses_are_refused_in_any_spelling(address: str) -> None:
    assert not sources.is_public(address)
    with pytest.raises(BadSource, match="own network"):
        sources.check_addresses(
            "a.org",
            ["93.184.216.34", address],
            private_hosts=frozenset({"b.org"}),
            any_private=False,
        )


def test_public_addresses_and_allowed_private_hosts_are_accepted() -> None:
    for address in ("93.184.216.34", "2606:2800:220:1::1", "::ffff:93.184.216.34"):
        assert sources.is_public(address)
    mine = ["10.0.0.1"]
    sources.check_addresses("A.org", mine, private_hosts=frozenset({"a.org"}), any_private=False)
    sources.check_addresses("b.org", mine, private_hosts=frozenset(), any_private=True)


@pytest.mark.parametrize(
    ("location", "target"),
    [
        ("/y", "https://a.org/y"),
        ("y?z", "https://a.org/d/y?z"),
        ("//b.org/y#f", "https://b.org/y"),
        ("http://a.org/y", None),
        ("file:///etc/passwd", None),
        ("rsync://a.org/m/x", None),
    ],
)
def test_redirects_are_followed_only_to_https(location: str, target: str | None) -> None:
    if target is None:
        with pytest.raises(BadSource, match="is not followed"):
            sources.redirected("https://a.org/d/x", location)
    else:
        assert sources.redirected("https://a.org/d/x", location) == target


def test_file_name_from_an_address_contains_no_slash() -> None:
    names = [
        sources.read(f"https://a.org/{path}").name for path in ("a/b%2Fc.zip", "x.zip?y=/z", "")
    ]
    assert names == ["b_c.zip", "x.zip", "source"]
