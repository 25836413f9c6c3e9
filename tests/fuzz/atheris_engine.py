"""Targets under atheris, which looks for inputs that run code that none ran before: `fuzz_guided`.

A target's arguments are made of atheris' bytes by the strategies that Hypothesis uses: each target is declared once.
"""

from __future__ import annotations

import contextlib
import importlib.util
import mmap
import os
import random
import shutil
import struct
import sys
import tempfile
import traceback
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, cast

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

MEMORY_MAX = 3 << 30
"""Resident bytes that no input may need."""
_SHARE_MIN = 2.0
"""Seconds of a target; with less it gets nowhere."""
_SEED_SIZES = (0, 16, 64, 200, 500, 1000, 2000, 4000)
_INPUT_MAX = 8192
_COUNTED = struct.Struct("<qd")
_INSTRUMENTED = ["binlog_format", "binlog_connector"]


def is_there() -> bool:
    """Whether atheris can be imported; it has no wheels for some systems."""
    return importlib.util.find_spec("atheris") is not None


def fuzz_guided(
    names: Sequence[str], seconds: float, number: int, *, seconds_max: float
) -> dict[str, tuple[int, float]]:
    """Fuzz each target in a process of its own, all for *seconds* together.

    Args:
        names: Of the targets; none: all.
        seconds: Of the clock; each target has the same share. Where that is too little, only some of them, drawn by
            lot, are fuzzed.
        seconds_max: A single input that takes longer is a fault.

    Returns:
        Inputs, and processor seconds of the slowest, by target.

    Raises:
        SystemExit: A target has a fault; what it is, and the input, has been written to the standard error.
    """
    # What atheris says of each module, and libFuzzer of each target, is for those who look for a fault.
    with tempfile.TemporaryFile() as log, _output_in(log):
        atheris = cast("Any", importlib.import_module("atheris"))
        with atheris.instrument_imports(include=_INSTRUMENTED, enable_loader_override=False):
            from tests.fuzz.targets import TARGETS
    names = names or list(TARGETS)
    names = random.Random(number).sample(names, min(len(names), max(int(seconds / _SHARE_MIN), 1)))
    _warm(names, number)
    limits = [f"-max_total_time={round(seconds / len(names))}", f"-timeout={seconds_max:.0f}"]
    counts = {}
    for name in names:
        counted = mmap.mmap(-1, _COUNTED.size)
        folder = Path(tempfile.mkdtemp(prefix=f"binlog-stream-fuzz-{name}-"))
        with (folder / "log").open("w+b") as log:
            child = os.fork()
            if child == 0:
                with _output_in(log):
                    _fuzz_forever(atheris, name, counted, folder, [*limits, f"-seed={number & 0x7FFFFFFF or 1}"])
            _, status = os.waitpid(child, 0)
        counts[name] = _COUNTED.unpack_from(counted)
        if status != 0:
            print((folder / "log").read_text("utf-8", "replace"), file=sys.stderr)
            print(f"target {name}, engine atheris, seed {number}, input in {folder}", file=sys.stderr)
            raise SystemExit(1)
        shutil.rmtree(folder)
    return counts


def _warm(names: Sequence[str], number: int) -> None:
    # Seeds that are made once are made before the processes part.
    from tests.fuzz.hypothesis_engine import fuzz

    for name in names:
        fuzz(name, number, 1)


@contextlib.contextmanager
def _output_in(log: IO[bytes]) -> Iterator[None]:
    """Whatever this process writes goes to *log*, also what is not written by Python."""
    sys.stdout.flush()
    sys.stderr.flush()
    kept = [os.dup(number) for number in (1, 2)]
    for number in (1, 2):
        os.dup2(log.fileno(), number)
    try:
        yield
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        for number, old in zip((1, 2), kept, strict=True):
            os.dup2(old, number)
            os.close(old)


def _fuzz_forever(atheris: Any, name: str, counted: mmap.mmap, folder: Path, limits: list[str]) -> None:
    # Never returns.
    from tests.fuzz.hypothesis_engine import bound

    def passed(seconds: float) -> None:
        count, slowest = _COUNTED.unpack_from(counted)
        _COUNTED.pack_into(counted, 0, count + 1, max(slowest, seconds))

    corpus = folder / "corpus"
    corpus.mkdir()
    bytes_of = random.Random(name).randbytes
    for size in _SEED_SIZES:
        Path(corpus, str(size)).write_bytes(bytes_of(size))
    limits = [
        *limits,
        f"-artifact_prefix={folder}/fault-",
        f"-max_len={_INPUT_MAX}",
        f"-rss_limit_mb={MEMORY_MAX >> 20}",
        "-len_control=0",
        "-verbosity=0",
    ]
    test = cast("Any", bound(name, passed)).hypothesis.fuzz_one_input

    def one(data: bytes) -> None:
        try:
            test(data)
        except BaseException as error:
            traceback.print_exception(error)  # with the arguments, which atheris leaves out
            raise

    atheris.Setup([sys.argv[0], *limits, str(corpus)], one)
    atheris.Fuzz()
