"""BOINC's standard keywords: fields of science, and places of research.

Volunteers prefer or exclude keywords, and workunits have the numbers of theirs.  The numbers,
names and parents are those of BOINC's master list (source: html/inc/keywords.inc), which assigns
17 and 18 to Oceania and Australia, and does not use 19.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Final


class Category(StrEnum):
    """A tree of keywords."""

    SCIENCE = "science"
    LOCATION = "location"


@dataclass(frozen=True, slots=True)
class Keyword:
    """A keyword of BOINC's list; `parent` is the number of the wider one, 0 at the top."""

    number: int
    parent: int
    name: str
    category: Category


#: (number, parent, name) of each keyword, parents before their children.
_SCIENCE: Final = (
    (1, 0, "Astronomy"),
    (2, 1, "Search for extraterrestrial intelligence"),
    (3, 1, "Detection and study of pulsars"),
    (4, 1, "Detection and study of gravitational waves"),
    (5, 1, "Cosmology"),
    (62, 0, "Chemistry"),
    (6, 0, "Physics"),
    (7, 6, "Particle physics"),
    (8, 6, "Nanoscience"),
    (9, 0, "Biology and medicine"),
    (10, 9, "Drug discovery"),
    (11, 9, "Protein research"),
    (12, 9, "Genetics and phylogeny"),
    (13, 9, "Disease research"),
    (14, 13, "Cancer research"),
    (64, 13, "COVID-19 and virology"),
    (15, 0, "Mathematics and computer science"),
    (32, 15, "Number theory"),
    (33, 15, "Cryptography"),
    (63, 15, "Games"),
    (16, 0, "Artificial intelligence and cognitive science"),
    (29, 0, "Earth sciences"),
    (34, 29, "Environmental research"),
    (35, 29, "Climate research"),
)
_LOCATION: Final = (
    (59, 0, "International"),
    (70, 0, "Africa"),
    (71, 70, "Egypt"),
    (69, 71, "Sinai University"),
    (23, 0, "Americas"),
    (66, 23, "Canada"),
    (24, 23, "United States"),
    (55, 24, "Arizona State University"),
    (54, 24, "California State University, Fullerton"),
    (67, 24, "Penn State University"),
    (58, 24, "Rensselaer Polytechnic Institute"),
    (68, 24, "Shenandoah University"),
    (25, 24, "University of California, Berkeley"),
    (51, 24, "University of Dayton"),
    (56, 24, "University of Illinois"),
    (60, 24, "University of North Dakota"),
    (53, 24, "University of Southern California"),
    (28, 24, "University of Washington"),
    (52, 24, "Wright State University"),
    (22, 0, "Asia"),
    (50, 22, "China"),
    (20, 0, "Europe"),
    (27, 20, "CERN"),
    (36, 20, "Czech Republic"),
    (37, 36, "Charles University in Prague"),
    (65, 20, "France"),
    (21, 20, "Germany"),
    (26, 21, "Albert Einstein Institute for Gravitational Physics"),
    (39, 21, "RheinMain University of Applied Sciences"),
    (38, 21, "Rechenkraft.net"),
    (61, 20, "Holland"),
    (40, 20, "Hungary"),
    (41, 20, "Ireland"),
    (42, 41, "University College Dublin"),
    (43, 20, "Poland"),
    (57, 43, "University of Warsaw"),
    (44, 20, "Russia"),
    (46, 44, "Russian Academy of Sciences"),
    (45, 44, "Southwest State University"),
    (30, 20, "Spain"),
    (47, 30, "Barcelona Biomedical Research Park"),
    (31, 30, "San Jorge University, Zaragoza"),
    (48, 20, "United Kingdom"),
    (49, 48, "Oxford University"),
    (17, 0, "Oceania"),
    (18, 17, "Australia"),
)
#: The keywords by number, in the order in which lists show them.
KEYWORDS: Final[Mapping[int, Keyword]] = {
    number: Keyword(number, parent, name, category)
    for category, rows in ((Category.SCIENCE, _SCIENCE), (Category.LOCATION, _LOCATION))
    for number, parent, name in rows
}


def level(number: int) -> int:
    """Return the number of keywords above a keyword of the list.

    >>> level(1), level(14)
    (0, 2)
    """
    parent = KEYWORDS[number].parent
    return 1 + level(parent) if parent else 0
