"""BOINC's XML dialect: lenient to read, exact to write [pure].

Real projects send XML that no strict parser takes: elements in any order, raw blocks whose
content is not XML, stray text before the root. This reader follows what BOINC's own client
accepts. It is iterative and knows no entity beyond the five of XML and numbers, so neither
depth nor entities can hurt it.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field

# Read as they are, up to the literal end tag: signatures and preference blocks of other hands.
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
    """The text is not what BOINC calls XML; the message says what is missing."""


@dataclass(slots=True)
class Element:
    """One element: its own text (unescaped, CDATA included) and its children in order."""

    name: str
    text: str = ""
    attributes: dict[str, str] = field(default_factory=dict)
    children: list[Element] = field(default_factory=list)

    def first(self, name: str) -> Element | None:
        """Give the first child of that name."""
        return next((child for child in self.children if child.name == name), None)

    def every(self, name: str) -> list[Element]:
        """Give all children of that name."""
        return [child for child in self.children if child.name == name]

    def string(self, name: str, default: str = "") -> str:
        """Give the stripped text of a child; the last one counts, as in BOINC's client."""
        found = self.every(name)
        return found[-1].text.strip() if found else default

    def strings(self, *names: str) -> tuple[str, ...]:
        """Give the stripped texts of all children with one of the names."""
        return tuple(child.text.strip() for child in self.children if child.name in names)

    def number(self, name: str, default: float = 0.0) -> float:
        """Read a child as C's strtod would; what is no number is the default."""
        return number(self.string(name), default)

    def integer(self, name: str, default: int = 0) -> int:
        """Read a child as a whole number."""
        return int(self.number(name, float(default)))

    def flag(self, name: str) -> bool:
        """Read `<x/>`, `<x>1</x>` or `<x>0</x>`; absent is false."""
        found = self.first(name)
        if found is None:
            return False
        return not found.text.strip() or number(found.text) != 0


def number(text: str, default: float = 0.0) -> float:
    """Read the number at the beginning of a text.

    >>> number("1e10"), number(" 12 apples"), number("none", 5.0)
    (10000000000.0, 12.0, 5.0)
    """
    found = _NUMBER.match(text)
    if found is None:
        return default
    value = float(found.group(1))
    return value if abs(value) != float("inf") else default


def unescape(text: str) -> str:
    """Resolve the five named entities and numeric ones; leave others as they are."""
    return _ENTITY.sub(_resolve, text) if "&" in text else text


def _resolve(found: re.Match[str]) -> str:
    name = found.group(1)
    if name in _NAMED:
        return _NAMED[name]
    code = int(f"0{name[1:]}", base=16) if name[1] == "x" else int(name[1:])
    return chr(code) if 0 < code <= _LAST_CODE_POINT else ""


def escape(text: str) -> str:
    """Escape a text for an element; control characters that XML forbids are dropped."""
    kept = _UNPRINTABLE.sub("", text)
    return kept.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def decode(body: bytes) -> str:
    """Turn bytes into text; bytes that are not UTF-8 survive as surrogates."""
    return body.decode("utf-8", "surrogateescape")


def encode(text: str) -> bytes:
    """Turn text into bytes, the reverse of `decode`."""
    return text.encode("utf-8", "surrogateescape")


def parse(text: str, root: str) -> Element:
    """Read the element `root`; what stands before and after it is ignored.

    Raises BadXmlError if its start or end tag is missing, as a cut-off reply has it.
    """
    begin = re.search(rf"<{root}(?:\s[^<>]*)?>", text)
    if begin is None:
        message = f"The start tag <{root}> is missing."
        raise BadXmlError(message)
    end = text.rfind(f"</{root}>")
    if end < begin.end():
        message = f"The end tag </{root}> is missing."
        raise BadXmlError(message)
    return _read(text[begin.end() : end], Element(root))


def _read(text: str, top: Element) -> Element:
    """Read the content of `top`, one mark-up at a time."""
    stack = [top]
    words: list[list[str]] = [[]]
    position = 0
    while position < len(text):
        mark = text.find("<", position)
        if mark < 0:
            mark = len(text)
        words[-1].append(unescape(text[position:mark]))
        if mark == len(text):
            break
        position = _read_mark(text, mark, stack, words)
    while stack:
        stack.pop().text = "".join(words.pop())
    return top


def _read_mark(text: str, mark: int, stack: list[Element], words: list[list[str]]) -> int:
    """Take the mark-up that begins at `mark`; answer where reading goes on."""
    if text.startswith("<!", mark) or text.startswith("<?", mark):
        return _read_special(text, mark, words)
    tag = _TAG.match(text, mark)
    if tag is None:
        words[-1].append("<")
        return mark + 1
    closing, name, attributes, alone = tag.groups()
    if closing:
        _close(name, stack, words)
        return tag.end()
    element = Element(name, attributes=_attributes(attributes))
    stack[-1].children.append(element)
    if alone:
        return tag.end()
    if name in RAW_ELEMENTS:
        return _read_raw(text, tag.end(), element)
    stack.append(element)
    words.append([])
    return tag.end()


def _read_special(text: str, mark: int, words: list[list[str]]) -> int:
    """Take CDATA as text; skip comments, prologs and declarations."""
    if text.startswith("<![CDATA[", mark):
        end = text.find("]]>", mark)
        end = len(text) if end < 0 else end
        words[-1].append(text[mark + 9 : end])
        return end + 3
    closing = "-->" if text.startswith("<!--", mark) else ">"
    end = text.find(closing, mark)
    return len(text) if end < 0 else end + len(closing)


def _read_raw(text: str, begin: int, element: Element) -> int:
    end_tag = f"</{element.name}>"
    end = text.find(end_tag, begin)
    if end < 0:
        message = f"The end tag {end_tag} is missing."
        raise BadXmlError(message)
    element.text = text[begin:end]
    return end + len(end_tag)


def _close(name: str, stack: list[Element], words: list[list[str]]) -> None:
    """Close the innermost element of that name; a stray end tag is ignored."""
    if not any(element.name == name for element in stack[1:]):
        return
    while True:
        element = stack.pop()
        element.text = "".join(words.pop())
        if element.name == name:
            return


def _attributes(text: str) -> dict[str, str]:
    if "=" not in text:
        return {}
    return {name: unescape(value) for name, value in _ATTRIBUTE.findall(text)}


def leaf(name: str, value: object) -> str:
    r"""Write one element on a line; booleans as 0/1, floats with six digits as BOINC does.

    >>> leaf("name", "a<b"), leaf("on", True), leaf("x", 1.5)
    ('<name>a&lt;b</name>\n', '<on>1</on>\n', '<x>1.500000</x>\n')
    """
    if isinstance(value, bool):
        value = int(value)
    written = f"{value:.6f}" if isinstance(value, float) else escape(str(value))
    return f"<{name}>{written}</{name}>\n"


def block(name: str, content: str) -> str:
    """Write an element around lines already written."""
    return f"<{name}>\n{content}</{name}>\n"


def render(element: Element) -> str:
    """Write a tree; the reverse of `parse` for trees whose parents have no text of their own."""
    if not element.children:
        return leaf(element.name, element.text)
    return block(element.name, "".join(render(child) for child in element.children))
