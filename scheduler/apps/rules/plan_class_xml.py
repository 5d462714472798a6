"""Reads plan classes in BOINC's format: `plan_class_spec.xml`.

This module uses no database, files or clock.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any, Final

from scheduler.apps.rules.xml_files import BadXmlFile, read_root
from scheduler.dispatch.rules.plan_class_specs import PlanClass

if TYPE_CHECKING:
    from lxml import etree

#: Maps BOINC's names of keys and of GPU types to the names in this project.
_KEYS: Final = {"cpu_feature": "cpu_features"}
_GPU_TYPES: Final = {"ati": "amd", "intel_gpu": "intel", "apple_gpu": "apple"}
#: Elements that are ignored, because the platforms of app versions imply them.
_IMPLIED: Final = frozenset({"is64bit"})
_LISTS: Final = frozenset({"cpu_features", "exclude_vbox_version"})
_DEFAULTS: Final[Mapping[str, object]] = {each.name: each.default for each in fields(PlanClass)}


class BadPlanClassFile(ValueError):
    """The file is not a list of plan classes. Hint: correct the error in the message."""


@dataclass(frozen=True, slots=True)
class WrittenPlanClass:
    """The name of a plan class, and its spec, which is not validated yet."""

    name: str
    spec: Mapping[str, Any]


def read_plan_classes(text: bytes) -> list[WrittenPlanClass]:
    """Return the plan classes of a `plan_class_spec.xml`, in the order of the file.

    Invalid numbers are returned as texts, so that the validation of the spec reports them.
    Raises `BadPlanClassFile`.
    """
    try:
        root = read_root(text, "plan_classes", title="The file of plan classes")
    except BadXmlFile as error:
        raise BadPlanClassFile(str(error)) from error
    return [_plan_class(element) for element in root.iterfind("plan_class")]


def _plan_class(element: etree._Element) -> WrittenPlanClass:
    spec: dict[str, Any] = {}
    for part in element:
        key = _KEYS.get(str(part.tag), str(part.tag))
        if key == "name" or key in _IMPLIED:
            continue
        value = _value(key, (part.text or "").strip())
        if key in _LISTS:
            spec.setdefault(key, []).append(value)
        elif value is not False:
            spec[key] = value
    return WrittenPlanClass((element.findtext("name") or "").strip(), spec)


def _value(key: str, text: str) -> str | float | bool:
    """Convert the text of an element to the type of its key.

    >>> _value("cuda", ""), _value("cuda", "0"), _value("min_ncpus", "2.0")
    (True, False, 2)
    """
    default = _DEFAULTS.get(key)
    if key == "gpu_type":
        return _GPU_TYPES.get(text, text)
    if isinstance(default, bool):
        return text != "0" if text in {"", "0", "1"} else text
    if isinstance(default, int | float) or key == "exclude_vbox_version":
        try:
            number = float(text)
        except ValueError:
            return text
        return int(number) if number.is_integer() and not isinstance(default, float) else number
    return text
