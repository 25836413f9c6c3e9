"""The appendix of `docs/map.md`: what three ways enter is about what the page states."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest

from tests.docs.code_map import PAGE
from tests.docs.code_ways import WAYS, measured

if TYPE_CHECKING:
    from pathlib import Path

SLACK = 1.05


@pytest.mark.parametrize("way", WAYS)
def test_ways_enter_no_more_code_than_the_map_states(way: str, tmp_path: Path) -> None:
    row = re.search(rf"^\| {way} \| (\d+) \| (\d+) \| \d+ \|$", PAGE.read_text(), re.M)
    assert row is not None
    found = measured(way, tmp_path)
    functions, files = int(row[1]) * SLACK, int(row[2]) * SLACK
    assert (found.functions <= functions, found.files <= files) == (True, True), found
