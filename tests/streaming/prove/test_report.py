"""What `prove` prints of all tables."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from binlog_streaming.cli.jobs.prove_report import print_summary
from binlog_streaming.prove.comparison import ProofOutcome, ProofResult
from binlog_streaming.settings.choices import Mode

if TYPE_CHECKING:
    from collections.abc import Sequence


@pytest.mark.parametrize(
    ("outcomes", "told", "is_equal"),
    [
        ([ProofOutcome.EQUAL] * 2, "2 of 2 targets equal, 20 rows\n", True),
        (
            [ProofOutcome.EQUAL] * 2 + [ProofOutcome.EXEMPT],
            "2 of 2 targets equal, 20 rows; 1 cannot be compared\n",
            True,
        ),
        ([ProofOutcome.EQUAL, ProofOutcome.NOT_COMPARED], "1 of 2 targets equal, 10 rows\n", False),
        ([ProofOutcome.DIFFERENT, ProofOutcome.EXEMPT], "0 of 1 target equal, 0 rows; 1 cannot be compared\n", False),
    ],
)
def test_targets_that_cannot_be_compared_are_not_counted_as_unequal(
    outcomes: Sequence[ProofOutcome], told: str, is_equal: bool, capsys: pytest.CaptureFixture[str]
) -> None:
    results = [ProofResult(f"shop.t{number}", Mode.MIRROR, one, rows=10) for number, one in enumerate(outcomes)]
    assert print_summary(results) is is_equal
    assert capsys.readouterr().out == told
