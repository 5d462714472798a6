"""Assimilates by calling a Python function of the allow-list.

The function is called in a worker process, because it may hang, crash or be hostile.  The daemon
writes the files that the function returns to ``var/results``.  A function that is `transactional`
in the allow-list is called by the daemon itself, in the transaction that marks the workunit as
assimilated.
"""

from __future__ import annotations

import base64
import binascii
import os
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from daemons.science.interfaces import Assimilation, Defer, Output
from daemons.science.messages import BadMessage, a_list, a_text, an_object
from daemons.science.moments import defer_message, read_defer
from daemons.science.worker_main import resolve

if TYPE_CHECKING:
    from datetime import timedelta

    from scheduler.apps.rules.plugins import Plugin

#: The maximum number of files that a call returns, and the maximum size of its answer in bytes.
_MAX_FILES: Final = 1000
_MAX_ANSWER: Final = 16 << 20
_MAX_NAME: Final = 1000

Files = dict[str, bytes]


@dataclass(frozen=True, slots=True)
class Callable:
    """An assimilator that calls a Python function."""

    options: Mapping[str, Any]
    plugin: Plugin
    time_limit: timedelta

    @property
    def transactional(self) -> bool:
        """Return the flag `transactional` of the plug-in's entry in the allow-list."""
        return self.plugin.transactional

    def __call__(self, assimilation: Assimilation) -> list[Path] | Defer | None:
        """Call the function in a worker, or in this transaction if it is `transactional`."""
        from daemons.science import worker  # noqa: PLC0415 - the worker itself has no Django

        with_options = replace(assimilation, options=self.options)
        if self.transactional:
            function = resolve(self.plugin.function, worker.science_folder())
            answer = _called(function, with_options)
        else:
            answer = worker.call_plugin(
                self.plugin,
                "daemons.science.callables:run",
                message(with_options),
                time_limit=self.time_limit,
                read=read_answer,
                max_answer=_MAX_ANSWER,
            )
        return answer if isinstance(answer, Defer) else _filed(assimilation.app, answer)


def _filed(app: str, files: Files) -> list[Path]:
    """Write files to ``var/results/<app>/`` and return their paths.

    Raises `storage.BadFileName` for an invalid name.
    """
    from scheduler import storage  # noqa: PLC0415 - see above

    return [storage.write_result(app=app, relative=name, data=data) for name, data in files.items()]


def message(assimilation: Assimilation) -> dict[str, Any]:
    return asdict(assimilation)


def read_answer(value: object) -> Files | Defer:
    """Decode the answer of `run`; return the contents of files by name, or the `Defer`.

    Raises `BadMessage`.
    """
    if isinstance(value, dict) and "defer" in value:
        return read_defer(value)
    answer = an_object(value, "The answer", ("files",))
    files: Files = {}
    for entry in a_list(answer["files"], "files", _MAX_FILES):
        pair = a_list(entry, "a file", 2)
        if len(pair) != 2:  # noqa: PLR2004 - name and content
            raise BadMessage("A file is not a pair of name and content.")
        name = a_text(pair[0], "a file's name", _MAX_NAME)
        try:
            files[name] = base64.b64decode(a_text(pair[1], "a content", _MAX_ANSWER), validate=True)
        except (binascii.Error, ValueError) as error:
            raise BadMessage(f"The content of {name!r:.100} is not Base64.") from error
    return files


# In the worker


def run(target: str, folder: str, message: dict[str, Any]) -> dict[str, Any]:
    """Call the function in the worker; return its answer as JSON."""
    function = resolve(target, folder)
    if getattr(function, "transactional", False):
        msg = (
            f"{target} has the attribute `transactional`, but its PLUGINS entry does not. "
            "Hint: ask an operator to add `transactional = true` there: the daemon then calls it."
        )
        raise PermissionError(msg)
    outputs = tuple(Output(**output) for output in message["outputs"])
    errors = tuple(message["errors"])
    answer = _called(function, Assimilation(**{**message, "outputs": outputs, "errors": errors}))
    if isinstance(answer, Defer):
        return defer_message(answer)
    return {"files": [[name, base64.b64encode(data).decode()] for name, data in answer.items()]}


def _called(function: Any, assimilation: Assimilation) -> Files | Defer:  # noqa: ANN401 - any callable
    """Call the function; return the contents of its files by name, or its `Defer`.

    If it returned paths of files that it wrote itself, these files are synced to disk.
    """
    try:
        answer = function(assimilation)
    except Defer as later:
        return later
    if isinstance(answer, Defer):
        return answer
    if isinstance(answer, Mapping):
        return {str(name): _bytes(name, content) for name, content in answer.items()}
    _sync(answer or ())
    return {}


def _bytes(name: object, content: object) -> bytes:
    if isinstance(content, str):
        return content.encode()
    if isinstance(content, bytes | bytearray):
        return bytes(content)
    msg = f"The file {name!r} is {content!r:.60}. Hint: return text or bytes by name."
    raise TypeError(msg)


def _sync(paths: Iterable[Any]) -> None:
    for path in paths:
        for target in (Path(path), Path(path).parent):
            descriptor = os.open(target, os.O_RDONLY)
            try:
                os.fsync(descriptor)
            finally:
                os.close(descriptor)
