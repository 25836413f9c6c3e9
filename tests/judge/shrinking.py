"""Makes a history that fails as short as it can be and still fail: `shrunk`.

What was found, as a folder like those of the reported logs: `write_case`.
"""

from __future__ import annotations

import json
import re
import shutil
import time
from typing import TYPE_CHECKING

import pymysql

from tests.judge.replicas import ReplicaStoppedError
from tests.judge.rounds import replayed
from tests.judge.verdicts import Kind

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from tests.judge.histories.history import Done
    from tests.judge.rounds import Judged
    from tests.judge.servers import LiveServer
    from tests.judge.verdicts import Verdict


SECONDS_MAX = 40.0
_ABOUT_A_TABLE = re.compile(r"(?!CREATE DATABASE)(CREATE|ALTER|INSERT|REPLACE|UPDATE|DELETE|DROP|RENAME|TRUNCATE)\b")
_TYPES = re.compile(r"values of [\w, ]+")
_NAMES = re.compile(r"'[^']*'|\b[a-z]\w*\d\b|\d+|/\S+")


def sign_of(verdict: Verdict) -> str:
    """What two failures have in common that are the same."""
    if verdict.kind is Kind.CRASH:
        return f"{verdict.kind} {_NAMES.sub('?', verdict.why.strip().splitlines()[-1])[:60]}"
    if verdict.kind is Kind.NAMED:
        return f"{verdict.kind} {verdict.condition}"
    if verdict.kind is Kind.FALSE_NAME:
        return f"{verdict.kind} {_NAMES.sub('?', verdict.why)[:60]}"
    types = _TYPES.search(verdict.why)
    return f"{verdict.kind} {types[0] if types else _NAMES.sub('?', verdict.why)[:40]}"


def shrunk(server: LiveServer, work: Path, failed: Judged, sign: str, table: str = "") -> Judged | None:
    """The shortest history found that fails with the same *sign*; None: alone it does not fail.

    Args:
        server: What it has is forgotten.
        work: A folder for targets.
        table: That fails; statements about others are left out first, all together.
    """

    def tried(statements: Sequence[str]) -> Judged | None:
        try:
            judged = replayed(server, work, statements, failed.choices)
        except (pymysql.MySQLError, ReplicaStoppedError):
            return None  # it leaves a table that nobody can read, as one of the engine MERGE without its parts
        return judged if sign in {sign_of(verdict) for verdict in judged.verdicts.values()} else None

    history = failed.history

    def text(done: Done) -> str:
        # Databases are those of the first history there.
        return re.sub(rf"\b{history.database}(b?)\b", r"h1\1", done.text)

    # Mostly what failed has nothing to do with it, and neither have other tables.
    texts = [text(done) for done in history.done if not done.error]
    name = re.compile(rf"\b{re.escape(table.rpartition('.')[2])}\b")
    found = tried([one for one in texts if name.search(one) or not _ABOUT_A_TABLE.match(one)])
    found = found or tried(texts) or tried([text(done) for done in history.done])
    return None if found is None else _shorter(found, tried)


def _shorter(found: Judged, tried: Callable[[Sequence[str]], Judged | None]) -> Judged:
    until = time.monotonic() + SECONDS_MAX
    texts = [done.text for done in found.history.done]
    size = max(len(texts) // 2, 1)
    while True:
        at, is_shorter = len(texts), False
        while at > 0 and time.monotonic() < until:
            rest = texts[: max(at - size, 0)] + texts[at:]
            judged = tried(rest) if rest else None
            if judged is not None:
                found, texts, is_shorter = judged, rest, True
            at -= size
        if time.monotonic() >= until or (size == 1 and not is_shorter):
            return found
        size = max(size // 2, 1)


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
