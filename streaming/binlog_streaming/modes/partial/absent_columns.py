"""Facts of columns that row images leave out: `absent_facts`.

With `binlog_row_image=MINIMAL` or `NOBLOB` a server leaves columns out of row images. What such a column holds:

* After an INSERT its default, where the column's definition is known; else nobody knows. (Defaults that are expressions
  or the time of the statement are logged.)
* After an UPDATE what it held before.
* A VIRTUAL column something else each time, which the server computes and does not log. That a column is VIRTUAL is
  known from its definition only.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from binlog_format.rows.arrow_arrays import numbers_array
from binlog_format.rows.declared.declared_defaults import Generated
from binlog_format.rows.declared.default_values import layout_defaults

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

    from binlog_format.events.table_map import TableLayout
    from binlog_format.rows.decoding import Decoding

WHOLE_IMAGES_HINT = "Set binlog_row_image=FULL on the server, or use mode changelog for this table"


@dataclass(frozen=True, slots=True)
class AbsentFacts:
    """Facts of definitions, by column name.

    Attributes:
        defaults: What an INSERT that leaves the column out puts there, where that is known.
        computed: VIRTUAL columns.
    """

    defaults: Mapping[str, pa.Scalar] = field(default_factory=dict)
    computed: frozenset[str] = frozenset()


NO_FACTS = AbsentFacts()


def absent_facts(layout: TableLayout, decoding: Decoding) -> AbsentFacts:
    """What a layout knows, from DDL or a schema file."""
    defaults = layout_defaults(layout, decoding)
    columns = [(column.name, fact) for column, fact in zip(layout.columns, defaults, strict=True) if column.name]
    return AbsentFacts(
        {name: fact.value for name, fact in columns if fact.value is not None},
        frozenset(name for name, fact in columns if fact.generated == Generated.VIRTUAL),
    )


def with_default(values: pa.ChunkedArray, chosen: NDArray[np.bool_], default: pa.Scalar) -> pa.ChunkedArray:
    """*values*, and *default* in the *chosen* rows."""
    if not chosen.any():
        return values
    # A take works for every type; `if_else` does not.
    rows = np.arange(len(values), dtype=np.int64)
    rows[chosen] = len(values)
    both = pa.chunked_array([*values.chunks, pa.array([default.as_py()], values.type)], values.type)
    return both.take(numbers_array(rows))
