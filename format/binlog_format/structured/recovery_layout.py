"""Blocks of queued entries in the memory of a program that logs (docs/formats/structured.md), 64 bits."""

from __future__ import annotations

import struct

METADATA_MAGIC = struct.pack("<Q", 0xFE214F726E35BDBC)
DATA_MAGIC = struct.pack("<Q", 0xFE213F716D34BCBC)

METADATA_STRUCT = struct.Struct(
    "<"
    "Q"  # session: its address
    "Q"  # size: of the entries that follow
)
DATA_STRUCT = struct.Struct(
    "<"
    "Q"  # session
    "Q"  # write_index: next byte to write
    "Q"  # data_end: end of what is valid when writing has begun anew at the start
    "Q"  # capacity: of the bytes that follow
    "Q"  # buffer: where they were; ignored
    "Q"  # read_index: next byte to consume
)
