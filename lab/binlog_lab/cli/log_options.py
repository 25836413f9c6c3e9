"""Options of commands that write logs: sizes of their parts, with units."""

from __future__ import annotations

from typing import Annotated

import typer

CacheSizeOption = Annotated[
    str, typer.Option(metavar="SIZE", help="Larger transactions go out of band (binlog_cache_size).")
]
MaxBinlogSizeOption = Annotated[
    str, typer.Option(metavar="SIZE", help="Size of each .ibb file; one more is made ahead.")
]
StateIntervalOption = Annotated[
    str, typer.Option(metavar="SIZE", help="Bytes between GTID state records (innodb_binlog_state_interval).")
]

_UNITS = {"K": 1 << 10, "M": 1 << 20, "G": 1 << 30}


def parse_size(text: str) -> int:
    """Bytes: a number, or a number and K, M or G."""
    number, unit = (text[:-1], _UNITS[text[-1].upper()]) if text[-1:].upper() in _UNITS else (text, 1)
    if not number.isdecimal():
        raise typer.BadParameter(f"{text!r} is not a size; a number of bytes, or for example 32K, 64M, 1G")
    return int(number) * unit
