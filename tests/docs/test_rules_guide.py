"""docs/rules.md says what rules do: its examples are rules, and its lists are those of the code."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from binlog_connector.rules.predicate_parser import OPERATORS, parse_predicate
from binlog_connector.rules.row_rule import HIDDEN, VALUE_SIZE_MAX, MaskKind, RowRule, parse_mask
from binlog_connector.rules.row_rules import read_rules
from tests.docs.markdown import code_blocks, table_rows

if TYPE_CHECKING:
    import pytest

REPO = Path(__file__).resolve().parents[2]
GUIDE = "docs/rules.md"


def test_every_setting_is_explained() -> None:
    text = (REPO / GUIDE).read_text()
    for field in msgspec.structs.fields(RowRule):
        assert re.search(rf"`{field.name}\b|^{field.name} = ", text, re.MULTILINE), field.name
    assert f"up to {VALUE_SIZE_MAX} bytes" in text
    assert f"`{HIDDEN}`" in text


def test_examples_are_rules(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SHOP_SALT", "a salt")
    (block,) = code_blocks(GUIDE, "toml")
    (tmp_path / "rules.toml").write_text(block.text)
    rules = read_rules(str(tmp_path / "rules.toml"))
    assert rules is not None
    assert rules.of("shop", "customers") is not None
    assert rules.of("shop", "orders") is None
    assert len(tomllib.loads(block.text)["tables"]) == 2
    (program,) = code_blocks(GUIDE, "python")
    text = re.search(r'"""(.*)"""', program.text)
    assert text is not None
    assert read_rules(text[1]) is not None


def test_masks_are_those_in_the_code() -> None:
    kinds = [parse_mask(row[0].strip("`")).kind for row in table_rows(GUIDE, "## Masks")]
    assert set(kinds) == set(MaskKind)


def test_words_of_predicates_are_those_in_the_code() -> None:
    told = dict(table_rows(GUIDE, "## Rows"))
    assert all(f"`{operator}`" in told["comparisons"] for operator in OPERATORS)
    for example in re.findall(r"`([^`]*)`", told["NULL"] + told["texts"]):
        if " " in example:
            parse_predicate(example)
    for literal in ("'text'", "5", "-1.50", "x'00ff'", "TRUE", "'2026-01-31'"):
        assert f"`{literal}`" in told["literals"]
        parse_predicate(f"c = {literal}")
