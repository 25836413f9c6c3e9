"""An `.ibb` log as a picture: `picture_of`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from binlog_format.innodb.inspection.page_usage import InnodbUse
from binlog_streaming.page_map.picture import LegendLine, Picture, PictureFile, Sign, size_text

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from binlog_format.innodb.inspection.page_usage import InnodbFileUsage, LogUsage, TransactionUsage

TRANSACTION_COLORS = ("#e4572e", "#f2a541", "#c2185b", "#8e44ad", "#d98880", "#b7950b", "#ff8fab", "#6d4c41")
"""Colours of the largest transactions with out-of-band data; the others share a colour."""

_OTHER_TRANSACTIONS = "#f6d3a8"
_UNUSED_OOB = "#b9aea4"
_COLORS = {
    InnodbUse.HEADER: "#37474f",
    InnodbUse.COMMIT: "#4682b4",
    InnodbUse.GTID_STATE: "#2e9e6b",
    InnodbUse.XA: "#26c6da",
    InnodbUse.OTHER: "#000000",
    InnodbUse.FILLER: "#d5d8dc",
    InnodbUse.EMPTY: "#f3f5f7",
    InnodbUse.DAMAGED: "#ff0033",
}
_EDGES = {InnodbUse.EMPTY: "#cfd8dc"}
_NAMES = {
    InnodbUse.HEADER: "header page",
    InnodbUse.COMMIT: "commit records",
    InnodbUse.GTID_STATE: "GTID states",
    InnodbUse.XA: "XA records",
    InnodbUse.OTHER: "other records",
    InnodbUse.FILLER: "filler and dummies",
    InnodbUse.EMPTY: "empty",
    InnodbUse.DAMAGED: "damaged",
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
        dot_color=_COLORS[InnodbUse.GTID_STATE],
        diamonds=[(places[at.file_no], at.page) for at in positions if at.file_no in places],
        more_legend=_transactions_legend(shown) if shown else [],
        more_title="largest transactions",
    )


def _file(file: InnodbFileUsage, shares: dict[int, NDArray[np.int64]], shown_count: int) -> PictureFile:
    colors, amounts = _strips(file, shares, shown_count)
    has_state = file.bytes[:, InnodbUse.GTID_STATE] > 0
    return PictureFile(file.name, len(file.bytes) * file.page_size, colors, amounts, has_state)


def _transaction_shares(usage: LogUsage) -> dict[int, dict[int, NDArray[np.int64]]]:
    """Bytes in each page, for each file and transaction (by rank)."""
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
    file: InnodbFileUsage, shares: dict[int, NDArray[np.int64]], shown_count: int
) -> tuple[list[str], NDArray[np.float64]]:
    """Colours, and for each page how many bytes have each of them."""
    colors: list[str] = []
    amounts: list[NDArray[np.float64]] = []

    def add(color: str, values: NDArray[np.int64]) -> None:
        colors.append(color)
        amounts.append(values.astype(np.float64))

    for use in (InnodbUse.HEADER, InnodbUse.COMMIT):
        add(_COLORS[use], file.bytes[:, use])
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
        add(_COLORS[use], file.bytes[:, use])
    return colors, np.stack(amounts, axis=1)


def _legend(usage: LogUsage, shown: list[TransactionUsage]) -> list[LegendLine]:
    totals = np.sum([file.bytes.sum(axis=0) for file in usage.files], axis=0)
    shown_size = sum(transaction.size for transaction in shown)
    other_size = sum(transaction.size for transaction in usage.transactions[len(shown) :])
    unused = max(int(totals[InnodbUse.OOB]) - shown_size - other_size, 0)
    legend = [
        LegendLine(Sign.COLOR, _COLORS[use], f"{_NAMES[use]}  {size_text(int(totals[use]))}", _EDGES.get(use))
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
        legend.insert(1, LegendLine(Sign.DOT, _COLORS[InnodbUse.GTID_STATE], "GTID state"))
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
