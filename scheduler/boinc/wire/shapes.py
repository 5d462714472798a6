"""Maps the fields of messages to XML elements, for parsing and encoding."""

from __future__ import annotations

from dataclasses import MISSING, dataclass, fields
from functools import lru_cache
from operator import attrgetter
from typing import TYPE_CHECKING, Any, Final, Generic, TypeAlias, TypeVar

from scheduler.boinc.wire import ranges, xml

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from scheduler.boinc.wire.ranges import Range
    from scheduler.boinc.wire.xml import Node

M = TypeVar("M")
TEXT_LIMIT: Final = 65535
"""The maximum number of bytes that a client reads in one text element."""

_SHORT: Final = 10
"""A number with fewer digits fits in 31 bits."""

_ABSENT: Final = object()

Write: TypeAlias = "Callable[[Any], str]"


@dataclass(frozen=True, slots=True)
class Kind:
    """How values of one kind are parsed from an XML element and encoded as an element.

    `read` returns None for an element without a usable value; the element is then ignored.
    `writer(element, indent)` returns a function that encodes a value as the whole element with a
    line end.  The tags are formatted once for all values.

    Numbers are clamped to `range`.  If the element contains a message, `shape` is the shape of the
    message.  If the message is nested in an inner element, `within` is the name of this element.
    """

    read: Callable[[Node], Any]
    writer: Callable[[str, str], Write]
    range: Range | None = None
    shape: Shape[Any] | None = None
    within: str = ""

    def write(self, element: str, value: Any, indent: str) -> str:  # noqa: ANN401 - any type
        """Return the value encoded as one element."""
        return self.writer(element, indent)(value)


def uncached(write: Callable[[str, Any, str], str]) -> Callable[[str, str], Write]:
    """Return a `Kind.writer` that calls `write(element, value, indent)` for each value."""
    return lambda element, indent: lambda value: write(element, value, indent)


@dataclass(frozen=True, slots=True)
class Row:
    """A field of a message and the XML element that contains it.

    With `many`, the element may be repeated, and the field is a tuple of the values.  `aliases` are
    other names of the element, used only for parsing.  A field with its default value is not
    encoded, unless `always` is set.
    """

    element: str
    kind: Kind
    field: str = ""
    many: bool = False
    always: bool = False
    aliases: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class NumberField:
    """A number in a request: the path of the element (`host_info/p_fpops`), and the range."""

    path: str
    message_class: type
    field: str
    range: Range


def rows(kind: Kind, names: str, *, always: bool = False) -> list[Row]:
    """Return a row for each of the space-separated `names` of fields and their elements."""
    return [Row(each, kind, always=always) for each in names.split()]


class Shape(Generic[M]):
    """The rows of one message class, in the order in which they are encoded."""

    def __init__(self, message_class: type[M], rows: Iterable[Row]) -> None:
        self.message_class = message_class
        by_name = {each.name: each for each in fields(message_class)}  # type: ignore[arg-type]
        self.required = {
            name
            for name, each in by_name.items()
            if each.default is MISSING and each.default_factory is MISSING
        }
        self._readers: dict[str, tuple[str, Callable[[Node], Any], bool]] = {}
        self._rows = tuple(rows)
        self._omitted: list[object] = []
        for row in self._rows:
            name = row.field or row.element
            default = by_name[name].default
            for element in (row.element, *row.aliases):
                self._readers[element] = (name, row.kind.read, row.many)
            self._omitted.append(_ABSENT if row.always or name in self.required else default)
        self._field_values = attrgetter(*(row.field or row.element for row in self._rows))
        self._writers: dict[str, list[tuple[object, Write]]] = {}

    def leaves(self, path: str = "") -> Iterator[tuple[str, type, Row]]:
        """Yield the path, message class and row of every value, also in nested messages."""
        for row in self._rows:
            kind, inside = row.kind, f"{path}{row.element}"
            if kind.shape is None:
                yield inside, self.message_class, row
            else:
                within = f"{kind.within}/" if kind.within else ""
                yield from kind.shape.leaves(f"{inside}/{within}")

    def values(self, nodes: Iterable[Node]) -> dict[str, Any]:
        """Return the values in `nodes` by field name; unknown elements are ignored."""
        values: dict[str, Any] = {}
        readers = self._readers
        for node in nodes:
            reader = readers.get(node[0])
            if reader is None:
                continue
            name, read, many = reader
            value = read(node)
            if value is None:
                continue
            if many:
                values.setdefault(name, []).append(value)
            else:
                values[name] = value
        for name, value in values.items():
            if type(value) is list:
                values[name] = tuple(value)
        return values

    def read(self, nodes: Iterable[Node]) -> M | None:
        """Return the message, or None if a field without a default is missing, such as a name."""
        values = self.values(nodes)
        if self.required and not self.required <= values.keys():
            return None
        return self.message_class(**values)

    def write(self, message: M, indent: str = "") -> str:
        """Return the fields of `message` encoded as elements, without an outer element."""
        return self.writer(indent)(message)

    def writer(self, indent: str) -> Write:
        """Return a function that encodes a message with this indentation."""
        if indent not in self._writers:
            writers = [_row_writer(row, indent) for row in self._rows]
            self._writers[indent] = list(zip(self._omitted, writers, strict=True))
        rows, field_values = self._writers[indent], self._field_values

        def write(message: M) -> str:
            parts = [
                write(value)
                for value, (omitted, write) in zip(field_values(message), rows, strict=True)
                if value is not omitted and value != omitted
            ]
            return "".join(parts)

        return write


def _row_writer(row: Row, indent: str) -> Write:
    write = row.kind.writer(row.element, indent)
    if not row.many:
        return write
    return lambda values: "".join([write(value) for value in values])


def _text_of(node: Node) -> str:
    content = node[1]
    return content if isinstance(content, str) else ""


def text(limit: int = 255) -> Kind:
    """Return a `Kind` for texts of at most `limit` bytes; longer texts are truncated."""

    def read(node: Node) -> str:
        content = _text_of(node).strip()
        if "&" in content:
            content = xml.unescape(content)
        return content if len(content) * 4 <= limit else xml.cut(content, limit)

    def writer(element: str, indent: str) -> Write:
        begin, end = f"{indent}<{element}>", f"</{element}>\n"
        return lambda value: f"{begin}{xml.escape(xml.cut(value, limit))}{end}"

    return Kind(read, writer)


def name(limit: int = 255) -> Kind:
    """Return a `Kind` for names of 1 to `limit` bytes.

    An attempt to encode a name of another length raises CannotEncode.
    """

    def read(node: Node) -> str | None:
        return xml.cut(xml.unescape(_text_of(node).strip()), limit) or None

    def writer(element: str, indent: str) -> Write:
        begin, end = f"{indent}<{element}>", f"</{element}>\n"

        def write(value: str) -> str:
            if not value or xml.cut(value, limit) != value:
                raise xml.CannotEncode(f"<{element}> must have 1 to {limit} bytes, not {value!r}.")
            return f"{begin}{xml.escape(value)}{end}"

        return write

    return Kind(read, writer)


def whole(allowed: Range) -> Kind:
    """Return a `Kind` for integers, which are clamped to the range."""
    low, high = int(allowed.low), int(allowed.high)

    def read(node: Node) -> int:
        content = node[1]
        if type(content) is str and len(content) < _SHORT and content.isdecimal():
            value = int(content)
            if low <= value <= high:
                return value
        # `to_int` bounds infinite numbers before it converts them to integers.
        return int(allowed.clamp(xml.to_int(_text_of(node), xml.INT64)))

    return Kind(read, _int_writer, allowed)


def _int_writer(element: str, indent: str) -> Write:
    begin, end = f"{indent}<{element}>", f"</{element}>\n"
    return lambda value: f"{begin}{value:d}{end}"


def _real_writer(element: str, indent: str) -> Write:
    begin, end = f"{indent}<{element}>", f"</{element}>\n"
    return lambda value: f"{begin}{xml.real_text(value)}{end}"


def real(allowed: Range) -> Kind:
    """Return a `Kind` for real numbers, which are clamped to the range; NaN is read as 0."""
    low, high = allowed.low, allowed.high

    def read(node: Node) -> float:
        content = node[1]
        try:
            value = float(content)  # type: ignore[arg-type]
        except (TypeError, ValueError):
            return float(allowed.clamp(xml.to_real(_text_of(node))))
        # `to_real` handles infinities, NaN and underscores, which only Python accepts.
        if low <= value <= high and "_" not in content:  # type: ignore[operator]
            return value + 0.0
        return float(allowed.clamp(xml.to_real(_text_of(node))))

    return Kind(read, _real_writer, allowed)


def _read_bool(node: Node) -> bool:
    # <x/> and numbers other than 0 are true, as in BOINC's parse_bool.
    return node[1] is None or xml.to_int(_text_of(node)) != 0


def _flag_writer(element: str, indent: str) -> Write:
    return lambda value: f"{indent}<{element}/>\n" if value else ""


INT: Final = whole(ranges.INT32)
LONG: Final = whole(ranges.INT64)
EXIT_STATUS: Final = Kind(
    lambda node: xml.to_exit_status(_text_of(node)), _int_writer, ranges.INT32
)
REAL: Final = real(ranges.Range(-xml.MAX_REAL, xml.MAX_REAL, "any"))
"""For replies; every number in a request has a range (`boinc.wire.ranges`)."""
FLAG: Final = Kind(_read_bool, _flag_writer)
"""`<x/>` if true; absent if false."""
BIT: Final = Kind(_read_bool, _int_writer)
"""`<x>1</x>` or `<x>0</x>`."""
TEXT: Final = text()
NAME: Final = name()


@lru_cache(maxsize=512)
def _check_balanced(element: str, value: str) -> None:
    """Raise CannotEncode if tags in `value` are unbalanced: clients copy it into XML files."""
    root = "r"
    while f"</{root}" in value:  # otherwise "</r><r>" would be accepted
        root += "_"
    try:
        body = f"<{root}>{value}</{root}>".encode("utf-8", "replace")
        for _ in xml.read_tree(body, root, raw=frozenset()):
            pass
    except xml.BadXml as error:
        raise xml.CannotEncode(f"The text of <{element}> is unbalanced: {error}") from error


def is_balanced(element: str, value: str) -> bool:
    """Return True if `raw(balanced=True)` accepts the tags in the text of an element."""
    try:
        _check_balanced(element, value)
    except xml.CannotEncode:
        return False
    return True


def raw(limit: int = TEXT_LIMIT, *, balanced: bool = False) -> Kind:
    """Return a `Kind` for raw text, which ends at the literal end tag and is not escaped.

    With `balanced`, a text with unbalanced tags raises CannotEncode when it is encoded.
    """

    def read(node: Node) -> str:
        # The text is cut before it is stripped, because it may be megabytes long.
        return xml.cut(_text_of(node)[: 2 * limit].strip(), limit)

    def write(element: str, value: str, indent: str) -> str:
        if f"</{element}>" in value or xml.cut(value, limit) != value:
            raise xml.CannotEncode(
                f"The text of <{element}> contains its end tag or is over {limit} bytes."
                " Hint: pass the content without the tags around it."
            )
        if balanced:
            _check_balanced(element, value)
        # The literal end tag must be on a line of its own: some clients read line by line.
        return f"{indent}<{element}>\n{value}\n{indent}</{element}>\n"

    return Kind(read, uncached(write))


def nested(shape: Shape[Any], *, cache_size: int = 0) -> Kind:
    """Return a `Kind` for elements that contain a message.

    The encoded texts of up to `cache_size` messages are cached.
    """

    def read(node: Node) -> Any:  # noqa: ANN401 - a message of the shape
        # An empty app version still counts, because results refer to app versions by index.
        return shape.read(node[1] if isinstance(node[1], list) else ())

    def writer(element: str, indent: str) -> Write:
        inside = shape.writer(indent + "    ")
        begin, end = _tags(element, indent)

        def write(value: Any) -> str:  # noqa: ANN401 - a message of the shape
            return f"{begin}{inside(value)}{end}"

        return lru_cache(maxsize=cache_size)(write) if cache_size else write

    return Kind(read, writer, shape=shape)


def _tags(element: str, indent: str) -> tuple[str, str]:
    return f"{indent}<{element}>\n", f"{indent}</{element}>\n"


def listed(element: str, kind: Kind) -> Kind:
    """Return a `Kind` for elements that contain only `element`, any number of times."""

    def read(node: Node) -> tuple[Any, ...]:
        if not isinstance(node[1], list):
            return ()
        values = [kind.read(each) for each in node[1] if each[0] == element]
        return tuple(value for value in values if value is not None)

    def writer(outer: str, indent: str) -> Write:
        inside = kind.writer(element, indent + "    ")
        begin, end = _tags(outer, indent)
        return lambda values: f"{begin}{''.join([inside(each) for each in values])}{end}"

    return Kind(read, writer, shape=kind.shape, within=element)


def wrapped(element: str, kind: Kind) -> Kind:
    """Return a `Kind` for elements that contain one `element`, as in `<result_ack><name>`."""

    def read(node: Node) -> Any:  # noqa: ANN401 - a value of the inner kind
        if isinstance(node[1], list):
            for each in node[1]:
                if each[0] == element:
                    return kind.read(each)
        return None

    def writer(outer: str, indent: str) -> Write:
        inside = kind.writer(element, indent + "    ")
        begin, end = _tags(outer, indent)
        return lambda value: f"{begin}{inside(value)}{end}"

    return Kind(read, writer)
