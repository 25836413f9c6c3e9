"""`bread` against what the library's own printed: standard output, standard error, exit status, byte for byte."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
from itertools import accumulate
from random import Random
from typing import TYPE_CHECKING, Any

import pytest

from binlog_format.kernels import as_bytes
from binlog_format.structured.layout import ENTRY_HEAD_SIZE
from binlog_format.structured.metadata import ClockSync, EventSource, WriterProp
from binlog_format.structured.scan import EntryScanner
from binlog_lab.simulator.structured.program import FIRST_NS, NAME, STEP_NS, LoggingProgram
from binlog_streaming.cli.logs.bread.arguments import HELP
from binlog_streaming.cli.logs.bread.command import CANNOT_OPEN, DAMAGED, WRONG_USE, run
from tests.chance import some
from tests.corpus import corpus
from tests.format.structured.logs import event
from tests.program import PROGRAM

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

Case = dict[str, Any]


def _folder() -> Path:
    return corpus("cppbinlog") / "cppbinlog"


def _cases(name: str) -> list[Case]:
    cases: list[Case] = json.loads((_folder() / name).read_text())
    return cases


def _id(case: Case) -> str:
    return " ".join(str(part) for part in (case.get("name"), case.get("variant"), case.get("args")) if part)


@pytest.mark.parametrize("case", _cases("cases.json"), ids=_id)
def test_bread_prints_what_the_library_prints(
    case: Case, capfdbinary: pytest.CaptureFixture[bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = _folder()
    monkeypatch.setenv("TZ", "Asia/Tokyo")
    words = list(case["args"])
    with _standard_input(folder / case["file"] if case["input"] != "path" else None):
        status = run([*words, str(folder / case["file"])] if case["input"] == "path" else words)
    sys.stdout.flush()
    printed = capfdbinary.readouterr()
    assert (status, printed.err) == (case["exit"], case["stderr"].encode())
    assert printed.out == (folder / case["stdout"]).read_bytes()


class _standard_input:
    """Lets standard input be a file for a while."""

    def __init__(self, path: Path | None) -> None:
        self._path = path
        self._before = -1

    def __enter__(self) -> None:
        if self._path is not None:
            self._before = os.dup(0)
            with self._path.open("rb") as file:
                os.dup2(file.fileno(), 0)

    def __exit__(self, *_: object) -> None:
        if self._before >= 0:
            os.dup2(self._before, 0)
            os.close(self._before)


@pytest.mark.parametrize("case", _cases("command_line.json"), ids=_id)
def test_bread_takes_its_words_as_the_library_does(
    case: Case, tmp_path: Path, capfdbinary: pytest.CaptureFixture[bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "blog").mkdir()
    for name in ("session_1", "session_3"):
        (tmp_path / f"blog/{name}.blog").write_bytes(_first_session())
    status = run(case["args"])
    sys.stdout.flush()
    printed = capfdbinary.readouterr()
    expected = HELP if case["stdout"] == "(help text)" else case["stdout"]
    assert (status, printed.err, printed.out) == (case["exit"], case["stderr"].encode(), expected.encode())


def _first_session() -> bytes:
    """The log that the cases name: the first two events of one that begins with it."""
    data = (_folder() / "blog/concat_sessions.blog").read_bytes()
    block = EntryScanner().cut(as_bytes(data), file_no=0, file_offset=0, path="").block
    assert block is not None
    _, last, *_ = block.events
    return data[: int(last["start"]) + ENTRY_HEAD_SIZE + int(last["size"])]


@pytest.mark.parametrize("given", ["pipe", "stdin", "dash"])
def test_bread_is_a_program(given: str) -> None:
    """The cases of each kind of standard input, as processes."""
    folder = _folder()
    for case in some([case for case in _cases("cases.json") if case["input"] == given], 3):
        data = (folder / case["file"]).read_bytes()
        done = subprocess.run([PROGRAM, "bread", *case["args"]], input=data, capture_output=True, timeout=120)
        assert (done.returncode, done.stderr) == (case["exit"], case["stderr"].encode())
        assert done.stdout == (folder / case["stdout"]).read_bytes()


SOURCE = EventSource(1, 128, b"main", b"run", b"app.cpp", 7, b"event {}", b"[c")
HEAD = ClockSync(0, 10**9, FIRST_NS, 0, b"UTC").entry() + SOURCE.entry() + WriterProp(1, b"w").entry()


def _event(text: str, clock: int = 0) -> bytes:
    return event(1, clock, len(text).to_bytes(4, "little") + text.encode())


def test_bread_prints_an_event_of_a_pipe_at_once() -> None:
    command = [PROGRAM, "bread", "-f", "%m"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        for part, line in ((HEAD + _event("one"), b"event one\n"), (_event("two"), b"event two\n")):
            process.stdin.write(part)
            process.stdin.flush()
            assert process.stdout.readline() == line
        process.stdin.close()
        assert process.wait(300) == 0


def test_bread_ends_quietly_when_nobody_reads_on(tmp_path: Path) -> None:
    log = tmp_path / "app.blog"
    log.write_bytes(HEAD + _event("x" * 1000) * 3000)
    done = subprocess.run(f"{PROGRAM} bread {log} | head -1", shell=True, capture_output=True, text=True, timeout=120)
    assert (done.stderr, done.stdout.count("\n")) == ("", 1)


def test_bread_reads_all_files_as_one_log(tmp_path: Path, capfdbinary: pytest.CaptureFixture[bytes]) -> None:
    first, second = tmp_path / "1.blog", tmp_path / "2.blog"
    first.write_bytes(HEAD + _event("one"))
    second.write_bytes(_event("two"))
    assert run(["--all", "-f", "%n %m", str(first), str(second)]) == 0
    assert capfdbinary.readouterr().out == b"w event one\nw event two\n"


def test_bread_skips_what_is_damaged_and_tells_of_it(tmp_path: Path, capfdbinary: pytest.CaptureFixture[bytes]) -> None:
    log = tmp_path / "app.blog"
    bad_argument = event(1, 0, b"\xff\0\0\0")
    garbage = b"\x01\xfe\xff\x7f" + b"garbage" * 9
    log.write_bytes(HEAD + _event("one") + bad_argument + _event("two") + garbage + _event("three") * 4)
    assert run(["--skip-damaged", "-f", "%m", str(log)]) == DAMAGED
    printed = capfdbinary.readouterr()
    assert printed.out == b"event one\nevent two\n" + b"event three\n" * 4
    assert printed.err.count(b"[bread] Skipped: [BINLOG_CORRUPT.BAD_ENTRY]") == 2
    assert run(["-f", "%m", str(log)]) == DAMAGED
    assert capfdbinary.readouterr().out == b"event one\nevent "


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        (["--follow"], b"bread: option '--follow' needs a file\n"),
        (
            ["--follow", "-s", "x"],
            b"bread: option '--follow' excludes -s: there is no end to sort; see --sort-window\n",
        ),
        (["--sort-window", "1s", "-s", "x"], b"bread: option '--sort-window' excludes -s\n"),
        (["--sort-window=1s", "--output", "jsonl", "x"], b"bread: option '--sort-window' excludes --output jsonl\n"),
        (["--skip-damaged"], b"bread: option '--skip-damaged' needs a file\n"),
        (["--nonsense", "x"], b"bread: invalid option -- '-'\n"),
    ],
)
def test_bread_refuses_options_that_make_no_sense(
    words: list[str], complaint: bytes, capfdbinary: pytest.CaptureFixture[bytes]
) -> None:
    assert run(words) == WRONG_USE
    assert capfdbinary.readouterr().err == complaint


def test_bread_colours_severities_on_a_terminal_alone(tmp_path: Path) -> None:
    log = tmp_path / "app.blog"
    log.write_bytes(HEAD + _event("one"))
    command = [PROGRAM, "bread", "-f", "%S %m", str(log)]
    for settings, text in (({}, b"\x1b[32mINFO\x1b[0m event one\r\n"), ({"NO_COLOR": "1"}, b"INFO event one\r\n")):
        ours, theirs = os.openpty()
        environment = {key: value for key, value in os.environ.items() if key != "NO_COLOR"}
        environment |= {"TERM": "xterm", **settings}
        done = subprocess.run(command, stdout=theirs, stderr=subprocess.PIPE, env=environment, timeout=120)
        os.close(theirs)
        # Where colorama is installed (for the documentation), Numba lets it reset colours when the program ends.
        shown = os.read(ours, 1000).removesuffix(b"\x1b[0m")
        assert (done.returncode, done.stderr, shown) == (0, b"", text)
        os.close(ours)


def test_ctrl_c_ends_it_while_it_waits_for_a_pipe() -> None:
    pipe = subprocess.PIPE
    with subprocess.Popen([PROGRAM, "bread", "-f", "%m"], stdin=pipe, stdout=pipe, stderr=pipe) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdin.write(HEAD + _event("first"))
        process.stdin.flush()
        assert process.stdout.readline() == b"event first\n"
        process.send_signal(signal.SIGINT)
        assert (process.stderr.read(), process.wait(300)) == (b"interrupted\n", 130)


class _Followed:
    """A `bread --follow` that runs; its lines are waited for."""

    def __init__(self, log: Path, *options: str) -> None:
        self._process = subprocess.Popen(
            [PROGRAM, "bread", "--follow", "-f", "%m", *options, str(log)],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )

    def line(self) -> bytes:
        assert self._process.stdout is not None
        # A line that never comes would wait for ever.
        timer = threading.Timer(60, self._process.kill)
        timer.start()
        try:
            return self._process.stdout.readline()
        finally:
            timer.cancel()

    def stop(self) -> tuple[int, bytes, bytes]:
        self._process.send_signal(signal.SIGINT)
        rest, complaints = self._process.communicate(timeout=300)
        return self._process.returncode, rest, complaints

    def close(self) -> None:
        self._process.kill()
        self._process.communicate()


@pytest.fixture
def followed(tmp_path: Path) -> Iterator[tuple[Path, _Followed]]:
    log = tmp_path / "app.blog"
    log.write_bytes(HEAD + _event("begin"))
    process = _Followed(log)
    yield log, process
    process.close()


def _append(path: Path, data: bytes) -> None:
    with path.open("ab") as file:
        file.write(data)


def test_bread_follows_a_file_through_rotations(followed: tuple[Path, _Followed]) -> None:
    log, process = followed
    assert process.line() == b"event begin\n"
    whole = _event("halves")
    _append(log, whole[:9])
    _append(log, whole[9:])
    assert process.line() == b"event halves\n"
    for number in range(3):
        # Written to after it was renamed, and rotated again before anybody looks.
        _append(log, _event(f"last of {number}"))
        log.rename(log.with_name(f"app.{number}.blog"))
        _append(log.with_name(f"app.{number}.blog"), _event(f"late of {number}"))
        log.write_bytes(_event(f"first of {number + 1}"))
        if number == 1:
            continue
        for text in (f"last of {number}", f"late of {number}", f"first of {number + 1}"):
            if number == 2 and text.startswith("last"):
                for earlier in ("last of 1", "late of 1", "first of 2"):
                    assert process.line() == f"event {earlier}\n".encode()
            assert process.line() == f"event {text}\n".encode()
    assert process.stop() == (0, b"", b"")


def test_bread_that_follows_tells_of_an_entry_that_was_rotated_away_unfinished(
    followed: tuple[Path, _Followed],
) -> None:
    log, process = followed
    assert process.line() == b"event begin\n"
    _append(log, _event("cut")[:-1])
    log.rename(log.with_name("app.1.blog"))
    log.write_bytes(HEAD + _event("next"))
    assert process.line() == b""
    status, _, complaints = process.stop()
    assert status == DAMAGED
    assert b"the file ends in the middle of an entry" in complaints


def test_bread_follows_a_file_that_was_cut_and_has_grown_past_its_place(followed: tuple[Path, _Followed]) -> None:
    log, process = followed
    assert process.line() == b"event begin\n"
    with log.open("r+b") as file:  # as if it had been cut between two looks
        file.write(HEAD + b"".join(_event(f"number {number}", clock=number + 1) for number in range(5)))
    for number in range(5):
        assert process.line() == f"event number {number}\n".encode()
    status, rest, complaints = process.stop()
    assert (status, rest) == (0, b"")
    assert b"has been cut: read from its start" in complaints


def test_bread_cannot_follow_what_is_not_there(tmp_path: Path, capfdbinary: pytest.CaptureFixture[bytes]) -> None:
    log = tmp_path / "none.blog"
    assert run(["--follow", str(log)]) == CANNOT_OPEN
    assert capfdbinary.readouterr().err == f"[bread] Failed to open '{log}' for reading\n".encode()


def test_bread_writes_json_for_programs(tmp_path: Path, capfdbinary: pytest.CaptureFixture[bytes]) -> None:
    log = tmp_path / "app.blog"
    odd = EventSource(2, 5, b"\xff", b"run", b"app.cpp", (1 << 64) - 1, b"odd {}", b"(iy)")
    arguments = b"\x01\0\0\0\x01"
    log.write_bytes(HEAD + odd.entry() + _event("one", 1_500) + event(2, 2_000, b"\x01") + event(2, 0, arguments))
    assert run(["--output", "jsonl", "--skip-damaged", str(log)]) == DAMAGED
    rows = [json.loads(line) for line in capfdbinary.readouterr().out.splitlines()]
    assert rows[0] == {
        "position": {"file_no": 0, "page": 0, "chunk": len(HEAD + odd.entry())}, "time": "2026-01-01T00:00:00.000001Z",
        "ns": FIRST_NS + 1500, "severity": "info", "severity_no": 128, "category": "main", "function": "run",
        "file": "app.cpp", "line": 7, "writer_id": 1, "writer": "w", "source_id": 1, "format": "event {}",
        "message": "event one", "args": ["one"],
    }  # fmt: skip
    assert [(row["severity"], row["category"], row["message"]) for row in rows[1:]] == [
        ("5", "\N{REPLACEMENT CHARACTER}", "odd (1, true)")
    ]
    assert run(["--output", "jsonl", str(log)]) == DAMAGED
    printed = capfdbinary.readouterr()
    assert len(printed.out.splitlines()) == 1
    assert printed.err.startswith(b"[bread] Exception: [BINLOG_CORRUPT.BAD_ENTRY]")


@pytest.mark.parametrize("clocks", [1, 7, 1_000_000])
@pytest.mark.parametrize("merged", [1, 5, 1 << 16])
def test_bread_sorts_in_parts_as_it_does_in_memory(
    tmp_path: Path,
    capfdbinary: pytest.CaptureFixture[bytes],
    monkeypatch: pytest.MonkeyPatch,
    clocks: int,
    merged: int,
) -> None:
    random = Random(clocks)
    with LoggingProgram(tmp_path) as program:
        for number in range(40):
            for writer in range(3):
                clock = FIRST_NS + random.randrange(clocks)
                program._writers[writer % 2].add_event(program.item, clock, number * 3 + writer, "x" * (number % 5))
            program.session.consume(program._file)
    words = ["-s", "-f", "%r %m", str(tmp_path / NAME)]
    assert run(words) == 0
    sys.stdout.flush()
    expected = capfdbinary.readouterr().out
    assert expected.count(b"\n") == 120
    monkeypatch.setattr("binlog_streaming.cli.logs.bread.streams.CHUNK_SIZE", 500)
    monkeypatch.setattr("binlog_streaming.cli.logs.bread.sorting.RUN_SIZE", 300)
    monkeypatch.setattr("binlog_streaming.cli.logs.bread.sorting.MERGED_ROWS", merged)
    assert run(words) == 0
    sys.stdout.flush()
    assert capfdbinary.readouterr().out == expected


@pytest.mark.parametrize(
    ("words", "numbers"),
    [
        (["--severity", "error"], [9, 19]),
        (["--severity=128"], list(range(20))),
        (["--category", "ne.,x"], [9, 19]),
        (["--category=shop"], [number for number in range(20) if number % 10 != 9]),
        (["--file", r".*/net\.cpp", "-s"], [9, 19]),
        (["--since", "2026-01-01T00:00:00.000015Z"], list(range(15, 20))),
        (["--since", "2026-01-01T01:00:00.000015+01:00", "--severity", "error"], [19]),
        (["--since", "2027-01-01"], []),
    ],
)
def test_bread_prints_events_that_are_wanted(
    tmp_path: Path, capfdbinary: pytest.CaptureFixture[bytes], words: list[str], numbers: list[int]
) -> None:
    with LoggingProgram(tmp_path) as program:
        program.log(20)
    assert run([*words, "-f", "%r", str(tmp_path / NAME)]) == 0
    sys.stdout.flush()
    printed = capfdbinary.readouterr().out.splitlines()
    assert sorted((int(line) - FIRST_NS) // STEP_NS for line in printed) == numbers


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["--severity", "loud"], "--severity"),
        (["--category", "("], "--category"),
        (["--since", "yesterday"], "--since"),
        (["--file"], "requires an argument"),
        (["--sort-window", "soon"], "--sort-window"),
    ],
)
def test_bread_refuses_values_that_select_nothing(
    tmp_path: Path, capfdbinary: pytest.CaptureFixture[bytes], words: list[str], told: str
) -> None:
    with LoggingProgram(tmp_path) as program:
        program.log(2)
    assert run([str(tmp_path / NAME), *words]) == WRONG_USE
    assert told in capfdbinary.readouterr().err.decode()


@pytest.mark.parametrize(("words", "count"), [([], 0), (["--severity", "trace"], 1), (["--output", "jsonl"], 1)])
@pytest.mark.parametrize("year", [1973, 2261])
def test_bread_warns_once_of_times_that_cannot_be(
    tmp_path: Path, capfdbinary: pytest.CaptureFixture[bytes], year: int, words: list[str], count: int
) -> None:
    log, ns = tmp_path / NAME, (year - 1970) * 365 * 86_400 * 1_000_000_000
    sync = ClockSync(0, 1_000_000_000, ns, 0, b"UTC")
    log.write_bytes(HEAD + sync.entry() + _event("a", clock=1) + _event("b", clock=2))
    assert run([*words, str(log)]) == 0
    told = capfdbinary.readouterr().err.decode()
    assert told.count("[bread] Warning: an event has the time ") == count
    assert (f"{year - 1}-" in told or f"{year}-" in told) == bool(count)


def _sorted_by(window_ns: int, ticks: list[int]) -> tuple[list[int], int]:
    """What a window promises of events that come one by one; the number of those that came too late."""
    printed: list[int] = []
    held: list[int] = []
    late = 0
    for newest, tick in zip(accumulate(ticks, max), ticks, strict=True):
        late += bool(printed) and tick < max(printed)
        held.append(tick)
        if newest - min(held) >= window_ns + window_ns // 8:
            due = sorted(one for one in held if one <= newest - window_ns)
            printed += due
            held = [one for one in held if one > newest - window_ns]
    return printed + sorted(held), late


@pytest.mark.parametrize("window_us", [1, 20, 400])
def test_bread_sorts_in_a_window_and_counts_what_came_too_late(
    tmp_path: Path, capfdbinary: pytest.CaptureFixture[bytes], window_us: int
) -> None:
    random = Random(5)
    ticks = [1_000 * max(0, number - random.choice((0, 3, 10, 90))) for number in range(1, 300)]
    files = [tmp_path / f"{number}.blog" for number in range(len(ticks))]
    for number, tick in enumerate(ticks):  # an event a block, so that the window alone holds some back
        files[number].write_bytes((HEAD if number == 0 else b"") + _event("x", clock=tick))
    assert run(["--all", "--sort-window", f"{window_us}us", "-f", "%r", *map(str, files)]) == 0
    sys.stdout.flush()
    printed = capfdbinary.readouterr()
    lines = [int(line) for line in printed.out.splitlines()]
    assert sorted(lines) == sorted(ticks)
    expected, late = _sorted_by(window_us * 1_000, ticks)
    assert (lines == sorted(ticks)) is (late == 0) is (window_us == 400)
    assert lines == expected
    told = f"[bread] Warning: {late} events came too late to be sorted: printed after later ones, by up to "
    assert printed.err.startswith(told.encode() if late else b"")
    assert (f"{tmp_path}/".encode() in printed.err) is bool(late)


def test_bread_that_sorts_in_a_window_holds_so_many_lines_alone(
    tmp_path: Path, capfdbinary: pytest.CaptureFixture[bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    log = tmp_path / NAME
    log.write_bytes(HEAD + b"".join(_event("x", clock=number ^ 7) for number in range(400)) + _event("y", clock=9))
    monkeypatch.setattr("binlog_streaming.cli.logs.bread.streams.CHUNK_SIZE", len(HEAD) + 10)
    monkeypatch.setattr("binlog_streaming.cli.logs.bread.sorting.HELD_SIZE_MAX", 500)
    assert run(["--sort-window", "1h", "-f", "%r", str(log)]) == 0
    sys.stdout.flush()
    printed = capfdbinary.readouterr()
    lines = [int(line) for line in printed.out.splitlines()]
    assert [one for one in lines if one != 9] == [number for number in range(400) if number != 9]
    assert lines[9] == 9
    assert lines[lines.index(9, 10) - 1] > 200, "of those that were not held any more"
    assert b"Warning: 1 event came too late" in printed.err


def test_bread_that_sorts_in_a_window_writes_what_came_before_damage(
    tmp_path: Path, capfdbinary: pytest.CaptureFixture[bytes]
) -> None:
    log = tmp_path / NAME
    events = _event("two", clock=2) + _event("one", clock=1)
    for end, rest in ((event(1, 3, b"\xff\0\0\0"), b"event "), (b"\x50\0\0\0", b""), (b"", b"")):
        log.write_bytes(HEAD + events + end)
        assert run(["--sort-window", "5m", "-f", "%m", str(log)]) == (DAMAGED if end else 0)
        sys.stdout.flush()
        assert capfdbinary.readouterr().out == b"event one\nevent two\n" + rest


@pytest.mark.parametrize("window", ["1h", "300ms"])
def test_bread_follows_and_sorts_in_a_window(tmp_path: Path, window: str) -> None:
    log = tmp_path / NAME
    log.write_bytes(HEAD + _event("late", clock=2_000_000) + _event("early", clock=1_000_000))
    process = _Followed(log, "--sort-window", window)
    try:
        if window == "1h":
            _append(log, _event("much later", clock=5 * 3_600 * 10**9))
        assert [process.line(), process.line()] == [b"event early\n", b"event late\n"]
        if window == "1h":
            assert process.stop() == (0, b"event much later\n", b"")
            return
        _append(log, _event("too late", clock=1_500_000))
        assert process.line() == b"event too late\n"
        status, rest, complaints = process.stop()
        assert (status, rest) == (0, b"")
        assert b"Warning: 1 event came too late" in complaints
    finally:
        process.close()


def test_bread_of_a_pipe_writes_what_waits_when_nothing_comes() -> None:
    """Events that are not wanted let the time go on, too."""
    error = EventSource(2, 512, b"net", b"run", b"net.cpp", 7, b"error", b"")
    command = [PROGRAM, "bread", "-f", "%m", "--severity", "error", "--sort-window"]
    data = HEAD + error.entry() + event(2, 2) + _event("unwanted", clock=3 * 3_600 * 10**9)
    for window, part in (("1h", data), ("200ms", HEAD + error.entry() + event(2, 1) + event(1, 0, b"\0" * 4))):
        with subprocess.Popen([*command, window], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
            assert process.stdin is not None
            assert process.stdout is not None
            process.stdin.write(part)
            process.stdin.flush()
            assert process.stdout.readline() == b"error\n"
            process.stdin.close()
            assert process.wait(300) == 0
