"""The people of the pictures, and their computers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

LINUX: Final = "x86_64-pc-linux-gnu"
ARM: Final = "aarch64-unknown-linux-gnu"
WINDOWS: Final = "windows_x86_64"
MAC: Final = "arm64-apple-darwin"


@dataclass(frozen=True, slots=True)
class Processor:
    """A processor: `gigaflops` is the speed of each of its `cpus`."""

    vendor: str
    model: str
    cpus: int
    gigaflops: float


RYZEN: Final = Processor("AuthenticAMD", "AMD Ryzen 7 5800X 8-Core Processor", 16, 5.6)
THREADRIPPER: Final = Processor("AuthenticAMD", "AMD Ryzen Threadripper 3960X", 48, 5.1)
CORE_I5: Final = Processor("GenuineIntel", "Intel(R) Core(TM) i5-8250U CPU @ 1.60GHz", 8, 3.4)
CORE_I7: Final = Processor("GenuineIntel", "Intel(R) Core(TM) i7-10700 CPU @ 2.90GHz", 16, 4.9)
XEON: Final = Processor("GenuineIntel", "Intel(R) Xeon(R) E-2236 CPU @ 3.40GHz", 12, 4.7)
M1: Final = Processor("Apple", "Apple M1", 8, 6.2)
PI: Final = Processor("ARM", "Cortex-A72", 4, 1.3)


@dataclass(frozen=True, slots=True)
class System:
    """An operating system and its BOINC platform."""

    platform: str
    name: str
    version: str


DEBIAN: Final = System(LINUX, "Linux", "Debian GNU/Linux 12 (bookworm)")
UBUNTU: Final = System(LINUX, "Linux", "Ubuntu 24.04.1 LTS")
PI_OS: Final = System(ARM, "Linux", "Debian GNU/Linux 12 (bookworm)")
WINDOWS_11: Final = System(WINDOWS, "Microsoft Windows 11", "Professional x64 Edition")
MAC_OS: Final = System(MAC, "Darwin", "23.6.0")


@dataclass(frozen=True, slots=True)
class Computer:
    """A simulated computer, which runs `slots` results at a time.

    It returns wrong answers with the probability `wrong`, ends results with an error with the
    probability `failing`, and is switched off for good after `days`, if set.
    """

    name: str
    processor: Processor
    system: System
    slots: int
    memory_gb: int = 16
    wrong: float = 0.0
    failing: float = 0.01
    days: float | None = None


@dataclass(frozen=True, slots=True)
class Person:
    """A volunteer with an account; `team` is the index of a team, None for none."""

    name: str
    country: str
    computers: tuple[Computer, ...]
    team: int | None = None

    @property
    def email(self) -> str:
        """The e-mail address of the account."""
        return f"{self.name.lower().replace(' ', '.')}@example.org"


@dataclass(frozen=True, slots=True)
class TeamOf:
    """A team; the first person with its index founds it."""

    name: str
    description: str


TEAMS: Final = (
    TeamOf("Night shift", "We compute while others sleep."),
    TeamOf("Kitchen table computing", "Old laptops, new primes."),
    TeamOf("Number theory seminar", "Students and teachers, Thursdays at four."),
)

PEOPLE: Final = (
    Person(
        "Ines Carvalho",
        "Portugal",
        (
            Computer("studio", RYZEN, DEBIAN, 3, 32),
            Computer("thinkpad", CORE_I5, UBUNTU, 2, failing=0.06),
            Computer("kitchen-pi", PI, PI_OS, 1, 4),
        ),
        team=0,
    ),
    Person("Henrik Solberg", "Norway", (Computer("fjord", THREADRIPPER, DEBIAN, 9, 128),), team=2),
    Person("Mei Tanaka", "Japan", (Computer("hinoki", M1, MAC_OS, 3),), team=1),
    Person(
        "Dariusz W",
        "Poland",
        (Computer("piwnica", CORE_I7, WINDOWS_11, 4), Computer("lab-2", XEON, DEBIAN, 3, 64)),
        team=2,
    ),
    Person("oldsailor", "", (Computer("galley", CORE_I5, WINDOWS_11, 2, 8, wrong=0.2),)),
    Person("Amara Okafor", "Nigeria", (Computer("desk", CORE_I7, UBUNTU, 3),), team=0),
    Person("Lucie Moreau", "France", (Computer("atelier", M1, MAC_OS, 2, 8),), team=1),
    Person("tuxedo_cat", "Canada", (Computer("litterbox", RYZEN, DEBIAN, 4),), team=0),
    Person("Ravi Menon", "India", (Computer("veranda", CORE_I5, UBUNTU, 2, 8, days=8.0),)),
    Person("Greta Lindqvist", "Sweden", (Computer("stuga", XEON, DEBIAN, 2),), team=2),
    Person("Paolo Ricci", "Italy", (Computer("cantina", CORE_I5, WINDOWS_11, 1, 8),), team=1),
    Person("Hana Novak", "Slovenia", (Computer("garden-pi", PI, PI_OS, 2, 8),)),
)
