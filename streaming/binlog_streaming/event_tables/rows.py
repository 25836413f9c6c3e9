"""Events of a batch as rows of the tables that they go into: `table_rows`."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import PurePosixPath, PureWindowsPath
from typing import TYPE_CHECKING

import numpy as np

from binlog_format.errors import TableError
from binlog_format.structured.views.event_filter import EventFilter, severity_name, shown_text
from binlog_format.structured.views.view import LogsView, chosen, with_events
from binlog_streaming.lake.evolution import common_schema
from binlog_streaming.lake.storage.table_places import path_part
from binlog_streaming.settings.event_source_model import Arguments

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    import pyarrow as pa

    from binlog_format.structured.event_log import EventSource, LogBlock
    from binlog_streaming.settings import EventRule


@dataclass(slots=True)
class EventTableRows:
    """Rows of a batch that go into one table.

    Attributes:
        place: In the sink's directory.
        rule: Number of the rule that selects them, from 0.
        batches: The rows, in the order of the log; their columns may differ.
    """

    place: str
    rule: int
    batches: list[pa.RecordBatch] = field(default_factory=list)

    @property
    def name(self) -> str:
        """Name of the target, for messages and for the table's own record."""
        return f"{self.place} (tables[{self.rule}])"

    @property
    def schema(self) -> pa.Schema:
        """Columns of all rows.

        Raises:
            SchemaError: `SCHEMA_CHANGED`: a column has types that have no common one.
        """
        return common_schema([batch.schema for batch in self.batches], self.name)

    @property
    def count(self) -> int:
        """Rows."""
        return sum(batch.num_rows for batch in self.batches)

    @property
    def last_place(self) -> str:
        """Position of the last event."""
        position = self.batches[-1].column("position")[-1].as_py()
        return "{file_no}:{page}:{chunk}".format(**position)


def table_rows(blocks: Iterable[LogBlock], rules: Sequence[EventRule]) -> list[EventTableRows]:
    """The rows of all tables, by rule and place.

    Raises:
        CorruptError: `BAD_ENTRY`.
        TableError: `SAME_TARGET`: two rules have one table.
    """
    routes = [_Route(number, rule) for number, rule in enumerate(rules)]
    for block in blocks:
        for route in routes:
            route.take(block)
    found = [rows for route in routes for _, rows in sorted(route.tables.items())]
    rules_of = {rows.place: rows.rule for rows in reversed(found)}
    for rows in found:
        if rows.rule != rules_of[rows.place]:
            raise TableError(
                "SAME_TARGET",
                f"{rows.place}: events of tables[{rules_of[rows.place]}] and of tables[{rows.rule}] go there",
                hint="Give the two rules different targets",
            )
    return found


def place_of(rule: EventRule, source: EventSource) -> str:
    """Place in the sink's directory for events of *source*, by `EventRule.target`."""
    path = shown_text(source.file)
    name = (PureWindowsPath if "\\" in path else PurePosixPath)(path).name
    values = {
        "category": shown_text(source.category),
        "severity": severity_name(source.severity),
        "function": shown_text(source.function),
        "file": name.replace(".", "_"),
        "line": str(source.line),
        "source_id": str(source.id),
    }
    return rule.place.format(**{key: path_part(value) or "_" for key, value in values.items()}).strip("/")


class _Route:
    """Sends the events of one rule to its tables."""

    def __init__(self, number: int, rule: EventRule) -> None:
        self._number = number
        self._rule = rule
        self._wanted = EventFilter(rules=rule.sources)
        self._view = LogsView(typed=rule.arguments is Arguments.COLUMNS)
        self._places: dict[EventSource, str] = {}
        self.tables: dict[str, EventTableRows] = {}

    def take(self, block: LogBlock) -> None:
        found = chosen(block, self._wanted)
        parts = self._by_source(found) if self._rule.arguments is Arguments.COLUMNS else self._by_place(found)
        for source, part in parts:
            place = self._place(source)
            if place not in self.tables:
                self.tables[place] = EventTableRows(place, self._number)
            self.tables[place].batches.append(self._view.batch(part))

    def _by_source(self, block: LogBlock) -> Iterator[tuple[EventSource, LogBlock]]:
        numbers = block.events["source"]
        for number in np.unique(numbers).tolist():
            yield block.sources[number], with_events(block, np.flatnonzero(numbers == number))

    def _by_place(self, block: LogBlock) -> Iterator[tuple[EventSource, LogBlock]]:
        numbers = block.events["source"]
        used = np.unique(numbers).tolist()
        places: dict[str, list[int]] = {}
        for number in used:
            places.setdefault(self._place(block.sources[number]), []).append(number)
        for of_place in places.values():
            is_all = len(of_place) == len(used)
            part = block if is_all else with_events(block, np.flatnonzero(np.isin(numbers, of_place)))
            yield block.sources[of_place[0]], part

    def _place(self, source: EventSource) -> str:
        if source not in self._places:
            self._places[source] = place_of(self._rule, source)
        return self._places[source]
