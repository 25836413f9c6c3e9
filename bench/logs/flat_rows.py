"""Tables whose rows are made by NumPy, thousands at a time, and are known without reading them again: `FlatTable`.

Every value follows from the row's key and from how often the row was changed, its version. So a log of them can be made
of any size, and what a table must hold in the end is made of the last versions.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from bench.logs.datasets import FIRST_SECOND, SERVER_ID
from binlog_lab.event_encoding.event_encoding import Origin
from binlog_lab.event_encoding.table_encoding import TableEncoder

if TYPE_CHECKING:
    from collections.abc import Iterable

    from numpy.typing import NDArray

    from binlog_lab.event_encoding.table_encoding import TableSpec
    from binlog_lab.event_encoding.value_encoding import Value

    Keys = NDArray[np.int64]
    Images = NDArray[np.uint8]

_ORIGIN = Origin(FIRST_SECOND, SERVER_ID)
_TEXT_SIZE = 32
_LETTERS = np.frombuffer(b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdef", np.uint8)
_FIRST_DAY = np.datetime64("1990-01-01")
_DAYS = 12_000
_SECONDS = 30 << 20
_KINDS: dict[str, list[tuple[Any, ...]]] = {
    "bigint": [("", "<i8")],
    "int": [("", "<i4")],
    "double": [("", "<f8")],
    "date": [("", "u1", 3)],
    "timestamp": [("", ">u4")],
    "varchar(128)": [("_size", "<u2"), ("", f"S{_TEXT_SIZE}")],
    "char(1)": [("_size", "u1"), ("", "S1")],
}
"""How the server stores each type in a row image, with texts of one size."""


class FlatTable:
    """A table of columns in `_KINDS`, none of them NULL; the first one is its key.

    Args:
        table_id: Number that binds row events to their table map.
    """

    def __init__(self, spec: TableSpec, table_id: int) -> None:
        self.spec = spec
        self._encoder = TableEncoder(spec, table_id)
        self._nulls = self._encoder.pack_row(self._row(1, 0))[: (len(spec.columns) + 7) // 8]
        fields: list[tuple[Any, ...]] = [("nulls", "u1", len(self._nulls))]
        for column in spec.columns:
            fields += [(column.name + suffix, *kind) for suffix, *kind in _KINDS[column.sql_type]]
        self._image = np.dtype(fields)
        assert self.images(np.array([1]), 0).tobytes() == self._encoder.pack_row(self._row(1, 0))

    def values(self, keys: Keys, versions: Keys | int) -> dict[str, NDArray[np.generic]]:
        """A column each: the rows of *keys* as they are in *versions*."""
        seeds = _mixed(keys.astype(np.uint64) * np.uint64(1 << 20) + np.asarray(versions, np.uint64))
        columns: dict[str, NDArray[np.generic]] = {self.spec.columns[0].name: keys}
        for number, column in enumerate(self.spec.columns[1:], 1):
            columns[column.name] = _values(column.sql_type, seeds ^ np.uint64(number * 0x9E3779B97F4A7C15 % 2**64))
        return columns

    def images(self, keys: Keys, versions: Keys | int) -> Images:
        """Row images, a row each."""
        made = np.zeros(len(keys), self._image)
        made["nulls"] = np.frombuffer(self._nulls, np.uint8)
        for name, values in self.values(keys, versions).items():
            if f"{name}_size" in (self._image.names or ()):
                made[f"{name}_size"] = values.dtype.itemsize
            made[name] = _stored(values)
        return made.view(np.uint8).reshape(len(keys), -1)

    def rows(self, keys: Keys, versions: Keys | int) -> pa.Table:
        """The same as Arrow."""
        columns = self.values(keys, versions)
        return pa.table({name: _arrow(values) for name, values in columns.items()})

    def insert(self, keys: Keys, *, rows: int = 1) -> Images:
        """Statements that insert *keys* (a multiple of *rows*), *rows* by each; a row each."""
        images = self.images(keys, 0).reshape(len(keys) // rows, -1)
        return self._statements(self._encoder.insert([self._row(1, 0)] * rows, _ORIGIN), images)

    def update(self, keys: Keys, versions: Keys) -> Images:
        """Statements that bring each of *keys* from a version to the next one."""
        images = np.hstack([self.images(keys, versions), self.images(keys, versions + 1)])
        return self._statements(self._encoder.update([(self._row(1, 0), self._row(1, 0))], _ORIGIN), images)

    def delete(self, keys: Keys, versions: Keys) -> Images:
        """Statements that delete *keys*, which are in *versions*."""
        return self._statements(self._encoder.delete([self._row(1, 0)], _ORIGIN), self.images(keys, versions))

    def _statements(self, events: Iterable[bytes], images: Images) -> Images:
        # The row images are the last thing in a statement.
        content = self._encoder.table_map(_ORIGIN) + b"".join(events)
        made = np.tile(np.frombuffer(content, np.uint8), (len(images), 1))
        made[:, -images.shape[1] :] = images
        return made

    def _row(self, key: int, version: int) -> list[Value]:
        return [column[0].as_py() for column in self.rows(np.array([key]), version).columns]


def _mixed(seeds: NDArray[np.uint64]) -> NDArray[np.uint64]:
    # The finalizer of SplitMix64: every bit of the result depends on every bit of the seed.
    seeds = (seeds ^ (seeds >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    seeds = (seeds ^ (seeds >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return seeds ^ (seeds >> np.uint64(31))


def _values(kind: str, seeds: NDArray[np.uint64]) -> NDArray[np.generic]:
    mixed = _mixed(seeds)
    if kind == "bigint":
        return mixed.view(np.int64)
    if kind == "int":
        return (mixed >> np.uint64(32)).astype(np.uint32).view(np.int32)
    if kind == "double":
        return (mixed >> np.uint64(44)) / 2.0**20
    if kind == "date":
        return _FIRST_DAY + (mixed % np.uint64(_DAYS)).astype(np.int64)
    if kind == "timestamp":
        return np.datetime64(FIRST_SECOND, "s") + (mixed % np.uint64(_SECONDS)).astype(np.int64)
    if kind == "char(1)":
        return _LETTERS[(mixed & np.uint64(1)).astype(np.int64)].view("S1")
    words = [_mixed(mixed + np.uint64(number)) for number in range(_TEXT_SIZE // 8)]
    letters = _LETTERS[np.stack(words, axis=1).view(np.uint8) & 31]
    texts: NDArray[np.bytes_] = letters.reshape(len(seeds), -1).view(f"S{_TEXT_SIZE}").ravel()
    return texts


def _stored(values: NDArray[np.generic]) -> NDArray[np.generic]:
    """As row images have them: of dates the bits of day, month and year, in three bytes."""
    if values.dtype == "M8[s]":
        return values.astype(np.int64)
    if values.dtype != "M8[D]":
        return values
    months = values.astype("M8[M]")
    years = months.astype("M8[Y]")
    day, month = (values - months).astype(np.int64) + 1, (months - years).astype(np.int64) + 1
    bits = day | month << 5 | (years.astype(np.int64) + 1970) << 9
    stored: NDArray[np.uint8] = bits.astype("<u4").view(np.uint8).reshape(-1, 4)[:, :3]
    return stored


def _arrow(values: NDArray[np.generic]) -> pa.Array:
    if values.dtype.kind == "S":
        return pa.array(values).cast(pa.string())
    if values.dtype == "M8[s]":
        return pa.array(values).cast(pa.timestamp("us")).cast(pa.timestamp("us", "UTC"))
    return pa.array(values)
