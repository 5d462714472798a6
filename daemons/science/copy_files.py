"""Assimilates by copying canonical outputs to ``var/results/<app>/<workunit>/``."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from scheduler import storage

if TYPE_CHECKING:
    from pathlib import Path

    from daemons.science.interfaces import Assimilation


def assimilate(assimilation: Assimilation) -> list[Path | str]:
    """Copy each output to a file with its open name; return the paths of the new files.

    For a failed workunit, writes ``FAILED.json``.
    """
    folder = assimilation.workunit_name
    if assimilation.failed:
        reason = {
            "workunit": assimilation.workunit_name,
            "errors": list(assimilation.errors),
            "cancel_reason": assimilation.cancel_reason,
        }
        data = json.dumps(reason, indent=2, ensure_ascii=False).encode() + b"\n"
        path = storage.write_result(
            app=assimilation.app, relative=f"{folder}/FAILED.json", data=data
        )
        return [path]
    return [
        storage.keep_result(
            upload_name=output.upload_name,
            app=assimilation.app,
            relative=f"{folder}/{output.open_name or f'output_{output.position}'}",
        )
        for output in assimilation.outputs
    ]
