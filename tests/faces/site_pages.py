"""The pages of the volunteer's site, as its URL patterns have them."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from django.urls import URLPattern, URLResolver, get_resolver
from django.urls.resolvers import RegexPattern

from scheduler.web.languages import _page_names


def pages() -> dict[str, str]:
    """Return the path of each page for people, by the name of its URL.

    In a path, the number of a row is `ID`, and another parameter is its name in capitals.
    """
    names = _page_names()
    return {
        pattern.name: _path(pattern)
        for pattern in _patterns(get_resolver("scheduler.web.urls").url_patterns)
        if pattern.name in names
    }


def arguments_of(name: str) -> dict[str, Any]:
    """Return values for the parameters of the URL with this name, which name no row."""
    patterns = _patterns(get_resolver("scheduler.web.urls").url_patterns)
    [pattern] = [each.pattern for each in patterns if each.name == name]
    if isinstance(pattern, RegexPattern):
        return dict.fromkeys(pattern.regex.groupindex, "x")
    return {key: 1 if _is_id(key) else "x" for key in pattern.converters}


def _patterns(patterns: list[Any]) -> Iterator[URLPattern]:
    for pattern in patterns:
        if isinstance(pattern, URLResolver):
            assert str(pattern.pattern) == "", "a prefix belongs to the paths"
            yield from _patterns(pattern.url_patterns)
        else:
            yield pattern


def _path(pattern: URLPattern) -> str:
    route = str(pattern.pattern)
    if isinstance(pattern.pattern, RegexPattern):
        return f"/{route.removeprefix('^').partition('(')[0]}KEY/"
    return "/" + re.sub(
        r"<(?:\w+:)?(\w+)>", lambda match: "ID" if _is_id(match[1]) else match[1].upper(), route
    )


def _is_id(name: str) -> bool:
    return name == "pk" or name.endswith("_id")
