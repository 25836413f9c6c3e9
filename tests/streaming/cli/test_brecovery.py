"""`brecovery` against what the library's own recovered from memory images, and images made here."""

from __future__ import annotations

import re
import struct
from typing import TYPE_CHECKING

from hypothesis import given
from hypothesis import strategies as st

from binlog_format.structured.recovery import recovered
from binlog_streaming.cli.logs.brecovery import CANNOT_READ, CANNOT_WRITE, HELP, NO_ARGUMENT, run
from tests.corpus import corpus
from tests.format.structured.logs import MemoryImage

if TYPE_CHECKING:
    from pathlib import Path

    import pytest

_TIME = re.compile(r"^(INFO|ERRO) \[[-0-9: .]{29}\] ", re.MULTILINE)

METADATA = bytes.fromhex("BCBD356E724F21FE")
DATA = bytes.fromhex("BCBC346D713F21FE")


def test_brecovery_finds_what_the_library_finds(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = corpus("cppbinlog") / "cppbinlog"
    monkeypatch.chdir(folder)
    images = sorted(folder.glob("memory/*.bin"))
    assert images
    for image in images:
        output = tmp_path / "recovered.blog"
        assert run([str(image.relative_to(folder)), str(output)]) == 0
        assert output.read_bytes() == image.with_suffix(".recovered.blog").read_bytes()
        told = _TIME.sub(r"\1 ", capsys.readouterr().err)
        assert told == image.with_suffix(".recovery_log.txt").read_text()


def test_brecovery_writes_to_standard_output(tmp_path: Path, capfdbinary: pytest.CaptureFixture[bytes]) -> None:
    image = tmp_path / "core"
    image.write_bytes(b"x" + _metadata(7, _entry(b"abc")))
    assert run([str(image), "-"]) == 0
    assert capfdbinary.readouterr().out == _entry(b"abc")


def test_brecovery_tells_what_it_cannot_open(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    image = tmp_path / "core"
    assert run([]) == NO_ARGUMENT
    assert capsys.readouterr().out == HELP
    assert run([str(image)]) == CANNOT_READ
    assert f"Failed to open {image} for reading" in capsys.readouterr().err
    image.write_bytes(_metadata(1, b""))
    for output in (tmp_path / "none" / "out", image):
        assert run([str(image), str(output)]) == CANNOT_WRITE
        assert f"Failed to open {output} for writing" in capsys.readouterr().err
    assert image.read_bytes() == _metadata(1, b"")


def _entry(payload: bytes) -> bytes:
    return struct.pack("<I", len(payload)) + payload


def _metadata(session: int, entries: bytes) -> bytes:
    return METADATA + struct.pack("<QQ", session, len(entries)) + entries


def _queue(session: int, before: bytes, after: bytes) -> bytes:
    """A queue that has begun anew at its start: *before* is older and stands at its end."""
    capacity = len(before) + len(after) + 9
    end = capacity - 2
    indexes = (session, len(after), end, capacity, 0, end - len(before))
    return DATA + struct.pack("<6Q", *indexes) + after + b"\xee" * 7 + before + b"\xee" * 2


_ENTRIES = st.lists(st.binary(min_size=1, max_size=20).map(_entry), max_size=4).map(b"".join)
_SESSIONS = st.integers(1, 3)
_NOISE = st.binary(max_size=9) | st.just(b"\0" * 5000) | st.just(METADATA[:5]) | st.just(DATA[:7])


@given(st.lists(st.tuples(_NOISE, st.booleans(), _SESSIONS, _ENTRIES, _ENTRIES), max_size=6), st.integers(0, 60))
def test_all_blocks_of_an_image_are_recovered_by_session(
    blocks: list[tuple[bytes, bool, int, bytes, bytes]], cut: int
) -> None:
    image = b""
    expected = []
    for noise, is_metadata, session, first, second in blocks:
        image += noise + (_metadata(session, first + second) if is_metadata else _queue(session, first, second))
        expected.append(((session, not is_metadata), first + second))
    image += METADATA + struct.pack("<QQ", 1, 1 << 40)[: cut % 17]  # claims more than there is, or is cut
    source = MemoryImage(image)
    notes: list[str] = []
    found = [b"".join(block.pieces(source)) for block in recovered(source, lambda _, note: notes.append(note))]
    assert found == [entries for _, entries in sorted(expected, key=lambda one: one[0])]
