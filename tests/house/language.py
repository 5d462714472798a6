"""Finds words and names that the project's language rules avoid.

`python -m tests.house.language` prints every place, or with paths those in these files;
with `--write`, it stores the counts that `test_language.py` compares.
"""

from __future__ import annotations

import ast
import io
import json
import re
import sys
import tokenize
from collections import Counter
from collections.abc import Iterator
from typing import NamedTuple

from tests.house.tracked import ROOT, modules, read, tracked

COUNTS = ROOT / "tests" / "house" / "language_counts.json"
#: Names that are only a pronoun or participle.
BARE_NAMES = frozenset(
    [
        "one",
        "found",
        "said",
        "known",
        "held",
        "given",
        "told",
        "heard",
        "asked",
        "mine",
        "ours",
        "theirs",
    ]
)
_SENTENCE = r"(?:^|(?<=[.!?:]\s)|(?<=[.!?:]\s\s)|(?<=\n\n))[\s\"'`*_(-]*"
_PROGRAM = r"(?:server|client|command|page|row|daemon)"
RULES = {
    "whoever": r"(?i:\b(?:whoever|whomever)\b)",
    "anew": r"\banew\b",
    "he": r"\b(?:[Hh]e|[Hh]im|[Hh]is)\b",
    "is none": r"\b(?:is|are) none\b",
    "So many": _SENTENCE + r"So (?:many|much|long|often)\b",
    "Who": _SENTENCE + r"(?:Who|Whoever|Nobody|Somebody)\b(?![^.!?]*\?)",
    "What": _SENTENCE + r"What\b(?![^.!?]*\?)",
    "One who": _SENTENCE + r"One (?:who|that|which|is|may|can)\b",
    "says": rf"\b{_PROGRAM}s? (?:says?|tells?|hears?|asks?|knows?|believes?)\b",
}
_PATTERNS = {rule: re.compile(pattern) for rule, pattern in RULES.items()}
_SPEAKING = re.compile(r"^\W*(?:Says|Tells|Hears|Asks|Knows|Believes|Say|Tell|Hear|Ask|Know)\b")
_EVENT = re.compile(r"^[a-z]+(?:_[a-z]+)+$")
_LOG_METHODS = frozenset(["debug", "info", "warning", "error", "exception", "critical"])


class Place(NamedTuple):
    """One occurrence: the file, its line, the rule and the text that breaks it."""

    path: str
    line: int
    rule: str
    text: str


def places(path: str) -> list[Place]:
    """Return every occurrence in a Python module, a statement or a Markdown page."""
    text = read(path)
    if path.endswith(".py"):
        return [*_of_texts(path, _texts_of_module(text)), *_of_names(path, text)]
    if path.endswith(".sql"):
        comments = [(n, m[1]) for n, m in _lines(text, r"--\s?(.*)$")]
        return list(_of_texts(path, _joined(comments)))
    return list(_of_texts(path, _texts_of_page(text)))


def files() -> list[str]:
    """Return every file that the rules apply to."""
    pages = [
        name for name in tracked() if name.endswith(".md") and not name.startswith("tests/golden/")
    ]
    statements = [name for name in tracked() if name.endswith(".sql")]
    own = {"tests/house/language.py", "tests/house/test_language.py"}
    return sorted({*modules(), *statements, *pages} - own)


def counts() -> dict[str, dict[str, int]]:
    """Return the number of occurrences by file and rule, without zeros."""
    return {
        path: dict(sorted(Counter(place.rule for place in found).items()))
        for path in files()
        if (found := places(path))
    }


def _of_texts(path: str, texts: list[tuple[int, str, bool]]) -> Iterator[Place]:
    for line, text, is_docstring in texts:
        for rule, pattern in _PATTERNS.items():
            for match in pattern.finditer(text):
                at = line + text.count("\n", 0, match.end())
                yield Place(path, at, rule, _around(text, match))
        if is_docstring and (match := _SPEAKING.match(text)):
            yield Place(path, line, "says", _around(text, match))


def _around(text: str, match: re.Match[str]) -> str:
    return " ".join(text[max(0, match.start() - 20) : match.end() + 50].split())


def _lines(text: str, pattern: str) -> Iterator[tuple[int, re.Match[str]]]:
    for number, line in enumerate(text.splitlines(), start=1):
        if match := re.search(pattern, line):
            yield number, match


def _joined(lines: list[tuple[int, str]]) -> list[tuple[int, str, bool]]:
    """Join comments on adjacent lines to one text."""
    blocks: list[tuple[int, list[str]]] = []
    for number, text in lines:
        if blocks and number == blocks[-1][0] + len(blocks[-1][1]):
            blocks[-1][1].append(text)
        else:
            blocks.append((number, [text]))
    return [(number, "\n".join(texts), False) for number, texts in blocks]


def _texts_of_module(source: str) -> list[tuple[int, str, bool]]:
    """Return the docstrings, the comments, and strings of at least three words."""
    nodes = list(ast.walk(ast.parse(source)))
    docstrings = {
        id(node.body[0].value)
        for node in nodes
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef)
        and node.body
        and isinstance(node.body[0], ast.Expr)
        and isinstance(node.body[0].value, ast.Constant)
    }
    texts = [
        (node.lineno, node.value, id(node) in docstrings)
        for node in nodes
        if isinstance(node, ast.Constant)
        and isinstance(node.value, str)
        and len(node.value.split()) > 2
    ]
    comments = [
        (token.start[0], token.string.lstrip("#: "))
        for token in tokenize.generate_tokens(io.StringIO(source).readline)
        if token.type == tokenize.COMMENT
    ]
    return [*texts, *_joined(comments)]


def _texts_of_page(text: str) -> list[tuple[int, str, bool]]:
    """Return the paragraphs of a page, without code, headings and generated parts."""
    blank = lambda match: re.sub(r"[^\n]", "", match[0])  # noqa: E731
    text = re.sub(
        r"^<!-- \[\[\[cog.*?\[\[\[end\]\]\] -->$", blank, text, flags=re.MULTILINE | re.DOTALL
    )
    text = re.sub(r"^[ ]*```.*?^[ ]*```$", blank, text, flags=re.MULTILINE | re.DOTALL)
    text = re.sub(r"^#+ .*$", "", text, flags=re.MULTILINE)
    text = re.sub(r"`[^`\n]*`", "`code`", text)
    return [(1, re.sub(r"^(\s*(?:[-*|]|\d+\.) )", r"\n\1", text, flags=re.MULTILINE), False)]


def _of_names(path: str, source: str) -> Iterator[Place]:
    if path.startswith("tests/"):
        return
    for node in ast.walk(ast.parse(source)):
        match node:
            case ast.Name(id=name, ctx=ast.Store()) | ast.arg(arg=name):
                if name in BARE_NAMES:
                    yield Place(path, node.lineno, "bare name", name)
            case ast.Call(func=ast.Attribute(value=ast.Name(id="log" | "logger"), attr=method)):
                if method in _LOG_METHODS and node.args:
                    first = node.args[0]
                    event = first.value if isinstance(first, ast.Constant) else None
                    if isinstance(event, str) and not _EVENT.match(event.split(" ")[0]):
                        yield Place(path, node.lineno, "log event", event)


def main(words: list[str]) -> None:
    """Print the places in the given files, or store the counts of all files."""
    if "--write" in words:
        COUNTS.write_text(json.dumps(counts(), indent=1, sort_keys=True) + "\n")
        return
    chosen = [path for path in files() if not words or path.startswith(tuple(words))]
    total = 0
    for path in chosen:
        for place in sorted(places(path), key=lambda place: place.line):
            total += 1
            print(f"{place.path}:{place.line}: {place.rule}: {place.text}")
    print(total, file=sys.stderr)


if __name__ == "__main__":
    main(sys.argv[1:])
