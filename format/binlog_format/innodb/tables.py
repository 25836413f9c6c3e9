"""Tables between pages and event groups: chunks, commit records, pieces of a record."""

from __future__ import annotations

import numpy as np

# One row per chunk of a window of pages. All chunks count, of whatever record.
CHUNK_DTYPE = np.dtype(
    [
        ("page", np.int32),  # index of its page in the window
        ("number", np.int32),  # of the chunk in its page
        ("type", np.uint8),  # kind and flags
        ("start", np.int64),  # byte of its data in the window
        ("size", np.int32),  # bytes of data
    ]
)

# One row per whole commit record of a window.
RECORD_DTYPE = np.dtype(
    [
        ("first", np.int64),  # its first chunk: row in the chunk table
        ("end", np.int64),  # row behind its last chunk; chunks of other kinds may stand between
        ("size", np.int64),  # bytes of data: the header of integers, and event bytes
        ("header_size", np.int64),
        ("oob_records", np.int64),  # records of the first set of out-of-band data
        ("first_file_no", np.uint64),  # where its first record is
        ("first_offset", np.uint64),
        ("last_file_no", np.uint64),  # where its last record is: the root to start from
        ("last_offset", np.uint64),
        ("oob_records_second_set", np.int64),
        ("first_file_no_second_set", np.uint64),
        ("first_offset_second_set", np.uint64),
        ("last_file_no_second_set", np.uint64),
        ("last_offset_second_set", np.uint64),
    ]
)

# A stretch of a record's data in a run of pages.
PIECE_DTYPE = np.dtype(
    [
        ("start", np.int64),  # byte in the run
        ("size", np.int64),
    ]
)
