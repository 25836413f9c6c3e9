"""An `.ibb` log as a picture: `picture_of`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from binlog_format.innodb.inspection.page_usage import Use
from binlog_streaming.page_map.picture import LegendLine, Picture, PictureFile, Sign, size_text

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from binlog_format.innodb.inspection.page_usage import FileUsage, LogUsage, TransactionUsage

TRANSACTION_COLORS = ("#e4572e", "#f2a541", "#c2185b", "#8e44ad", "#d98880", "#b7950b", "#ff8fab", "#6d4c41")
"""For the largest transactions with out-of-band data; the others share a colour."""

_OTHER_TRANSACTIONS = "#f6d3a8"
_UNUSED_OOB = "#b9aea4"
_COLORS = {
    Use.HEADER: "#37474f",
    Use.COMMIT: "#4682b4",
    Use.GTID_STATE: "#2e9e6b",
    Use.XA: "#26c6da",
    Use.OTHER: "#000000",
    Use.FILLER: "#d5d8dc",
    Use.EMPTY: "#f3f5f7",
    Use.DAMAGED: "#ff0033",
}
_EDGES = {Use.EMPTY: "#cfd8dc"}
_NAMES = {
    Use.HEADER: "header page",
    Use.COMMIT: "commit records",
    Use.GTID_STATE: "GTID states",
    Use.XA: "XA records",
    Use.OTHER: "other records",
    Use.FILLER: "filler and dummies",
    Use.EMPTY: "empty",
    Use.DAMAGED: "damaged",
}


def picture_of(usage: LogUsage) -> Picture:
    """Describe what `measure_pages` found."""
    shown = usage.transactions[: len(TRANSACTION_COLORS)]
    shares = _transaction_shares(usage)
    places = {file.file_no: place for place, file in enumerate(usage.files)}
    positions = [transaction.position for transaction in shown]
    return Picture(
        files=[_file(file, shares.get(file.file_no, {}), len(shown)) for file in usage.files],
        legend=_legend(usage, shown),
        page_name="page",
        dot_color=_COLORS[Use.GTID_STATE],
        diamonds=[(places[at.file_no], at.page) for at in positions if at.file_no in places],
        more_legend=_transactions_legend(shown) if shown else [],
        more_title="largest transactions",
    )


def _file(file: FileUsage, shares: dict[int, NDArray[np.int64]], shown_count: int) -> PictureFile:
    colors, amounts = _strips(file, shares, shown_count)
    has_state = file.bytes[:, Use.GTID_STATE] > 0
    return PictureFile(file.name, len(file.bytes) * file.page_size, colors, amounts, has_state)


def _transaction_shares(usage: LogUsage) -> dict[int, dict[int, NDArray[np.int64]]]:
    """For each file and transaction (by rank) the bytes in each page."""
    shares: dict[int, dict[int, NDArray[np.int64]]] = {}
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
    file: FileUsage, shares: dict[int, NDArray[np.int64]], shown_count: int
) -> tuple[list[str], NDArray[np.float64]]:
    """Colours, and for each page how many bytes have each of them."""
    colors: list[str] = []
    amounts: list[NDArray[np.float64]] = []

    def add(color: str, values: NDArray[np.int64]) -> None:
        colors.append(color)
        amounts.append(values.astype(np.float64))

    for use in (Use.HEADER, Use.COMMIT):
        add(_COLORS[use], file.bytes[:, use])
    known = np.zeros(len(file.bytes), dtype=np.int64)
    for rank in sorted(shares):
        color = TRANSACTION_COLORS[rank] if rank < shown_count else _OTHER_TRANSACTIONS
        part = np.minimum(shares[rank], file.bytes[:, Use.OOB] - known)
        known += part
        add(color, part)
    # Headers of chunks and records belong to no transaction; a few bytes more are data that no commit refers to.
    rest = file.bytes[:, Use.OOB] - known
    is_overhead = rest * 20 < file.bytes[:, Use.OOB]
    if amounts[2:]:
        largest = np.argmax(np.stack(amounts[2:]), axis=0)
        for number in range(len(amounts) - 2):
            amounts[2 + number] += np.where(is_overhead & (largest == number), rest, 0)
        rest = np.where(is_overhead, 0, rest)
    add(_UNUSED_OOB, rest)
    for use in (Use.GTID_STATE, Use.XA, Use.OTHER, Use.FILLER, Use.DAMAGED, Use.EMPTY):
        add(_COLORS[use], file.bytes[:, use])
    return colors, np.stack(amounts, axis=1)


def _legend(usage: LogUsage, shown: list[TransactionUsage]) -> list[LegendLine]:
    totals = np.sum([file.bytes.sum(axis=0) for file in usage.files], axis=0)
    shown_size = sum(transaction.size for transaction in shown)
    other_size = sum(transaction.size for transaction in usage.transactions[len(shown) :])
    unused = max(int(totals[Use.OOB]) - shown_size - other_size, 0)
    legend = [
        LegendLine(Sign.COLOR, _COLORS[use], f"{_NAMES[use]}  {size_text(int(totals[use]))}", _EDGES.get(use))
        for use in (Use.COMMIT, Use.XA, Use.OTHER, Use.FILLER, Use.EMPTY, Use.HEADER, Use.DAMAGED)
        if totals[use] > 0
    ]
    if totals[Use.GTID_STATE] > 0:
        legend.insert(1, LegendLine(Sign.DOT, _COLORS[Use.GTID_STATE], "GTID state"))
    if other_size:
        label = f"{len(usage.transactions) - len(shown):,} other transactions  {size_text(other_size)}"
        legend.append(LegendLine(Sign.COLOR, _OTHER_TRANSACTIONS, label))
    if unused * 20 > totals[Use.OOB]:
        label = f"out-of-band, not committed  {size_text(unused)}"
        legend.append(LegendLine(Sign.COLOR, _UNUSED_OOB, label))
    return legend


def _transactions_legend(shown: list[TransactionUsage]) -> list[LegendLine]:
    legend = [
        LegendLine(Sign.COLOR, color, f"{transaction.gtid or transaction.position}  {size_text(transaction.size)}")
        for transaction, color in zip(shown, TRANSACTION_COLORS, strict=False)
    ]
    return [*legend, LegendLine(Sign.DIAMOND, "white", "where it commits")]
