"""Every target takes a few inputs, the same in each run; `make fuzz` looks for others, with checks of all bounds."""

from __future__ import annotations

import pytest

from tests.chance import examples
from tests.fuzz.hypothesis_engine import fuzz
from tests.fuzz.targets import TARGETS

SEED = 20261120


@pytest.mark.parametrize("name", TARGETS)
def test_any_bytes_give_a_result_or_a_named_error(name: str) -> None:
    fuzz(name, SEED, examples(40))
