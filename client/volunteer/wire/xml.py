"""Reads and writes BOINC's variant of XML.

Projects send XML that strict parsers reject. It can contain raw blocks whose content is not XML,
and text before the root element. This parser accepts the same input as BOINC's own client. It is
iterative, and it resolves only the five named entities of XML and numeric entities. Therefore
neither deep nesting nor entities can exhaust the memory.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import MISSING, dataclass, field, fields
from typing import Any, TypeVar

T = TypeVar("T")

# These elements contain signatures or text that may not be valid XML, so they are not parsed.
RAW_ELEMENTS = frozenset(
    {
        "code_sign_key",
        "code_sign_key_signature",
        "error_msg",
        "file_signature",
        "global_preferences",
        "gui_urls",
        "project_preferences",
        "trickle_down",
        "xml_signature",
    }
)

_TAG = re.compile(r"<(/?)([A-Za-z_][\w.:-]*)([^<>]*?)(/?)>")
_ENTITY = re.compile(r"&(lt|gt|amp|quot|apos|#\d{1,7}|#x[0-9A-Fa-f]{1,6});")
_NAMED = {"lt": "<", "gt": ">", "amp": "&", "quot": '"', "apos": "'"}
_NUMBER = re.compile(r"\s*([-+]?(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d{1,3})?)")
_ATTRIBUTE = re.compile(r"""([\w:-]+)\s*=\s*["']([^"']*)["']""")
_LAST_CODE_POINT = 0x10FFFF
_UNPRINTABLE = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f]")


class BadXmlError(ValueError):
    """A start or end tag is missing. The message contains the tag."""


@dataclass(slots=True)
class Element:
    """An element with its unescaped text, which includes CDATA, and its children in order."""

    name: str
    text: str = ""
    attributes: dict[str, str] = field(default_factory=dict)
    children: list[Element] = field(default_factory=list)

    def first(self, name: str) -> Element | None:
        """Return the first child with this name, or None if there is no such child."""
        return next((child for child in self.children if child.name == name), None)

    def every(self, name: str) -> list[Element]:
        """Return all children with this name."""
        return [child for child in self.children if child.name == name]

    def string(self, name: str) -> str:
        """Return the stripped text of the last child with this name, as in BOINC's client.

        Returns an empty string if there is no such child.
        """
        children = self.every(name)
        return children[-1].text.strip() if children else ""

    def strings(self, *names: str) -> tuple[str, ...]:
        """Return the stripped texts of all children that have one of the names."""
        return tuple(child.text.strip() for child in self.children if child.name in names)

    def number(self, name: str, default: float = 0.0) -> float:
        """Return the number at the beginning of a child's text, or `default`."""
        return number(self.string(name), default)

    def integer(self, name: str, default: int = 0) -> int:
        """Return the number at the beginning of a child's text as an integer, or `default`."""
        return int(self.number(name, float(default)))

    def flag(self, name: str) -> bool:
        """Return the boolean value of the first child with this name.

        An element without text is True, and a missing element is False.
        """
        child = self.first(name)
        if child is None:
            return False
        return not child.text.strip() or number(child.text) != 0


_READERS: dict[Any, Callable[[Element, str, Any], object]] = {
    "str": lambda element, name, _default: element.string(name),
    "int": Element.integer,
    "float": Element.number,
    "bool": lambda element, name, _default: element.flag(name),
}


def read_record(kind: Callable[..., T], element: Element, **values: object) -> T:
    """Return an instance of a dataclass with `values` and fields from the children of an element.

    A string, number or boolean that is not in `values` is read from the child with the name of the
    field. A missing or malformed number gets the default of the field, or 0. A field of another
    type that is not in `values` also gets its default.
    """
    for item in fields(kind):  # type: ignore[arg-type]  # `T` is a dataclass
        if item.type in _READERS and item.name not in values:
            default = 0 if item.default is MISSING else item.default
            values[item.name] = _READERS[item.type](element, item.name, default)
    return kind(**values)


def number(text: str, default: float = 0.0) -> float:
    """Return the number at the beginning of a text, or `default` if it has no number.

    >>> number("1e10"), number(" 12 apples"), number("none", 5.0)
    (10000000000.0, 12.0, 5.0)
    """
    match = _NUMBER.match(text)
    if match is None:
        return default
    value = float(match.group(1))
    return value if abs(value) != float("inf") else default


def unescape(text: str) -> str:
    """Replace the five named entities and numeric entities by their characters."""
    return _ENTITY.sub(_resolve, text) if "&" in text else text


def _resolve(match: re.Match[str]) -> str:
    name = match.group(1)
    if name in _NAMED:
        return _NAMED[name]
    code = int(f"0{name[1:]}", base=16) if name[1] == "x" else int(name[1:])
    return chr(code) if 0 < code <= _LAST_CODE_POINT else ""


def escape(text: str) -> str:
    """Escape a text for an element, and remove the control characters that XML forbids."""
    printable = _UNPRINTABLE.sub("", text)
    return printable.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def decode(body: bytes) -> str:
    """Decode UTF-8, and replace invalid bytes by surrogates."""
    return body.decode("utf-8", "surrogateescape")


def encode(text: str) -> bytes:
    """Encode as UTF-8, and restore the bytes that `decode` replaced by surrogates."""
    return text.encode("utf-8", "surrogateescape")


def parse(text: str, root: str) -> Element:
    """Return the element with the name `root`, and ignore the text before and after it.

    Raises BadXmlError if its start or end tag is missing, as in a truncated reply, or if the end
    tag of a raw element is missing.
    """
    begin = re.search(rf"<{root}(?:\s[^<>]*)?>", text)
    if begin is None:
        raise BadXmlError(f"The start tag <{root}> is missing.")
    end = text.rfind(f"</{root}>")
    if end < begin.end():
        raise BadXmlError(f"The end tag </{root}> is missing.")
    return _read(text[begin.end() : end], Element(root))


def _read(text: str, top: Element) -> Element:
    """Add the content in `text` to the element `top`, and return this element."""
    stack = [top]
    texts: list[list[str]] = [[]]
    position = 0
    while position < len(text):
        mark = text.find("<", position)
        if mark < 0:
            mark = len(text)
        texts[-1].append(unescape(text[position:mark]))
        if mark == len(text):
            break
        position = _read_mark(text, mark, stack, texts)
    while stack:
        stack.pop().text = "".join(texts.pop())
    return top


def _read_mark(text: str, mark: int, stack: list[Element], texts: list[list[str]]) -> int:
    """Read the mark-up that begins at `mark`, and return the position after it."""
    if text.startswith("<!", mark) or text.startswith("<?", mark):
        return _read_special(text, mark, texts)
    tag = _TAG.match(text, mark)
    if tag is None:
        texts[-1].append("<")
        return mark + 1
    closing, name, attributes, self_closing = tag.groups()
    if closing:
        _close(name, stack, texts)
        return tag.end()
    element = Element(name, attributes=_attributes(attributes))
    stack[-1].children.append(element)
    if self_closing:
        return tag.end()
    if name in RAW_ELEMENTS:
        return _read_raw(text, tag.end(), element)
    stack.append(element)
    texts.append([])
    return tag.end()


def _read_special(text: str, mark: int, texts: list[list[str]]) -> int:
    """Add CDATA to the text, or skip a comment or declaration, and return the position after it."""
    if text.startswith("<![CDATA[", mark):
        end = text.find("]]>", mark)
        end = len(text) if end < 0 else end
        texts[-1].append(text[mark + 9 : end])
        return end + 3
    closing = "-->" if text.startswith("<!--", mark) else ">"
    end = text.find(closing, mark)
    return len(text) if end < 0 else end + len(closing)


def _read_raw(text: str, begin: int, element: Element) -> int:
    end_tag = f"</{element.name}>"
    end = text.find(end_tag, begin)
    if end < 0:
        raise BadXmlError(f"The end tag {end_tag} is missing.")
    element.text = text[begin:end]
    return end + len(end_tag)


def _close(name: str, stack: list[Element], texts: list[list[str]]) -> None:
    """Close the innermost element with this name, and all elements in it.

    An end tag without an open element is ignored.
    """
    if not any(element.name == name for element in stack[1:]):
        return
    while True:
        element = stack.pop()
        element.text = "".join(texts.pop())
        if element.name == name:
            return


def _attributes(text: str) -> dict[str, str]:
    if "=" not in text:
        return {}
    return {name: unescape(value) for name, value in _ATTRIBUTE.findall(text)}


def leaf(name: str, value: object) -> str:
    r"""Return one element as a line.

    Booleans are written as 0 or 1, and floats with six decimals, as in BOINC.

    >>> leaf("name", "a<b"), leaf("on", True), leaf("x", 1.5)
    ('<name>a&lt;b</name>\n', '<on>1</on>\n', '<x>1.500000</x>\n')
    """
    if isinstance(value, bool):
        value = int(value)
    written = f"{value:.6f}" if isinstance(value, float) else escape(str(value))
    return f"<{name}>{written}</{name}>\n"


def leaves(**values: object) -> str:
    """Return an element for each value that is not None, one element per line."""
    return "".join(leaf(name, value) for name, value in values.items() if value is not None)


def block(name: str, content: str) -> str:
    """Return an element with its tags on separate lines. `content` is empty or complete lines."""
    return f"<{name}>\n{content}</{name}>\n"
