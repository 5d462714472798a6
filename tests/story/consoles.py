"""Reads the console blocks of a page and runs their commands in one bash."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import textwrap
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from daemons.management.processes import wait_until

ROOT = Path(__file__).resolve().parent.parent.parent
PAGES = sorted(
    str(path.relative_to(ROOT))
    for path in (ROOT / "README.md", ROOT / "client" / "README.md", *(ROOT / "docs").rglob("*.md"))
)
BLOCK = re.compile(
    r"^(?:[ ]*<!-- (?P<mark>[^\n]*) -->\n)?"
    r"^(?P<indent>[ ]*)```(?P<kind>\w+)\n(?P<body>.*?)^(?P=indent)```$",
    re.MULTILINE | re.DOTALL,
)
#: A comment above a block: why no test types the block, or which other test does.
MARK = re.compile(r"not typed: (?P<reason>\S.{9,})|typed by (?P<test>tests/\S+\.py)")
COMMAND_SECONDS = 240.0

# Parts of the shown output that differ from run to run.
LOOSE = re.compile(
    r"(?P<head>\A\.\.\.\n)"
    r"|(?P<lines>(?:^|\n)\.\.\.(?=\n|$))"
    r"|(?P<any>\.\.\.)"
    r"|(?P<size>\d[\d.]* (?:B|kB|MB|GB)\b)"
    r"|(?P<name>\b\w+-\d{8}T\d{6}-[0-9a-f]{4})"
    r"|(?P<id>(?<![A-Za-z0-9])(?=[0-9a-f]*\d)[0-9a-f]{4,}(?![A-Za-z0-9]))"
    r"|(?P<number>\d+(?:[ .:,]\d+)*)"
    r"|(?P<gap>[ ]+)"
)
PATTERNS = {
    "head": r"(?:[\s\S]*\n)?",
    "lines": r"[\s\S]*?",
    "any": ".*",
    "size": r"\d[\d.]* (?:B|kB|MB|GB)",
    "name": r"\w+-\d{8}T\d{6}-[0-9a-f]{4}",
    "id": "[0-9a-f]{4,}",
    "number": r"\d+(?:[ .:,]\d+)*",
    "gap": r"[ ]+",
}
CAPTURED = {"name", "id", "number"}
#: Shown names and numbers that later commands contain; they are replaced by the real ones.
GIVEN = (
    re.compile(r"\((\d+)\)(?:$|:)", re.MULTILINE),
    re.compile(r"^ +(\d+)  ", re.MULTILINE),
    re.compile(r"account key: (\w+)"),
    re.compile(r"\b(\w+-\d{8}T\d{6}-[0-9a-f]{4})"),
)
#: Commands whose output must match exactly, except for `...`.
EXACT = re.compile(r"^cat |\bcurl ")
#: Commands that read files which daemons write some seconds after the previous command.
LATER = re.compile(r"^cat var/results/")
#: Commands that print a client's events; the order may differ, and other events may occur.
EVENTS = re.compile(r"\brun\b(?: --[\w-]+(?: \d+)?)*$")
#: The command prints nothing while idle; it must run for `STILL_RUNS_SECONDS`.
STILL_RUNS = ""
STILL_RUNS_SECONDS = 5.0
#: Commands that run until Ctrl-C -> the output after which they are stopped.
UNTIL_STOPPED = {
    r"(?:volunteer|client)(?: --dir \S+)? run(?: --slots \d+)?$": r" reported$",
    r" -m granian ": r"(?s)(?:Started worker-.*){4}",
    r"manage\.py daemons$": STILL_RUNS,
}


@dataclass(frozen=True)
class Command:
    """One command of a block, with the output that the page shows."""

    text: str
    shown: str


@dataclass(frozen=True)
class Block:
    """A fenced block; `line` is its first line, `mark` the text of the comment directly above."""

    line: int
    kind: str
    body: str
    mark: str | None

    def commands(self) -> list[Command]:
        """Return the commands after ``$``, continued by a final backslash, with their output."""
        found = []
        for part in re.split(r"^\$ ", self.body, flags=re.MULTILINE)[1:]:
            typed = re.match(r"(?:.*\\\n)*.*\n", part)
            assert typed
            found.append(Command(typed[0].strip(), part[typed.end() :].rstrip()))
        return found


def blocks(page: str) -> list[Block]:
    text = (ROOT / page).read_text(encoding="utf-8")
    return [
        Block(
            text.count("\n", 0, found.start("kind")) + 1,
            found["kind"],
            textwrap.dedent(found["body"]),
            found["mark"],
        )
        for found in BLOCK.finditer(text)
    ]


def typed_blocks(page: str) -> list[Block]:
    """Return the console blocks without a mark."""
    return [block for block in blocks(page) if block.kind == "console" and not block.mark]


def compare(command: Command, output: str) -> dict[str, str] | None:
    """Compare real output with the shown output; return None if they differ.

    Else returns a dict: names and numbers shown on the page -> the real ones.
    """
    shown = re.sub(r"^Password:\n?", "", command.shown, flags=re.MULTILINE).rstrip()
    output = output.rstrip()
    if not shown:
        return {}
    if EXACT.search(command.text):
        pattern = ".*".join(map(re.escape, shown.split("...")))
        return {} if re.fullmatch(pattern, output, re.DOTALL) else None
    if EVENTS.search(command.text):
        lines = [line for line in shown.splitlines() if line != "..."]
        found = [re.search(f"^{_loosened(line)}$", output, re.MULTILINE) for line in lines]
        return {} if all(found) else None
    match = re.fullmatch(_loosened(shown), output)
    if match is None:
        return None
    words = [part[0] for part in LOOSE.finditer(shown) if part.lastgroup in CAPTURED]
    given = {word for pattern in GIVEN for word in pattern.findall(shown)}
    return {
        theirs: ours
        for theirs, ours in zip(words, match.groups(), strict=True)
        if theirs in given and theirs != ours
    }


def _loosened(shown: str) -> str:
    """Return a pattern for output like `shown`, with a group for each part in `CAPTURED`."""
    pattern, end = "", 0
    for part in LOOSE.finditer(shown):
        kind = str(part.lastgroup)
        loose = f"({PATTERNS[kind]})" if kind in CAPTURED else PATTERNS[kind]
        pattern += re.escape(shown[end : part.start()]) + loose
        end = part.end()
    return pattern + re.escape(shown[end:])


@dataclass
class Shell:
    """A bash in a folder; it and its commands write to the file `.typed`."""

    folder: Path
    environment: Mapping[str, str]
    #: Text on the page -> the text that is typed instead.
    replaced: Mapping[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        #: Whole words on the page -> the words that the project returned.
        self.given: dict[str, str] = {}
        (self.folder / ".answers").write_text("yes\n" * 20)
        self.path = self.folder / ".typed"
        with self.path.open("ab") as output:
            self.process = subprocess.Popen(
                ["bash", "--norc"],
                cwd=self.folder,
                env=self.environment,
                stdin=subprocess.PIPE,
                stdout=output,
                stderr=subprocess.STDOUT,
                text=True,
                start_new_session=True,
            )

    def close(self) -> None:
        """End the bash and its child processes."""
        for number in (signal.SIGTERM, signal.SIGKILL):
            with suppress(ProcessLookupError):
                os.killpg(self.process.pid, number)
            if wait_until(lambda: self.process.poll() is not None, within=5):
                time.sleep(0.2)
        assert self.process.stdin
        self.process.stdin.close()

    def type(self, command: Command) -> str:
        """Type a command of a page; return its output, or fail if the page shows other output."""
        shown = Command(command.text, self._as_here(command.shown))
        text = self._as_here(command.text)
        if text.endswith(" &"):
            # Its output would appear at any time between the output of the next commands.
            text = f"{text.removesuffix(' &')} > background.log 2>&1 &"
        until = next((end for what, end in UNTIL_STOPPED.items() if re.search(what, text)), None)
        if until is None:
            code, output = self.run(text)
        else:
            code, output = self.run_until(text, shown, until)
        if LATER.search(text):
            wait_until(lambda: compare(shown, self.run(text)[1]) is not None, within=60)
            code, output = self.run(text)
        report = f"$ {text}\n{output}\n-- exit code {code}; the page shows:\n{command.shown}"
        assert code == 0, report
        given = compare(shown, output)
        assert given is not None, report
        self.given |= given
        return output

    def must(self, text: str) -> None:
        """Type a line of the setup; fail if its exit code is not 0."""
        text = self._as_here(text)
        code, output = self.run(text)
        assert code == 0, f"$ {text}\n{output}"

    def run(self, text: str) -> tuple[int, str]:
        """Type a command that ends by itself; return its exit code and output."""
        start = self._size()
        self._send(f"{{ {text}\n}} < .answers\nprintf '\\n\\036%s\\n' $?\n")
        assert wait_until(
            lambda: "\036" in self._since(start), within=COMMAND_SECONDS, look_again=0.02
        ), f"$ {text}\n{self._since(start)}\n-- not over after {COMMAND_SECONDS} s"
        output, _, code = self._since(start).partition("\n\036")
        return int(code.split()[0]), output

    def run_until(self, text: str, shown: Command, until: str) -> tuple[int, str]:
        """Type a command; stop it when it has printed `shown`; return exit code and output."""
        start = self._size()
        self._send(f"exec_() {{ exec env {text}\n}}\nexec_ < .answers &\n")
        self._send("printf '\\036%s\\n' $!; wait $!; printf '\\n\\036%s\\n' $?\n")

        def output() -> str:
            return re.sub("\036\\d+\n", "", self._since(start), count=1)

        def is_over() -> bool:
            return "\n\036" in output()

        def is_far_enough() -> bool:
            found = re.search(until, output(), re.MULTILINE) is not None
            return is_over() or (found and compare(shown, output()) is not None)

        if until == STILL_RUNS:
            wait_until(is_over, within=STILL_RUNS_SECONDS)
        else:
            wait_until(is_far_enough, within=COMMAND_SECONDS, look_again=0.05)
        ended = is_over()
        [process] = re.findall("\036(\\d+)\n", self._since(start))[:1]
        with suppress(ProcessLookupError):
            os.kill(int(process), signal.SIGTERM)
        assert wait_until(is_over, within=30), f"$ {text}\n{output()}\n-- cannot be stopped"
        said, _, code = output().partition("\n\036")
        stopped = int(code.split()[0])
        return (stopped or 1) if ended else 0 if stopped in (0, 143) else stopped, said

    def _as_here(self, text: str) -> str:
        for theirs, ours in self.replaced.items():
            text = text.replace(theirs, ours)
        for theirs, ours in self.given.items():
            text = re.sub(rf"(?<![\w.-]){re.escape(theirs)}(?![a-zA-Z0-9.-])", ours, text)
        return text

    def _send(self, text: str) -> None:
        assert self.process.stdin
        self.process.stdin.write(text)
        self.process.stdin.flush()

    def _size(self) -> int:
        return self.path.stat().st_size

    def _since(self, start: int) -> str:
        return self.path.read_bytes()[start:].decode(errors="replace")
