"""Selection of a block's row events for a view: `Selection.of(block)`; their row images: `touched_images`."""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import replace
from typing import TYPE_CHECKING, NoReturn

import numpy as np

from binlog_format.errors import SchemaError, UnsupportedError
from binlog_format.position import Position
from binlog_format.rows.decoding import DEFAULT_DECODING, Decoding
from binlog_format.rows.images import Images, read_images
from binlog_format.rows.table_events import TableEvents, TableMaps
from binlog_format.rows.virtual_columns import as_logged
from binlog_format.vendor import Vendor

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from binlog_format.block import Block
    from binlog_format.events.table_map import TableLayout
    from binlog_format.kernels import Int64s
    from binlog_format.position import Place
    from binlog_format.rows.decoding import TableSchemas
    from binlog_format.views.filters import GroupFilter, TableFilter

    OnProblem = Callable[[Block, TableEvents, SchemaError | UnsupportedError], None]
    SourceOf = Callable[[TableLayout], TableLayout | None]


OF_ONE_TABLE = (SchemaError, UnsupportedError)
"""Errors that let one table not be understood, and all others be read."""

_COMPLETED_MAX = 10_000
"""Completed layouts that are kept; a log may see any number of tables come and go."""


def raise_problem(block: Block, touched: TableEvents, error: SchemaError | UnsupportedError) -> NoReturn:
    """An `OnProblem` that leaves out nothing."""
    del block, touched
    raise error


class Selection:
    """The row events of wanted tables in wanted groups, with layouts as far as they are known.

    One object reads one run of committed blocks in order: it remembers table maps over the pieces of a large group.

    Args:
        table: The one table (`database.table`) that is wanted; None: all that *tables* accepts.
        event_types: Only row events of these types (`EventType`), unless rules choose rows; None: of all.
        decoding: Its schemas state what table maps leave open, its rules what is shown.
        on_problem: Called for events that are left out because of an error of `OF_ONE_TABLE`; default: it is raised.

    Attributes:
        source_of: Gives the table whose existing rows a snapshot has copied into a table of its own, and None for all
            other tables: copied rows are selected as those of their source. None: they are not selected.
        keeps_sequences: Sequences are selected like tables. False: those that *decoding* knows are left out.
    """

    def __init__(
        self,
        tables: TableFilter,
        groups: GroupFilter,
        *,
        table: str | None = None,
        event_types: frozenset[int] | None = None,
        decoding: Decoding = DEFAULT_DECODING,
        on_problem: OnProblem = raise_problem,
    ) -> None:
        self._on_problem = on_problem
        self.source_of: SourceOf | None = None
        self.keeps_sequences = True
        self._tables = tables
        self._groups = groups
        self._table = table
        # Rules may make a delete of an update: events do not tell then what becomes of their rows.
        chooses_rows = decoding.rules is not None and decoding.rules.chooses_rows
        self._event_types = None if event_types is None or chooses_rows else sorted(event_types)
        self._decoding = decoding
        self._layouts = None if decoding.schemas is None else _CompletedLayouts(decoding.schemas, decoding)
        self._maps = TableMaps()

    def of(self, block: Block) -> list[TableEvents]:
        """The wanted row events of each table layout; layouts without any are left out."""
        resolved = self._maps.resolve(block)
        wanted = self._kept([touched for touched in resolved if self.wants(touched)], block, self._event_types)
        return self.known(block, wanted + self._copied(block, resolved))

    def resolved(self, block: Block) -> list[TableEvents]:
        """The row events of all tables in wanted groups, with layouts as the log has them."""
        return self._kept(self._maps.resolve(block), block, self._event_types)

    def _copied(self, block: Block, resolved: list[TableEvents]) -> list[TableEvents]:
        if self.source_of is None:
            return []
        sources = [(touched, self.source_of(touched.layout)) for touched in resolved]
        copied = [replace(touched, layout=source, is_copied=True) for touched, source in sources if source is not None]
        wanted = [touched for touched in copied if self.wants(touched)]
        # They are inserts whatever became of their rows before: types of events do not count.
        return self._kept(wanted, block, None)

    def known(self, block: Block, wanted: list[TableEvents]) -> list[TableEvents]:
        """The part of `resolved` whose layouts are known."""
        completed = wanted if self._layouts is None else self._completed(block, wanted, self._layouts)
        if self._decoding.rules is None:
            return completed
        return [replace(touched, layout=self._decoding.shown(touched.layout)) for touched in completed]

    def _completed(self, block: Block, wanted: list[TableEvents], layouts: _CompletedLayouts) -> list[TableEvents]:
        completed: list[TableEvents] = []
        for touched in wanted:
            try:
                parts = layouts.parts(block, touched)
                completed += (part for part in parts if self.keeps_sequences or not part.layout.is_sequence)
            except OF_ONE_TABLE as error:
                self._on_problem(block, touched, error)
        return completed

    def _kept(self, resolved: list[TableEvents], block: Block, event_types: list[int] | None) -> list[TableEvents]:
        # Those of wanted groups, and of *event_types* if these count.
        wanted = self._groups.keep(block) if resolved else None
        keep = None if wanted is None else wanted[block.events["group"]]
        if resolved and event_types is not None:
            of_types = np.isin(block.events["type"], event_types)
            keep = of_types if keep is None else keep & of_types
        if keep is None:
            return resolved
        kept = [replace(touched, events=touched.events[keep[touched.events]]) for touched in resolved]
        return [touched for touched in kept if len(touched.events)]

    def wants(self, touched: TableEvents) -> bool:
        """True if the table is one of the wanted tables."""
        layout = touched.layout
        named = self._table is None or self._table == f"{layout.database}.{layout.table}"
        return named and self._tables.accepts(layout)


class _CompletedLayouts:
    """Layouts as schemas complete them, each one made once for each definition of its table."""

    def __init__(self, schemas: TableSchemas, decoding: Decoding) -> None:
        self._schemas = schemas
        self._full_source_images = decoding.full_source_images
        self._met: set[tuple[str, str, str, bool]] = set()
        self._completed: dict[tuple[str, str, str, bool, Position | None], TableLayout] = {}

    def parts(self, block: Block, touched: TableEvents) -> Iterator[TableEvents]:
        """*touched*, cut where another definition of its table begins."""
        layout = touched.layout
        if layout.problem is not None:
            raise layout.problem
        groups: Int64s = block.events["group"][touched.events]
        is_replicated = not self._full_source_images and block.is_replicated(touched.events)
        edges = self._edges(layout, Position.of(block.groups[int(groups[0])]), is_replicated=is_replicated)
        start = 0
        while start < len(groups):
            position = Position.of(block.groups[int(groups[start])])
            number = bisect_right(edges, position)
            stop = len(groups)
            if number < len(edges) and edges[number] <= Position.of(block.groups[int(groups[-1])]):
                stop = int(np.searchsorted(groups, _first_group_at(block, edges[number])))
            edge = edges[number - 1] if number else None
            completed = self._completed_layout(layout, edge, position, is_replicated=is_replicated)
            events = touched.events[start:stop]
            logged = completed if touched.is_copied else as_logged(completed, block, is_replicated=is_replicated)
            yield replace(touched, layout=logged, events=events)
            start = stop

    def _edges(self, layout: TableLayout, position: Position, *, is_replicated: bool) -> Sequence[Position]:
        met = (layout.database, layout.table, layout.digest, is_replicated)
        if met in self._met:
            return self._schemas.edges(layout.database, layout.table)
        # The first question about a table may make its schemas look for what comes before this, edges included.
        completed = self._schemas.completed(layout, position, needs_generated=is_replicated)
        edges = self._schemas.edges(layout.database, layout.table)
        number = bisect_right(edges, position)
        self._completed[*met, edges[number - 1] if number else None] = completed
        self._met.add(met)
        return edges

    def _completed_layout(
        self, layout: TableLayout, edge: Position | None, position: Position, *, is_replicated: bool
    ) -> TableLayout:
        key = (layout.database, layout.table, layout.digest, is_replicated, edge)
        found = self._completed.get(key)
        if found is None:
            if len(self._completed) >= _COMPLETED_MAX:
                self._completed.clear()
                self._met.clear()
            found = self._schemas.completed(layout, position, needs_generated=is_replicated)
            self._completed[key] = found
        return found


def event_place(block: Block, event: int) -> Place | None:
    """Start of an event of *block*, for messages."""
    return block.place(int(block.events["start"][event]))


def _first_group_at(block: Block, edge: Position) -> int:
    """The first group at *edge* or after it; groups ascend."""
    low, high = 0, len(block.groups)
    while low < high:
        middle = (low + high) // 2
        low, high = (middle + 1, high) if Position.of(block.groups[middle]) < edge else (low, middle)
    return low


def touched_images(block: Block, touched: TableEvents, decoding: Decoding) -> Images:
    """Read the images of *touched*; generated columns that they lack are in them where they can be computed."""
    images = _read(block, touched, decoding)
    layout, schemas = touched.layout, decoding.schemas
    if layout.vendor is Vendor.MYSQL or layout.completion or decoding.computes is None or schemas is None:
        return images
    if not images.has_absent():
        return images
    # Where table maps leave nothing open, expressions are looked for only now.
    defined = schemas.completed(layout, block.position_at(touched.events[0]), needs_generated=True)
    return _read(block, replace(touched, layout=defined), decoding) if defined.completion else images


def _read(block: Block, touched: TableEvents, decoding: Decoding) -> Images:
    return read_images(block.data, block.events, touched.events, touched.layout, place=block.place, decoding=decoding)
