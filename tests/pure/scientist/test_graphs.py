"""Graphs of workunits in files, and drawings of graphs."""

from __future__ import annotations

import json
import re
from xml.etree import ElementTree as ET

import pytest

from scientist.errors import UsageError
from scientist.graphs import Node, _common_prefix, draw, in_order, levels_of, read_graph, rename


def entry(name, *after):
    return {"name": name, "after": list(after)} if after else {"name": name}


def test_entries_are_returned_after_those_for_which_they_wait():
    entries = [entry("movie", "left", "right"), entry("left", "scene"), entry("scene")]
    entries.append(entry("right", "scene", 17, "elsewhere"))
    names = [one["name"] for one in in_order(entries)]
    assert names[0] == "scene"
    assert names[-1] == "movie"
    assert set(names) == {"scene", "left", "right", "movie"}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[" * 100_000, "nested too deeply"),
        ("{", "is not JSON"),
        ("[]", "has no list of workunits"),
        ('{"tasks": []}', "has no list of workunits"),
        ('[{"after": ["a"]}]', "Workunit 1 of the graph has no name"),
        ("[7]", "Workunit 1 of the graph has no name: 7"),
        ('[{"name": "a"}, {"name": "a"}]', "Two workunits of the graph are called 'a'"),
        ('[{"name": "a", "after": "b"}]', "after of 'a' is 'b'"),
        ('[{"name": "a", "after": [{}]}]', r"after of 'a' is \[{}\]"),
        ('[{"name": "a", "continuations": "b"}]', "continuations of 'a' is 'b'"),
        ('[{"name": "a", "after": ["b"]}, {"name": "b", "after": ["a"]}]', "wait for each other"),
    ],
)
def test_file_without_a_graph_is_refused(tmp_path, text, message):
    path = tmp_path / "graph.json"
    path.write_text(text)
    with pytest.raises(UsageError, match=message) as caught:
        read_graph(path)
    assert caught.value.hint


def test_long_circle_is_shortened():
    entries = [entry(f"w{n}", f"w{(n - 1) % 12}") for n in range(12)]
    with pytest.raises(UsageError, match=r"w0 -> w1 .*w7 -> \(4 more\) -> w0\."):
        in_order(entries)


def test_missing_file_is_refused(tmp_path):
    with pytest.raises(UsageError, match="cannot be read"):
        read_graph(tmp_path / "none.json")


def test_file_with_an_object_is_read(tmp_path):
    path = tmp_path / "graph.json"
    path.write_text(json.dumps({"workunits": [entry("b", "a"), entry("a")]}))
    assert [one["name"] for one in read_graph(path)] == ["a", "b"]


def test_continuations_in_the_file_become_parents_and_others_are_kept():
    entries = [entry("b", "x"), entry("a") | {"continuations": ["b", "elsewhere", 17]}]
    assert in_order(entries) == [
        {"name": "a", "continuations": ["elsewhere", 17]},
        {"name": "b", "after": ["x", "a"]},
    ]
    circle = [entry("b"), entry("a", "b") | {"continuations": ["b"]}]
    with pytest.raises(UsageError, match="wait for each other"):
        in_order(circle)


def test_names_are_local_to_the_file_and_other_references_are_kept():
    renamed = rename(entry("b", "a", 17, "elsewhere"), {"a": "batch_a"})
    assert renamed == {"label": "b", "after": ["batch_a", 17, "elsewhere"]}


DIAMOND = [
    Node(1, "top", "done"),
    Node(2, "left", "in_progress", (1,)),
    Node(3, "right", "failed", (1,)),
    Node(4, "a <name> & more than twenty characters", "waiting", (2, 3), is_group=True),
    Node(5, "elsewhere", "unsent", (99,)),
]


def test_level_of_a_workunit_is_below_all_for_which_it_waits():
    assert levels_of(DIAMOND) == {1: 0, 2: 1, 3: 1, 4: 2, 5: 0}


def test_drawing_is_xml_with_a_box_for_each_workunit_and_a_line_for_each_edge():
    root = ET.fromstring(draw(DIAMOND, 'batch "b" <1>'))
    space = "{http://www.w3.org/2000/svg}"
    assert len(root.findall(f".//{space}path")) == 4
    titles = [one.text for one in root.iter(f"{space}title")]
    assert titles == [
        "top: done",
        "left: in progress; after top",
        "right: failed; after top",
        "a <name> & more than twenty characters: waiting; after left, right",
        "elsewhere: unsent; after #99",
    ]
    shown = [one.text for one in root.iter(f"{space}text")]
    assert 'batch "b" <1>' in shown
    assert "done 1" in shown


def test_failure_is_drawn_along_the_edges_that_passed_it_on():
    nodes = [
        Node(1, "film_top", "failed"),
        Node(2, "film_left", "failed", (1, 4)),
        Node(3, "film_end", "failed", (2, 4)),
        Node(4, "film_right", "done"),
    ]
    text = draw(nodes, "failures")
    assert text.count('stroke="#d94848"') == 2
    assert text.count('stroke="#adb5bd"') == 2
    shown = [one.text for one in ET.fromstring(text).iter("{http://www.w3.org/2000/svg}text")]
    assert shown[1:4] == ["done 1", "failed 1", "dependency failed 2"]
    assert shown[4:] == ["top", "left", "end", "right"]


@pytest.mark.parametrize(
    ("names", "prefix"),
    [(["a_b", "a_c"], "a_"), (["a_b"], ""), (["ab", "ac"], ""), (["_x", "y"], ""), ([], "")],
)
def test_names_are_drawn_without_what_all_begin_with(names, prefix):
    assert _common_prefix(names) == prefix


def test_boxes_of_a_drawing_do_not_overlap_and_stay_inside():
    nodes = [Node(1, "root", "done"), *(Node(n, f"n{n}", "unsent", (1,)) for n in range(2, 60))]
    root = ET.fromstring(draw(nodes, "wide"))
    space = "{http://www.w3.org/2000/svg}"
    boxes = [
        (float(rect.get("x")), float(rect.get("y")))
        for group in root.findall(f"{space}g")
        for rect in group.findall(f"{space}rect")
    ]
    assert len(boxes) == len(set(boxes)) == 59
    width, height = float(root.get("width")), float(root.get("height"))
    for x, y in boxes:
        assert 0 <= x <= width - 150
        assert 50 <= y <= height - 34
        assert not any(0 < abs(x - other) < 150 and y == row for other, row in boxes)


def test_edges_of_a_level_with_several_rows_pass_beside_its_boxes():
    nodes = [Node(1, "root", "done"), *(Node(n, f"n{n}", "done", (1,)) for n in range(2, 60))]
    nodes.append(Node(60, "end", "done", tuple(range(2, 60))))
    root = ET.fromstring(draw(nodes, "wide"))
    space = "{http://www.w3.org/2000/svg}"
    # The level between the root and the end.
    boxes = root.findall(f"{space}g/{space}rect")[1:-1]
    lefts = {float(rect.get("x")) for rect in boxes}
    paths = [path.get("d") for path in root.iter(f"{space}path")]
    down = [re.search(r"H(\S+) V", path) for path in paths]
    up = [re.search(r" ([\d.]+) [\d.]+ V", path) for path in paths]
    beside = [float(found[1]) for found in (*down, *up) if found]
    assert len(beside) == 2 * (58 - 12)
    assert not any(left < x < left + 150 for left in lefts for x in beside)
    assert all(0 < x < float(root.get("width")) for x in beside)


def test_empty_graph_can_be_drawn():
    assert ET.fromstring(draw([], "empty")) is not None
