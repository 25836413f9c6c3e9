"""The kernels mean the same without the compiler."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.format.classic.logs import OLTP_SMALL, file_of, groups_of, open_classic, raw_events
from tests.without_compiler import printed_by

if TYPE_CHECKING:
    from pathlib import Path

SCRIPT = """
import hashlib, sys
from pathlib import Path
from tests.format.classic.logs import groups_of, open_classic
for size in (100, 4096):
    for group in groups_of(open_classic(Path(sys.argv[1]), block_size=size).blocks()):
        print(group.gtid, group.position, hashlib.sha256(b"".join(group.events)).hexdigest())
"""


def test_groups_are_the_same_without_the_compiler(tmp_path: Path) -> None:
    events = raw_events((OLTP_SMALL / "mysql-bin.000001").read_bytes())
    (tmp_path / "bin.000001").write_bytes(file_of(events[:60]))
    compiled, plain = printed_by(SCRIPT, tmp_path)
    assert plain == compiled
    assert len(plain.splitlines()) == 2 * len(groups_of(open_classic(tmp_path).blocks()))
