"""What was found, as a folder like those of the reported logs: `write_case`."""

from __future__ import annotations

import json
import re
import shutil
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

    from tests.judge.rounds import Judged
    from tests.judge.servers import LiveServer

WHY_MAX = 600
_LOG_FILE = re.compile(r"mysql-bin\.(\d+|index)")


def write_case(into: Path, name: str, server: LiveServer, judged: Judged, seed: str) -> Path:
    """Write a history that the server has lived last, with its log; the folder.

    Args:
        server: Its log has this history alone.
        seed: What it was found with.
    """
    folder = into / name
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    for file in sorted(server.log_directory.iterdir()):
        if _LOG_FILE.fullmatch(file.name):
            shutil.copy(file, folder / file.name)
    index = folder / "mysql-bin.index"
    index.write_text("".join(f"./{line.rpartition('/')[2]}\n" for line in index.read_text().splitlines()))
    tables = {
        table: {"columns": one.columns, "types": one.types, "rows": one.rows}
        for table, one in judged.history.server.items()
    }
    (folder / "final.json").write_text(json.dumps(tables, indent=1, ensure_ascii=False) + "\n")
    lines = [f"-- fails: {done.text}" if done.error else f"{done.text};" for done in judged.history.done]
    (folder / "statements.sql").write_text("\n".join(lines) + "\n")
    why = [
        f"{table}: {verdict.kind}: {verdict.why[-WHY_MAX:]}".rstrip(": ") for table, verdict in judged.verdicts.items()
    ]
    settings = [f"SET GLOBAL {name} = {value}" for name, value in judged.choices.settings.items()]
    sink, rule = judged.choices.targets
    targets = f"targets: {sink.table_format}, merge = {sink.merge}, json = {sink.json}, {dict(rule)}"
    note = [f"seed: {seed}", f"server: {server.installed.vendor} {server.version}", targets, *settings, "was:", *why]
    (folder / "note.txt").write_text("\n".join(note) + "\n")
    return folder
