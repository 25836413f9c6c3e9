"""The examples of docs/schemas.md run."""

from __future__ import annotations

import re
import shutil
from pathlib import Path
from typing import TYPE_CHECKING

from tests.corpus import SERVER_CASES
from tests.truth.truth_case import expected_json

if TYPE_CHECKING:
    import pytest

DOCUMENT = Path(__file__).parents[3] / "docs" / "schemas.md"


def test_examples_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    case = SERVER_CASES / "mariadb-10.11" / "types_minimal_nolog"
    shutil.copytree(case, tmp_path / "binlogs")
    creates = [schema["create"] for schema in expected_json(case)["schemas"] if schema.get("create")]
    (tmp_path / "schemas.sql").write_text(";\n".join(["CREATE DATABASE t", "USE t", *creates]))
    monkeypatch.chdir(tmp_path)
    code = "\n".join(re.findall(r"^```python\n(.*?)^```", DOCUMENT.read_text(), re.MULTILINE | re.DOTALL))
    exec(compile(code.replace('"shop", "orders"', '"t", "t_int"'), str(DOCUMENT), "exec"), {})
    printed = capsys.readouterr().out
    assert '"tu":' in printed, "unsigned columns have names"
    assert re.search(r"^\['1:0:\d+'\]$", printed, re.MULTILINE)
    assert (tmp_path / "schemas.json").exists()
