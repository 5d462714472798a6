"""Reads graphs of workunits from files, and draws graphs as SVG.

A file has a JSON object with the list `workunits`.  Each entry has the fields of `inputs.work_of`
and a `name`, which other entries name in their `after`.  The names are local to the file: in the
project, the prefix of the submission is put before them, so that a file can be submitted again.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from graphlib import CycleError, TopologicalSorter
from html import escape
from itertools import takewhile
from pathlib import Path
from typing import Any

from scientist.errors import UsageError

#: Sizes of the drawing in pixels.
_BOX_WIDTH, _BOX_HEIGHT, _GAP_X, _GAP_Y, _MARGIN = 150, 34, 30, 64, 24
#: Between the rows of one level.
_GAP_ROW = 6
_HEADER_HEIGHT, _LEGEND_WIDTH = 54, 128
#: Maximum number of boxes in a row; a longer level is drawn in several rows.
_MAX_ROW = 12
#: Between the edges that pass beside a column of boxes, and their number; more edges overlap.
_LANE, _MAX_LANES = 2.5, 5
#: Maximum number of characters of a name in a box.
_MAX_LABEL = 20
#: Maximum number of names of a circle in a message.
_MAX_CIRCLE = 10
#: Maximum number of workunits in `after` that the title of a box names.
_MAX_PARENTS = 5
#: Fill, border and text color of a box, by the status of the workunit.
_COLORS = {
    "waiting": ("#f1f3f5", "#868e96", "#343a40"),
    "unsent": ("#fff3bf", "#e8a302", "#4a3600"),
    "in_progress": ("#d0ebff", "#1c7ed6", "#0b3d66"),
    "validating": ("#e5dbff", "#7048e8", "#31207a"),
    "done": ("#d3f9d8", "#2b8a3e", "#123f1c"),
    "failed": ("#ffc9c9", "#c92a2a", "#6b1414"),
    # Failed because a workunit failed for which it waited.
    "dependency_failed": ("#fff5f5", "#e8a0a0", "#8c4040"),
}
#: Stroke color of an edge, and of an edge that passed a failure on.
_EDGE, _FAILED_EDGE = "#adb5bd", "#d94848"


@dataclass(frozen=True, slots=True)
class Node:
    """A workunit of a graph; `after` has the ids of the workunits for which it waits."""

    id: int
    name: str
    status: str
    after: tuple[int, ...] = ()
    is_group: bool = False


def read_graph(path: Path) -> list[dict[str, Any]]:
    """Return the workunits of a file, each after those for which it waits.

    Raises UsageError if the file does not describe a graph: it is not JSON, a name is missing or
    given twice, or the workunits wait for each other in a circle.
    """
    try:
        value = json.loads(path.read_bytes())
    except OSError as error:
        raise UsageError(f"{path} cannot be read: {error.strerror}.", "check the path.") from None
    except RecursionError:
        hint = 'write {"workunits": [{"name": "a"}]}.'
        raise UsageError(f"{path} is nested too deeply.", hint) from None
    except ValueError as error:
        hint = 'write {"workunits": [{"name": "a"}, {"name": "b", "after": ["a"]}]}.'
        raise UsageError(f"{path} is not JSON: {error}.", hint) from None
    entries = value.get("workunits") if isinstance(value, dict) else value
    if not isinstance(entries, list) or not entries:
        hint = 'write {"workunits": [...]} with an object for each workunit.'
        raise UsageError(f"{path} has no list of workunits.", hint)
    return in_order(entries)


def in_order(entries: Sequence[object]) -> list[dict[str, Any]]:
    """Return the entries, each after those that its `after` names.  Raises UsageError.

    An entry that is in the `continuations` of another one gets that one in its `after` instead.
    """
    by_name = _by_name(entries)
    parents = {name: list(entry.get("after", ())) for name, entry in by_name.items()}
    for name, entry in by_name.items():
        for child in entry.get("continuations", ()):
            if child in by_name and name not in parents[child]:
                parents[child].append(name)
    sorter = TopologicalSorter(
        {name: [parent for parent in after if parent in by_name] for name, after in parents.items()}
    )
    try:
        return [_linked(by_name[name], parents[name], by_name) for name in sorter.static_order()]
    except CycleError as error:
        names = error.args[1]
        if len(names) > _MAX_CIRCLE:
            names = [*names[: _MAX_CIRCLE - 2], f"({len(names) - _MAX_CIRCLE + 1} more)", names[-1]]
        circle = " -> ".join(names)
        hint = "an arrow points to the workunit that waits; remove one of these from its after."
        raise UsageError(f"Workunits of the graph wait for each other: {circle}.", hint) from None


def _by_name(entries: Sequence[object]) -> dict[str, dict[str, Any]]:
    """Return the entries by their names.  Raises UsageError for an entry that is not valid."""
    by_name: dict[str, dict[str, Any]] = {}
    for number, entry in enumerate(entries, 1):
        if not isinstance(entry, dict) or not isinstance(entry.get("name"), str):
            hint = 'give each workunit a name, as {"name": "a"}.'
            raise UsageError(f"Workunit {number} of the graph has no name: {entry!r:.60}.", hint)
        name = entry["name"]
        if name in by_name:
            hint = "use a different name for each workunit."
            raise UsageError(f"Two workunits of the graph are called {name!r}.", hint)
        for key in ("after", "continuations"):
            value = entry.get(key, [])
            if not isinstance(value, list) or not all(isinstance(i, str | int) for i in value):
                hint = f'give a list of names, as "{key}": ["a"].'
                raise UsageError(f"{key} of {name!r} is {value!r:.60}.", hint)
        by_name[name] = entry
    return by_name


def _linked(
    entry: Mapping[str, Any], after: list[str | int], by_name: Mapping[str, object]
) -> dict[str, Any]:
    """Return an entry with all its parents, and without continuations in the file."""
    fields = {**entry, "after": after} if after else dict(entry)
    if "continuations" in fields:
        others = [child for child in fields.pop("continuations") if child not in by_name]
        fields |= {"continuations": others} if others else {}
    return fields


def rename(entry: Mapping[str, Any], names: Mapping[str, str]) -> dict[str, Any]:
    """Return an entry with the full names of the workunits in `after`.

    `names` maps the names in the file to full names.  Other names and ids are kept: these are
    workunits that were submitted before.
    """
    fields = dict(entry)
    fields["label"] = fields.pop("name")
    if "after" in fields:
        fields["after"] = [
            names.get(parent, parent) if isinstance(parent, str) else parent
            for parent in fields["after"]
        ]
    return fields


def draw(nodes: Sequence[Node], title: str) -> str:
    """Return the graph as SVG: a box for each workunit, below those for which it waits."""
    nodes = _with_causes(nodes)
    by_id = {node.id: node for node in nodes}
    places, width, height = _layout(nodes)
    edges = [(by_id[parent], node) for node in nodes for parent in node.after if parent in by_id]
    # Edges that passed a failure on are drawn last, above the others.
    edges.sort(key=_passed_failure)
    lines = [
        _curve(places[parent.id], places[node.id], has_failed=_passed_failure((parent, node)))
        for parent, node in edges
    ]
    prefix = _common_prefix([node.name for node in nodes])
    boxes = [_box(node, places[node.id], by_id, prefix) for node in nodes]
    statuses = [status for status in _COLORS if any(node.status == status for node in nodes)]
    width = max(width, 2 * _MARGIN + _LEGEND_WIDTH * max(1, len(statuses)))
    head = (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" '
        f'width="{width}" height="{height}" font-family="system-ui, sans-serif">'
    )
    name = (
        f'<text x="{_MARGIN}" y="24" font-size="15" font-weight="600" fill="#212529">'
        f"{escape(title)}</text>"
    )
    return "\n".join(
        [
            head,
            f'<rect width="{width}" height="{height}" fill="#ffffff"/>',
            name,
            *_legend(nodes, statuses),
            '<g fill="none" stroke-width="1.4">',
            *lines,
            "</g>",
            *boxes,
            "</svg>\n",
        ]
    )


def _with_causes(nodes: Sequence[Node]) -> list[Node]:
    """Return the nodes; failed ones get the status ``dependency_failed`` if a parent failed."""
    failed = {node.id for node in nodes if node.status == "failed"}
    return [
        replace(node, status="dependency_failed")
        if node.id in failed and not failed.isdisjoint(node.after)
        else node
        for node in nodes
    ]


def _passed_failure(edge: tuple[Node, Node]) -> bool:
    return all(node.status in {"failed", "dependency_failed"} for node in edge)


def _common_prefix(names: Sequence[str]) -> str:
    """Return the common prefix of all names, up to an underscore: the name of the batch."""
    if len(names) <= 1:
        return ""
    first, last = min(names), max(names)
    equal = sum(
        1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(first, last, strict=False))
    )
    return first[: first.rfind("_", 0, equal) + 1]


def levels_of(nodes: Iterable[Node]) -> dict[int, int]:
    """Return the level of each node: one more than the highest level for which it waits."""
    by_id = {node.id: node for node in nodes}
    sorter = TopologicalSorter(
        {node.id: [parent for parent in node.after if parent in by_id] for node in by_id.values()}
    )
    levels: dict[int, int] = {}
    for id_ in sorter.static_order():
        above = [levels[parent] for parent in by_id[id_].after if parent in levels]
        levels[id_] = 1 + max(above, default=-1)
    return levels


@dataclass(frozen=True, slots=True)
class _Place:
    """The left upper corner of a box, and the numbers of boxes above and below it in its column."""

    x: float
    y: float
    above: int = 0
    below: int = 0


def _layout(nodes: Sequence[Node]) -> tuple[dict[int, _Place], int, int]:
    """Return the place of each box, and the width and height of the drawing."""
    levels = levels_of(nodes)
    rows: defaultdict[int, list[Node]] = defaultdict(list)
    for node in nodes:
        rows[levels[node.id]].append(node)
    widest = min(_MAX_ROW, max(map(len, rows.values()), default=1))
    width = 2 * _MARGIN + widest * (_BOX_WIDTH + _GAP_X) - _GAP_X
    places: dict[int, _Place] = {}
    top = _HEADER_HEIGHT + _MARGIN
    for _level, row in sorted(rows.items()):
        # A box stands near the middle of the boxes for which it waits.
        row.sort(key=lambda node: _middle(node, places))
        height = -(-len(row) // _MAX_ROW)
        columns = -(-len(row) // height)
        for place, node in enumerate(row):
            # Column by column, so that a level of several rows keeps the order from left to right.
            column, line = divmod(place, height)
            left = (width - columns * (_BOX_WIDTH + _GAP_X) + _GAP_X) / 2
            x = left + column * (_BOX_WIDTH + _GAP_X)
            below = min(height, len(row) - column * height) - 1 - line
            y = top + line * (_BOX_HEIGHT + _GAP_ROW)
            places[node.id] = _Place(x, y, above=line, below=below)
        top += height * (_BOX_HEIGHT + _GAP_ROW) - _GAP_ROW + _GAP_Y
    return places, width, top - _GAP_Y + _MARGIN


def _middle(node: Node, places: Mapping[int, _Place]) -> tuple[float, int]:
    xs = [places[parent].x for parent in node.after if parent in places]
    return (sum(xs) / len(xs) if xs else 0.0, node.id)


def _curve(parent: _Place, child: _Place, *, has_failed: bool) -> str:
    """Return the line of an edge, which passes beside the boxes of both columns."""
    step = _BOX_HEIGHT + _GAP_ROW
    x1, y1 = parent.x + _BOX_WIDTH / 2, parent.y + _BOX_HEIGHT
    x2, y2 = child.x + _BOX_WIDTH / 2, child.y
    begin, end = f"M{x1:.0f} {y1:.0f}", ""
    if parent.below:
        # Along the right side of the column: the lower the box, the nearer is its line.
        x1 = parent.x + _BOX_WIDTH + _LANE * (1 + min(parent.below, _MAX_LANES))
        begin = f"M{parent.x + _BOX_WIDTH:.0f} {parent.y + _BOX_HEIGHT / 2:.0f} H{x1:.1f}"
        y1 += parent.below * step
        begin += f" V{y1:.0f}"
    if child.above:
        x2 = child.x - _LANE * (1 + min(child.above, _MAX_LANES))
        y2 -= child.above * step
        end = f" V{child.y + _BOX_HEIGHT / 2:.0f} H{child.x:.0f}"
    bend = max(18.0, (y2 - y1) / 2)
    color = _FAILED_EDGE if has_failed else _EDGE
    return (
        f'<path d="{begin} C{x1:.1f} {y1 + bend:.0f} {x2:.1f} {y2 - bend:.0f} '
        f'{x2:.1f} {y2:.0f}{end}" stroke="{color}"/>'
    )


def _box(node: Node, place: _Place, by_id: Mapping[int, Node], prefix: str) -> str:
    x, y = place.x, place.y
    fill, border, ink = _COLORS.get(node.status, _COLORS["waiting"])
    name = node.name.removeprefix(prefix) or node.name
    label = name if len(name) <= _MAX_LABEL else f"…{name[1 - _MAX_LABEL :]}"
    parents = [by_id[id_].name if id_ in by_id else f"#{id_}" for id_ in node.after[:_MAX_PARENTS]]
    more = ", ..." * (len(node.after) > _MAX_PARENTS)
    title = f"{node.name}: {node.status.replace('_', ' ')}"
    title += f"; after {', '.join(parents)}{more}" * bool(parents)
    radius, dashes = (17, ' stroke-dasharray="5 3"') if node.is_group else (6, "")
    return (
        f"<g><title>{escape(title)}</title>"
        f'<rect x="{x:.0f}" y="{y:.0f}" width="{_BOX_WIDTH}" height="{_BOX_HEIGHT}" '
        f'rx="{radius}" fill="{fill}" stroke="{border}"{dashes}/>'
        f'<text x="{x + _BOX_WIDTH / 2:.0f}" y="{y + 22:.0f}" font-size="12" '
        f'text-anchor="middle" fill="{ink}">{escape(label)}</text></g>'
    )


def _legend(nodes: Sequence[Node], statuses: Sequence[str]) -> Iterable[str]:
    for place, status in enumerate(statuses):
        fill, border, _ink = _COLORS[status]
        number = sum(node.status == status for node in nodes)
        x = _MARGIN + place * _LEGEND_WIDTH
        yield (
            f'<rect x="{x}" y="38" width="12" height="12" rx="3" fill="{fill}" '
            f'stroke="{border}"/><text x="{x + 18}" y="48" font-size="12" fill="#495057">'
            f"{status.replace('_', ' ')} {number}</text>"
        )
