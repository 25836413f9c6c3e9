"""The server whose log is followed, until it is killed: `python -m tests.soak.writer LOG SEED`."""

from __future__ import annotations

import random
import sys
import time
from pathlib import Path

from tests.connector.shop import Shop

FILE_SIZE = 512 << 10
PAUSE_S = 0.05
ROWS_MAX = 40
LARGE_ROWS = 3000
"""One transaction in a hundred: its rows go out of band, and it is larger than a batch."""


def main() -> None:
    """Write for ever: several transactions of several rows in each pause."""
    numbers = random.Random(int(sys.argv[2]))
    with Shop(Path(sys.argv[1]), files_of=FILE_SIZE) as shop:
        while True:
            rows = LARGE_ROWS if numbers.random() < 0.01 else numbers.randrange(1, ROWS_MAX)
            shop.sell(numbers.randrange(1, 4) if rows < ROWS_MAX else 1, rows=rows)
            time.sleep(PAUSE_S)


if __name__ == "__main__":
    main()
