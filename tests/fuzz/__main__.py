"""Replays a stored request in a new project: `python -m tests.fuzz replay FILE`."""

from __future__ import annotations

import sys
from pathlib import Path
from tempfile import mkdtemp

from tests.fuzz.ground import Ground


def main(words: list[str]) -> int:
    if len(words) != 2 or words[0] != "replay":
        print("usage: python -m tests.fuzz replay FILE")
        return 2
    with Ground(Path(mkdtemp(prefix="fuzz"))) as ground:
        said = ground.replay(Path(words[1]))
    print(said)
    return 1 if "fault" in said else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
