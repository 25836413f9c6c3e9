"""Messages in plain Python, value by value: what the kernels are compared with."""

from __future__ import annotations

import struct
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

from hypothesis import strategies as st

if TYPE_CHECKING:
    from hypothesis.strategies import SearchStrategy

    from binlog_format.structured.metadata import ClockSync

    Typed = tuple[bytes, "SearchStrategy[Value]"]

_NUMBERS = {b"b": "b", b"s": "h", b"i": "i", b"l": "q", b"B": "B", b"S": "H", b"I": "I", b"L": "Q"}


@dataclass(frozen=True)
class Value:
    """A value: its bytes, cut into what is read at once, each with the text that comes before it is read.

    A piece is (text before, bytes needed, bytes); the text after the last one is in *rest*.
    """

    pieces: tuple[tuple[str, bytes], ...]
    rest: str
    has_comma: bool = True
    """Whether a comma comes before it where it is not the first."""
    late_comma: bool = False
    """Whether that comma comes after its first piece has been read."""

    @property
    def data(self) -> bytes:
        return b"".join(data for _, data in self.pieces)

    @property
    def text(self) -> str:
        return "".join(text for text, _ in self.pieces) + self.rest


def read(value: Value, left: bytes) -> tuple[str, str | None, bytes]:
    """What of *value* is printed from the bytes *left*, the error, and what is left of the bytes."""
    text = ""
    for before, data in value.pieces:
        text += before
        if len(left) < len(data):
            return text, f"Range overflow {len(data)} > {len(left)}", left
        left = left[len(data) :]
    return text + value.rest, None, left


def wall_time(clock: int, clock_sync: ClockSync) -> int | None:
    """Nanoseconds since 1970 UTC, in signed 64 bits after each step, divisions cut off toward zero."""
    frequency = _signed(clock_sync.frequency)
    if frequency <= 0:
        return None
    ticks = _signed(clock - clock_sync.clock)
    seconds, rest = divmod(abs(ticks), frequency)
    sign = -1 if ticks < 0 else 1
    scaled = _signed(sign * rest * 10**9)
    part = abs(scaled) // frequency * (-1 if scaled < 0 else 1)
    return _signed(_signed(clock_sync.ns) + _signed(sign * seconds * 10**9) + part)


def _signed(number: int) -> int:
    return (number + (1 << 63)) % (1 << 64) - (1 << 63)


def _leaf(data: bytes, text: str) -> Value:
    return Value((("", data),), text, late_comma=True)


def _integers(tag: bytes) -> SearchStrategy[Value]:
    code = _NUMBERS[tag]
    bits = 8 * struct.calcsize(code)
    low, high = (0, (1 << bits) - 1) if code.isupper() else (-(1 << bits - 1), (1 << bits - 1) - 1)
    return st.integers(low, high).map(lambda number: _leaf(struct.pack("<" + code, number), str(number)))


def _number_types() -> SearchStrategy[Typed]:
    bools = st.booleans().map(lambda one: _leaf(bytes([one]), "true" if one else "false"))
    characters = st.integers(0, 255).map(lambda one: _leaf(bytes([one]), chr(one)))
    doubles = st.floats(allow_nan=False).map(lambda one: _leaf(struct.pack("<d", one), format(one, ".16g")))
    floats = st.floats(allow_nan=False, width=32).map(lambda one: _leaf(struct.pack("<f", one), format(one, ".16g")))
    others: list[Typed] = [(b"y", bools), (b"c", characters), (b"d", doubles), (b"f", floats)]
    return st.sampled_from([*((tag, _integers(tag)) for tag in _NUMBERS), *others])


def _texts() -> SearchStrategy[Value]:
    return st.binary(max_size=5).map(
        lambda text: Value(
            (("", struct.pack("<I", len(text))), ("", text)) if text else (("", struct.pack("<I", 0)),),
            text.decode("latin-1"),
            late_comma=True,
        )
    )


def _enums() -> SearchStrategy[Typed]:
    def made(known: dict[int, bytes]) -> Typed:
        labels = b"".join(_hex(value) + b"`" + label + b"'" for value, label in known.items())

        def value_of(number: int) -> Value:
            label = known.get(number, b"").decode() or "0x" + _hex(number).decode()
            return _leaf(struct.pack("<h", number), label)

        numbers = st.integers(-(1 << 15), (1 << 15) - 1) | st.sampled_from([*known, 0])
        return b"/s`Color'" + labels + b"\\", numbers.map(value_of)

    labels = st.sampled_from([b"", b"Red", b"Light Green"])
    return st.dictionaries(st.integers(-40_000 // 2, 20_000), labels, max_size=4).map(made)


def _hex(value: int) -> bytes:
    return b"%s%X" % (b"-" if value < 0 else b"", abs(value))


def _joined(begin: str, values: list[Value], end: str, first: bytes | None = None) -> Value:
    # A list of values with commas; *first* is read before it begins.
    pieces: list[tuple[str, bytes]] = []
    pending = begin
    if first is not None:
        pieces.append(("", first))
    is_first = True
    for value in values:
        comma = ", " if value.has_comma and not is_first else ""
        is_first &= not value.has_comma
        for number, (before, data) in enumerate(value.pieces):
            early = comma if number == 0 and not value.late_comma else ""
            late = comma if number == 1 and value.late_comma else ""
            pieces.append((pending + early + late + before, data))
            pending = ""
        if not value.pieces or (value.late_comma and len(value.pieces) == 1):
            pending += comma
        pending += value.rest
    return Value(tuple(pieces), pending + end, late_comma=first is not None)


def _sequences(element: Typed) -> Typed:
    tag, values = element

    def made(chosen: list[Value]) -> Value:
        return _joined("[", chosen, "]", struct.pack("<I", len(chosen)))

    return b"[" + tag, st.lists(values, max_size=4).map(made)


def _tuples(members: list[Typed]) -> Typed:
    values = st.tuples(*(strategy for _, strategy in members))
    return b"(" + b"".join(tag for tag, _ in members) + b")", values.map(lambda one: _joined("(", list(one), ")"))


def _structs(fields: list[tuple[bytes, Typed]]) -> Typed:
    if not fields:  # with the name of a struct around it, its tag would mean that one again
        return b"{None<T>}", st.just(Value((), "None"))
    tag = b"{Some<T>" + b"".join(b"`" + label + b"'" + typed[0] for label, typed in fields) + b"}"

    def made(chosen: tuple[Value, ...]) -> Value:
        pieces: list[tuple[str, bytes]] = []
        pending = "Some{ "
        for number, ((label, _), value) in enumerate(zip(fields, chosen, strict=True)):
            pending += (", " if number else "") + (label.decode() + ": " if label else "")
            for before, data in value.pieces:
                pieces.append((pending + before, data))
                pending = ""
            pending += value.rest
        return Value(tuple(pieces), pending + " }")

    return tag, st.tuples(*(typed[1] for _, typed in fields)).map(made)


def _variants(options: list[Typed]) -> Typed:
    def made(chosen: tuple[int, tuple[Value, ...]]) -> Value:
        index, values = chosen
        head = ("", bytes([index]))
        if index == 0:
            return Value((head,), "{null}", late_comma=True)
        if index > len(options):
            return Value((head,), "", has_comma=False)
        value = values[index - 1]
        return Value((head, *value.pieces), value.rest, value.has_comma, late_comma=True)

    values = st.tuples(*(strategy for _, strategy in options))
    tag = b"<0" + b"".join(tag for tag, _ in options) + b">"
    return tag, st.tuples(st.integers(0, len(options) + 1), values).map(made)


def _times() -> Typed:
    def value_of(ns: int) -> Value:
        seconds = abs(ns) // 10**9 * (-1 if ns < 0 else 1)
        moment = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(seconds=seconds)
        text = moment.strftime("%Y-%m-%d %H:%M:%S.") + f"{ns - seconds * 10**9:09}"[:9]
        if ns < 0 and ns % 10**9:
            text = moment.strftime("%Y-%m-%d %H:%M:%S.") + f"-{seconds * 10**9 - ns:09}"[:9]
        return Value((("", struct.pack("<q", ns)),), text)

    tag = b"{std::chrono::system_clock::time_point`ns'l}"
    return tag, st.integers(-(1 << 63), (1 << 63) - 1).map(value_of)


def _durations() -> Typed:
    tag = b"{std::chrono::duration<Rep,std::milli>`count'i}"
    numbers = st.integers(-(1 << 31), (1 << 31) - 1)
    return tag, numbers.map(lambda one: Value((("", struct.pack("<i", one)),), f"{one}ms"))


_LEAVES = st.one_of(
    _number_types(),
    _enums(),
    st.just((b"[c", _texts())),
    st.just(_times()),
    st.just(_durations()),
    st.just((b"()", st.just(Value((), "()")))),
)
_LABELS = st.sampled_from([b"", b"a", b"long label"])


def typed_values() -> SearchStrategy[tuple[bytes, Value]]:
    """Type tags, and a value of the type."""
    types = st.recursive(
        _LEAVES,
        lambda inner: st.one_of(
            inner.filter(lambda one: one[0] != b"c").map(_sequences),
            st.lists(inner, max_size=3).map(_tuples),
            st.lists(st.tuples(_LABELS, inner), max_size=3).map(_structs),
            st.lists(inner, max_size=3).map(_variants),
        ),
        max_leaves=6,
    )
    return types.flatmap(lambda typed: st.tuples(st.just(typed[0]), typed[1]))
