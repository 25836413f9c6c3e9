"""What a Python worker of Spark keeps."""

from __future__ import annotations

import subprocess
import sys

import pytest

PROGRAM = """
import gc, sys
from binlog_connector.worker_process import freeze_garbage_collector
{before}
freeze_garbage_collector()
print(gc.get_freeze_count())
"""


def frozen_after(before: str) -> int:
    made = subprocess.run(
        [sys.executable, "-c", PROGRAM.format(before=before)], capture_output=True, check=True, text=True
    )
    return int(made.stdout)


@pytest.mark.parametrize(("before", "in_worker"), [("import pyspark.worker", True), ("import pyspark", False)])
def test_only_a_worker_hides_what_it_has_loaded_from_the_garbage_collector(before: str, in_worker: bool) -> None:
    assert (frozen_after(before) > 10_000) is in_worker


def test_what_a_later_task_leaves_is_collected_as_ever() -> None:
    before = "import pyspark.worker; freeze_garbage_collector(); kept = gc.get_freeze_count()"
    before += "; left = [[] for _ in range(1000)]"
    after = "; freeze_garbage_collector(); assert gc.get_freeze_count() <= kept"
    assert frozen_after(before + after) > 0


def test_what_is_loaded_later_is_hidden_too() -> None:
    before = "import pyspark.worker; freeze_garbage_collector(); kept = gc.get_freeze_count(); import numba"
    after = "; freeze_garbage_collector(); assert gc.get_freeze_count() > kept + 10_000"
    assert frozen_after(before + after) > 0
