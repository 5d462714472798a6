"""The fields of keywords in the form of project preferences, one for each keyword."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from django import forms
from django.core.exceptions import ValidationError
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy, gettext_noop

from scheduler.boinc import own_preferences
from scheduler.boinc.rules.keywords import KEYWORDS, Category, level
from scheduler.web.texts import translated

#: The maximum number of fields for keywords that are not in BOINC's list.  The others are kept.
#: Django refuses forms with more than 1000 fields.
MAX_OTHERS: Final = 50
#: The choices of a keyword: none, preferred or excluded.
NEUTRAL, YES, NO = "", "yes", "no"
_CHOICES: Final = (
    (NEUTRAL, gettext_lazy("neutral")),
    (YES, gettext_lazy("prefer")),
    (NO, gettext_lazy("never")),
)
_TREES: Final[Mapping[Category, str]] = {
    Category.SCIENCE: gettext_noop("Fields of science"),
    Category.LOCATION: gettext_noop("Places of research"),
}
_NAME: Final = re.compile(r"keyword_([1-9][0-9]{0,9})")


@dataclass(frozen=True, slots=True)
class KeywordRow:
    """A keyword in a list; `field` is None if another list of the page has its field."""

    label: str
    level: int
    field: forms.BoundField | None


@dataclass(frozen=True, slots=True)
class KeywordList:
    """A list of keywords with a title."""

    title: str
    rows: list[KeywordRow]


@dataclass(frozen=True, slots=True)
class KeywordLists:
    """The lists of keywords of a page: those at the top, and all others.

    `hidden_count` is the number of keywords that are stored and have no field.
    """

    top: list[KeywordList]
    others: list[KeywordList]
    hidden_count: int
    has_errors: bool


def field_name(number: int) -> str:
    return f"keyword_{number}"


def label_of(number: int) -> str:
    """Return the name of a keyword in the visitor's language."""
    if number in KEYWORDS:
        return translated(KEYWORDS[number].name)
    return _("Keyword {}").format(number)


def choice_of(number: int, values: Mapping[str, Any]) -> str:
    """Return the choice in stored preferences; a keyword that is in both lists is excluded."""
    if number in values["keywords_no"]:
        return NO
    return YES if number in values["keywords_yes"] else NEUTRAL


def numbers_with_fields(values: Mapping[str, Any], sent_names: Iterable[str]) -> tuple[int, ...]:
    """Return the numbers of all fields: BOINC's keywords, and some of the others in use.

    The others are those of the sent form, then those of the stored preferences.
    """
    sent = (int(match[1]) for name in sent_names if (match := _NAME.fullmatch(name)))
    in_use = dict.fromkeys((*sent, *values["keywords_yes"], *values["keywords_no"]))
    others = [number for number in in_use if number not in KEYWORDS]
    allowed = [number for number in others if number <= own_preferences.MAX_ID]
    return (*KEYWORDS, *allowed[:MAX_OTHERS])


def new_field(number: int) -> forms.ChoiceField:
    return forms.ChoiceField(label=label_of(number), choices=_CHOICES, required=False)


def parse_numbers(text: str) -> tuple[int, ...]:
    """Return the numbers in a text, separated by commas or blanks; raises ValidationError."""
    words = text.replace(",", " ").split()
    if not all(word.isascii() and word.isdecimal() and len(word) <= 10 for word in words):  # noqa: PLR2004  digits
        raise ValidationError(_("Give the numbers of keywords, separated by commas."))
    numbers = tuple(dict.fromkeys(map(int, words)))
    if not all(0 < number <= own_preferences.MAX_ID for number in numbers):
        raise ValidationError(
            _("Give numbers of keywords from 1 to {}.").format(own_preferences.MAX_ID)
        )
    return numbers


def changed_lists(
    stored: Mapping[str, Any], choices: Mapping[int, str]
) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Return the preferred and the excluded keywords after choices for some keywords.

    Keywords whose choice is the stored one keep their places, so that the text for clients changes
    only where a choice did.
    """
    changed = {
        number: choice for number, choice in choices.items() if choice != choice_of(number, stored)
    }

    def numbers(name: str, choice: str) -> tuple[int, ...]:
        unchanged = (number for number in stored[name] if number not in changed)
        return (*unchanged, *(number for number in changed if changed[number] == choice))

    return numbers("keywords_yes", YES), numbers("keywords_no", NO)


def lists_of(form: forms.Form, *, used: frozenset[int], stored: Mapping[str, Any]) -> KeywordLists:
    """Return the lists of a form's keywords: those in use and those with a choice at the top."""
    names = {int(match[1]): name for name in form.fields if (match := _NAME.fullmatch(name))}
    chosen = [
        number
        for number, name in names.items()
        if number not in KEYWORDS
        or (number not in used and (form[name].value() or choice_of(number, stored)))
    ]
    in_work = [number for number in KEYWORDS if number in used]
    at_top = {*chosen, *in_work}
    stored_numbers = {*stored["keywords_yes"], *stored["keywords_no"]}
    top = [
        KeywordList(title, [KeywordRow(label_of(n), 0, form[names[n]]) for n in numbers])
        for title, numbers in (
            (_("Keywords of this project’s tasks"), in_work),
            (_("Other keywords that you have chosen"), chosen),
        )
        if numbers
    ]
    trees = [
        KeywordList(_(title), list(_rows_of(form, category, at_top)))
        for category, title in _TREES.items()
    ]
    others_have_errors = any(form[name].errors for name in ("keywords_yes", "keywords_no"))
    return KeywordLists(top, trees, len(stored_numbers - names.keys()), others_have_errors)


def _rows_of(form: forms.Form, category: Category, at_top: set[int]) -> Iterator[KeywordRow]:
    for number, keyword in KEYWORDS.items():
        if keyword.category == category:
            field = None if number in at_top else form[field_name(number)]
            yield KeywordRow(label_of(number), level(number), field)
