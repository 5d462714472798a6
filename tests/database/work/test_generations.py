"""An assimilator creates the next generation of workunits, exactly once."""

from __future__ import annotations

import pytest

from daemons import assimilator
from scheduler.models import Workunit
from tests import generations, graphs
from tests.database.passes import a_pass
from tests.plugins import AllowsTargets
from tests.rows import hours

pytestmark = pytest.mark.django_db


@pytest.fixture
def app(settings, tmp_path):
    target = "python:tests.generations.next_generation"
    settings.PLUGINS = AllowsTargets(folders=(str(tmp_path),), transactional=frozenset({target}))
    return graphs.an_app(assimilator=target)


def names():
    return set(Workunit.objects.values_list("name", flat=True))


def test_each_answer_starts_the_next_generation(app):
    graphs.a_graph({"generation_1": ()}, app=app, meta={"generation": 1})
    graphs.run_daemons()
    for generation in (1, 2, 3):
        assert graphs.sent() == {f"generation_{generation}"}
        graphs.finish(f"generation_{generation}")
    assert names() == {"generation_1", "generation_2", "generation_3", "until_2", "until_3"}
    assert graphs.ended()["done"] == names()
    assert graphs.edges() == {
        ("generation_1", "generation_2"),
        ("generation_2", "until_2"),
        ("generation_2", "generation_3"),
        ("generation_3", "until_3"),
    }
    assert graphs.violations() == []


def test_generation_of_an_assimilator_that_fails_is_created_once(app):
    generations.errors.append(OSError("after the submission"))
    graphs.a_graph({"generation_1": ()}, app=app, meta={"generation": 1})
    graphs.run_daemons()
    graphs.finish("generation_1")
    assert names() == {"generation_1"}
    a_pass(assimilator, now=hours(1))
    assert names() == {"generation_1", "generation_2", "until_2"}
    graphs.run_daemons(now=hours(1))
    assert graphs.sent() == {"generation_2"}
