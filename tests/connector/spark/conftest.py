"""What the tests of the Spark source share."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.connector.shop import Shop

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Transactions 1 to 300, a second apart, in several files."""
    directory = tmp_path_factory.mktemp("small")
    with Shop(directory, files_of=8 * 16384) as shop:
        shop.sell(300)
    return directory
