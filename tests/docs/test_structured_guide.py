"""The examples of `docs/structured-logs.md` run as they are written."""

from __future__ import annotations

import contextlib
import logging
from typing import TYPE_CHECKING

from binlog_format.structured.writing import Session, SessionWriter, StructuredLogHandler, tags_of_types
from tests.docs.markdown import code_blocks, table_rows
from tests.format.structured.plain_reader import Event, events

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    import pytest

GUIDE = "docs/structured-logs.md"
LOG_FOLDER = "/var/log/app"


def python_block(part: str) -> str:
    (block,) = [block for block in code_blocks(GUIDE, "python") if part in block.text]
    return block.text


def execute(part: str, folder: Path) -> dict[str, object]:
    names: dict[str, object] = {}
    text = python_block(part).replace("/data/", f"{folder}/").replace(LOG_FOLDER, str(folder))
    exec(compile(text, GUIDE, "exec"), names)
    return names


@contextlib.contextmanager
def bare_root_logger() -> Iterator[None]:
    """As a program has it at its start; pytest adds handlers of its own."""
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    root.handlers.clear()
    try:
        yield
    finally:
        for handler in root.handlers:
            handler.close()
        root.handlers[:] = handlers
        root.setLevel(level)


def told(event: Event) -> tuple[str, list[object]]:
    return event.source.format.decode(), event.args


def test_handler(tmp_path: Path) -> None:
    with bare_root_logger():
        handler = execute("basicConfig", tmp_path)["handler"]
        assert isinstance(handler, StructuredLogHandler)
    found = events((tmp_path / "app.blog").read_bytes())
    assert [told(one) for one in found] == [("order {} of {} took {} s", [7, b"ann", 0.25])]
    assert found[0].source.category == b"shop"


def test_logger(tmp_path: Path) -> None:
    execute("StructuredLogger(", tmp_path)
    found = events((tmp_path / "app.blog").read_bytes())
    assert [told(one) for one in found] == [
        ("user {} took {} s", [b"ann", 0.25]),
        ("items {} are missing", [[3, 5]]),
    ]


def test_sources_and_types_that_are_given(tmp_path: Path) -> None:
    stream = execute("add_source", tmp_path)["stream"]
    found = events(stream.getvalue())  # type: ignore[attr-defined] # of the example
    assert [told(one) for one in found] == [("order {} cost {}: {}", [7, None, [b"tea", b"milk"]])]


def test_reading(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    session = Session()
    SessionWriter(session).add_event(session.add_source("hello", file="a.cpp", line=5), 17)
    with (tmp_path / "app.blog").open("wb", buffering=0) as stream:
        session.consume(stream)
    execute('event["clock"]', tmp_path)
    assert capsys.readouterr().out == "a.cpp 5 hello 17\n"


def test_type_tags_in_the_table_are_those_in_the_code() -> None:
    tags = {row[0]: row[1] for row in table_rows(GUIDE, "session.consume(stream)\n```")}
    assert tags["`bool`, `int`, `float`"].startswith("`y`; `l`")
    assert tags_of_types(bool, int, float, str, None) == b"yld[c<0>"
    assert tags["`None`, `T | None`, other unions"] == "`<0>`, `<0t>`, `<tu>`"
    assert tags_of_types(int | None, list[int], tuple[int, bool], dict[str, float]) == b"<0l>[l(ly)[([cd)"
