"""Every text of the volunteers' pages has a translation, which is compiled."""

from __future__ import annotations

import ast
import gettext
import re
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

import pytest
from django.utils.translation.template import templatize

from scheduler.boinc import own_preferences
from scheduler.boinc.wire import computing_prefs
from scheduler.health import status
from scheduler.hosts.decision_texts import WHY
from scheduler.models import Team
from scheduler.web import texts
from scheduler.work.volunteers import result_states
from tests.house.tracked import ROOT

WEB = ROOT / "scheduler" / "web"
CATALOGS = sorted((WEB / "locale").glob("*/LC_MESSAGES/django.po"))
#: The functions that mark a text, with the numbers of their arguments that are texts.
MARKERS = {
    "gettext": "i",
    "gettext_lazy": "i",
    "gettext_noop": "i",
    "ngettext": "ip",
    "ngettext_lazy": "ip",
    "pgettext": "ci",
    "pgettext_lazy": "ci",
    "npgettext": "cip",
    "npgettext_lazy": "cip",
    "_": "i",
}
_STRING = r"""u?("(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*')"""
_CALL = re.compile(rf"\b(\w*gettext|_)\(\s*{_STRING}(?:\s*,\s*{_STRING})?(?:\s*,\s*{_STRING})?")
_LINE = re.compile(r'(msgctxt|msgid|msgid_plural|msgstr(?:\[\d\])?) (".*")')
_PLACEHOLDER = re.compile(r"%\(\w+\)[sd]|\{\w*\}|</?[a-z]+[^>]*>")
_EOT = "\x04"

#: The context, the text and its plural, each of which may be empty.
Key = tuple[str, str, str]


@dataclass
class Entry:
    """An entry of a .po file."""

    is_fuzzy: bool = False
    is_obsolete: bool = False
    texts: dict[str, str] = field(default_factory=dict)

    @property
    def key(self) -> Key:
        return (
            self.texts.get("msgctxt", ""),
            self.texts["msgid"],
            self.texts.get("msgid_plural", ""),
        )

    @property
    def translations(self) -> list[str]:
        return [text for name, text in self.texts.items() if name.startswith("msgstr")]


def read_po(path: Path) -> list[Entry]:
    """Return the entries of a .po file; the first is the header."""
    entries = [Entry()]
    current = ""
    for line in path.read_text(encoding="utf-8").splitlines():
        if line.startswith("#") or not line:
            if entries[-1].texts:
                entries.append(Entry())
            entries[-1].is_fuzzy |= line.startswith("#,") and "fuzzy" in line
            entries[-1].is_obsolete |= line.startswith("#~")
        elif match := _LINE.fullmatch(line):
            current = match[1]
            entries[-1].texts[current] = ast.literal_eval(match[2])
        else:
            entries[-1].texts[current] += ast.literal_eval(line)
    return [entry for entry in entries if entry.texts or entry.is_obsolete]


def key_of(function: str, arguments: list[str]) -> Key:
    roles = dict(zip(MARKERS[function], arguments, strict=False))
    return roles.get("c", ""), roles["i"], roles.get("p", "")


def template_keys(text: str) -> set[Key]:
    return {
        key_of(match[1], [ast.literal_eval(part) for part in match.groups()[1:] if part])
        for match in _CALL.finditer(templatize(text))
    }


def python_keys(text: str) -> set[Key]:
    found = set()
    for node in ast.walk(ast.parse(text)):
        match node:
            case ast.Call(func=ast.Name(function), args=arguments) if function in MARKERS:
                strings = [
                    argument.value
                    for argument in arguments
                    if isinstance(argument, ast.Constant) and isinstance(argument.value, str)
                ]
                if strings:
                    found.add(key_of(function, strings))
    return found


@cache
def marked() -> dict[Key, str]:
    """Return every marked text with the file that has it."""
    keys: dict[Key, str] = {}
    for path in sorted(WEB.rglob("*")):
        if path.suffix in {".html", ".txt"}:
            found = template_keys(path.read_text(encoding="utf-8"))
        elif path.suffix == ".py":
            found = python_keys(path.read_text(encoding="utf-8"))
        else:
            continue
        keys |= dict.fromkeys(found, path.name)
    return keys


def test_extraction_finds_each_kind_of_text():
    template = (
        '{% load i18n %}{% translate "a" %}{% blocktranslate with x=y|date:_("b") %}c {{ x }}'
        '{% endblocktranslate %}{{ y|default:_("d") }}'
        "{% blocktranslate count n=n %}{{ n }} e{% plural %}{{ n }} es{% endblocktranslate %}"
    )
    assert template_keys(template) == {
        ("", "a", ""),
        ("", "b", ""),
        ("", "c %(x)s", ""),
        ("", "d", ""),
        ("", "%(n)s e", "%(n)s es"),
    }
    code = 'x = _("a"), gettext_lazy("b" "c"), npgettext_lazy("ctx", "d", "ds", "num"), _(done)'
    assert python_keys(code) == {("", "a", ""), ("", "bc", ""), ("ctx", "d", "ds")}
    assert len(marked()) > 800


@pytest.mark.parametrize("path", CATALOGS, ids=lambda path: path.parts[-3])
def test_every_text_is_translated(path):
    entries = {entry.key: entry for entry in read_po(path)[1:]}
    missing = {key[1]: file for key, file in marked().items() if key not in entries}
    assert missing == {}, "Hint: make messages, then translate the empty entries of django.po"
    assert entries.keys() - marked().keys() == set(), "Hint: make messages"
    incomplete = [
        entry.key[1]
        for entry in entries.values()
        if entry.is_fuzzy
        or not all(entry.translations)
        or (bool(entry.key[2]) and len(entry.translations) < 2)
    ]
    assert incomplete == []


@pytest.mark.parametrize("path", CATALOGS, ids=lambda path: path.parts[-3])
def test_translations_have_the_placeholders_of_their_texts(path):
    different = [
        entry.key[1]
        for entry in read_po(path)[1:]
        for translation in entry.translations
        if set(_PLACEHOLDER.findall(entry.key[1])) != set(_PLACEHOLDER.findall(translation))
    ]
    assert different == []


@pytest.mark.parametrize("path", CATALOGS, ids=lambda path: path.parts[-3])
def test_compiled_file_equals_its_source(path):
    with path.with_suffix(".mo").open("rb") as file:
        compiled = dict(gettext.GNUTranslations(file)._catalog)
    compiled.pop("")
    source = {}
    for entry in read_po(path)[1:]:
        context, text, plural = entry.key
        name = f"{context}{_EOT}{text}" if context else text
        for number, translation in enumerate(entry.translations):
            source[(name, number) if plural else name] = translation
    assert compiled == source, "Hint: make messages"


def test_a_fuzzy_entry_and_another_placeholder_are_noticed(tmp_path):
    path = tmp_path / "django.po"
    path.write_text('msgid ""\nmsgstr ""\n\n#, fuzzy\nmsgid "%(a)s"\nmsgstr ""\n"%(b)"\n"s"\n')
    entry = read_po(path)[1]
    assert (entry.is_fuzzy, entry.key, entry.translations) == (True, ("", "%(a)s", ""), ["%(b)s"])


# Texts that other packages make


def domain_texts() -> set[str]:
    """Return the texts of other packages that pages pass to `texts.translated`."""
    settings = [each for group in computing_prefs.GROUPS.values() for each in group]
    labels = [
        label for name, label in own_preferences.PROJECT_LABELS.items() if name != "devices_off"
    ]
    return {
        *own_preferences.COMPUTING_GROUPS,
        *(part for each in settings for part in (each.label, each.help)),
        *(each.unit for each in settings if each.unit.islower()),
        *(part for label in labels for part in (label.text, label.help)),
        *(device.label for device in own_preferences.DEVICES.values()),
        *result_states.LABELS.values(),
        *result_states._WHY_BY_VALIDATION.values(),
        *result_states._WHY_BY_OUTCOME.values(),
        *result_states._WHY_CREDIT.values(),
        *WHY.values(),
        *status._DOES.values(),
        *(kind.label.capitalize() for kind in Team.Kind),
        *(kind.label.lower() for kind in Team.Kind if kind != Team.Kind.NONE),
    } - {""}


def test_texts_of_other_packages_are_listed():
    assert domain_texts() - set(texts.TEXTS) == set()
    assert len(texts.TEXTS) == len(set(texts.TEXTS))


def string_constants() -> str:
    """Return the strings of the packages that make listed texts; formatted values are `{}`."""
    rooms = ("people", "hosts", "boinc", "work", "health", "models")
    return "\n".join(
        node.value
        for room in rooms
        for path in (ROOT / "scheduler" / room).rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.Constant) and isinstance(node.value, str)
    )


def test_listed_sentences_are_still_made_somewhere():
    made = string_constants()
    # Parts between values are compared: a message may be put together from several strings.
    sentences = [text for text in (*texts.TEXTS, *texts.PATTERNS) if "Hint:" in text]
    parts = {
        part
        for text in sentences
        for sentence in text.split("Hint: ")
        for part in re.split(r"%\(\w+\)s|, | is ", sentence)
        if len(part) > 25
    }
    assert [part for part in sorted(parts) if part.strip(" .,:") not in made] == []
