"""What a session writes: which entries, in which order, and nothing lost whatever the stream does."""

from __future__ import annotations

import io
import threading
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from binlog_format.structured.layout import Severity
from binlog_format.structured.metadata import ClockSync, EventSource, WriterProp
from binlog_format.structured.writing import Session, SessionWriter
from tests.format.structured.plain_reader import check_batch_sizes, entries, events

if TYPE_CHECKING:
    from collections.abc import Sequence

CLOCK = ClockSync(1_710_072_000_000_000_000, 1_000_000_000, 1_710_072_000_000_000_000, 3600, b"CET")


class StubbornStream:
    """Takes as many bytes of each write as *takes* asks for, in turn; None: refuses."""

    def __init__(self, takes: Sequence[int | None]) -> None:
        self._takes = list(takes)
        self.data = b""

    def write(self, data: bytes) -> int:
        take = self._takes.pop(0) if self._takes else len(data)
        if take is None:
            raise OSError(28, "No space left on device")
        taken = data[:take]
        self.data += taken
        return len(taken)


def kinds(data: bytes) -> list[str]:
    return [type(one).__name__ for one in entries(data)]


def test_consume_writes_clocks_sources_and_one_batch_for_each_writer() -> None:
    session, stream = Session(CLOCK), io.BytesIO()
    number = session.add_source("number {}", "i", category="numbers", function="f", file="a.py", line=3)
    text = session.add_source("text {}", "[c", severity=Severity.ERROR)
    one, two = SessionWriter(session, id=1, name="one"), SessionWriter(session, id=2, name="two")
    two.add_event(text, 5, "x")
    one.add_event(number, 6, -7)
    two.add_event(number, 7, 8)
    assert session.consume(stream) == len(stream.getvalue())
    found = list(entries(stream.getvalue()))
    assert found[:4] == [
        CLOCK,
        EventSource(1, 128, b"numbers", b"f", b"a.py", 3, b"number {}", b"i"),
        EventSource(2, 512, b"main", b"", b"", 0, b"text {}", b"[c"),
        WriterProp(1, b"one", 24),
    ]
    assert [(one.writer.name, one.clock, one.args) for one in events(stream.getvalue())] == [
        (b"one", 6, [-7]),
        (b"two", 5, [b"x"]),
        (b"two", 7, [8]),
    ]
    check_batch_sizes(stream.getvalue())
    assert session.consume(stream) == 0


def test_only_what_is_new_is_written_again() -> None:
    session, stream = Session(CLOCK), io.BytesIO()
    source = session.add_source("a")
    writer = SessionWriter(session)
    writer.add_event(source, 1)
    session.consume(stream)
    writer.add_event(source, 2)
    later = session.add_source("b")
    writer.add_event(later, 3)
    stream = io.BytesIO()
    session.consume(stream)
    assert kinds(source.definition.entry() + stream.getvalue())[1:] == ["EventSource", "WriterProp", "Event", "Event"]


def test_another_clock_repeats_all_of_them_the_last_counts() -> None:
    session, stream = Session(CLOCK), io.BytesIO()
    second, third = ClockSync(1, 1000, 2), ClockSync(3, 1000, 4)
    session.set_clock_sync(second)
    session.consume(stream)
    session.set_clock_sync(third)
    session.consume(stream)
    assert list(entries(stream.getvalue())) == [CLOCK, second, CLOCK, second, third]


def test_metadata_consumed_before_begins_the_next_file() -> None:
    session = Session(CLOCK)
    source = session.add_source("a")
    writer = SessionWriter(session)
    writer.add_event(source, 1)
    assert session.reconsume_metadata(io.BytesIO()) == 0  # the first consume brings it
    session.consume(io.BytesIO())
    writer.add_event(source, 2)
    late = session.add_source("b")
    writer.add_event(late, 3)
    stream = io.BytesIO()
    session.reconsume_metadata(stream)
    assert kinds(stream.getvalue()) == ["ClockSync", "EventSource"]
    session.consume(stream)
    assert [(one.clock, one.source.format) for one in events(stream.getvalue())] == [(2, b"a"), (3, b"b")]


def test_full_queue_is_followed_by_another_of_the_same_writer() -> None:
    session, stream = Session(CLOCK), io.BytesIO()
    source = session.add_source("{}", "l")
    writer = SessionWriter(session, id=7, name="w", queue_size=100)
    for number in range(20):
        writer.add_event(source, number, number)
    session.consume(stream)
    batches = [one for one in entries(stream.getvalue()) if isinstance(one, WriterProp)]
    assert batches == [WriterProp(7, b"w", 84)] * 6 + [WriterProp(7, b"w", 56)]
    assert [one.args for one in events(stream.getvalue())] == [[number] for number in range(20)]
    check_batch_sizes(stream.getvalue())


def test_event_larger_than_a_queue_is_taken() -> None:
    session, stream = Session(CLOCK), io.BytesIO()
    source = session.add_source("{}", "[c")
    writer = SessionWriter(session, queue_size=10)
    for text in ("a", "b" * 1000, "c"):
        writer.add_event(source, 0, text)
    session.consume(stream)
    assert [one.args for one in events(stream.getvalue())] == [[b"a"], [b"b" * 1000], [b"c"]]


def test_renamed_writer_leaves_its_queued_events_their_name() -> None:
    session, stream = Session(CLOCK), io.BytesIO()
    source = session.add_source("a")
    writer = SessionWriter(session, id=1, name="alpha")
    writer.add_event(source, 1)
    writer.rename(id=2, name="beta")
    writer.add_event(source, 2)
    session.consume(stream)
    assert [(one.writer.id, one.writer.name) for one in events(stream.getvalue())] == [(1, b"alpha"), (2, b"beta")]


def test_closed_writer_is_forgotten_when_its_events_are_consumed() -> None:
    session, stream = Session(CLOCK), io.BytesIO()
    source = session.add_source("a")
    writer = SessionWriter(session)
    writer.add_event(source, 1)
    writer.close()
    assert session.queued_size == 20
    session.consume(stream)
    assert session.queued_size == 0
    writer.add_event(source, 2)
    session.consume(stream)
    assert [one.clock for one in events(stream.getvalue())] == [1, 2]


@given(st.lists(st.one_of(st.none(), st.integers(0, 60)), max_size=30))
def test_a_stream_that_refuses_gets_every_byte_once(takes: list[int | None]) -> None:
    session, stream = Session(CLOCK), StubbornStream(takes)
    source = session.add_source("{}", "l")
    writers = [SessionWriter(session, id=number) for number in range(2)]
    for number in range(6):
        writers[number % 2].add_event(source, number, number)
        try:
            session.consume(stream)
        except OSError:
            continue
    while True:
        try:
            session.consume(stream)
            break
        except OSError:
            continue
    assert sorted(one.clock for one in events(stream.data)) == list(range(6))
    check_batch_sizes(stream.data)


@pytest.mark.parametrize("queue_size", [200, 1 << 20])
def test_concurrent_writers_lose_nothing_and_keep_their_order(queue_size: int) -> None:
    """Sources are added while a consumer runs: it has each before the first event of it."""
    session, stream = Session(CLOCK), io.BytesIO()
    shared = SessionWriter(session, id=99, queue_size=queue_size)
    is_over = threading.Event()

    def consume() -> None:
        while not is_over.is_set():
            session.consume(stream)

    def write(writer_id: int) -> None:
        writer = SessionWriter(session, id=writer_id, name=f"thread {writer_id}", queue_size=queue_size)
        for number in range(400):
            if number % 50 == 0:
                source = session.add_source("{} of {}", "li")
            writer.add_event(source, number, number, writer_id)
            shared.add_event(source, number, number, writer_id)
        writer.close()

    threads = [threading.Thread(target=write, args=(number,)) for number in range(4)]
    consumer = threading.Thread(target=consume)
    for thread in (consumer, *threads):
        thread.start()
    for thread in threads:
        thread.join()
    is_over.set()
    consumer.join()
    session.consume(stream)
    check_batch_sizes(stream.getvalue())
    found = events(stream.getvalue())
    for number in range(4):
        expected = [[count, number] for count in range(400)]
        assert [one.args for one in found if one.writer.id == number] == expected
        assert [one.args for one in found if one.writer.id == 99 and one.args[1] == number] == expected
    assert len(found) == 2 * 4 * 400
