"""Reads the preferences of an account for one project.

A project sends the preferences as text, which may contain other values for hosts in a *venue*, such
as `home`.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from volunteer.wire.xml import number

DEFAULT_SHARE = 100.0
_VENUE = re.compile(r"""<venue\s+name\s*=\s*["']([^"']*)["']\s*>(.*?)</venue>""", re.DOTALL)
_SPECIFIC = re.compile(r"<project_specific>(.*?)</project_specific>", re.DOTALL)
_SHARE = re.compile(r"<resource_share>([^<]*)</resource_share>")


@dataclass(frozen=True, slots=True)
class ProjectPreferences:
    """The preferences for this host: the resource share, and the XML for the programs."""

    resource_share: float = DEFAULT_SHARE
    specific: str = ""


def project_preferences(text: str, venue: str) -> ProjectPreferences:
    """Return the preferences for a host in a venue.

    A value that is missing for the venue is taken from the general preferences.

    >>> text = "<project_specific><a>1</a></project_specific><venue name='home'>"
    >>> text += "<resource_share>50</resource_share></venue>"
    >>> project_preferences(text, "home")
    ProjectPreferences(resource_share=50.0, specific='<a>1</a>')
    """
    parts = [content for name, content in _VENUE.findall(text) if venue and name == venue]
    parts.append(_VENUE.sub("", text))
    specific = next((match[1].strip() for part in parts if (match := _SPECIFIC.search(part))), "")
    share = next((match[1] for part in parts if (match := _SHARE.search(part))), "")
    return ProjectPreferences(max(number(share, DEFAULT_SHARE), 0.0), specific)
