"""Picture of a log's pages, whatever the log's format: `Picture`. Uses no drawing library.

An `.ibb` log as a picture: `innodb_picture`.

Contents of a log's pages, as a picture, whatever its format: `describe`.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from binlog_format.errors import UnsupportedError
from binlog_format.format_traits import INNODB, STRUCTURED
from binlog_format.formats.directories import open_directory
from binlog_format.formats.opening import detect_format
from binlog_format.innodb.inspection.page_usage import InnodbUse
from binlog_format.messages import count_text
from binlog_format.position import VIRTUAL_PAGE_SIZE
from binlog_format.structured.files.page_usage import StructuredUse

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from binlog_format.errors import BinlogError
    from binlog_format.innodb.inspection.page_usage import InnodbFileUsage, LogUsage, TransactionUsage
    from binlog_format.kernels import Int64s, Mask
    from binlog_format.log_format import OnProgress
    from binlog_format.position import Position
    from binlog_format.source_file import Directory
    from binlog_format.structured.files.page_usage import StructuredFileUsage


class Sign(Enum):
    """Sign that a line of a legend explains."""

    COLOR = "a colour of cells"
    DOT = "a coloured dot in a cell"
    DIAMOND = "a white diamond in a cell"


@dataclass(frozen=True, slots=True)
class LegendLine:
    """One line; `color` is of the sign, and `edge` of a patch of a colour, where it has another one."""

    sign: Sign
    color: str
    label: str
    edge: str | None = None


@dataclass(slots=True)
class PictureFile:
    """One file.

    Attributes:
        colors: Of the strips that fill a cell, from left to right.
        amounts: Shape (pages, colours): bytes of each colour.
        dots: Shape (pages,): which pages have a dot. None: there are none in such a log.
    """

    name: str
    size: int
    colors: list[str]
    amounts: NDArray[np.float64]
    dots: Mask | None = None


@dataclass(slots=True)
class Picture:
    """All that is drawn.

    Attributes:
        files: From the top down.
        legend: Its first part; the title tells what a cell is.
        page_name: What a page is called there.
        diamonds: File (by its place in *files*) and page of each.
        more_legend: Its second part.
        more_title: Above that.
    """

    files: list[PictureFile]
    legend: list[LegendLine]
    page_name: str
    dot_color: str = ""
    diamonds: list[tuple[int, int]] = field(default_factory=list)
    more_legend: list[LegendLine] = field(default_factory=list)
    more_title: str = ""


def size_text(size: int) -> str:
    """A size in the largest unit that it fills."""
    for unit, factor in (("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10)):
        if size >= factor:
            return f"{size / factor:,.1f} {unit}"
    return count_text(size, "byte")


TRANSACTION_COLORS = ("#e4572e", "#f2a541", "#c2185b", "#8e44ad", "#d98880", "#b7950b", "#ff8fab", "#6d4c41")
"""Colours of the largest transactions with out-of-band data; the others share a colour."""

_OTHER_TRANSACTIONS = "#f6d3a8"
_UNUSED_OOB = "#b9aea4"


class _UseStyle(NamedTuple):
    color: str
    name: str
    edge: str | None = None

    def legend_line(self, size: int) -> LegendLine:
        return LegendLine(Sign.COLOR, self.color, f"{self.name}  {size_text(size)}", self.edge)


_INNODB_STYLES = {
    InnodbUse.HEADER: _UseStyle("#37474f", "header page"),
    InnodbUse.COMMIT: _UseStyle("#4682b4", "commit records"),
    InnodbUse.GTID_STATE: _UseStyle("#2e9e6b", "GTID states"),
    InnodbUse.XA: _UseStyle("#26c6da", "XA records"),
    InnodbUse.OTHER: _UseStyle("#000000", "other records"),
    InnodbUse.FILLER: _UseStyle("#d5d8dc", "filler and dummies"),
    InnodbUse.EMPTY: _UseStyle("#f3f5f7", "empty", "#cfd8dc"),
    InnodbUse.DAMAGED: _UseStyle("#ff0033", "damaged"),
}


def innodb_picture(usage: LogUsage) -> Picture:
    """Describe what `measure_pages` found."""
    shown = usage.transactions[: len(TRANSACTION_COLORS)]
    shares = _transaction_shares(usage)
    places = {file.file_no: place for place, file in enumerate(usage.files)}
    positions = [transaction.position for transaction in shown]
    return Picture(
        files=[_file(file, shares.get(file.file_no, {}), len(shown)) for file in usage.files],
        legend=_legend(usage, shown),
        page_name="page",
        dot_color=_INNODB_STYLES[InnodbUse.GTID_STATE].color,
        diamonds=[(places[at.file_no], at.page) for at in positions if at.file_no in places],
        more_legend=_transactions_legend(shown) if shown else [],
        more_title="largest transactions",
    )


def _file(file: InnodbFileUsage, shares: dict[int, Int64s], shown_count: int) -> PictureFile:
    colors, amounts = _strips(file, shares, shown_count)
    has_state = file.bytes[:, InnodbUse.GTID_STATE] > 0
    return PictureFile(file.name, len(file.bytes) * file.page_size, colors, amounts, has_state)


def _transaction_shares(usage: LogUsage) -> dict[int, dict[int, Int64s]]:
    """Bytes in each page, for each file and transaction (by rank)."""
    shares: dict[int, dict[int, Int64s]] = {}
    sizes = {file.file_no: len(file.bytes) for file in usage.files}
    for rank, transaction in enumerate(usage.transactions):
        rank = min(rank, len(TRANSACTION_COLORS))
        places = transaction.page_bytes()
        for file_no in np.unique(places[:, 0]).tolist():
            if file_no not in sizes:
                continue
            rows = places[places[:, 0] == file_no]
            pages = shares.setdefault(file_no, {}).setdefault(rank, np.zeros(sizes[file_no], dtype=np.int64))
            np.add.at(pages, rows[:, 1], rows[:, 2])
    return shares


def _strips(
    file: InnodbFileUsage, shares: dict[int, Int64s], shown_count: int
) -> tuple[list[str], NDArray[np.float64]]:
    """Colours, and for each page how many bytes have each of them."""
    colors: list[str] = []
    amounts: list[NDArray[np.float64]] = []

    def add(color: str, values: Int64s) -> None:
        colors.append(color)
        amounts.append(values.astype(np.float64))

    for use in (InnodbUse.HEADER, InnodbUse.COMMIT):
        add(_INNODB_STYLES[use].color, file.bytes[:, use])
    known = np.zeros(len(file.bytes), dtype=np.int64)
    for rank in sorted(shares):
        color = TRANSACTION_COLORS[rank] if rank < shown_count else _OTHER_TRANSACTIONS
        part = np.minimum(shares[rank], file.bytes[:, InnodbUse.OOB] - known)
        known += part
        add(color, part)
    # Headers of chunks and records belong to no transaction; a few bytes more are data that no commit refers to.
    rest = file.bytes[:, InnodbUse.OOB] - known
    is_overhead = rest * 20 < file.bytes[:, InnodbUse.OOB]
    if amounts[2:]:
        largest = np.argmax(np.stack(amounts[2:]), axis=0)
        for number in range(len(amounts) - 2):
            amounts[2 + number] += np.where(is_overhead & (largest == number), rest, 0)
        rest = np.where(is_overhead, 0, rest)
    add(_UNUSED_OOB, rest)
    for use in (
        InnodbUse.GTID_STATE,
        InnodbUse.XA,
        InnodbUse.OTHER,
        InnodbUse.FILLER,
        InnodbUse.DAMAGED,
        InnodbUse.EMPTY,
    ):
        add(_INNODB_STYLES[use].color, file.bytes[:, use])
    return colors, np.stack(amounts, axis=1)


def _legend(usage: LogUsage, shown: list[TransactionUsage]) -> list[LegendLine]:
    totals = np.sum([file.bytes.sum(axis=0) for file in usage.files], axis=0)
    shown_size = sum(transaction.size for transaction in shown)
    other_size = sum(transaction.size for transaction in usage.transactions[len(shown) :])
    unused = max(int(totals[InnodbUse.OOB]) - shown_size - other_size, 0)
    legend = [
        _INNODB_STYLES[use].legend_line(int(totals[use]))
        for use in (
            InnodbUse.COMMIT,
            InnodbUse.XA,
            InnodbUse.OTHER,
            InnodbUse.FILLER,
            InnodbUse.EMPTY,
            InnodbUse.HEADER,
            InnodbUse.DAMAGED,
        )
        if totals[use] > 0
    ]
    if totals[InnodbUse.GTID_STATE] > 0:
        legend.insert(1, LegendLine(Sign.DOT, _INNODB_STYLES[InnodbUse.GTID_STATE].color, "GTID state"))
    if other_size:
        label = f"{len(usage.transactions) - len(shown):,} other transactions  {size_text(other_size)}"
        legend.append(LegendLine(Sign.COLOR, _OTHER_TRANSACTIONS, label))
    if unused * 20 > totals[InnodbUse.OOB]:
        label = f"out-of-band, not committed  {size_text(unused)}"
        legend.append(LegendLine(Sign.COLOR, _UNUSED_OOB, label))
    return legend


def _transactions_legend(shown: list[TransactionUsage]) -> list[LegendLine]:
    legend = [
        LegendLine(Sign.COLOR, color, f"{transaction.gtid or transaction.position}  {size_text(transaction.size)}")
        for transaction, color in zip(shown, TRANSACTION_COLORS, strict=False)
    ]
    return [*legend, LegendLine(Sign.DIAMOND, "white", "where it commits")]


@dataclass(frozen=True, slots=True)
class Description:
    """A picture, and what it shows.

    Attributes:
        picture: Not drawn yet.
        findings: What it shows, in words.
        problem: Why it does not show all transactions; None: it does.
    """

    picture: Picture
    findings: str
    problem: BinlogError | None


def describe(path: str, start: Position | None, end: Position | None, on_progress: OnProgress) -> Description:
    """Measure the pages of the log at *path* in [*start*, *end*)."""
    directory, only = open_directory(path)
    found = detect_format(directory, only)
    describe_format = _OF_FORMATS.get(found)
    if describe_format is None:
        raise UnsupportedError(
            "FORMAT",
            f"{path}: map draws the pages of .ibb logs and structured logs, and this log is {found}",
            hint=f"binlog-stream repack {path} --to DIR makes an .ibb log of a MariaDB server's",
        )
    return describe_format(directory, only, start, end, on_progress)


def _describe_innodb(
    directory: Directory, only: str | None, start: Position | None, end: Position | None, on_progress: OnProgress
) -> Description:
    from binlog_format.innodb.inspection.page_usage import measure_pages

    usage = measure_pages(directory, only, start=start, end=end, on_progress=on_progress)
    findings = f"{count_text(len(usage.transactions), 'transaction')} with out-of-band data"
    return Description(innodb_picture(usage), findings, usage.problem)


def _describe_structured(
    directory: Directory, only: str | None, start: Position | None, end: Position | None, on_progress: OnProgress
) -> Description:
    from binlog_format.structured.files.page_usage import StructuredUse, measure_pages

    usages = measure_pages(directory, only, start=start, end=end, on_progress=on_progress)
    damaged = sum(int(usage.bytes[:, StructuredUse.DAMAGED].sum()) for usage in usages)
    findings = f"{size_text(damaged)} damaged" if damaged else "nothing damaged"
    return Description(structured_picture(usages), findings, None)


_OF_FORMATS = {INNODB: _describe_innodb, STRUCTURED: _describe_structured}

# Of the severities each is darker or more intense than the one before, so they differ without their hues too; blue and
# orange to red are told apart by people who cannot tell red from green.
_STRUCTURED_STYLES = {
    StructuredUse.METADATA: _UseStyle("#004d73", "sources, clocks, writers"),
    StructuredUse.TRACE: _UseStyle("#e3e6e8", "trace events"),
    StructuredUse.DEBUG: _UseStyle("#b8bfc4", "debug events"),
    StructuredUse.INFO: _UseStyle("#7db8da", "info events"),
    StructuredUse.WARNING: _UseStyle("#f0c419", "warning events"),
    StructuredUse.ERROR: _UseStyle("#e06a00", "error events"),
    StructuredUse.CRITICAL: _UseStyle("#a8001c", "critical events"),
    StructuredUse.OTHER_SEVERITY: _UseStyle("#9e86c8", "events of other severities"),
    StructuredUse.UNKNOWN: _UseStyle("#5b3a8c", "unknown entries"),
    StructuredUse.DAMAGED: _UseStyle("#000000", "damaged"),
    StructuredUse.INCOMPLETE: _UseStyle("#fdeec4", "not complete (yet)", "#90a4ae"),
}


def structured_picture(files: list[StructuredFileUsage]) -> Picture:
    """Describe what `measure_pages` found."""
    totals = np.sum([file.bytes.sum(axis=0) for file in files], axis=0)
    legend = [_STRUCTURED_STYLES[use].legend_line(int(totals[use])) for use in StructuredUse if totals[use] > 0]
    shown = [
        PictureFile(
            file.name,
            int(file.bytes.sum()),
            [style.color for style in _STRUCTURED_STYLES.values()],
            file.bytes.astype(np.float64),
        )
        for file in files
    ]
    return Picture(shown, legend, page_name=f"page of {VIRTUAL_PAGE_SIZE >> 10} KiB")
