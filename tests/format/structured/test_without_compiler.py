"""Kernels give the same without the compiler, and NumPy has nothing to warn of."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.chance import examples
from tests.format.structured.typed_log import floats_log, typed_log
from tests.without_compiler import printed_by

if TYPE_CHECKING:
    from pathlib import Path

SCRIPT = """
import sys
from pathlib import Path
from tests.format.structured.typed_log import digest
print(*map(digest, map(Path, sys.argv[1:])))
"""


def test_all_that_is_read_is_the_same_without_the_compiler(tmp_path: Path) -> None:
    folders = [tmp_path / "typed", tmp_path / "floats"]
    for folder, files in zip(folders, (typed_log(), {"app.blog": floats_log(examples(200))}), strict=True):
        folder.mkdir()
        for name, content in files.items():
            (folder / name).write_bytes(content)
    compiled, plain = printed_by(SCRIPT, *folders)
    assert plain == compiled
    assert len(plain.split()) == len(folders)
