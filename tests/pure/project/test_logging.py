"""The output of the logging configuration for an event."""

from __future__ import annotations

import json
import logging
from io import StringIO
from logging.config import DictConfigurator

import pytest

from project.logging import configuration

FIELDS = {"app": "two\nlines", "failures": 3}


def written(form, **config):
    """Return the lines that the logging configuration writes for a warning with FIELDS."""
    configurator = DictConfigurator(configuration(form, level="INFO", **config))
    formatter = configurator.configure_formatter(configurator.config["formatters"]["line"])
    stream = StringIO()
    handler = logging.StreamHandler(stream)
    handler.setFormatter(formatter)
    logger = logging.Logger("daemons.validator")  # noqa: LOG001  of no tree, for this test only
    logger.addHandler(handler)
    logger.warning("science_parked", extra=FIELDS)
    return stream.getvalue().removesuffix("\n").split("\n")


def test_text_format_writes_an_event_as_one_line_with_its_fields():
    (line,) = written("text")
    _time, rest = line.split(" ", 1)
    assert rest == r"WARNING daemons.validator      science_parked app=two\x0alines failures=3"


def test_json_format_writes_an_event_as_one_object_with_its_fields():
    (line,) = written("json")
    entry = json.loads(line)
    assert entry.pop("at").endswith("+00:00")
    assert entry == {
        "level": "warning",
        "logger": "daemons.validator",
        "event": "science_parked",
        **FIELDS,
    }


@pytest.mark.parametrize("form", ["text", "json"])
def test_all_events_are_written_to_standard_error(form):
    config = configuration(form, level="WARNING")
    assert config["root"] == {"handlers": ["stderr"], "level": "WARNING"}
    handler = config["handlers"]["stderr"]
    assert handler["class"] == "logging.StreamHandler"
    assert "stream" not in handler  # the default stream of `logging` is standard error
    assert handler["formatter"] == "line"
