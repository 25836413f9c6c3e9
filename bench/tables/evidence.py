"""What it costs to compare changes with the rows that they replace: `lake.evidence.*.ratio`."""

from __future__ import annotations

import statistics
import tempfile
import time
from contextlib import closing
from dataclasses import replace
from typing import TYPE_CHECKING, cast

import numpy as np
import pyarrow as pa

from bench.registry import benchmark, share
from bench.tables.run import measured_run
from bench.tables.workloads import firenibble_plan
from binlog_format.block import EVENT_DTYPE, GROUP_DTYPE
from binlog_format.events.table_map import TableLayout
from binlog_format.rows.images import IMAGE_DTYPE, ImageKind
from binlog_format.vendor import Vendor
from binlog_streaming.lake.commit_id import CommitId
from binlog_streaming.lake.delta.target import DeltaTarget
from binlog_streaming.modes.decoded_images import DecodedImages
from binlog_streaming.modes.row_batches import RowBatch, StepImages
from binlog_streaming.settings import Mode, Sink, TableRule
from binlog_streaming.tables.row_evidence import RowEvidence
from binlog_streaming.tables.rows_step import KeyedImages

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from binlog_format.rows.images import Images
    from binlog_streaming.lake.target import Target

    Indices = NDArray[np.int64]

ROWS = 1_000_000
CHANGES = 100_000
"""Of a batch: seven of ten are updates; deletes and inserts are as many as each other."""
BATCHES = 24
COMMIT_ID = CommitId("bench", 0, 2, "bench.t", Mode.MIRROR, ("id",), "0:0:0", "0:0:0", None)


@benchmark("lake.evidence.keys.ratio", unit="x")
def keys_ratio() -> float:
    """Batches of 100,000 changes into a Delta mirror of 1,000,000 rows: processor time with `evidence = "keys"` by off.

    Two mirrors get the same batches by turns in one process, and it is the median over pairs: what else the machine
    does changes it least.
    """
    numbers = np.random.default_rng(1)
    count, changes = round(share() * ROWS), round(share() * CHANGES)
    keys, ratios = np.arange(count), []
    versions = np.zeros(count + BATCHES * changes, np.int64)  # of the row with each key
    with tempfile.TemporaryDirectory(prefix="binlog-stream-bench-") as work:
        sink = Sink(directory=work)
        with closing(DeltaTarget.at(sink, f"{work}/off")) as off, closing(DeltaTarget.at(sink, f"{work}/on")) as on:
            for new in (off, on):
                new.create(table_rows(keys, versions[keys]).schema, COMMIT_ID)
                new.append(table_rows(keys, versions[keys]).to_reader(), COMMIT_ID)
            for batch_id in range(1, BATCHES + 1):
                chosen = numbers.choice(keys, changes * 85 // 100, replace=False)
                updated, deleted = np.split(chosen, [changes * 7 // 10])
                inserted = np.arange(len(deleted)) + keys.max() + 1
                images = _images(updated, deleted, inserted, versions, batch_id)
                places: list[tuple[Target, RowEvidence | None]] = [(off, None), (on, RowEvidence())]
                taken = {}
                for target, evidence in places if batch_id % 2 else places[::-1]:
                    taken[target.uri] = _seconds(target, images, batch_id, evidence)
                ratios.append(taken[on.uri] / taken[off.uri])
                keys = np.concatenate([np.setdiff1d(keys, deleted), inserted])
            assert on.read().read_all().num_rows == len(keys)
    return statistics.median(ratios[2:])


@benchmark("lake.evidence.rows.ratio", unit="x")
def rows_ratio() -> float:
    """The job on firenibble's log, load and all: processor time with `evidence = "rows"` by that with off."""
    off, on = (measured_run(replace(firenibble_plan(), evidence=kind)) for kind in ("off", "rows"))
    return off.rows_per_cpu_s / on.rows_per_cpu_s


def _seconds(target: Target, images: StepImages, batch_id: int, evidence: RowEvidence | None) -> float:
    commit_id = replace(COMMIT_ID, batch_id=batch_id, last_change=f"0:0:{batch_id}")
    schema = target.schema()
    started = time.process_time()
    keyed = KeyedImages(images, schema, ("id",), Mode.MIRROR, TableRule(), evidence=evidence)
    keyed.bring_into(target, commit_id)
    return time.process_time() - started


def _images(updated: Indices, deleted: Indices, inserted: Indices, versions: Indices, version: int) -> StepImages:
    # Of an update two images, one after the other; *versions* become those after the changes.
    kinds = [np.tile(np.array([ImageKind.UPDATE_BEFORE, ImageKind.UPDATE_AFTER], np.uint8), len(updated))]
    kinds += [np.full(len(deleted), ImageKind.DELETE, np.uint8), np.full(len(inserted), ImageKind.INSERT, np.uint8)]
    table = np.zeros(sum(map(len, kinds)), IMAGE_DTYPE)
    table["kind"], table["row_no"] = np.concatenate(kinds), np.arange(len(table))
    of_updates = np.stack([versions[updated], np.full(len(updated), version)], axis=1).ravel()
    of_rows = np.concatenate([of_updates, versions[deleted], np.full(len(inserted), version)])
    versions[updated] = versions[inserted] = version
    rows = table_rows(np.concatenate([np.repeat(updated, 2), deleted, inserted]), of_rows)
    layout = TableLayout("bench", "t", (), (), "", b"", Vendor.MARIADB)
    images = cast("Images", DecodedImages(table, rows))
    return StepImages("bench.t", (RowBatch(images, np.zeros(1, EVENT_DTYPE), np.zeros(1, GROUP_DTYPE), layout),))


def table_rows(keys: Indices, versions: Indices) -> pa.Table:
    """Rows with these keys, in their versions."""
    filler = np.frombuffer(b"the quick brown fox jumps over the lazy dog, and over the others", "S32")
    return pa.table(
        {
            "id": pa.array(keys, pa.int64()),
            "k": pa.array(versions, pa.int64()),
            "score": pa.array(keys * 0.5 + versions, pa.float64()),
            "text": pa.array(filler[(keys + versions) % 2]).cast(pa.string()),
        }
    )
