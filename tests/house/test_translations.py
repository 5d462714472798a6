"""Every text of the volunteers' pages has a translation, which is compiled."""

from __future__ import annotations

import ast
import gettext
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

import pytest
from django.utils.translation.template import templatize

from scheduler.boinc import own_preferences
from scheduler.boinc.rules import keywords
from scheduler.boinc.wire import computing_prefs
from scheduler.dispatch.rules import plan_class_gpus, plan_classes, scoring
from scheduler.health import maintenance, status
from scheduler.health.rules import standstill_causes
from scheduler.hosts.decision_texts import WHY
from scheduler.models import Team
from scheduler.web import texts
from scheduler.work.volunteers import result_states, timeline_texts
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
    for_the_api = {"devices_off", "keywords_no", "keywords_yes"}
    labels = [
        label for name, label in own_preferences.PROJECT_LABELS.items() if name not in for_the_api
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
        *timeline_texts.SENTENCES,
        *standstill_causes._REASONS.values(),
        *(maintenance.DOWN, maintenance.ENDED),
        *(scoring.NO_BETA, scoring.NOT_SELECTED, scoring.DISLIKED),
        *(plan_classes._TOO_OLD, plan_class_gpus._OLD_DRIVER),
        *WHY.values(),
        *status._DOES.values(),
        *(keyword.name for keyword in keywords.KEYWORDS.values()),
        *(kind.label.capitalize() for kind in Team.Kind if kind != Team.Kind.NONE),
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


#: Modules whose sentences explain to a volunteer why their computer got no work.
REFUSING = (
    "boinc/client_messages.py",
    "dispatch/assign.py",
    "dispatch/rules/bundle_offers.py",
    "dispatch/rules/fit.py",
    "dispatch/rules/plan_class_gpus.py",
    "dispatch/rules/plan_classes.py",
    "queues/rules/serving.py",
)
#: Functions of these modules whose sentences are for scientists or operators, or for clients only.
NOT_FOR_VOLUNTEERS = {"describe", "why_still", "too_old", "_cpu_usage"}
#: Values in the sentences of these functions.
ALTERNATIVES = {
    "unmatched": (
        *("operating system", "processor's vendor", "processor's model", "GPU's model"),
        "OpenCL driver",
    ),
    "_above": ("CUDA version", "compute capability", "OpenCL version", "driver"),
    "about_preferences": ("computing", "project"),
}


def sample_of(node: ast.expr, value: str = "7") -> str | None:
    """Return the text of a string with `value` in the place of each formatted value."""
    match node:
        case ast.Constant(str(text)):
            return text
        case ast.JoinedStr(parts):
            return "".join(sample_of(part, value) or value for part in parts)
    return None


def without_inner_strings(node: ast.AST) -> Iterator[ast.AST]:
    """Yield the node and those below it, except the parts of formatted strings and docstrings."""
    yield node
    if isinstance(node, ast.JoinedStr):
        return
    body = getattr(node, "body", ())
    has_docstring = isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef)
    for child in ast.iter_child_nodes(node):
        is_docstring = has_docstring and body and child is body[0] and isinstance(child, ast.Expr)
        if not is_docstring:
            yield from without_inner_strings(child)


def sentences_of(path: Path) -> Iterator[str]:
    """Yield samples of the sentences in the functions of a module."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    functions = [node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)]
    for function in functions:
        if function.name in NOT_FOR_VOLUNTEERS:
            continue
        for node in without_inner_strings(function):
            for value in ALTERNATIVES.get(function.name, ("7",)):
                text = sample_of(node, value) if isinstance(node, ast.expr) else None
                if text is not None and len(text.split()) >= 3:
                    yield text


@pytest.mark.parametrize("module", REFUSING)
def test_sentences_about_refused_work_are_translated(module):
    samples = set(sentences_of(ROOT / "scheduler" / module))
    assert samples
    assert [text for text in sorted(samples) if not texts.is_listed(text)] == []


#: Rooms whose refusals pages show.
ROOMS = ("people", "hosts", "boinc/own_preferences.py")
#: Beginnings of refusals that no page of volunteers shows.
NOT_ON_PAGES = (
    # Of the shell and of the administration
    "Account 7 has no current key.",
    "Account 7 has no weak key.",
    "An account has only one weak key.",
    "An invitation for 7 accounts is not allowed.",
    "A team with this name or id was created meanwhile.",
    "Host 7 belongs to account 7, host 7 to account 7.",
    "No account has the e-mail address 7.",
    "The expiry of the invitation is in the past.",
    "The founder is a member of another team here.",
    "The invitation's name has 7 characters.",
    "The team has another founder here.",
    "There is no host 7. Hint: `manage.py host list`",
    "There is no role 7.",
    "7 is not a valid limit. Hint: give 0 or more",
    "The data of 7 were erased for good.",
    "You may not change 7, because of rights",
    "Your own account is among them",
    # Of the API
    "7 has a second factor, which a token does not prove.",
    "7 has 7 unfinished workunits",
    "7 has a second factor, so its password alone",
    "7 is a member of the project's staff and has no second factor.",
    "7 may not 7. Hint: ask the project's staff to do it",
    "7 may not publish versions of app 7.",
    "7 may not submit work",
    "7 would keep 7 bytes of files",
    "No account has this e-mail address and password. Hint: check both.",
    "The expiry of the token is in the past.",
    "The first request with this idempotency key",
    "The idempotency key is not valid.",
    "The key was used for another request.",
    "The token in use ",
    # Of clients and of submission by BOINC's protocol
    "No account has this key",
    "The log-in token is not valid.",
    "The password digest has 7 characters.",
    "The password is wrong. Hint: check the password and the e-mail address it is hashed with.",
    "The secret of this feed is wrong or expired.",
    # Put together from parts, which the tests below fill in
    "7 Hint: wait 7 seconds7.",
    "Account 7 is not 7 of 7.",
    "The 7 has 7 characters. Hint: give at most 7, without NUL.",
    "The invitation code 7.",
)
#: The refusals that are put together from parts.
COMPOSED = (
    "Account 7 is not a member of 7. Hint: list the members of the team.",
    "Account 7 is not an active member of 7. Hint: list the members of the team.",
    *(
        f"The {name} has 7 characters. Hint: give at most 7, without NUL."
        for name in ("url", "country", "description")
    ),
    *(
        f"The invitation code {fault}. Hint: ask the project's staff for a code, and create the "
        "account with it: 7"
        for fault in ("is missing", "is unknown, expired or used up")
    ),
)


def refusals_of(path: Path) -> Iterator[str]:
    """Yield samples of the refusals in a module: texts with a hint, and those of exceptions."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    for node in without_inner_strings(tree):
        if isinstance(node, ast.expr):
            text = sample_of(node)
            if text is not None and "Hint:" in text:
                yield text
        elif isinstance(node, ast.Raise) and isinstance(node.exc, ast.Call) and node.exc.args:
            text = sample_of(node.exc.args[0])
            if text is not None:
                yield text


def refusals() -> set[str]:
    paths = [ROOT / "scheduler" / room for room in ROOMS]
    modules = [each for path in paths for each in ([path] if path.suffix else path.rglob("*.py"))]
    return {text for path in modules for text in refusals_of(path)}


def test_refusals_that_pages_show_are_translated():
    unlisted = {text for text in refusals() if not texts.is_listed(text)}
    assert sorted(text for text in unlisted if not text.startswith(NOT_ON_PAGES)) == []
    assert [text for text in COMPOSED if not texts.is_listed(text)] == []
    assert [each for each in NOT_ON_PAGES if not any(t.startswith(each) for t in unlisted)] == []


def throttled() -> set[str]:
    """Return samples of the messages of `_charge` in `people.throttle`, with their hints."""
    tree = ast.parse((ROOT / "scheduler/people/throttle.py").read_text(encoding="utf-8"))
    samples = set()
    for function in ast.walk(tree):
        if not isinstance(function, ast.FunctionDef):
            continue
        named = {
            target.id: node.value
            for node in ast.walk(function)
            if isinstance(node, ast.Assign)
            for target in node.targets
            if isinstance(target, ast.Name)
        }
        for node in ast.walk(function):
            if isinstance(node, ast.Call) and ast.unparse(node.func) == "_charge":
                message = node.args[3]
                message = named[message.id] if isinstance(message, ast.Name) else message
                hints = [ast.literal_eval(each.value) for each in node.keywords]
                hint = hints[0] if hints else ", and check e-mail address and password"
                samples.add(f"{sample_of(message)} Hint: wait 7 seconds{hint}.")
    return samples


def test_messages_of_the_throttle_are_translated():
    assert len(throttled()) >= 7
    assert [text for text in sorted(throttled()) if not texts.is_listed(text)] == []
